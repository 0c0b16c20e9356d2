//! A shard of an array of md's: it has no log, so nothing is marked region by region. Instead md's superblocks say of the
//! whole array that it is being written, before the first write and until a while after the last.

use std::cell::Cell;

use sinew_core::io::Io;
use sinew_core::volume::VolumeError;

use crate::ArrayShard;

/// What a shard knows of md's superblocks.
#[derive(Default)]
pub(crate) struct Writing {
    /// They say that the array is being written, and will until this shard agrees that it is not.
    declared: Cell<bool>,
    /// Something was written since the control asked last.
    recent: Cell<bool>,
}

impl<I: Io> ArrayShard<I> {
    /// Has md's superblocks say that the array is being written. The caller has its region in use.
    pub(crate) async fn declare_write(&self) -> Result<(), VolumeError> {
        self.writing.recent.set(true);
        if !self.writing.declared.get() {
            if !self.members.report_write().await {
                return Err(VolumeError::Failed);
            }
            self.writing.declared.set(true);
        }
        Ok(())
    }

    /// Whether nothing is being written, unless something was since the last time and it need not be `now`, and nothing
    /// awaits a resync. If so, all that was written is durable, and the next write is declared again.
    pub(crate) async fn rest(&self, now: bool) -> Result<bool, VolumeError> {
        let recent = self.writing.recent.take();
        if (recent && !now) || self.is_busy() {
            return Ok(false);
        }
        self.flush().await?;
        let rests = !self.is_busy() && !self.writing.recent.get();
        if rests {
            self.writing.declared.set(false);
        }
        Ok(rests)
    }

    fn is_busy(&self) -> bool {
        let regions = self.regions.borrow();
        regions.in_use() > 0 || regions.uneven().any()
    }
}
