//! What rebuild and rebalance have left to do. Each looks at the other's: rebalance waits until nothing is to be rebuilt.

use std::cell::Cell;

use sinew_core::sync::Kick;
use sinew_members::status::BalanceBlocked;

/// Chunks that rebuild and rebalance have left.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) rebuild_left: Cell<u64>,
    pub(crate) rebalance_left: Cell<u64>,
    /// Why the rebalancer ended with uneven members.
    pub(crate) blocked: Cell<BalanceBlocked>,
    /// Wakes the rebalancer.
    pub(crate) rebalance: Kick,
}

impl Progress {
    /// Has the rebalancer look whether there is anything to move.
    pub(crate) fn request_rebalance(&self) {
        // Until it has counted.
        self.rebalance_left.set(self.rebalance_left.get().max(1));
        self.rebalance.kick();
    }
}
