//! Flush: everything acknowledged so far survives power loss from here on.

use crate::marks::Mark;
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_members::group_flush::{FlushMarks, FlushedShard, GroupFlush, flush_until};
use sinew_members::members::Members;

use crate::journal::Journal;

impl<I: Io> Journal<I> {
    /// Makes durable every change that was acknowledged, and every mark that was made, before this call.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when the array has failed, or when a member that it cannot do without fails.
    pub(crate) async fn flush(&self) -> Result<(), VolumeError> {
        if self.state.has_log() && self.bitmap.regions().has_unwritten_changes() {
            self.log.write_state().await?;
        }
        self.flush_written().await
    }

    /// As [`Journal::flush`], but leaves marks in memory that no group has: it needs no space.
    ///
    /// # Errors
    /// As for [`Journal::flush`].
    pub(crate) async fn flush_written(&self) -> Result<(), VolumeError> {
        let wanted = self.flushes.begun() + 1;
        flush_until(self, || match self.flushes.done() < wanted {
            true if self.state.has_failed() => Err(VolumeError::Failed),
            is_left => Ok(!is_left),
        })
        .await
    }

    /// Whether a flush is under way.
    pub(crate) fn is_flushing(&self) -> bool {
        self.flushes.is_running()
    }
}

impl<I: Io> FlushedShard<I> for Journal<I> {
    /// The last group.
    type Covered = u64;
    const MARKS: FlushMarks = FlushMarks {
        shared: Mark::ArrayFlushShared.name(),
        member_lost: Mark::ArrayFlushMemberLost.name(),
        void: Mark::ArrayFlushVoid.name(),
    };

    fn members(&self) -> &Members<I> {
        self.state.members()
    }

    fn group_flush(&self) -> &GroupFlush {
        &self.flushes
    }

    async fn may_begin(&self) {}

    fn begin(&self) -> u64 {
        self.bitmap.begin_flush();
        self.pinned.begin_flush();
        self.log.last()
    }

    fn end(&self, last: u64) {
        self.bitmap.end_flush();
        self.pinned.end_flush();
        self.log.set_flushed(last);
        self.state.counters().flushes.add(1);
    }
}
