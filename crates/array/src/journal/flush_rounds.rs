//! Rounds of flushing: whether one is under way, and how many there were.

use std::cell::Cell;

use sinew_core::sync::Signal;

/// Rounds of rounds.
#[derive(Default)]
pub(crate) struct FlushRounds {
    pub(super) running: Cell<bool>,
    pub(super) begun: Cell<u64>,
    pub(super) done: Cell<u64>,
    pub(super) signal: Signal,
}

impl FlushRounds {
    /// Whether a flush is under way.
    pub(crate) fn is_running(&self) -> bool {
        self.running.get()
    }

    /// Has every caller that waits for a flush look again.
    pub(crate) fn notify(&self) {
        self.signal.notify();
    }
}
