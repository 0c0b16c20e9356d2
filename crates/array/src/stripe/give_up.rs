//! Giving up blocks: a stripe with parity in which too many blocks of one offset are lost can be written again.
//!
//! Parity stands for all data of its offset. While the content of a block is unknown that is not written, none can be computed.
//! If that content is lost for good, the block is *given up*: zeros stand in for it, in its place and in the parity, and the
//! stripe has all its redundancy again. The list of these blocks is durable before any zeros are written, and reads of them fail
//! until a client writes or discards them.
//!
//! - Content is not lost while members that are out, and not stale in the stripe's region, could give it together with the
//!   others. Without a journal a write is refused then; with one it stays in the journal until that is to be emptied (`may_wait`).
//! - With a journal the zeros are appended to the log like data of clients, and go to their place with it, so a crash finds them
//!   whole.
//! - Without one, a crash may leave any of the writes to an offset undone, and what a resync makes of a lost block then is not its
//!   content. So lost blocks that the request writes are given up as well, until they are written durably.
//! - Arrays of md have no log that could hold the list. Nothing is given up there.

use std::ops::Range;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::model::form::Form;

use crate::stripe::Stripes;
use crate::stripe::parity_plan::{Health, plan_parity};
use crate::stripe::part::UnitRun;

/// The blocks of a stripe, as slots, that must be given up for others to be written.
#[derive(Default)]
struct Doomed {
    /// Those that are not written.
    unwritten: Vec<u32>,
    /// Lost ones that are.
    written: Vec<u32>,
}

impl<I: Io> Stripes<I> {
    /// Whether one of these blocks was given up.
    pub(crate) fn is_given_up(&self, blocks: Range<u64>) -> bool {
        self.bitmap.regions().given_up().any(blocks)
    }

    /// Whether the block of one of these slots of a stripe was given up.
    pub(super) fn is_slot_given_up(&self, stripe: u64, slots: impl IntoIterator<Item = u32>) -> bool {
        let layout = self.state.layout();
        let mut blocks = slots.into_iter().filter_map(|slot| layout.local(stripe, slot));
        blocks.any(|block| self.is_given_up(block..block + 1))
    }

    /// Changes whenever blocks are given up, or have content again.
    pub(crate) fn given_up_version(&self) -> u64 {
        self.bitmap.regions().given_up().version()
    }

    /// Blocks have content again, durably, in case they were given up.
    pub(crate) fn restore(&self, blocks: Range<u64>) {
        self.bitmap.restore(blocks);
    }

    /// Gives up the blocks without which these slots of a stripe cannot be written, `max` at most, durably; returns their slots.
    /// None if all can be read now. The caller holds the stripe's lock, exclusively.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when members that are out may have the content and `may_wait`, when too many blocks are given up,
    /// or when the array has failed.
    pub(crate) async fn give_up(
        &self,
        stripe: u64,
        slots: &[u32],
        may_wait: bool,
        max: usize,
    ) -> Result<Vec<u32>, VolumeError> {
        if !self.state.has_log() || self.form(stripe) != Form::Parity || self.state.is_read_only() {
            return Err(VolumeError::Failed);
        }
        let version = self.state.members().version();
        let mut doomed = self.doomed(stripe, slots, may_wait).await?;
        if self.state.members().version() != version {
            // A member with many errors went out: it is to be looked at again.
            return Err(VolumeError::Failed);
        }
        doomed.unwritten.truncate(max);
        if doomed.unwritten.is_empty() {
            return Ok(Vec::new());
        }
        let layout = self.state.layout();
        // With a journal the content of written ones is there.
        let written = doomed.written.iter().filter(|_| !layout.geometry.journal);
        let all = doomed.unwritten.iter().chain(written);
        let blocks: Vec<u64> = all.filter_map(|&slot| layout.local(stripe, slot)).collect();
        if !mutation::on(Mutation::ForgetGivenUp) && !self.bitmap.give_up(&blocks) {
            return Err(VolumeError::Failed);
        }
        if !mutation::on(Mutation::GiveUpUnflushed) {
            self.journal.flush().await?;
        }
        Ok(doomed.unwritten)
    }

