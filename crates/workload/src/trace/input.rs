//! Files as lines or records, through a decompressor where their first bytes ask for one.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use memchr::memchr;

/// Bytes held at a time. A line longer than this is not a line of a trace.
const BUFFER_BYTES: usize = 256 << 10;
/// Characters of a bad line that an error shows.
const SHOWN_CHARS: usize = 120;

/// What to take next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Take {
    /// Up to a newline, which is left out, as is a carriage return before it.
    Line,
    /// A record of this many bytes.
    Record(usize),
}

pub(super) struct Input {
    reader: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    at_end: bool,
    number: u64,
}

impl Input {
    pub(super) fn open(path: &Path) -> io::Result<Input> {
        let mut file = File::open(path)?;
        let mut magic = Vec::new();
        file.by_ref().take(4).read_to_end(&mut magic)?;
        let whole = Cursor::new(magic.clone()).chain(file);
        Ok(Input::new(match magic[..] {
            // RFC 1952.
            [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(whole)),
            // RFC 8878, a frame of Zstandard.
            [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::stream::read::Decoder::new(whole)?),
            [b'B', b'Z', b'h', _] => Box::new(bzip2::read::MultiBzDecoder::new(whole)),
            _ => Box::new(whole),
        }))
    }

    pub(super) fn new(reader: Box<dyn Read + Send>) -> Input {
        let buffer = vec![0; BUFFER_BYTES].into();
        Input { reader, buffer, start: 0, end: 0, at_end: false, number: 0 }
    }

    /// The first bytes, as many as are held at a time; nothing is taken.
    pub(super) fn head(&mut self) -> io::Result<&[u8]> {
        while !self.at_end && self.end < self.buffer.len() {
            self.fill()?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Which line or record was taken last, counted from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line or record; none at the end. What is left of a record at the end comes as it is, to be refused.
    pub(super) fn next(&mut self, take: Take) -> io::Result<Option<&[u8]>> {
        self.number += 1;
        let mut searched = 0;
        loop {
            let held = &self.buffer[self.start..self.end];
            let found = match take {
                Take::Line => memchr(b'\n', &held[searched..]).map(|at| (searched + at, 1)),
                Take::Record(bytes) => (held.len() >= bytes).then_some((bytes, 0)),
            };
            if let Some((len, skip)) = found {
                let from = self.start;
                self.start += len + skip;
                return Ok(Some(trimmed(&self.buffer[from..from + len], take)));
            }
            searched = held.len();
            if self.at_end {
                let from = std::mem::replace(&mut self.start, self.end);
                return Ok((from < self.end).then(|| trimmed(&self.buffer[from..self.end], take)));
            }
            self.fill()?;
        }
    }

    /// Reads more behind what is held.
    fn fill(&mut self) -> io::Result<()> {
        if self.end == self.buffer.len() {
            if self.start == 0 {
                let why = format!("line {} is longer than {BUFFER_BYTES} bytes", self.number);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        match self.reader.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.at_end = true,
            Ok(read) => self.end += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn trimmed(line: &[u8], take: Take) -> &[u8] {
    match take {
        Take::Line => line.strip_suffix(b"\r").unwrap_or(line),
        Take::Record(_) => line,
    }
}

/// A line or record for an error message.
pub(super) fn shown(line: &[u8]) -> String {
    let text = match std::str::from_utf8(line) {
        Ok(text) if !text.contains('\0') => text.to_owned(),
        _ => line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "),
    };
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out a few bytes at a time.
    struct Drip(Cursor<Vec<u8>>, usize);

    impl Read for Drip {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let some = self.1.min(out.len());
            self.0.read(&mut out[..some])
        }
    }

    #[test]
    fn lines_are_whole_however_they_arrive() {
        let lines: Vec<String> = (0..30_000).map(|i| "x".repeat(i % 37) + &i.to_string()).collect();
        for (step, end) in [(1 << 20, "\n"), (7, "\r\n")] {
            let text = lines.join(end);
            let mut input = Input::new(Box::new(Drip(Cursor::new(text.into_bytes()), step)));
            for line in &lines {
                assert_eq!(input.next(Take::Line).expect("reads").expect("a line"), line.as_bytes());
            }
            assert!(input.next(Take::Line).expect("reads").is_none());
            assert_eq!(input.number(), 30_001);
        }
    }

    #[test]
    fn what_has_no_newlines_is_refused() {
        let mut input = Input::new(Box::new(io::repeat(b'x')));
        assert!(input.next(Take::Line).expect_err("too long").to_string().contains("line 1"));
    }

    #[test]
    fn a_record_cut_short_comes_as_it_is() {
        let mut input = Input::new(Box::new(Cursor::new(vec![1u8; 40])));
        assert_eq!(input.next(Take::Record(32)).expect("reads").map(<[u8]>::len), Some(32));
        assert_eq!(input.next(Take::Record(32)).expect("reads").map(<[u8]>::len), Some(8));
        assert_eq!(input.next(Take::Record(32)).expect("reads"), None);
    }
}
