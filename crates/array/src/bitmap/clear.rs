//! Sweeping: regions that were not written for a while are marked as clean, so that a crash leaves little to resync, and a
//! member that is lost little to rebuild.
//!
//! Not at once: each mark costs a flush before the first write, which whoever writes here and there would pay every time.

use std::rc::Rc;

use sinew_core::coverage::Mark;
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;

use crate::ArrayShard;

/// A region is clean once it was not written for one to two of these. (md's bitmap: 5 s, `--delay` in mdadm(8).)
const PERIOD_NS: u64 = 1_000_000_000;

impl<I: Io> ArrayShard<I> {
    /// Sweeps as long as there are dirty regions, whenever there are, for ever.
    pub(crate) async fn run_sweeper(self: Rc<Self>) {
        loop {
            self.sweeper.kicked().await;
            while self.regions.borrow().dirty().any() && !self.failed.get() {
                self.io.sleep(PERIOD_NS).await;
                if self.closing.get() {
                    break;
                }
                // What cannot be said now is said later; whoever writes hears of the reason.
                let _ = self.sweep().await;
            }
        }
    }

    async fn sweep(&self) -> Result<(), VolumeError> {
        // While clients write, a flush would cost them time; there will be one.
        if self.regions.borrow().rests_unflushed() {
            self.io.mark(Mark::ArraySweepFlushed);
            self.flush().await?;
        }
        self.regions.borrow_mut().clean(false);
        if self.regions.borrow().is_ahead() {
            self.io.mark(Mark::ArraySwept);
            self.log.write_state().await?;
        }
        Ok(())
    }
}
