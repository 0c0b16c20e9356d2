//! The barrier of an array with parity that grows: requests for rows that are being changed wait until the change is done.
//!
//! The change of a row moves its chunks. So a request counts as an unlocked read until it is answered, and raising the
//! barrier waits for the requests that came before.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use sinew_core::sync::Signal;

/// The rows that requests wait for.
#[derive(Default)]
pub(crate) struct Barrier {
    pub(super) rows: RefCell<BTreeSet<u64>>,
    /// Reads wait as well: not yet while blocks of the rows are being destaged.
    pub(super) stops_reads: Cell<bool>,
    pub(super) signal: Signal,
}

/// The barrier while it is raised; dropping it lowers the barrier.
pub(crate) struct RaisedBarrier<'a>(pub(super) &'a Barrier);

impl Drop for RaisedBarrier<'_> {
    fn drop(&mut self) {
        self.0.rows.borrow_mut().clear();
        self.0.stops_reads.set(false);
        self.0.signal.notify();
    }
}

impl Barrier {
    /// Whether requests for this row wait.
    pub(super) fn holds(&self, row: u64) -> bool {
        self.rows.borrow().contains(&row)
    }

    /// Whether requests for some rows wait.
    pub(super) fn is_raised(&self) -> bool {
        !self.rows.borrow().is_empty()
    }
}
