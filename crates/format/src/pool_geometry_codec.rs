//! The encoding of a pool's geometry in the configuration.

use sinew_layout::{Level, ParityWeights, Rotation};

use crate::model::array_geometry::{ArrayGeometry, ArraySpec, StoredArray};
use crate::model::array_growth::{Arrangement, GrowMethod, Grown};
use crate::model::form::Elastic;
use crate::model::mapped_geometry::{MEMBERS, MappedGeometry, Protection};
use crate::model::pool_geometry::PoolGeometry;

use crate::codec::{DecodeError, Reader, Writer};

/// The byte that marks an array, in place of the protection of a mapped pool.
const ARRAY: u8 = 0x20;
/// The byte in place of md's number of the rotation where members hold parity by weights.
const WEIGHTED: u8 = Rotation::ALL.len() as u8;

pub(crate) fn encode_shape(shape: &PoolGeometry, w: &mut Writer) {
    match shape {
        PoolGeometry::Mapped(g) => {
            w.u8(protection_code(g.protection));
            w.u8(g.data_columns as u8);
            w.u8(g.shards as u8);
            w.u8(u8::from(g.checksums));
            w.u32(g.journal_blocks);
        }
        PoolGeometry::Array(a) => {
            let level = a.layout.level();
            w.u8(ARRAY);
            w.u8(level.number());
            w.u8(level.rotation().map_or(0, Rotation::number));
            w.u8(match level {
                Level::Raid10 { copies } => copies as u8,
                Level::Raid50 { groups, .. } | Level::Raid60 { groups, .. } => groups as u8,
                _ => 0,
            });
            w.u8(a.members() as u8);
            w.u8(a.shards as u8);
            w.u8(u8::from(a.journal) | u8::from(a.zeroed) << 1 | u8::from(a.elastic.is_some()) << 2);
            w.u32(a.layout.chunk_bytes());
            w.u64(a.layout.member_chunks());
            w.u32(a.log_blocks);
            w.bytes(&a.log);
            w.u64(a.region_stripes);
            encode_grown(a.grown.as_ref(), w);
            if let Some(elastic) = a.elastic {
                w.u32(elastic.expect_milli);
                w.u64(elastic.physical);
                w.u32(elastic.form_pages);
            }
            if let Some(weights) = level.weights() {
                w.bytes(&weights.weights());
            }
        }
    }
}

/// The byte that stands for a protection.
pub(crate) fn protection_code(protection: Protection) -> u8 {
    match protection {
        Protection::Mirror { copies } => copies,
        Protection::Parity1 => 0x11,
        Protection::Parity2 => 0x12,
    }
}

/// The protection that a byte stands for.
pub(crate) fn protection_from(code: u8) -> Result<Protection, DecodeError> {
    match code {
        copies @ 2..=3 => Ok(Protection::Mirror { copies }),
        0x11 => Ok(Protection::Parity1),
        0x12 => Ok(Protection::Parity2),
        _ => Err(DecodeError::Invalid("protection")),
    }
}

/// Decodes the geometry of a pool of `count` members.
pub(crate) fn decode_shape(r: &mut Reader<'_>, count: usize) -> Result<PoolGeometry, DecodeError> {
    let impossible = DecodeError::Invalid("geometry");
    let protection = match r.u8()? {
        ARRAY => return decode_array(r, count)?.map(PoolGeometry::Array).ok_or(impossible),
        code => protection_from(code)?,
    };
    let (data_columns, shards, checksums) = (usize::from(r.u8()?), usize::from(r.u8()?), r.u8()? != 0);
    let journal_blocks = r.u32()?;
    if !MEMBERS.contains(&count) || journal_blocks < 16 || data_columns == 0 {
        return Err(impossible);
    }
    MappedGeometry { protection, data_columns, shards, checksums, journal_blocks }
        .checked_for(count)
        .map(PoolGeometry::Mapped)
        .map_err(|_| impossible)
}

fn decode_array(r: &mut Reader<'_>, count: usize) -> Result<Option<ArrayGeometry>, DecodeError> {
    let (number, rotation, part, members) = (r.u8()?, r.u8()?, u32::from(r.u8()?), usize::from(r.u8()?));
    let (shards, flags) = (usize::from(r.u8()?), r.u8()?);
    let (chunk_bytes, member_chunks, log_blocks, log) = (r.u32()?, r.u64()?, r.u32()?, r.uuid()?);
    let region_stripes = r.u64()?;
    let Some(grown) = decode_grown(r)? else { return Ok(None) };
    let elastic = match flags & 4 {
        0 => None,
        _ => Some(Elastic { expect_milli: r.u32()?, physical: r.u64()?, form_pages: r.u32()? }),
    };
    let rotation = match Rotation::ALL.get(usize::from(rotation)) {
        Some(&rotation) => rotation,
        None if rotation == WEIGHTED => {
            let weights = ParityWeights::new(r.take(members)?);
            Rotation::Weighted(weights.map_err(|_| DecodeError::Invalid("parity weights"))?)
        }
        None => return Err(DecodeError::Invalid("rotation")),
    };
    let level = match number {
        0 => Level::Raid0,
        1 => Level::Raid1,
        10 => Level::Raid10 { copies: part },
        5 => Level::Raid5(rotation),
        6 => Level::Raid6(rotation),
        50 => Level::Raid50 { groups: part, rotation },
        60 => Level::Raid60 { groups: part, rotation },
        _ => return Err(DecodeError::Invalid("level")),
    };
    let (journal, zeroed) = (flags & 1 != 0, flags & 2 != 0);
    let spec = ArraySpec { level, chunk_bytes, journal, spares: 0, zeroed, elastic };
    if members > count || flags > 7 || elastic.is_some_and(|elastic| elastic.form_pages == 0) {
        return Ok(None);
    }
    let stored = StoredArray { members, member_chunks, shards, log_blocks, region_stripes, grown };
    let geometry = ArrayGeometry::restore(&spec, stored);
    Ok(geometry.map(|geometry| ArrayGeometry { log, ..geometry }))
}

/// Encodes the history of an array: the number of disks at first and after each addition, none for an array with the layout
/// of a new one; then the addressing before the last addition, and the number of that addition's method plus one, or 0
/// when the addition has ended.
fn encode_grown(grown: Option<&Grown>, w: &mut Writer) {
    let Some(grown) = grown else { return w.u8(0) };
    w.u8(grown.disks().len() as u8);
    w.bytes(grown.disks());
    w.u8(Arrangement::ALL.iter().position(|&kind| kind == grown.kind()).expect("every kind is listed") as u8);
    let method = grown.method().and_then(|method| GrowMethod::ALL.iter().position(|&m| m == method));
    w.u8(method.map_or(0, |number| number as u8 + 1));
}

/// Decodes the history of an array; the outer `None` is an impossible one.
fn decode_grown(r: &mut Reader<'_>) -> Result<Option<Option<Grown>>, DecodeError> {
    let count = usize::from(r.u8()?);
    if count == 0 {
        return Ok(Some(None));
    }
    let disks = r.take(count)?.to_vec();
    let kind = *Arrangement::ALL.get(usize::from(r.u8()?)).ok_or(DecodeError::Invalid("striping"))?;
    let method = match r.u8()? {
        0 => None,
        n => Some(*GrowMethod::ALL.get(usize::from(n) - 1).ok_or(DecodeError::Invalid("method of growth"))?),
    };
    Ok(Grown::restore(kind, &disks, method).map(Some))
}
