//! Flush: everything acknowledged so far survives power loss from here on.
//!
//! One flush of the members runs at a time. Callers that come meanwhile share the next one.

use crate::marks::Mark;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;

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
        let rounds = &self.flushes;
        let wanted = rounds.begun.get() + 1;
        while rounds.done.get() < wanted {
            if self.state.has_failed() {
                return Err(VolumeError::Failed);
            }
            if rounds.running.get() {
                self.state.mark(Mark::ArrayFlushShared);
                rounds.signal.wait(|| (!rounds.running.get()).then_some(())).await;
            } else {
                self.flush_members().await?;
            }
        }
        Ok(())
    }

    /// One round: flushes every member written since the last round. The round does not count when a member is lost
    /// meanwhile, since the writes that the member missed must be marked first.
    async fn flush_members(&self) -> Result<(), VolumeError> {
        let rounds = &self.flushes;
        rounds.running.set(true);
        let round = rounds.begun.get() + 1;
        rounds.begun.set(round);
        let (version, last) = (self.state.members().version(), self.log.last());
        self.bitmap.begin_flush();
        self.pinned.begin_flush();
        let written = self.state.members().take_unflushed();
        let mut unflushed = false;
        if !mutation::on(Mutation::SkipFlush) {
            let results = join_all(written.iter().map(|&member| self.state.members().flush(member))).await;
            for (&member, result) in written.iter().zip(results) {
                if let Err(error) = result {
                    self.state.mark(Mark::ArrayFlushMemberLost);
                    self.state.members().report_failure(member, error).await;
                    // An array without redundancy keeps a member that fails.
                    if self.state.members().is_active(member) {
                        self.state.members().set_unflushed(member);
                        unflushed = true;
                    }
                }
            }
        }
        if self.state.members().version() == version && !unflushed {
            self.bitmap.end_flush();
            self.pinned.end_flush();
            self.log.set_flushed(last);
            rounds.done.set(round);
            self.state.counters().flushes.add(1);
        } else {
            self.state.mark(Mark::ArrayFlushVoid);
        }
        rounds.running.set(false);
        rounds.signal.notify();
        if unflushed { Err(VolumeError::Failed) } else { Ok(()) }
    }

    /// Whether a flush is under way.
    pub(crate) fn is_flushing(&self) -> bool {
        self.flushes.is_running()
    }
}
