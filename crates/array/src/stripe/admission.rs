//! Admission of requests past the barrier, and raising the barrier.

use std::collections::{BTreeMap, BTreeSet};

use crate::marks::Mark;
use sinew_core::io::Io;

use crate::journal::progress::UnlockedRead;
use crate::stripe::Stripes;
use crate::stripe::barrier::RaisedBarrier;

impl<I: Io> Stripes<I> {
    /// Admits a write to consecutive blocks. The blocks stay where they are until the result is dropped.
    pub(crate) async fn enter_writing(&self, local: u64, count: u64) -> Option<UnlockedRead<'_>> {
        self.enter(local, count, || self.barrier.is_raised()).await
    }

    /// Admits a read of consecutive blocks, likewise.
    pub(crate) async fn enter_reading(&self, local: u64, count: u64) -> Option<UnlockedRead<'_>> {
        self.enter(local, count, || self.barrier.stops_reads.get()).await
    }

    async fn enter(&self, local: u64, count: u64, stops: impl Fn() -> bool) -> Option<UnlockedRead<'_>> {
        if self.state.layout().is_mirror() {
            return None;
        }
        while stops() {
            let layout = self.state.layout();
            let waits = {
                let rows = self.barrier.rows.borrow();
                layout.runs(local, count).any(|run| rows.contains(&run.stripe))
            };
            if !waits {
                break;
            }
            self.state.mark(Mark::ArrayGateWaited);
            self.barrier.signal.wait_once().await;
        }
        Some(self.journal.progress().begin_read())
    }

    /// Raises the barrier for these rows, and waits until requests admitted before are answered and the journal has no dirty
    /// block of the rows. `None` when these cannot be destaged now.
    pub(crate) async fn raise_barrier(&self, rows: BTreeSet<u64>) -> Option<RaisedBarrier<'_>> {
        self.barrier.rows.replace(rows);
        let raised = RaisedBarrier(&self.barrier);
        self.journal.progress().wait_for_unlocked_reads().await;
        while self.has_dirty_behind_barrier() {
            self.state.mark(Mark::ArrayGateDrained);
            if !self.journal.wait_for_destager().await {
                return None;
            }
        }
        self.barrier.stops_reads.set(true);
        self.journal.progress().wait_for_unlocked_reads().await;
        Some(raised)
    }

    /// Waits until no rows are being changed. A change that is cut short leaves rows in doubt where there is no journal.
    pub(crate) async fn wait_until_lowered(&self) {
        self.barrier.signal.wait(|| (!self.barrier.is_raised()).then_some(())).await;
    }

    /// Whether the journal has dirty blocks of the rows behind the barrier.
    pub(crate) fn has_dirty_behind_barrier(&self) -> bool {
        let dirty = self.journal.dirty();
        self.barrier.rows.borrow().iter().any(|&row| dirty.has_stripe(row))
    }

    /// Chooses slots of the rows behind the barrier to destage, as
    /// [`DirtyBlocks::choose_of`](crate::journal::dirty_blocks::DirtyBlocks::choose_of).
    pub(crate) fn choose_behind_barrier(
        &self,
        chunk_blocks: u32,
        offsets_max: usize,
    ) -> BTreeMap<u64, Vec<u32>> {
        self.journal.dirty().choose_of(&self.barrier.rows.borrow(), chunk_blocks, offsets_max)
    }
}
