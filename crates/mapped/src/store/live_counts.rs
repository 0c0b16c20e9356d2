//! Numbers of live blocks: of the shard, of these in stripes that stay mirrored, and of each map page, from which those of each
//! volume follow.

use sinew_core::ids::ShardBlock;
use sinew_format::model::mapped_geometry::map_page;

/// The counts. A live block is one that the map has a slot for.
#[derive(Debug, Default)]
pub(crate) struct LiveCounts {
    total: u64,
    pinned: u64,
    /// By map page.
    pages: Vec<u16>,
}

impl LiveCounts {
    /// Live blocks of the shard.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Of these, blocks in stripes that stay mirrored.
    pub(crate) fn pinned(&self) -> u64 {
        self.pinned
    }

    /// Live blocks of a map page.
    pub(crate) fn of_page(&self, page: u32) -> u64 {
        self.pages.get(page as usize).copied().map_or(0, u64::from)
    }

    /// Counts blocks that have become live. They are of one map page, as those of a record are.
    pub(super) fn add(&mut self, first: ShardBlock, count: u32) {
        let page = map_page(first) as usize;
        if self.pages.len() <= page {
            self.pages.resize(page + 1, 0);
        }
        self.pages[page] += count as u16;
        self.total += u64::from(count);
    }

    /// Counts a block that was live and is not any more.
    pub(super) fn remove(&mut self, block: ShardBlock) {
        self.pages[map_page(block) as usize] -= 1;
        self.total -= 1;
    }

    /// Counts that of the live blocks this number more are in stripes that stay mirrored.
    pub(super) fn add_pinned(&mut self, blocks: u64) {
        self.pinned += blocks;
    }

    /// Counts that of the live blocks this number fewer are in stripes that stay mirrored.
    pub(super) fn remove_pinned(&mut self, blocks: u64) {
        self.pinned -= blocks;
    }
}

#[cfg(test)]
mod tests {
    use sinew_format::model::mapped_geometry::PAGE_INDICES;

    use super::*;

    #[test]
    fn blocks_are_counted_by_page() {
        let mut counts = LiveCounts::default();
        counts.add(ShardBlock(PAGE_INDICES - 2), 2);
        counts.add_pinned(2);
        counts.add(ShardBlock(PAGE_INDICES), PAGE_INDICES);
        counts.remove(ShardBlock(PAGE_INDICES + 5));
        counts.remove(ShardBlock(PAGE_INDICES - 1));
        counts.remove_pinned(1);
        let of = [0, 1, 2].map(|page| counts.of_page(page));
        assert_eq!(counts.pinned(), 1);
        assert_eq!((of, counts.total()), ([1, u64::from(PAGE_INDICES) - 1, 0], u64::from(PAGE_INDICES)));
    }
}
