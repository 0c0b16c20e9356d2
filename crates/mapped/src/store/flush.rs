//! Flush: everything applied before a flush survives power loss after it.
//!
//! One flush of the members runs at a time; requests that arrive meanwhile share the next one.

use sinew_core::ids::StripeId;
use std::rc::Rc;

use crate::marks::Mark;
use crate::store::Store;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;

/// Journal blocks, or stripes written, after which the shard flushes by itself: it bounds what recovery must verify.
const UNFLUSHED_BLOCKS_MAX: u64 = 64;

const UNFLUSHED_STRIPES_MAX: usize = 128;

impl<I: Io> Store<I> {
    /// Makes durable all that was applied before this call.
    pub(crate) async fn flush(self: &Rc<Self>) -> Result<(), VolumeError> {
        let target = self.journal.applied();
        loop {
            // Even when nothing is left to flush: the next opening may still find a write that failed meanwhile.
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

    /// Whether more is unflushed than recovery should have to verify.
    pub(crate) fn wants_flush(&self) -> bool {
        !self.flush_running.get()
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
        self.flush_running.get()
    }
}
