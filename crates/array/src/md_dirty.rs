//! The dirty flag of md's superblocks.
//!
//! An array of md has no log, so regions are not marked one by one. Instead md's superblocks say of the whole array that it
//! is being written: from before the first write until a while after the last one.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::io::Io;
use sinew_core::volume::VolumeError;

use crate::bitmap::Bitmap;
use crate::journal::Journal;
use crate::state::ShardState;

/// The dirty flag as a shard knows it.
pub(crate) struct MdDirty<I> {
    state: Rc<ShardState<I>>,
    bitmap: Rc<Bitmap<I>>,
    journal: Rc<Journal<I>>,
    /// The superblocks say that the array is being written, and keep saying so until this shard agrees that it is not.
    declared: Cell<bool>,
    /// Something was written since the control last asked.
    recent: Cell<bool>,
}

impl<I: Io> MdDirty<I> {
    /// The flag is not set yet.
    pub(crate) fn new(
        state: &Rc<ShardState<I>>,
        bitmap: &Rc<Bitmap<I>>,
        journal: &Rc<Journal<I>>,
    ) -> MdDirty<I> {
        let (state, bitmap, journal) = (Rc::clone(state), Rc::clone(bitmap), Rc::clone(journal));
        MdDirty { state, bitmap, journal, declared: Cell::new(false), recent: Cell::new(false) }
    }

    /// Sets the flag, durably, before a write. The caller has counted its region as in use.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when the flag cannot be set.
    pub(crate) async fn declare_write(&self) -> Result<(), VolumeError> {
        self.recent.set(true);
        if !self.declared.get() {
            if !self.state.members().report_write().await {
                return Err(VolumeError::Failed);
            }
            self.declared.set(true);
        }
        Ok(())
    }

    /// Flushes, and returns whether the flag may be cleared: nothing is being written, nothing awaits a resync, and unless
    /// `now`, nothing was written since the last call. After `true` the next write sets the flag again.
    ///
    /// # Errors
    /// As for [`Journal::flush`].
    pub(crate) async fn become_clean(&self, now: bool) -> Result<bool, VolumeError> {
        let recent = self.recent.take();
        if (recent && !now) || self.is_busy() {
            return Ok(false);
        }
        self.journal.flush().await?;
        let clean = !self.is_busy() && !self.recent.get();
        if clean {
            self.declared.set(false);
        }
        Ok(clean)
    }

    fn is_busy(&self) -> bool {
        let regions = self.bitmap.regions();
        regions.in_use() > 0 || regions.unsynced().any()
    }
}
