//! Parts that a drive may have or not, and their parameters.

use crate::Ns;

/// Static wear levelling: cleaning moves cold data away from erase blocks that are erased rarely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WearLevelling {
    /// The difference of erases, between the most and the least worn erase block of a die, from which the least worn one is
    /// cleaned. Every [`WearLevelling::TURN`]th victim at most is chosen so.
    pub spread: u32,
}

impl WearLevelling {
    /// Of this number of victims, at most one is chosen for its wear, so that cleaning gains space.
    pub const TURN: u32 = 8;
}

/// Erase blocks that are programmed with one bit per cell. They take the host's writes, quickly and in fewer pages; what they
/// hold is folded into the other erase blocks, by moving it as cleaning does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlcCache {
    /// Erase blocks of each die, beside those of the size and the spare space.
    pub erase_blocks: u32,
    /// Bits per cell of the other erase blocks: one of the cache has this part of their pages.
    pub bits: u32,
    /// From cells to the die's register.
    pub sense_ns: Ns,
    /// From the die's register to cells.
    pub program_ns: Ns,
    /// Folding starts when the host has been silent for this time, or when the cache of a die is full.
    pub fold_after_ns: Ns,
}

/// A mapping table on flash, of which a part is in memory (A. Gupta, Y. Kim, B. Urgaonkar, "DFTL: a flash translation layer
/// employing demand-based selective caching of page-level address mappings", ASPLOS 2009). The unit of caching is a whole
/// page of the table here, not an entry of it; the least recently used one is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingCache {
    /// Pages of the table in memory, each of 4 KiB.
    pub pages: u32,
    /// Blocks whose entries a page holds: [`MappingCache::ENTRIES`], or fewer in a drive that is scaled down.
    pub entries: u32,
}

impl MappingCache {
    /// Entries of 4 bytes in a page.
    pub const ENTRIES: u32 = 1024;
    /// The fewest pages in memory: a request may need several at once.
    pub const PAGES_MIN: u32 = 8;

    /// This number of pages in memory, full of entries.
    pub fn of_pages(pages: u32) -> MappingCache {
        MappingCache { pages, entries: MappingCache::ENTRIES }
    }

    /// Pages of the table of this number of blocks.
    pub fn table_pages(self, blocks: u32) -> u32 {
        blocks.div_ceil(self.entries)
    }
}
