//! The default text output of blkparse(1):
//!
//! ```text
//!   8,0    3       11     0.009507758   697  Q   W 223490 + 56 [kjournald]
//! ```
//!
//! Device, processor, sequence number, seconds, process, action, RWBS, sector, `+`, sectors, name. Only action Q, a
//! request as the block layer was given it, counts: the others are later steps of the same requests. In RWBS, a leading
//! F asks for a flush before, so `FWS` with data is a flush and a write. The summary at the end is not part of the trace.

use super::columns::Names;
use super::fields::Fields;
use super::parsed::{Parse, Parsed, flush, request, sectors};
use crate::Kind;

#[derive(Debug, Default)]
pub(super) struct Blkparse {
    devices: Names,
}

impl Blkparse {
    pub(super) fn parse(&mut self, line: &[u8]) -> Parse<Parsed> {
        let mut fields = Fields::spaces(line);
        let Some(device) = fields.next() else {
            return Ok(Parsed::Nothing);
        };
        if device.starts_with(b"CPU") || device == b"Total" {
            return Ok(Parsed::End);
        }
        let mut parts = Fields::commas(device);
        parts.number("a device as major,minor (column 1)")?;
        parts.number("a device as major,minor (column 1)")?;
        fields.number("a processor (column 2)")?;
        fields.number("a sequence number (column 3)")?;
        let at_ns = fields.time_ns(1_000_000_000, "a time in seconds (column 4)")?;
        // Messages have no process.
        fields.required("a process (column 5)")?;
        if fields.required("an action (column 6)")? != b"Q" {
            return Ok(Parsed::Nothing);
        }
        let rwbs = fields.required("what is done, for example R, WS or FWS (column 7)")?;
        let volume = self.devices.volume(device)?;
        let (flushes, rest) = match rwbs.strip_prefix(b"F") {
            Some(rest) => (true, rest),
            None => (false, rwbs),
        };
        let kind = match rest.first() {
            Some(b'R') => Kind::Read,
            Some(b'W') => Kind::Write,
            Some(b'D') => Kind::Discard,
            _ if flushes => return Ok(Parsed::One(flush(at_ns, volume))),
            _ => return Ok(Parsed::Nothing),
        };
        let Some((sector, count)) = extent(&mut fields) else {
            // A flush is printed as a write of nothing.
            return if flushes {
                Ok(Parsed::One(flush(at_ns, volume)))
            } else {
                Err("sector + sectors (column 8)")
            };
        };
        let request = request(at_ns, volume, kind, sectors(sector)?, sectors(count)?)?;
        Ok(if flushes { Parsed::Two(flush(at_ns, volume), request) } else { Parsed::One(request) })
    }
}

/// `sector + sectors`; none where there is no extent, or an empty one.
fn extent(fields: &mut Fields<'_>) -> Option<(u64, u64)> {
    let sector = fields.number("").ok()?;
    let plus = fields.next()?;
    let count = fields.number("").ok()?;
    (plus == b"+" && count > 0).then_some((sector, count))
}
