//! VSCSI records, as CloudPhysics collected them (Waldspurger et al., FAST'15), little-endian:
//!
//! ```text
//! version 1, 32 bytes: serial u32, bytes u32, segments u32, opcode u16, version u16, sector u64, us u64
//! version 2, 40 bytes: opcode u16, version u16, serial u32, bytes u32, segments u32, sector u64, us u64, response u64
//! ```
//!
//! The version stands in the upper byte of its field. As text, `version us opcode bytes sector`, the opcode hexadecimal.

use super::fields::Fields;
use super::parsed::{Parse, Parsed, flush, request, sectors};
use crate::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    V1,
    V2,
}

/// Records looked at to tell the version.
const SAMPLE_RECORDS: usize = 16;

impl Layout {
    pub(super) fn bytes(self) -> usize {
        match self {
            Layout::V1 => 32,
            Layout::V2 => 40,
        }
    }

    /// The layout that fits the first records of a file.
    pub(super) fn of(head: &[u8]) -> Option<Layout> {
        [Layout::V1, Layout::V2].into_iter().find(|layout| {
            let mut records = head.chunks_exact(layout.bytes()).take(SAMPLE_RECORDS).peekable();
            records.peek().is_some() && records.all(|record| layout.parse(record).is_ok())
        })
    }

    pub(super) fn parse(self, record: &[u8]) -> Parse<Parsed> {
        let word16 = |at| Some(u16::from_le_bytes(*record.get(at..)?.first_chunk()?));
        let word32 = |at| Some(u32::from_le_bytes(*record.get(at..)?.first_chunk()?));
        let word64 = |at| Some(u64::from_le_bytes(*record.get(at..)?.first_chunk()?));
        let (fields, version) = match self {
            Layout::V1 => ((word16(12), word16(14), word32(4), word64(16), word64(24)), 1),
            Layout::V2 => ((word16(0), word16(2), word32(8), word64(16), word64(24)), 2),
        };
        let (Some(opcode), Some(tag), Some(bytes), Some(sector), Some(us)) = fields else {
            return Err("a whole record, 32 bytes in version 1 and 40 in version 2");
        };
        if tag >> 8 != version {
            return Err("a VSCSI record of the same version as the first");
        }
        scsi(us, opcode, sector, bytes.into())
    }
}

/// VSCSI as text.
pub(super) fn text(line: &[u8]) -> Parse<Parsed> {
    if line.is_empty() {
        return Ok(Parsed::Nothing);
    }
    let mut fields = Fields::spaces(line);
    if !matches!(fields.next(), Some(b"1" | b"2")) {
        return Err("version 1 or 2 (column 1)");
    }
    let us = fields.number("a time in microseconds (column 2)")?;
    let opcode = fields.required("a hexadecimal SCSI opcode (column 3)")?;
    let opcode = std::str::from_utf8(opcode).ok().and_then(|hex| u16::from_str_radix(hex, 16).ok());
    let opcode = opcode.ok_or("a hexadecimal SCSI opcode (column 3)")?;
    let bytes = fields.number("a size in bytes (column 4)")?;
    let sector = fields.number("an address in sectors (column 5)")?;
    scsi(us, opcode, sector, bytes)
}

/// By operation code (SCSI Block Commands, SBC-4): 6, 10, 12 and 16 byte forms.
fn scsi(us: u64, opcode: u16, sector: u64, bytes: u64) -> Parse<Parsed> {
    let at_ns = us.checked_mul(1000).ok_or("a time below 2^64 ns")?;
    let kind = match opcode {
        0x08 | 0x28 | 0xa8 | 0x88 => Kind::Read,
        0x0a | 0x2a | 0xaa | 0x8a => Kind::Write,
        0x42 => Kind::Discard,
        0x35 | 0x91 => return Ok(Parsed::One(flush(at_ns, 0))),
        _ => return Err("the SCSI opcode of a read, write, unmap or flush"),
    };
    Ok(Parsed::One(request(at_ns, 0, kind, sectors(sector)?, bytes)?))
}
