//! Formats with fixed columns. Each parser is one line to one request.

use super::fields::{Fields, decimal};
use super::parsed::{Parse, Parsed, flush, request, sectors};
use crate::Kind;

const MS_NS: u64 = 1_000_000;
const S_NS: u64 = 1_000_000_000;
/// Devices with names in one trace; more than this is a wrong format.
const NAMES_MAX: usize = 4096;

/// Names to volumes, in order of appearance.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: Vec<Vec<u8>>,
    last: usize,
}

impl Names {
    pub(super) fn volume(&mut self, name: &[u8]) -> Parse<u32> {
        // Neighbouring lines are mostly of the same device.
        if self.known.get(self.last).is_none_or(|last| last != name) {
            self.last = match self.known.iter().position(|known| known == name) {
                Some(index) => index,
                None if self.known.len() == NAMES_MAX => return Err("at most 4096 names of devices"),
                None => {
                    self.known.push(name.to_owned());
                    self.known.len() - 1
                }
            };
        }
        Ok(self.last as u32)
    }
}

/// MSR Cambridge, `128166372003061629,hm,0,Read,2096640,512,151`. Host and disk together are the volume.
#[derive(Debug, Default)]
pub(super) struct Msr {
    devices: Names,
}

impl Msr {
    pub(super) fn parse(&mut self, line: &[u8]) -> Parse<Parsed> {
        if line.is_empty() {
            return Ok(Parsed::Nothing);
        }
        let mut fields = Fields::commas(line);
        let ticks = fields.number("a timestamp in units of 100 ns (field 1 of 7)")?;
        let host = fields.required("a host name (field 2 of 7)")?;
        let disk = fields.required("a disk number (field 3 of 7)")?;
        let kind = match fields.required("Read or Write (field 4 of 7)")? {
            kind if kind.eq_ignore_ascii_case(b"read") => Kind::Read,
            kind if kind.eq_ignore_ascii_case(b"write") => Kind::Write,
            _ => return Err("Read or Write (field 4 of 7)"),
        };
        let offset = fields.number("an offset in bytes (field 5 of 7)")?;
        let bytes = fields.number("a size in bytes (field 6 of 7)")?;
        fields.number("a response time (field 7 of 7)")?;
        if !fields.are_done() {
            return Err("7 fields");
        }
        // Both are parts of the same line with one comma between them.
        let from = host.as_ptr() as usize - line.as_ptr() as usize;
        let to = disk.as_ptr() as usize - line.as_ptr() as usize + disk.len();
        let volume = self.devices.volume(&line[from..to])?;
        let at_ns = ticks.checked_mul(100).ok_or("a timestamp below 2^64 ns")?;
        Ok(Parsed::One(request(at_ns, volume, kind, offset, bytes)?))
    }
}

/// SPC, `0,20941264,8192,W,0.551706`, with any further fields. Addresses are in sectors, sizes in bytes.
pub(super) fn spc(line: &[u8]) -> Parse<Parsed> {
    if line.is_empty() {
        return Ok(Parsed::Nothing);
    }
    let mut fields = Fields::commas(line);
    let asu = fields.volume("the number of an application storage unit (field 1)")?;
    let offset = sectors(fields.number("an address in sectors (field 2)")?)?;
    let bytes = fields.number("a size in bytes (field 3)")?;
    let kind = match fields.next() {
        Some(b"r" | b"R") => Kind::Read,
        Some(b"w" | b"W") => Kind::Write,
        _ => return Err("R or W (field 4)"),
    };
    let at_ns = fields.time_ns(S_NS, "a time in seconds (field 5)")?;
    Ok(Parsed::One(request(at_ns, asu, kind, offset, bytes)?))
}

/// Tencent CBS, `1538323200,4247200,128,1,1058`.
pub(super) fn tencent(line: &[u8]) -> Parse<Parsed> {
    if line.is_empty() {
        return Ok(Parsed::Nothing);
    }
    let mut fields = Fields::commas(line);
    let at_ns = fields.number("a time in seconds (field 1 of 5)")?;
    let at_ns = at_ns.checked_mul(S_NS).ok_or("a timestamp below 2^64 ns")?;
    let offset = sectors(fields.number("an offset in sectors (field 2 of 5)")?)?;
    let bytes = sectors(fields.number("a size in sectors (field 3 of 5)")?)?;
    let kind = match fields.next() {
        Some(b"0") => Kind::Read,
        Some(b"1") => Kind::Write,
        _ => return Err("0 for a read or 1 for a write (field 4 of 5)"),
    };
    let volume = fields.volume("a volume number (field 5 of 5)")?;
    if !fields.are_done() {
        return Err("5 fields");
    }
    Ok(Parsed::One(request(at_ns, volume, kind, offset, bytes)?))
}

