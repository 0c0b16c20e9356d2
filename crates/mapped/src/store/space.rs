//! Physical space that a shard on thin members keeps in reserve.

use crate::store::Store;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::io::Io;
use sinew_format::model::mapped_geometry::{CHUNK_BYTES, PAGE_BYTES};
use sinew_members::space_credit::{SUPERBLOCK_BYTES, SpaceNeed};

/// Table pages of 16 KiB that may get new places before their former ones are free.
const RESERVED_PAGES: u64 = 64;
/// Chunks that a conversion or a compaction may need on a member before it frees any.
const RESERVED_CHUNKS: u64 = 8;

impl<I: Io> Store<I> {
    /// The physical space that must be free for a client's write, besides its own blocks: enough to fill the journal, for a
    /// round of table pages, for the superblocks, and for the first step of a conversion or a compaction.
    pub(crate) fn space_need(&self) -> SpaceNeed {
        let journal = u64::from(self.geometry().journal_blocks) * BLOCK_BYTES as u64;
        let pages = RESERVED_PAGES * PAGE_BYTES as u64;
        let reserve = journal + pages + RESERVED_CHUNKS * CHUNK_BYTES + SUPERBLOCK_BYTES;
        SpaceNeed { pending_blocks: 0, writes_of_block: self.geometry().copies() as u64, reserve }
    }

    /// The physical space below which room is made: as much again as must be free, so that writes need not wait for it.
    pub(crate) fn space_low_water(&self) -> SpaceNeed {
        let need = self.space_need();
        SpaceNeed { reserve: 2 * need.reserve, ..need }
    }

    /// Whether room is to be made because physical space is low, by the last figures.
    pub(crate) fn is_low_on_space(&self) -> bool {
        self.members().space.is_limited() && self.members().space.is_short(self.space_low_water())
    }
}
