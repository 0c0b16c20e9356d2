//! Unplaced blocks: new content of places whose member had no physical space for it (thin members).
//!
//! `places` has the rules for them; here they are only kept.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::sync::Kick;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Content of one block that is not in its place.
pub(super) struct UnplacedBlock {
    pub(super) stripe: u64,
    /// The region that is kept dirty.
    pub(super) region: usize,
    pub(super) data: Buf,
}

/// Consecutive blocks of a member.
pub(super) struct UnplacedRun {
    pub(super) member: MemberId,
    pub(super) offset: u64,
    pub(super) data: Vec<Buf>,
}

/// The blocks that are not in their places, by member and offset.
#[derive(Default)]
pub(super) struct Unplaced {
    pub(super) blocks: RefCell<BTreeMap<(MemberId, u64), UnplacedBlock>>,
    /// Kicked when there are new ones.
    pub(super) work: Kick,
}

impl Unplaced {
    /// Whether every block is in its place.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.borrow().is_empty()
    }

    /// The content for part of a range, if there is any: where it begins in the range, and a block.
    pub(super) fn within(&self, member: MemberId, offset: u64, bytes: usize) -> Vec<(usize, Buf)> {
        let blocks = self.blocks.borrow();
        let range = blocks.range((member, offset)..(member, offset + bytes as u64));
        range.map(|((_, at), block)| ((at - offset) as usize, block.data.clone())).collect()
    }

    /// The stripes of the blocks.
    pub(super) fn stripes(&self) -> BTreeSet<u64> {
        self.blocks.borrow().values().map(|block| block.stripe).collect()
    }

    /// The content for the places of a stripe.
    pub(super) fn content_of(&self, stripe: u64) -> BTreeMap<(MemberId, u64), Buf> {
        let blocks = self.blocks.borrow();
        let of_stripe = blocks.iter().filter(|(_, block)| block.stripe == stripe);
        of_stripe.map(|(place, block)| (*place, block.data.clone())).collect()
    }

    /// The blocks of a stripe, those that follow each other on a member together.
    pub(super) fn runs_of(&self, stripe: u64) -> Vec<UnplacedRun> {
        let mut runs: Vec<UnplacedRun> = Vec::new();
        for (&(member, offset), block) in &*self.blocks.borrow() {
            if block.stripe != stripe {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.member == member && run.offset + run.data.len() as u64 * BLOCK == offset => {
                    run.data.push(block.data.clone());
                }
                _ => runs.push(UnplacedRun { member, offset, data: vec![block.data.clone()] }),
            }
        }
        runs
    }
}
