//! Lost blocks: live blocks that had no good copy when they were read, by a client or in the background. The control gives them
//! their places in volumes.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::store::table_cache::PagePin;
use sinew_core::ids::{ShardBlock, SlotNo};

/// Blocks kept; more are found again once these are written or read well.
const BLOCKS_MAX: usize = 4096;

/// Blocks that could not be read, with the slots where they were, and pins on their map pages, which tell whether they still are.
#[derive(Default)]
pub(crate) struct LostBlocks(RefCell<BTreeMap<ShardBlock, (SlotNo, PagePin)>>);

impl LostBlocks {
    /// Notes a block.
    pub(super) fn add(&self, block: ShardBlock, slot: SlotNo, map: PagePin) {
        let mut lost = self.0.borrow_mut();
        if lost.len() < BLOCKS_MAX {
            lost.insert(block, (slot, map));
        }
    }

    /// Pins in force.
    pub(super) fn pins(&self) -> usize {
        self.0.borrow().len()
    }

    /// The blocks that are still where they could not be read; forgets the others.
    pub(super) fn retain(&self, is_there: impl Fn(ShardBlock, SlotNo) -> bool) -> Vec<ShardBlock> {
        let mut lost = self.0.borrow_mut();
        lost.retain(|&block, (slot, _)| is_there(block, *slot));
        lost.keys().copied().collect()
    }
}
