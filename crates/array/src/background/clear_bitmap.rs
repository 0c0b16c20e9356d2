//! Clearing dirty bits of regions that were not written for a while, so that a crash leaves little to resync and a lost member
//! little to rebuild.
//!
//! Not at once: each mark costs a flush before the first write, which scattered writes would otherwise pay every time.

use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;

use crate::bitmap::Bitmap;
use crate::journal::Journal;
use crate::state::ShardState;

/// A region is clean once it was not written for one to two periods. (md's bitmap: 5 s, `--delay` in mdadm(8).)
const PERIOD_NS: u64 = 1_000_000_000;

/// Clears the dirty bits of a shard.
pub(crate) struct BitmapClearing<I> {
    state: Rc<ShardState<I>>,
    bitmap: Rc<Bitmap<I>>,
    journal: Rc<Journal<I>>,
}

impl<I: Io> BitmapClearing<I> {
    /// The job, not yet running.
    pub(crate) fn new(
        state: &Rc<ShardState<I>>,
        bitmap: &Rc<Bitmap<I>>,
        journal: &Rc<Journal<I>>,
    ) -> BitmapClearing<I> {
        BitmapClearing { state: Rc::clone(state), bitmap: Rc::clone(bitmap), journal: Rc::clone(journal) }
    }

    /// Clears whenever there are dirty regions, for ever.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.bitmap.wait_for_dirty().await;
            while self.bitmap.regions().dirty().any() && !self.state.has_failed() {
                self.state.io().sleep(PERIOD_NS).await;
                if self.state.is_closing() {
                    break;
                }
                // A failure is tried again; clients' writes report its reason.
                let _ = self.clear().await;
            }
        }
    }

    async fn clear(&self) -> Result<(), VolumeError> {
        if !self.journal.has_room_for_states() {
            return Ok(());
        }
        // While clients write, a flush would cost them time, and one will come.
        if self.bitmap.regions().is_idle_unflushed() {
            self.state.mark(Mark::ArraySweepFlushed);
            self.journal.flush().await?;
        }
        self.bitmap.clear_idle(false);
        if self.bitmap.regions().has_unwritten_changes() {
            self.state.mark(Mark::ArraySwept);
            self.journal.write_state().await?;
        }
        Ok(())
    }
}
