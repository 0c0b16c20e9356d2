//! The gate of an array with parity that grows: requests for rows that are being changed wait until they are.
//!
//! Where a chunk is changes with its row, so a request holds on to the way it came in: whoever closes the gate waits until
//! all that came before are answered.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use sinew_core::coverage::Mark;
use sinew_core::io::Io;
use sinew_core::sync::Signal;

use crate::ArrayShard;
use crate::reshape::chunks::Reading;

/// The rows that requests wait for.
#[derive(Default)]
pub(crate) struct Gate {
    closed: RefCell<BTreeSet<u64>>,
    /// Reads wait, too: not yet while the journal is brought to its place.
    to_reads: Cell<bool>,
    signal: Signal,
}

/// The gate while it is closed.
pub(crate) struct Closed<'a>(&'a Gate);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.closed.borrow_mut().clear();
        self.0.to_reads.set(false);
        self.0.signal.notify();
    }
}

impl Gate {
    /// The rows it is closed for.
    pub(crate) fn closed(&self) -> BTreeSet<u64> {
        self.closed.borrow().clone()
    }

    /// Whether it is closed for some rows.
    pub(crate) fn is_closed(&self) -> bool {
        !self.closed.borrow().is_empty()
    }
}

impl<I: Io> ArrayShard<I> {
    /// Lets in a write to consecutive blocks; they stay where they are until what this gives is dropped.
    pub(crate) async fn enter_writing(&self, local: u64, count: u64) -> Option<Reading<'_>> {
        self.enter(local, count, || self.gate.is_closed()).await
    }

    /// The same for a read.
    pub(crate) async fn enter_reading(&self, local: u64, count: u64) -> Option<Reading<'_>> {
        self.enter(local, count, || self.gate.to_reads.get()).await
    }

    async fn enter(&self, local: u64, count: u64, is_closed: impl Fn() -> bool) -> Option<Reading<'_>> {
        if self.slice().is_mirror() {
            return None;
        }
        while is_closed() {
            let slice = self.slice();
            let waits = {
                let closed = self.gate.closed.borrow();
                slice.runs(local, count).any(|run| closed.contains(&run.stripe))
            };
            if !waits {
                break;
            }
            self.io.mark(Mark::ArrayGateWaited);
            self.gate.signal.wait_once().await;
        }
        Some(self.mover.reading())
    }

    /// Closes the gate for these rows and waits until nobody is inside and nothing of them is left in the journal.
    pub(crate) async fn close_gate(&self, rows: BTreeSet<u64>) -> Option<Closed<'_>> {
        self.gate.closed.replace(rows);
        let closed = Closed(&self.gate);
        self.mover.readers_gone().await;
        while self.pends_behind_gate() {
            self.io.mark(Mark::ArrayGateDrained);
            if !self.wait_drained().await {
                return None;
            }
        }
        self.gate.to_reads.set(true);
        self.mover.readers_gone().await;
        Some(closed)
    }

    /// Waits until no rows are being changed: without a journal they would be in doubt.
    pub(crate) async fn rows_at_rest(&self) {
        self.gate.signal.wait(|| (!self.gate.is_closed()).then_some(())).await;
    }

    /// Whether the journal has something of the rows behind the gate.
    pub(crate) fn pends_behind_gate(&self) -> bool {
        let pending = self.pending.borrow();
        self.gate.closed.borrow().iter().any(|&row| pending.has_stripe(row))
    }
}
