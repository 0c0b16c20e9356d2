//! Readers of block traces: streams in bounded memory, of plain or compressed files.
//!
//! ```text
//! detect      which format a file has, by its content
//! input       decompression, lines and records
//! fields      numbers and times in a line
//! columns     formats with fixed columns: MSR, SPC, DiskSim, MQSim, Heimdall, Tencent, normalised
//! blkparse    the text that blkparse prints
//! iolog       fio's logs, versions 2 and 3
//! vscsi       VSCSI records, binary and text
//! ```
//!
//! Every reader counts time from the first request of the file. Where timestamps go back, as they do by a little in most
//! traces, a request is due with the one before it; [`Counts::reordered`] says how often. Columns of device numbers
//! become volumes as they are; names (hosts, files) become volumes in the order of their first appearance.

mod blkparse;
mod columns;
mod detect;
mod fields;
mod input;
mod iolog;
mod vscsi;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::{Error, Kind, Problem, Request, Result};
use input::{Input, Take};

/// The formats. docs/workloads.md shows a line of each, and where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// MSR Cambridge: `ticks,host,disk,Read|Write,offset,bytes,response`; a tick is 100 ns.
    Msr,
    /// SPC (Financial, WebSearch): `asu,sector,bytes,r|w,seconds`.
    Spc,
    /// Tencent CBS: `seconds,sector,sectors,0|1,volume`; 1 is a write.
    Tencent,
    /// With a header: `ts_us,dev,op,offset_bytes,size_bytes`; op is R, W, D or F.
    Normalised,
    /// blkparse's default output; requests are the events of action Q.
    Blkparse,
    /// fio's log, version 2 or 3.
    Iolog,
    /// VSCSI records of CloudPhysics as text: `version us opcode bytes sector`.
    VscsiText,
    /// MQSim: `ns device sector sectors op`; 1 is a read.
    Mqsim,
    /// Cuts of traces by Heimdall: `ms device offset bytes op`; 1 is a read.
    Heimdall,
    /// DiskSim ASCII: `ms device sector sectors flags`; bit 0 is a read.
    Disksim,
    /// VSCSI records of CloudPhysics, binary, version 1 or 2.
    Vscsi,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 11] = [
        Format::Msr,
        Format::Spc,
        Format::Tencent,
        Format::Normalised,
        Format::Blkparse,
        Format::Iolog,
        Format::VscsiText,
        Format::Mqsim,
        Format::Heimdall,
        Format::Disksim,
        Format::Vscsi,
    ];

    /// Its name in a description.
    pub fn name(self) -> &'static str {
        match self {
            Format::Msr => "msr",
            Format::Spc => "spc",
            Format::Tencent => "tencent",
            Format::Normalised => "normalised",
            Format::Blkparse => "blkparse",
            Format::Iolog => "iolog",
            Format::VscsiText => "vscsi-text",
            Format::Mqsim => "mqsim",
            Format::Heimdall => "heimdall",
            Format::Disksim => "disksim",
            Format::Vscsi => "vscsi",
        }
    }
}

/// How to read a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// The format; found out if not given.
    pub format: Option<Format>,
    /// Count and skip lines that are not what the format asks for, instead of ending with an error.
    pub skip_bad: bool,
}

/// What a reader passed over; shared, so that it can be asked after the stream was handed on.
#[derive(Debug, Default)]
pub struct Counts {
    skipped: AtomicU64,
    reordered: AtomicU64,
}

impl Counts {
    /// Bad lines or records that were skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Requests whose time lies before that of an earlier line, and which are due with it instead.
    pub fn reordered(&self) -> u64 {
        self.reordered.load(Ordering::Relaxed)
    }
}

/// What one line says.
#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    /// No request: a header, an event of another kind.
    Nothing,
    One(Request),
    /// A flush that is part of a write: both, at the same time.
    Two(Request, Request),
    /// What follows is not part of the trace.
    End,
}

/// What a line should have been.
type Parse<T> = std::result::Result<T, &'static str>;

/// One parser of each format. An enum rather than a trait object: one predictable branch per line.
#[derive(Debug)]
enum Parser {
    Msr(columns::Msr),
    Spc,
    Tencent,
    Normalised,
    Blkparse(blkparse::Blkparse),
    Iolog(iolog::Iolog),
    VscsiText,
    Mqsim,
    Heimdall,
    Disksim,
    Vscsi(vscsi::Layout),
}

impl Parser {
    fn new(format: Format, head: &[u8]) -> Parser {
        match format {
            Format::Msr => Parser::Msr(columns::Msr::default()),
            Format::Spc => Parser::Spc,
            Format::Tencent => Parser::Tencent,
            Format::Normalised => Parser::Normalised,
            Format::Blkparse => Parser::Blkparse(blkparse::Blkparse::default()),
            Format::Iolog => Parser::Iolog(iolog::Iolog::default()),
            Format::VscsiText => Parser::VscsiText,
            Format::Mqsim => Parser::Mqsim,
            Format::Heimdall => Parser::Heimdall,
            Format::Disksim => Parser::Disksim,
            Format::Vscsi => Parser::Vscsi(vscsi::Layout::of(head).unwrap_or(vscsi::Layout::V1)),
        }
    }

