//! Overlapped commit: records go to the journal while the data that they name is still being written.
//!
//! The records are applied, and count, once all copies of the data are written; until then no later record counts either.
//! When the data is late or holds up other records, or a write fails, an abort record cancels them. After a crash the
//! checksums tell which data was written.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use crate::marks::Mark;
use crate::store::Store;
use crate::store::data_status::DataStatus;
use crate::store::journal::CommitResult;
use sinew_core::ids::{ChunkAddr, SlotNo};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::Promise;
use sinew_format::journal_block::Record;

/// Overlapped commits at the same time. The abort records of all of them must fit into the reserved blocks of the
/// ring, 286 to a block.
const OVERLAPPED_MAX: u32 = 512;

/// A record that is in the journal waits for its data for this long at most: all later records wait with it. To be
/// committed again costs its own write one more group, a fraction of this time. Where many members are late, what counts as
/// late takes much longer.
const HELD_UP_NS: u64 = 1_000_000;

/// A commit of records whose data is still being written.
pub(crate) struct OverlappedCommit {
    data_status: Rc<DataStatus>,
    committed: Promise<CommitResult>,
}

impl<I: Io> Store<I> {
    /// Commits records about `slots` slots while their data is written, unless too many commits do so.
    pub(crate) fn begin_overlapped_commit(
        &self,
        records: impl FnOnce() -> Vec<Record>,
        first: SlotNo,
        slots: u32,
    ) -> Option<OverlappedCommit> {
        let (count, since) = (self.journal.overlapped.get(), self.journal.next());
        if count >= OVERLAPPED_MAX {
            return None;
        }
        self.journal.overlapped.set(count + 1);
        let data_status = Rc::new(DataStatus::new(first, slots, since));
        let committed = self.journal.commit_overlapped(records(), &data_status);
        Some(OverlappedCommit { data_status, committed })
    }

    /// The status of the data is known.
    fn set_data_status(&self, data_status: &DataStatus, written: bool) {
        data_status.written.set(Some(written));
        self.journal.overlapped.set(self.journal.overlapped.get() - 1);
    }

    /// All data of the records is written: they count now, and are committed if no overlapped commit has done that.
    /// Resolves when they are applied.
    pub(crate) async fn finish_commit(
        self: &Rc<Self>,
        overlapped: Option<OverlappedCommit>,
        records: impl FnOnce() -> Vec<Record>,
    ) -> CommitResult {
        let Some(overlapped) = overlapped else { return self.journal.commit(records()).await };
        if overlapped.data_status.is_settled() {
            if mutation::on(Mutation::CountHeldUp) {
                return Ok(());
            }
            self.io.mark(Mark::HeldUpCommitted);
            return self.journal.commit(records()).await;
        }
        self.set_data_status(&overlapped.data_status, true);
        self.apply_ready();
        overlapped.committed.await
    }

    /// Cancels a commit whose data is late or failed to be written, unless that is done. No flush counts before the abort
    /// record is durable, too, since recovery trusts what is flushed.
    pub(crate) fn abort(self: &Rc<Self>, overlapped: Option<OverlappedCommit>) {
        if let Some(overlapped) = overlapped.filter(|commit| !commit.data_status.is_settled()) {
            self.cancel(&overlapped.data_status);
            self.apply_ready();
        }
    }

    fn cancel(self: &Rc<Self>, data_status: &DataStatus) {
        self.set_data_status(data_status, false);
        if data_status.recorded.get() {
            self.io.mark(Mark::RecordVoided);
            if !mutation::on(Mutation::ForgetVoid) {
                self.commit_marks(data_status.abort_records());
            }
        } else {
            self.io.mark(Mark::RecordWithdrawn);
        }
    }

    /// The task that cancels commits which hold up others. It never ends.
    pub(crate) async fn run_hold_ups(self: Rc<Self>) {
        loop {
            self.journal.held_up.kicked().await;
            while let Some(since) = self.journal.held_up_since() {
                let (now, due) = (self.io.now(), since + HELD_UP_NS);
                if now < due {
                    self.io.sleep(due - now).await;
                    continue;
                }
                self.io.mark(Mark::CommitHeldUp);
                for data_status in self.journal.awaited_first() {
                    // Several records name the same data.
                    if !data_status.is_settled() {
                        self.cancel(&data_status);
                    }
                }
                self.apply_ready();
            }
        }
    }

    /// The results of writes to these homes; `None` when they are late.
    pub(crate) async fn await_in_time<T>(
        &self,
        homes: &[ChunkAddr],
        mut writes: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let late_ns = homes.iter().map(|home| self.members.latency.late_ns(home.member)).max().unwrap_or(0);
        let mut alarm = self.members.deadlines.at(self.io.now_coarse() + late_ns);
        poll_fn(|cx| match writes.as_mut().poll(cx) {
            Poll::Ready(results) => Poll::Ready(Some(results)),
            Poll::Pending if alarm.poll(cx, self.io.now_coarse()) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}