/// The header line of the normalised format.
pub(super) const HEADER: &[u8] = b"ts_us,dev,op,offset_bytes,size_bytes";

/// Normalised, `242639,0,W,21981566464,512`, after [`HEADER`].
pub(super) fn normalised(line: &[u8]) -> Parse<Parsed> {
    if line.is_empty() || line == HEADER {
        return Ok(Parsed::Nothing);
    }
    let mut fields = Fields::commas(line);
    let at_ns = fields.time_ns(1000, "a time in microseconds (field 1 of 5)")?;
    let volume = fields.volume("a device number (field 2 of 5)")?;
    let kind = match fields.next() {
        Some(b"R") => Kind::Read,
        Some(b"W") => Kind::Write,
        Some(b"D") => Kind::Discard,
        Some(b"F") => return Ok(Parsed::One(flush(at_ns, volume))),
        _ => return Err("R, W, D or F (field 3 of 5)"),
    };
    let offset = fields.number("an offset in bytes (field 4 of 5)")?;
    let bytes = fields.number("a size in bytes (field 5 of 5)")?;
    if !fields.are_done() {
        return Err("5 fields");
    }
    Ok(Parsed::One(request(at_ns, volume, kind, offset, bytes)?))
}

/// The fields of a line of five columns.
struct FiveColumns {
    at_ns: u64,
    volume: u32,
    place: u64,
    len: u64,
    flags: u64,
}

/// Five columns between spaces, the times with or without a fraction.
fn five(line: &[u8], unit_ns: u64) -> Parse<FiveColumns> {
    let mut fields = Fields::spaces(line);
    let at_ns = fields.time_ns(unit_ns, "a time (column 1 of 5)")?;
    let volume = fields.volume("a device number (column 2 of 5)")?;
    let place = fields.number("an address (column 3 of 5)")?;
    let len = fields.number("a size (column 4 of 5)")?;
    let flags = fields.number("a kind, 1 for a read (column 5 of 5)")?;
    if !fields.are_done() {
        return Err("5 columns");
    }
    Ok(FiveColumns { at_ns, volume, place, len, flags })
}

/// 1 for reads and 0 for writes.
fn read_or_write(flag: u64) -> Parse<Kind> {
    match flag {
        0 => Ok(Kind::Write),
        1 => Ok(Kind::Read),
        _ => Err("1 for a read or 0 for a write (column 5 of 5)"),
    }
}

/// MQSim, `938513000 4 264719034 16 0`.
pub(super) fn mqsim(line: &[u8]) -> Parse<Parsed> {
    if line.is_empty() {
        return Ok(Parsed::Nothing);
    }
    let whole = Fields::spaces(line).next().is_some_and(|time| !time.contains(&b'.'));
    let FiveColumns { at_ns, volume, place, len, flags } = five(line, 1)?;
    if !whole {
        return Err("a time in whole nanoseconds (column 1 of 5)");
    }
    Ok(Parsed::One(request(at_ns, volume, read_or_write(flags)?, sectors(place)?, sectors(len)?)?))
}

/// Heimdall, `223.412 0 3159347200 36864 0`.
pub(super) fn heimdall(line: &[u8]) -> Parse<Parsed> {
    if line.is_empty() {
        return Ok(Parsed::Nothing);
    }
    let FiveColumns { at_ns, volume, place, len, flags } = five(line, MS_NS)?;
    Ok(Parsed::One(request(at_ns, volume, read_or_write(flags)?, place, len)?))
}

/// DiskSim's ASCII format, `0.551706 0 20941264 16 1`.
pub(super) fn disksim(line: &[u8]) -> Parse<Parsed> {
    if line.is_empty() {
        return Ok(Parsed::Nothing);
    }
    let FiveColumns { at_ns, volume, place, len, flags } = five(line, MS_NS)?;
    let kind = if flags & 1 == 1 { Kind::Read } else { Kind::Write };
    Ok(Parsed::One(request(at_ns, volume, kind, sectors(place)?, sectors(len)?)?))
}

/// Whether a line of five columns looks like Heimdall's: a fraction of a millisecond, and bytes in whole sectors.
pub(super) fn looks_like_heimdall(line: &[u8]) -> bool {
    let fraction =
        Fields::spaces(line).next().is_some_and(|time| decimal(time, 1).is_some() && time.contains(&b'.'));
    fraction && five(line, MS_NS).is_ok_and(|columns| columns.place % 512 == 0 && columns.len % 512 == 0)
}
