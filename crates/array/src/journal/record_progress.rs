//! Recording the progress of long work on the members.
//!
//! A growth of chunks is recorded in three steps: flush the chunks that have moved, write a state group, flush that. A
//! chunk that has moved since the last record may be written only after the next one (*lazy checkpoint*, FastScale, FAST
//! '11, section 3.2), and other shards may overwrite its former place only once they hear of it.

use crate::marks::Mark;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_members::message::ShardEvent;

use crate::bitmap::regions::LongWork;
use crate::journal::Journal;

impl<I: Io> Journal<I> {
    /// The progress of long work that a state group may tell.
    pub(crate) fn long_work(&self) -> LongWork {
        let layout = self.state.layout();
        let growing = layout.growth().is_some() || layout.changing().is_some();
        LongWork {
            scrub: self.progress.scrub_next(),
            moved: if growing { self.progress.flushed.get() } else { 0 },
            moving_to: if growing { layout.geometry.members() as u8 } else { 0 },
        }
    }

    /// Every shard has recorded that everything below `key` has moved, in the growth to `to` members.
    pub(crate) fn moved_everywhere(&self, to: usize, key: u64) {
        if self.state.layout().geometry.members() == to {
            self.progress.everywhere.set(key);
        }
        self.progress.signal.notify();
    }

    /// Records on the members that everything below this key has moved.
    ///
    /// # Errors
    /// As for [`Journal::flush`].
    pub(crate) async fn record_moved(&self, key: u64) -> Result<(), VolumeError> {
        let progress = &self.progress;
        loop {
            if progress.recorded.get() >= key {
                return Ok(());
            }
            if progress.recording.replace(true) {
                progress.signal.wait(|| (!progress.recording.get()).then_some(())).await;
                continue;
            }
            let recorded = self.record().await;
            progress.recording.set(false);
            progress.signal.notify();
            recorded?;
        }
    }

    /// Records on the members how far a growth of chunks has come, if one is under way.
    ///
    /// # Errors
    /// As for [`Journal::flush`].
    pub(crate) async fn record_moves(&self) -> Result<(), VolumeError> {
        let layout = self.state.layout();
        if layout.growth().is_none() {
            return Ok(());
        }
        self.record_moved(layout.moved()).await
    }

    async fn record(&self) -> Result<(), VolumeError> {
        let moved = self.state.layout().moved();
        if !mutation::on(Mutation::RecordUnflushed) {
            self.flush().await?;
        }
        self.progress.flushed.set(moved);
        self.log.write_state().await?;
        self.flush().await?;
        self.progress.recorded.set(moved);
        self.state.mark(Mark::ArrayMoveRecorded);
        // From the report on, other shards may overwrite the places that the chunks have left.
        if !mutation::on(Mutation::ForgetReaders) {
            self.progress.wait_for_unlocked_reads().await;
        }
        self.report_moved().await;
        Ok(())
    }

    /// Reports the recorded progress to the other shards, through the control.
    pub(crate) async fn report_moved(&self) {
        let layout = self.state.layout();
        let key = self.progress.recorded.get();
        let key = layout.changing().map_or(key, |rows| u64::from(key >= rows.end()));
        if layout.geometry.shards == 1 {
            self.progress.everywhere.set(key);
        }
        self.state
            .members()
            .report(ShardEvent::Moved { shard: layout.index, to: layout.geometry.members(), key })
            .await;
    }

    /// To be called before a stripe is written: if it has moved, records that first. The caller holds its lock.
    ///
    /// # Errors
    /// As for [`Journal::flush`].
    pub(crate) async fn record_move_of(&self, stripe: u64) -> Result<(), VolumeError> {
        let layout = self.state.layout();
        let Some(key) = layout.key(stripe) else { return Ok(()) };
        if key >= layout.moved()
            || key < self.progress.recorded.get()
            || mutation::on(Mutation::WriteUnrecorded)
        {
            return Ok(());
        }
        self.state.mark(Mark::ArrayMoveSettled);
        self.record_moved(key + 1).await
    }
}
