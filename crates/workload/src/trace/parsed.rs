//! What a parser makes of one line or record.

use crate::{Kind, Request};

/// What one line says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// No request: a header, an event of another kind.
    Nothing,
    One(Request),
    /// A flush that is part of a write: both, at the same time.
    Two(Request, Request),
    /// What follows is not part of the trace.
    End,
}

/// What a line should have been.
pub(super) type Parse<T> = std::result::Result<T, &'static str>;

/// A request as a line says it, with its time still absolute; refused if it is empty or beyond the end of addresses.
pub(super) fn request(at_ns: u64, volume: u32, kind: Kind, offset: u64, len: u64) -> Parse<Request> {
    if len == 0 {
        return Err("a length above 0");
    }
    offset.checked_add(len).ok_or("an offset and a length below 2^64 together")?;
    Ok(Request { at_ns, offset, len, volume, kind })
}

pub(super) fn flush(at_ns: u64, volume: u32) -> Request {
    Request { at_ns, offset: 0, len: 0, volume, kind: Kind::Flush }
}

/// Sectors of 512 bytes, which traces count in, to bytes.
pub(super) fn sectors(n: u64) -> Parse<u64> {
    n.checked_mul(512).ok_or("a number of 512-byte sectors below 2^55")
}
