//! The lost blocks of a shard, and the stripes in which more are suspected. `locate` has the rules for them; here they are only
//! kept.

use std::cell::RefCell;
use std::collections::BTreeSet;

use sinew_core::sync::Kick;

/// The lost blocks of a shard.
#[derive(Default)]
pub(super) struct Losses {
    /// Stripes to be searched.
    pub(super) suspects: RefCell<BTreeSet<u64>>,
    /// Blocks, as the shard numbers them.
    pub(super) lost: RefCell<BTreeSet<u64>>,
    pub(super) work: Kick,
}

impl Losses {
    /// Has a stripe searched.
    pub(super) fn suspect(&self, stripe: u64) {
        self.suspects.borrow_mut().insert(stripe);
        self.work.kick();
    }
}
