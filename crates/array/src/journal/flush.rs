//! Flush: everything acknowledged so far survives power loss from here on.
//!
//! One flush of the members runs at a time; whoever asks meanwhile shares the next.

use std::cell::Cell;

use sinew_core::coverage::Mark;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Signal, join_all};
use sinew_core::volume::VolumeError;

use crate::ArrayShard;

/// Rounds of flushing.
#[derive(Default)]
pub(crate) struct Flushing {
    running: Cell<bool>,
    begun: Cell<u64>,
    done: Cell<u64>,
    pub(crate) signal: Signal,
}

impl Flushing {
    /// Whether a flush is under way.
    pub(crate) fn is_running(&self) -> bool {
        self.running.get()
    }
}

impl<I: Io> ArrayShard<I> {
    /// Makes durable all that was acknowledged, and every mark that was made, before this call.
    pub(crate) async fn flush(&self) -> Result<(), VolumeError> {
        if self.has_log() && self.regions.borrow().is_ahead() {
            self.log.write_state().await?;
        }
        let flushing = &self.flushing;
        let wanted = flushing.begun.get() + 1;
        while flushing.done.get() < wanted {
            if self.failed.get() {
                return Err(VolumeError::Failed);
            }
            if flushing.running.get() {
                self.io.mark(Mark::ArrayFlushShared);
                flushing.signal.wait(|| (!flushing.running.get()).then_some(())).await;
            } else {
                self.flush_members().await?;
            }
        }
        Ok(())
    }

    /// One round: flushes every member written since the last. When a member is lost meanwhile the round does not count,
    /// since what it missed must be marked first.
    async fn flush_members(&self) -> Result<(), VolumeError> {
        let flushing = &self.flushing;
        flushing.running.set(true);
        let round = flushing.begun.get() + 1;
        flushing.begun.set(round);
        let (version, last) = (self.members.version(), self.log.last());
        self.regions.borrow_mut().begin_flush();
        let oldest = [self.settling.get(), self.unsettled.take()].into_iter().flatten().min();
        self.settling.set(oldest);
        let written = self.members.take_unflushed();
        let mut unmended = false;
        if !mutation::on(Mutation::SkipFlush) {
            let results = join_all(written.iter().map(|&member| self.members.flush(member))).await;
            for (&member, result) in written.iter().zip(results) {
                if let Err(error) = result {
                    self.io.mark(Mark::ArrayFlushMemberLost);
                    self.members.report_failure(member, error).await;
                    // An array without redundancy keeps its members whatever they do.
                    if self.members.is_active(member) {
                        self.members.set_unflushed(member);
                        unmended = true;
                    }
                }
            }
        }
        if self.members.version() == version && !unmended {
            self.regions.borrow_mut().end_flush();
            self.settling.set(None);
            self.log.set_flushed(last);
            flushing.done.set(round);
            self.counters.flushes.add(1);
        } else {
            self.io.mark(Mark::ArrayFlushVoid);
        }
        flushing.running.set(false);
        flushing.signal.notify();
        if unmended { Err(VolumeError::Failed) } else { Ok(()) }
    }
}
