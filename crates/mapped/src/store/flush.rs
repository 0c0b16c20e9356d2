//! Flush: everything applied so far survives power loss from here on.
//!
//! One flush of the members runs at a time; whoever asks meanwhile shares the next.

use std::rc::Rc;

use crate::shard::MappedShard;
use sinew_core::coverage::Mark;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;

/// Journal blocks, or stripes written, after which the shard flushes by itself: it bounds what recovery must verify.
const UNFLUSHED_BLOCKS_MAX: u64 = 64;
const UNFLUSHED_STRIPES_MAX: usize = 128;

impl<I: Io> MappedShard<I> {
    /// Makes durable all that was applied before this call.
    pub(crate) async fn flush(self: &Rc<Self>) -> Result<(), VolumeError> {
        let target = self.journal.applied();
        loop {
            // Even when nothing is left to flush: a write that failed meanwhile may yet be found by the next opening.
            if !self.members.any_active() {
                self.io.mark(Mark::FlushRefused);
                return Err(VolumeError::Failed);
            }
            if self.journal.flushed() >= target && self.marks_pending.get() == 0 {
                return Ok(());
            }
            if self.flush_running.get() {
                self.io.mark(Mark::FlushShared);
                self.flushed.wait(|| (!self.flush_running.get()).then_some(())).await;
            } else {
                self.flush_members().await;
            }
        }
    }

    /// One round: flushes every member written since the last. When a member is lost meanwhile the round does not count,
    /// since what it missed must be marked first; nor does it when there is no member left to be flushed.
    pub(crate) async fn flush_members(self: &Rc<Self>) -> bool {
        self.flush_running.set(true);
        self.flushed.wait(|| (self.marks_pending.get() == 0).then_some(())).await;
        let (version, applied) = (self.members.version(), self.journal.applied());
        let covered = std::mem::take(&mut *self.unflushed_stripes.borrow_mut());
        self.flushing_stripes.borrow_mut().extend(covered);
        let mut written = self.members.take_unflushed();
        if mutation::on(Mutation::FlushAround) {
            written.retain(|&member| self.members.responds(member));
        }
        if !mutation::on(Mutation::SkipFlush) {
            let results = join_all(written.iter().map(|&member| self.members.flush(member))).await;
            for (&member, result) in written.iter().zip(results) {
                if let Err(error) = result {
                    self.io.mark(Mark::FlushMemberLost);
                    self.members.report_failure(member, error).await;
                }
            }
        }
        let counts = self.members.version() == version && self.members.any_active();
        if counts {
            self.flushing_stripes.borrow_mut().clear();
            self.journal.set_flushed(applied);
            self.counters.flushes.add(1);
            self.reclaim();
        } else {
            self.io.mark(Mark::FlushVoid);
        }
        self.flush_running.set(false);
        self.flushed.notify();
        counts
    }

    /// Makes durable every page written before this call; false when a member was lost meanwhile, or none is left.
    pub(crate) async fn flush_pages(self: &Rc<Self>) -> bool {
        self.flushed.wait(|| (!self.flush_running.get()).then_some(())).await;
        let version = self.members.version();
        self.flush_members().await && self.members.version() == version
    }

    /// Frees what was released by now durable records and is not read any more.
    pub(crate) fn reclaim(&self) {
        let freed = self.space.borrow_mut().reclaim(self.journal.flushed(), self.eras.oldest());
        self.take_free_ids(freed.stripes);
        if freed.is_read {
            self.io.mark(Mark::ReleaseHeldByReaders);
            self.eras.when_left(&self.keeper);
        }
        if freed.count > 0 {
            self.keeper.kick();
            self.trimmer.kick();
            self.space_changed.notify();
        }
    }

    /// Whether so much is unflushed that recovery would have much to verify.
    pub(crate) fn wants_flush(&self) -> bool {
        !self.flush_running.get()
            && (self.journal.applied() - self.journal.flushed() > UNFLUSHED_BLOCKS_MAX
                || self.unflushed_stripes.borrow().len() > UNFLUSHED_STRIPES_MAX)
    }
}
