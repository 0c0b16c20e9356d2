//! An array assembled from the superblocks of its members: geometry, roles of the members, and state.

use super::{MdError, MemberRole, Superblock, Unsupported};
use crate::geometry::{Geometry, Level};
use crate::rotation::Rotation;

const SECTOR: u64 = 512;
/// md has no chunks in RAID 1; this is the largest unit used instead.
const MIRROR_CHUNK_MAX: u64 = 65536;

/// An array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Level, members, chunks.
    pub geometry: Geometry,
    /// The member in each role; `None` if it is missing, failed or out of date.
    pub seats: Vec<Option<Seat>>,
    /// The highest event count.
    pub events: u64,
    /// Sectors of each member whose redundancy is right, if not all: beyond them parity and copies may disagree.
    pub resync_offset: Option<u64>,
    /// Whether there is a write-intent bitmap, which a writer must maintain or invalidate.
    pub has_bitmap: bool,
    /// The given superblocks without a role, by number, with the reason.
    pub left_out: Vec<(usize, LeftOut)>,
}

/// Why a device of an array has no role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    /// It is a spare.
    #[error("a spare")]
    Spare,
    /// The other members record that it failed or was removed.
    #[error("faulty or removed, as the others know")]
    Faulty,
    /// The array was written without it.
    #[error("out of date: it has seen {events} events, others {newest}")]
    Stale {
        /// Its events.
        events: u64,
        /// The highest event count of all.
        newest: u64,
    },
}

/// A member in its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The number of its superblock among those given.
    pub index: usize,
    /// The byte of the device at which its data begins.
    pub data_offset: u64,
    /// Bytes of its data that are recovered, if not all; bytes beyond them must not be read.
    pub recovered: Option<u64>,
}

impl Array {
    /// Assembles an array from the superblocks of its devices, in any order; spares, failed and stale ones are left out.
    ///
    /// As in md, the roles are those in the freshest superblock, and a member may be one event behind, since a crash may
    /// have happened between the writes of two superblocks.
    ///
    /// # Errors
    /// When the superblocks do not form one usable array; see [`MdError`].
    pub fn assemble(superblocks: &[Superblock]) -> Result<Array, MdError> {
        let freshest = superblocks.iter().rev().max_by_key(|block| block.events()).ok_or(MdError::Empty)?;
        let geometry = geometry(freshest)?;
        let mut seats: Vec<Option<Seat>> = vec![None; geometry.members() as usize];
        let mut left_out = Vec::new();
        for (index, block) in superblocks.iter().enumerate() {
            check_same(index, block, freshest)?;
            block.check_features()?;
            let role = match role(block, freshest) {
                Ok(role) => role,
                Err(reason) => {
                    left_out.push((index, reason));
                    continue;
                }
            };
            let seat = seats.get_mut(role as usize).ok_or(MdError::Differs { index, field: "role" })?;
            if let Some(other) = seat {
                return Err(MdError::Twice { first: other.index, second: index, role });
            }
            if geometry.level() == Level::Raid0 && chunks(block) != geometry.member_chunks() {
                return Err(Unsupported::Zones.into());
            }
            *seat = Some(Seat {
                index,
                data_offset: block.data_offset() * SECTOR,
                recovered: block.recovery_offset().map(|sectors| sectors * SECTOR),
            });
        }
        Ok(Array {
            geometry,
            seats,
            events: freshest.events(),
            resync_offset: freshest.resync_offset(),
            has_bitmap: freshest.bitmap_offset().is_some(),
            left_out,
        })
    }

    /// Roles without a member.
    pub fn missing(&self) -> usize {
        self.seats.iter().filter(|seat| seat.is_none()).count()
    }
}

/// The role of a device, in the freshest superblock.
fn role(block: &Superblock, freshest: &Superblock) -> Result<u32, LeftOut> {
    let (events, newest) = (block.events(), freshest.events());
    match (freshest.role_of(block.dev_number()), block.role()) {
        (MemberRole::Active(_), MemberRole::Active(_)) if events.saturating_add(1) < newest => {
            Err(LeftOut::Stale { events, newest })
        }
        (MemberRole::Active(role), MemberRole::Active(_)) => Ok(role),
        (MemberRole::Spare, MemberRole::Spare) => Err(LeftOut::Spare),
        _ => Err(LeftOut::Faulty),
    }
}

fn check_same(index: usize, block: &Superblock, other: &Superblock) -> Result<(), MdError> {
    let fields = [
        ("array identity", block.set_uuid() == other.set_uuid()),
        ("level", block.level() == other.level()),
        ("layout", block.layout() == other.layout()),
        ("number of members", block.raid_disks() == other.raid_disks()),
        ("chunk size", block.chunk_sectors() == other.chunk_sectors()),
        ("used size", block.size_sectors() == other.size_sectors()),
    ];
    let differs = fields.iter().find(|(_, same)| !same);
    differs.map_or(Ok(()), |&(field, _)| Err(MdError::Differs { index, field }))
}

/// The geometry that a superblock describes.
fn geometry(block: &Superblock) -> Result<Geometry, MdError> {
    block.check_features()?;
    let level = level(block)?;
    let bytes = member_bytes(block);
    let chunk = match level {
        Level::Raid1 => (1 << bytes.trailing_zeros().min(63)).clamp(SECTOR, MIRROR_CHUNK_MAX) as u32,
        _ => (u64::from(block.chunk_sectors()) * SECTOR).min(u64::from(u32::MAX)) as u32,
    };
    Ok(Geometry::new(level, block.raid_disks(), chunk, bytes)?)
}

fn level(block: &Superblock) -> Result<Level, Unsupported> {
    let (number, layout) = (block.level(), block.layout());
    let rotation = || {
        let found = Rotation::ALL.into_iter().find(|&rotation| u32::from(rotation.number()) == layout);
        found.ok_or(Unsupported::Layout { level: number, layout })
    };
    match number {
        0 => Ok(Level::Raid0),
        1 => Ok(Level::Raid1),
        5 => rotation().map(Level::Raid5),
        6 => rotation().map(Level::Raid6),
        // Near copies in the low byte, then far copies, then flags of the far and offset layouts.
        10 if layout >> 8 == 1 => Ok(Level::Raid10 { copies: layout & 0xff }),
        10 => Err(Unsupported::FarCopies(layout)),
        _ => Err(Unsupported::Level(number)),
    }
}

fn member_bytes(block: &Superblock) -> u64 {
    let sectors = if block.level() == 0 { block.data_sectors() } else { block.size_sectors() };
    sectors.saturating_mul(SECTOR)
}

fn chunks(block: &Superblock) -> u64 {
    block.data_sectors() / u64::from(block.chunk_sectors()).max(1)
}