    fn take(&self) -> Take {
        match self {
            Parser::Vscsi(layout) => Take::Record(layout.bytes()),
            _ => Take::Line,
        }
    }

    fn parse(&mut self, line: &[u8]) -> Parse<Parsed> {
        match self {
            Parser::Msr(msr) => msr.parse(line),
            Parser::Spc => columns::spc(line),
            Parser::Tencent => columns::tencent(line),
            Parser::Normalised => columns::normalised(line),
            Parser::Blkparse(blkparse) => blkparse.parse(line),
            Parser::Iolog(iolog) => iolog.parse(line),
            Parser::VscsiText => vscsi::text(line),
            Parser::Mqsim => columns::mqsim(line),
            Parser::Heimdall => columns::heimdall(line),
            Parser::Disksim => columns::disksim(line),
            Parser::Vscsi(layout) => layout.parse(line),
        }
    }
}

/// A request as a line says it, with its time still absolute; refused if it is empty or beyond the end of addresses.
fn request(at_ns: u64, volume: u32, kind: Kind, offset: u64, len: u64) -> Parse<Request> {
    if len == 0 {
        return Err("a length above 0");
    }
    offset.checked_add(len).ok_or("an offset and a length below 2^64 together")?;
    Ok(Request { at_ns, offset, len, volume, kind })
}

fn flush(at_ns: u64, volume: u32) -> Request {
    Request { at_ns, offset: 0, len: 0, volume, kind: Kind::Flush }
}

/// Sectors of 512 bytes, which traces count in, to bytes.
fn sectors(n: u64) -> Parse<u64> {
    n.checked_mul(512).ok_or("a number of 512-byte sectors below 2^55")
}

/// A stream of the requests of one trace.
pub struct TraceReader {
    path: PathBuf,
    input: Input,
    parser: Parser,
    format: Format,
    skip_bad: bool,
    counts: Arc<Counts>,
    /// The second request of a line.
    pending: Option<Request>,
    /// The time of the first request.
    start_ns: Option<u64>,
    last_ns: u64,
    ended: bool,
}

impl TraceReader {
    /// Reads a file; gzip, zstd and bzip2 are recognised by their first bytes.
    ///
    /// # Errors
    /// When the file cannot be read or its format cannot be recognised.
    pub fn open(path: impl AsRef<Path>, options: ReadOptions) -> Result<TraceReader> {
        let path = path.as_ref();
        let input = Input::open(path).map_err(|e| Error::io(path, e))?;
        TraceReader::of(path, input, options)
    }

    /// Reads plain text or records from anywhere; `name` stands in errors.
    ///
    /// # Errors
    /// When the input cannot be read or its format cannot be recognised.
    pub fn from_reader(
        name: &str,
        reader: impl Read + Send + 'static,
        options: ReadOptions,
    ) -> Result<TraceReader> {
        TraceReader::of(Path::new(name), Input::new(Box::new(reader)), options)
    }

    fn of(path: &Path, mut input: Input, options: ReadOptions) -> Result<TraceReader> {
        let head = input.head().map_err(|e| Error::io(path, e))?;
        let format = match options.format.or_else(|| detect::format(head)) {
            Some(format) => format,
            None => {
                let known = Format::ALL.map(Format::name).join(", ");
                return Err(Problem::Unknown { path: path.to_owned(), known }.into());
            }
        };
        let parser = Parser::new(format, head);
        Ok(TraceReader {
            path: path.to_owned(),
            input,
            parser,
            format,
            skip_bad: options.skip_bad,
            counts: Arc::default(),
            pending: None,
            start_ns: None,
            last_ns: 0,
            ended: false,
        })
    }

    /// The format, given or found.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What was passed over so far.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    fn rebased(&mut self, request: Request) -> Request {
        let start_ns = *self.start_ns.get_or_insert(request.at_ns);
        let at_ns = request.at_ns.saturating_sub(start_ns);
        if request.at_ns < start_ns || at_ns < self.last_ns {
            self.counts.reordered.fetch_add(1, Ordering::Relaxed);
        }
        self.last_ns = at_ns.max(self.last_ns);
        Request { at_ns: self.last_ns, ..request }
    }

    /// The next request, not rebased; none at the end.
    fn advance(&mut self) -> Result<Option<Request>> {
        if let Some(request) = self.pending.take() {
            return Ok(Some(request));
        }
        let take = self.parser.take();
        loop {
            let line = match self.input.next(take) {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(None),
                Err(error) => return Err(Error::io(&self.path, error)),
            };
            match self.parser.parse(line) {
                Ok(Parsed::Nothing) => {}
                Ok(Parsed::One(request)) => return Ok(Some(request)),
                Ok(Parsed::Two(first, second)) => {
                    self.pending = Some(second);
                    return Ok(Some(first));
                }
                Ok(Parsed::End) => return Ok(None),
                Err(_) if self.skip_bad => {
                    self.counts.skipped.fetch_add(1, Ordering::Relaxed);
                }
                Err(expected) => {
                    let (path, found) = (self.path.clone(), input::shown(line));
                    return Err(Problem::Line { path, number: self.input.number(), found, expected }.into());
                }
            }
        }
    }
}

impl Iterator for TraceReader {
    type Item = Result<Request>;

    /// After an error the stream has ended.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.advance() {
            Ok(Some(request)) => Some(Ok(self.rebased(request))),
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }
}
