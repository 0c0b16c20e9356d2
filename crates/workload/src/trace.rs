//! Readers of block traces: streams in bounded memory, of plain or compressed files.
//!
//! ```text
//! format      the names of the formats
//! detect      which format a file has, by its content
//! parser      the parser of each format
//! parsed      what a parser makes of one line
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
mod format;
mod input;
mod iolog;
mod parsed;
mod parser;
mod vscsi;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Problem, Request, Result};
pub use format::Format;
use input::Input;
use parsed::Parsed;
use parser::Parser;

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
