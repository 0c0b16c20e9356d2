//! Reading blocks from their stripe: from the unit that holds them, or reconstructed when that is lost or fails.
//!
//! There are no checksums: the array believes a member's answer. A unit that cannot be read is reconstructed and rewritten.

use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::model::array_shard_layout::{Run, ShardLayout};
use sinew_format::model::form::Form;
use sinew_members::hedged_read::{self, ReadOutcome};

use crate::stripe::Stripes;
use crate::stripe::part::{StripePart, UnitRun};

impl<I: Io> Stripes<I> {
    /// Reads slots of one chunk from their place.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when too many units of the stripe are lost.
    pub(crate) async fn read_run(self: &Rc<Self>, run: Run) -> Result<Buf, VolumeError> {
        let layout = self.state.layout();
        let (column, offset) = (run.slot / layout.chunk_blocks, run.slot % layout.chunk_blocks);
        let part = UnitRun { unit: column as usize, offset, blocks: run.blocks };
        match self.read_unlocked(&layout, run.stripe, part).await {
            Some((_, Ok(buf))) => Ok(buf),
            Some((unit, Err(_))) => self.read_and_repair(run.stripe, part, unit).await,
            None => {
                let _lock = self.locks.shared(run.stripe).await;
                self.count_reconstruction(self.reconstruct(run.stripe, part, &[]).await)
            }
        }
    }

    /// Reads part of a column from its unit, or from any copy; returns which unit was read, or `None` when all are lost.
    async fn read_unlocked(
        self: &Rc<Self>,
        layout: &ShardLayout,
        stripe: u64,
        part: UnitRun,
    ) -> Option<(usize, Result<Buf, IoError>)> {
        let locked = match layout.manner() {
            Some(manner) if manner.blocks_reads => Some(self.locks.shared(stripe).await),
            _ => None,
        };
        let _read = self.journal.progress().begin_read();
        let unit = match self.form(stripe) {
            Form::Empty if !mutation::on(Mutation::EmptyReadsDevice) => {
                return Some((part.unit, Ok(Buf::zeroed(part.blocks as usize * BLOCK_BYTES))));
            }
            Form::Empty | Form::Parity => Some(part.unit).filter(|&unit| self.is_readable(stripe, unit)),
            Form::Mirrored => self.least_loaded_copy(stripe, part.unit, &[]),
        }?;
        if !self.state.members().may_be_late() || layout.tolerates() == 0 || locked.is_some() {
            return Some((unit, self.read_unit(stripe, UnitRun { unit, ..part }).await));
        }
        match hedged_read::read(self, StripePart { stripe, run: part }, unit).await {
            ReadOutcome::Primary(result) => Some((unit, result)),
            ReadOutcome::Alternate(buf) => Some((unit, Ok(buf))),
        }
    }

    /// Reconstructs part of a column after its member, or that of a copy, failed to read `unit`, and rewrites it there.
    async fn read_and_repair(&self, stripe: u64, part: UnitRun, unit: usize) -> Result<Buf, VolumeError> {
        let _lock = self.locks.exclusive(stripe).await;
        let content = self.count_reconstruction(self.reconstruct(stripe, part, &[unit]).await)?;
        // A change of form may have made the unit unused meanwhile.
        if self.state.layout().units(stripe, self.form(stripe)).contains(&unit) {
            self.repair(stripe, UnitRun { unit, ..part }, &content).await;
        }
        Ok(content)
    }

    fn count_reconstruction(&self, result: Result<Buf, VolumeError>) -> Result<Buf, VolumeError> {
        match &result {
            Ok(_) => {
                self.state.mark(Mark::ArrayReconstructed);
                self.state.counters().reconstructed_reads.add(1);
            }
            Err(_) => {
                self.state.mark(Mark::ArrayReadLost);
                self.state.counters().failed_reads.add(1);
            }
        }
        result
    }

    /// As [`Stripes::read_locked`], but blocks that were given up have no content.
    ///
    /// # Errors
    /// As for [`Stripes::read_run`].
    pub(crate) async fn read_content(&self, run: Run) -> Result<Buf, VolumeError> {
        if self.is_slot_given_up(run.stripe, run.slot..run.slot + run.blocks) {
            return Err(VolumeError::Failed);
        }
        self.read_locked(run).await
    }

    /// As `read_run`, for a caller that holds the stripe's lock.
    ///
    /// # Errors
    /// As for [`Stripes::read_run`].
    pub(crate) async fn read_locked(&self, run: Run) -> Result<Buf, VolumeError> {
        let (column, offset) =
            (run.slot / self.state.layout().chunk_blocks, run.slot % self.state.layout().chunk_blocks);
        let part = UnitRun { unit: column as usize, offset, blocks: run.blocks };
        self.reconstruct(run.stripe, part, &[]).await
    }
}