    async fn doomed(&self, stripe: u64, slots: &[u32], may_wait: bool) -> Result<Doomed, VolumeError> {
        let layout = self.state.layout();
        let chunk_blocks = layout.chunk_blocks;
        let mut by_offset: Vec<u32> = slots.to_vec();
        by_offset.sort_unstable_by_key(|slot| (slot % chunk_blocks, *slot));
        let mut doomed = Doomed::default();
        for slots in by_offset.chunk_by(|a, b| a % chunk_blocks == b % chunk_blocks) {
            let offset = slots[0] % chunk_blocks;
            let mut bad = Vec::new();
            for unit in 0..layout.width(stripe) {
                let run = UnitRun { unit, offset, blocks: 1 };
                if self.is_readable(stripe, unit) && self.read_unit(stripe, run).await.is_err() {
                    bad.push(unit);
                }
            }
            let health = self.health(stripe, &bad);
            let can_write = |slots: &[u32], health: &Health| plan_parity(slots, chunk_blocks, health).is_ok();
            if can_write(slots, &health) {
                continue;
            }
            if may_wait && can_write(slots, &self.health_with_all(stripe, &bad)) {
                return Err(VolumeError::Failed);
            }
            let lost = (0..health.k).filter(|&column| !health.readable[column]);
            let lost = lost.map(|column| column as u32 * chunk_blocks + offset);
            let (written, unwritten): (Vec<u32>, Vec<u32>) = lost.partition(|slot| slots.contains(slot));
            let mut all = [slots, &unwritten].concat();
            all.sort_unstable();
            if !can_write(&all, &health) {
                return Err(VolumeError::Failed);
            }
            doomed.unwritten.extend(unwritten);
            doomed.written.extend(written);
        }
        Ok(doomed)
    }

    /// As [`Stripes::health`], if the members that are out came back as they are.
    fn health_with_all(&self, stripe: u64, bad: &[usize]) -> Health {
        let (layout, mut health) = (self.state.layout(), self.health(stripe, bad));
        let regions = self.bitmap.regions();
        for unit in 0..layout.width(stripe) {
            let is_stale =
                regions.is_stale(usize::from(layout.member(stripe, unit).0), layout.region(stripe));
            health.readable[unit] |= !health.writable[unit] && !is_stale;
            health.writable[unit] = true;
        }
        health
    }

    /// Blocks with which these can be written in an array without a journal: these, and zeros for those that had to be given up.
    /// The caller holds the stripe's lock, exclusively.
    ///
    /// # Errors
    /// As for [`Stripes::give_up`].
    pub(super) async fn with_given_up(
        &self,
        stripe: u64,
        mut blocks: Vec<(u32, Buf)>,
    ) -> Result<Vec<(u32, Buf)>, VolumeError> {
        let slots: Vec<u32> = blocks.iter().map(|(slot, _)| *slot).collect();
        let given_up = self.give_up(stripe, &slots, true, usize::MAX).await?;
        if given_up.is_empty() {
            // What was unreadable reads well now, or the reason is another one.
            return Err(VolumeError::Failed);
        }
        blocks.extend(given_up.into_iter().map(|slot| (slot, Buf::zeroed(BLOCK_BYTES))));
        blocks.sort_unstable_by_key(|(slot, _)| *slot);
        Ok(blocks)
    }

    /// Slots of a stripe were written in place, in an array without a journal: those that were given up have content again. It is
    /// durable before any state says so.
    ///
    /// # Errors
    /// As for [`Journal::flush`](crate::journal::Journal::flush).
    pub(super) async fn restore_written(&self, stripe: u64, slots: &[u32]) -> Result<(), VolumeError> {
        if self.bitmap.regions().given_up().is_empty()
            || !self.is_slot_given_up(stripe, slots.iter().copied())
        {
            return Ok(());
        }
        self.journal.flush().await?;
        let layout = self.state.layout();
        let blocks = slots.iter().filter_map(|&slot| layout.local(stripe, slot));
        blocks.for_each(|block| self.restore(block..block + 1));
        Ok(())
    }
}
