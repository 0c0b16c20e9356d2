//! The end of recovery, on the assembled shard: nothing is left in the journal, and no region is in doubt.

use crate::marks::Mark;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;

use crate::bitmap::Bitmap;
use crate::journal::Journal;
use crate::state::ShardState;
use crate::stripe::Stripes;

/// Resyncs the regions in doubt, and destages the journal where there is one.
///
/// # Errors
/// As for [`Journal::destage_all`].
pub(crate) async fn finish<I: Io>(
    state: &ShardState<I>,
    bitmap: &Bitmap<I>,
    journal: &Journal<I>,
    stripes: &Stripes<I>,
) -> Result<(), VolumeError> {
    // A failed array is read as far as possible, and not written. An array without a log has nothing to finish.
    if state.has_failed() || !state.has_log() {
        return Ok(());
    }
    let in_doubt: Vec<usize> = bitmap.regions().in_doubt().ones().collect();
    // In use until they are resynced, so that no state says that they are clean.
    let uses: Vec<_> = in_doubt.iter().map(|&region| bitmap.use_region(region)).collect();
    for &region in &in_doubt {
        state.mark(Mark::ArrayRecoverResynced);
        if !mutation::on(Mutation::SkipResync) {
            stripes.resync_region(region).await;
        }
        bitmap.end_doubt(region);
    }
    drop(uses);
    if !journal.dirty().is_empty() {
        state.mark(Mark::ArrayRecoverDrained);
    }
    match journal.destage_all().await {
        // It stays in the log, and is read from there.
        Err(VolumeError::NoSpace) => Ok(()),
        // Likewise what belongs to stripes with lost blocks, whose new parity cannot be computed.
        Err(VolumeError::Failed) if !state.has_failed() => Ok(()),
        destaged => destaged,
    }
}
