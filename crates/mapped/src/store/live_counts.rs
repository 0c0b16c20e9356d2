//! Numbers of live blocks: of the shard, and of each map page, from which those of each volume follow.

use sinew_core::ids::ShardBlock;
use sinew_format::model::mapped_geometry::PAGE_INDICES;

/// The counts. A live block is one that the map has a slot for.
#[derive(Debug, Default)]
pub(crate) struct LiveCounts {
    total: u64,
    /// By map page.
    pages: Vec<u16>,
}

impl LiveCounts {
    /// Live blocks of the shard.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Live blocks of a map page.
    pub(crate) fn of_page(&self, page: u32) -> u64 {
        self.pages.get(page as usize).copied().map_or(0, u64::from)
    }

    /// Counts blocks that have become live. They are of one map page, as those of a record are.
    pub(super) fn add(&mut self, first: ShardBlock, count: u32) {
        let page = (first.0 / PAGE_INDICES) as usize;
        if self.pages.len() <= page {
            self.pages.resize(page + 1, 0);
        }
        self.pages[page] += count as u16;
        self.total += u64::from(count);
    }

    /// Counts a block that was live and is not any more.
    pub(super) fn remove(&mut self, block: ShardBlock) {
        self.pages[(block.0 / PAGE_INDICES) as usize] -= 1;
        self.total -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_by_page() {
        let mut counts = LiveCounts::default();
        counts.add(ShardBlock(PAGE_INDICES - 2), 2);
        counts.add(ShardBlock(PAGE_INDICES), PAGE_INDICES);
        counts.remove(ShardBlock(PAGE_INDICES + 5));
        let of = [0, 1, 2].map(|page| counts.of_page(page));
        assert_eq!((of, counts.total()), ([2, u64::from(PAGE_INDICES) - 1, 0], u64::from(PAGE_INDICES) + 1));
    }
}
