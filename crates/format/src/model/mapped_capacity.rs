//! The capacity of a mapped pool: blocks that clients may store, and chunks reserved for compaction.

use crate::model::mapped_geometry::{CHUNK_BLOCKS, MappedGeometry, Protection};
use sinew_layout::declustered;

/// Stripes for which room is reserved on each member for compaction, which cannot always choose another member. A rebuild
/// leaves this reserve as well: where it finds no room, compaction makes some.
const MEMBER_RESERVE_STRIPES: u64 = 2;

/// Chunks of all members together that are reserved for compaction and conversion.
pub fn reserve_chunks(g: &MappedGeometry) -> u64 {
    (2 * g.homes_per_stripe() + 4 * (g.data_columns + g.parity_columns())) as u64
}

/// Chunks reserved on each member of a pool of `members` members.
pub fn member_reserve(g: &MappedGeometry, members: usize) -> u64 {
    let stripe = match g.protection {
        Protection::Mirror { .. } => g.data_columns * g.copies(),
        _ => g.data_columns + g.parity_columns(),
    };
    MEMBER_RESERVE_STRIPES * stripe.div_ceil(members.max(1)) as u64
}

/// Blocks of the capacity that blocks in stripes that stay mirrored take. A block under parity takes one.
pub fn pinned_cost(g: &MappedGeometry, blocks: u64) -> u64 {
    let (k, m) = (g.data_columns as u64, g.parity_columns() as u64);
    (blocks * g.copies() as u64 * k).div_ceil(k + m)
}

/// Blocks of the capacity that are kept once there are volumes whose stripes stay mirrored: for the stripe that their small
/// writes are appended to, and for the one that compaction has filled in part.
pub fn pinned_reserve(g: &MappedGeometry) -> u64 {
    2 * pinned_cost(g, u64::from(g.slots_per_stripe()))
}

/// Blocks that clients may store under the pool's protection on members with these numbers of chunks.
pub fn capacity_blocks(g: &MappedGeometry, chunks: &[u64]) -> u64 {
    if chunks.is_empty() {
        return 0;
    }
    let (least, data) = match g.protection {
        Protection::Mirror { .. } => (g.copies(), 1),
        _ => {
            let width = (g.data_columns + g.parity_columns()).min(chunks.len());
            (width, width.saturating_sub(g.parity_columns()).max(1))
        }
    };
    let kept = member_reserve(g, chunks.len());
    let chunks: Vec<u64> = chunks.iter().map(|c| c.saturating_sub(kept)).collect();
    let stripes = declustered::stripes_placeable(&chunks, least.min(chunks.len()).max(1));
    let usable = stripes.saturating_sub(reserve_chunks(g).div_ceil(least as u64));
    usable * data as u64 * u64::from(CHUNK_BLOCKS) * 9 / 10
}
