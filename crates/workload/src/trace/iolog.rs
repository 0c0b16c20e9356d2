//! The logs that fio writes and replays (`write_iolog`, `read_iolog`; fio's documentation, "Trace file format").
//!
//! ```text
//! fio version 2 iolog              fio version 3 iolog
//! /dev/x add                       21 /dev/x add
//! /dev/x open                      135 /dev/x open
//! /dev/x read 61440 4096           139 /dev/x read 61440 4096
//! /dev/x wait 1000 0               1139 /dev/x sync 0 0
//! ```
//!
//! Version 3 has the microseconds since the start of the job in front. In version 2 time passes only in `wait`, whose
//! offset is microseconds since the wait before.

use super::columns::Names;
use super::fields::Fields;
use super::parsed::{Parse, Parsed, flush, request};
use crate::Kind;

#[derive(Debug, Default)]
pub(super) struct Iolog {
    files: Names,
    /// 0 before the first line.
    version: u8,
    waited_us: u64,
}

/// What the first line of a log begins with.
pub(super) const HEADER: &[u8] = b"fio version ";

impl Iolog {
    pub(super) fn parse(&mut self, line: &[u8]) -> Parse<Parsed> {
        if self.version == 0 {
            self.version = match line {
                b"fio version 2 iolog" => 2,
                b"fio version 3 iolog" => 3,
                _ => return Err("\"fio version 2 iolog\" or \"fio version 3 iolog\""),
            };
            return Ok(Parsed::Nothing);
        }
        let mut fields = Fields::spaces(line);
        let at_us = match self.version {
            3 if line.is_empty() => return Ok(Parsed::Nothing),
            3 => fields.number("microseconds (column 1)")?,
            _ => self.waited_us,
        };
        let Some(file) = fields.next() else {
            return if self.version == 2 { Ok(Parsed::Nothing) } else { Err("a file name") };
        };
        let action = fields.required("an action, for example read or write")?;
        let kind = match action {
            b"read" => Kind::Read,
            b"write" => Kind::Write,
            b"trim" => Kind::Discard,
            b"sync" | b"datasync" => Kind::Flush,
            b"wait" if self.version == 2 => {
                let us = fields.number("microseconds to wait")?;
                self.waited_us = self.waited_us.checked_add(us).ok_or("a time below 2^64 us")?;
                return Ok(Parsed::Nothing);
            }
            b"add" | b"open" | b"close" => return Ok(Parsed::Nothing),
            _ => {
                return Err("read, write, trim, sync, datasync, add, open or close (wait in version 2 only)");
            }
        };
        let volume = self.files.volume(file)?;
        let at_ns = at_us.checked_mul(1000).ok_or("a time below 2^64 ns")?;
        if kind == Kind::Flush {
            return Ok(Parsed::One(flush(at_ns, volume)));
        }
        let offset = fields.number("an offset in bytes")?;
        let bytes = fields.number("a length in bytes")?;
        Ok(Parsed::One(request(at_ns, volume, kind, offset, bytes)?))
    }
}
