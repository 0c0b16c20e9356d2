//! Overlapped commit: records go to the journal while the data that they name is still being written.
//!
//! The records are applied, and count, once all copies of the data are written; until then no later record counts either.
//! When the data is late, or a write fails, an abort record cancels them. After a crash the checksums tell which data was
//! written.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use crate::marks::Mark;
use crate::store::Store;
use crate::store::data_status::DataStatus;
use crate::store::journal::CommitResult;
use sinew_core::ids::{ChunkAddr, Lsn, SlotNo};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::Promise;
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::Record;

/// Overlapped commits at the same time. The abort records of all of them must fit into the reserved blocks of the
/// ring, 286 to a block.
const OVERLAPPED_MAX: u32 = 512;

/// A commit of records whose data is still being written.
pub(crate) struct OverlappedCommit {
    pub(super) data_status: Rc<DataStatus>,
    pub(super) committed: Promise<CommitResult>,
    /// The slots they are about, and the first block that may have them.
    pub(super) first: SlotNo,
    pub(super) slots: u32,
    pub(super) since: Lsn,
}

impl OverlappedCommit {
    /// The records that cancel them.
    pub(crate) fn abort_records(&self) -> Vec<Record> {
        let most = u32::from(u8::MAX);
        let parts = (0..self.slots).step_by(most as usize);
        parts
            .map(|done| Record::Void {
                slot: SlotNo(self.first.0 + done),
                count: (self.slots - done).min(most) as u8,
                since: self.since,
            })
            .collect()
    }
}

impl<I: Io> Store<I> {
    /// Commits records about `slots` slots while their data is written to these homes, unless too many commits do so, a member
    /// is busy, so that its data would be late and hold up the records of others, or the journal takes no time.
    pub(crate) fn begin_overlapped_commit(
        &self,
        homes: &[ChunkAddr],
        records: impl FnOnce() -> Vec<Record>,
        first: SlotNo,
        slots: u32,
    ) -> Option<OverlappedCommit> {
        let (count, since) = (self.journal.overlapped.get(), self.journal.next());
        let is_any_busy = homes.iter().any(|home| self.members.is_busy(home.member));
        if count >= OVERLAPPED_MAX || is_any_busy || self.journal.on_the_spot.get() {
            return None;
        }
        self.journal.overlapped.set(count + 1);
        let data_status = Rc::default();
        let committed = self.journal.commit_overlapped(records(), &data_status);
        Some(OverlappedCommit { data_status, committed, first, slots, since })
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
        self.set_data_status(&overlapped.data_status, true);
        self.apply_ready();
        overlapped.committed.await
    }

    /// Cancels a commit whose data is late or failed to be written. No flush counts before the abort record is
    /// durable, too, since recovery trusts what is flushed.
    pub(crate) fn abort(self: &Rc<Self>, overlapped: Option<OverlappedCommit>) {
        let Some(overlapped) = overlapped else { return };
        self.set_data_status(&overlapped.data_status, false);
        if overlapped.data_status.recorded.get() {
            self.io.mark(Mark::RecordVoided);
            if !mutation::on(Mutation::ForgetVoid) {
                self.commit_marks(overlapped.abort_records());
            }
        } else {
            self.io.mark(Mark::RecordWithdrawn);
        }
        self.apply_ready();
    }

    /// Waits until no record that was cancelled by now counts after a crash, so that the write it was of may be refused.
    ///
    /// # Errors
    /// As for [`Store::flush`].
    pub(crate) async fn settle_aborted(&self) -> Result<(), VolumeError> {
        if mutation::on(Mutation::RefuseUnsettled) {
            return Ok(());
        }
        // The first one waits until the abort records are written, the second one makes them durable.
        self.flush().await?;
        self.flush().await
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
