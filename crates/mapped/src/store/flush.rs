//! Flush: everything applied before a flush survives power loss after it.

use crate::marks::Mark;
use crate::store::Store;
use sinew_core::ids::{Lsn, StripeId};
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_members::group_flush::{self, FlushMarks, FlushedShard, GroupFlush, flush_until};
use sinew_members::members::Members;

/// Journal blocks, or stripes written, after which the shard flushes by itself: it bounds what recovery must verify.
const UNFLUSHED_BLOCKS_MAX: u64 = 64;

const UNFLUSHED_STRIPES_MAX: usize = 128;

impl<I: Io> Store<I> {
    /// Makes durable all that was applied before this call.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when no member is left, even if nothing is left to flush: the next opening may still find a
    /// write that failed meanwhile.
    pub(crate) async fn flush(&self) -> Result<(), VolumeError> {
        let target = self.journal.applied();
        flush_until(self, || {
            if !self.members.any_active() {
                self.io.mark(Mark::FlushRefused);
                return Err(VolumeError::Failed);
            }
            Ok(self.journal.flushed() >= target && self.marks_pending.get() == 0)
        })
        .await
    }

    /// Flushes every member written since the last flush began; returns whether the flush counts. No other may be running.
    pub(crate) async fn flush_members(&self) -> bool {
        group_flush::flush_members(self).await == Ok(true)
    }

    /// Makes durable every page written before this call; false when a member was lost meanwhile, or none is left.
    pub(crate) async fn flush_pages(&self) -> bool {
        self.group_flush.wait_until_idle().await;
        let version = self.members.version();
        self.flush_members().await && self.members.version() == version
    }

    /// Whether more is unflushed than recovery should have to verify.
    pub(crate) fn wants_flush(&self) -> bool {
        !self.group_flush.is_running()
            && (self.journal.applied() - self.journal.flushed() > UNFLUSHED_BLOCKS_MAX
                || self.unflushed_stripes.borrow().len() > UNFLUSHED_STRIPES_MAX)
    }

    /// A stripe is being written, or was: the next flush has to cover it.
    pub(crate) fn note_unflushed(&self, stripe: StripeId) {
        self.unflushed_stripes.borrow_mut().insert(stripe);
    }

    /// Stripes written since the last flush began.
    pub(crate) fn unflushed_stripes(&self) -> usize {
        self.unflushed_stripes.borrow().len()
    }

    /// Commits of stale marks that a flush waits for.
    pub(crate) fn marks_pending(&self) -> u32 {
        self.marks_pending.get()
    }

    pub(crate) fn is_flushing(&self) -> bool {
        self.group_flush.is_running()
    }
}

impl<I: Io> FlushedShard<I> for Store<I> {
    /// The last journal block applied.
    type Covered = Lsn;
    const MARKS: FlushMarks = FlushMarks {
        shared: Mark::FlushShared.name(),
        member_lost: Mark::FlushMemberLost.name(),
        void: Mark::FlushVoid.name(),
    };

    fn members(&self) -> &Members<I> {
        &self.members
    }

    fn group_flush(&self) -> &GroupFlush {
        &self.group_flush
    }

    async fn may_begin(&self) {
        self.group_flush.changed().wait(|| (self.marks_pending.get() == 0).then_some(())).await;
    }

    fn begin(&self) -> Lsn {
        let covered = std::mem::take(&mut *self.unflushed_stripes.borrow_mut());
        self.flushing_stripes.borrow_mut().extend(covered);
        self.journal.applied()
    }

    fn end(&self, applied: Lsn) {
        self.flushing_stripes.borrow_mut().clear();
        self.journal.set_flushed(applied);
        self.counters.flushes.add(1);
        self.free_released();
    }
}
