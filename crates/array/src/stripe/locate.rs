//! Losses: blocks of the volume without a good copy. When a stripe could not be read, by a client or in the background, a task
//! looks for the blocks that are lost, one by one.
//!
//! A block is lost while its members are there and do not give it. It is no longer lost when it is written or discarded, or
//! when the task finds it readable. Blocks that were given up (`give_up`) are lost until they are written or discarded.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_format::model::form::Form;

use crate::stripe::Stripes;
use crate::stripe::part::UnitRun;

/// Blocks kept; more are found again once these are written or read well.
const BLOCKS_MAX: usize = 4096;
/// Pause between searches, so that work that is tried again and again does not cause one each time.
const PAUSE_NS: u64 = 1_000_000_000;

impl<I: Io> Stripes<I> {
    /// The lost blocks, as the shard numbers them.
    pub(crate) fn lost_blocks(&self) -> Vec<u64> {
        let mut lost = self.losses.lost.borrow().clone();
        lost.extend(self.bitmap.regions().given_up().blocks());
        lost.into_iter().collect()
    }

    /// Blocks were written or discarded; returns whether one of them was lost.
    pub(crate) fn forget_lost(&self, local: u64, count: u64) -> bool {
        let mut lost = self.losses.lost.borrow_mut();
        if lost.is_empty() {
            return false;
        }
        let before = lost.len();
        lost.retain(|block| !(local..local + count).contains(block));
        lost.len() < before
    }

    /// A stripe was read well: if blocks of it are lost, they are looked at again.
    pub(crate) fn note_read_well(&self, stripe: u64) {
        let layout = self.state.layout();
        let is_of_stripe = |&block: &u64| layout.runs(block, 1).any(|run| run.stripe == stripe);
        if self.losses.lost.borrow().iter().any(is_of_stripe) {
            self.losses.suspect(stripe);
        }
    }

    /// Looks for lost blocks in the stripes that could not be read, for ever.
    pub(crate) async fn run_locating(self: Rc<Self>) {
        loop {
            self.losses.work.kicked().await;
            let suspects = std::mem::take(&mut *self.losses.suspects.borrow_mut());
            for stripe in suspects {
                if self.state.is_closing() {
                    return;
                }
                self.state.yield_stripe_to_clients(stripe).await;
                self.locate_losses(stripe).await;
            }
            self.state.io().sleep(PAUSE_NS).await;
        }
    }

    async fn locate_losses(&self, stripe: u64) {
        let _lock = self.locks.exclusive(stripe).await;
        let (layout, version) = (self.state.layout(), self.state.members().version());
        // A growth may have taken the stripe away meanwhile.
        if self.state.has_failed() || stripe >= layout.stripes || !self.has_enough_members(stripe) {
            return;
        }
        let mut bad: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
        for unit in layout.units(stripe, self.form(stripe)) {
            bad.insert(unit, self.bad_offsets(stripe, unit).await);
        }
        let is_bad = |unit: usize, offset: u32| bad[&unit].contains(&offset);
        let is_lost = |column: usize, offset: u32| match self.form(stripe) {
            Form::Empty => false,
            Form::Mirrored => layout.column_units(stripe, column).all(|unit| is_bad(unit, offset)),
            Form::Parity => {
                let (k, width) = (layout.columns(stripe), layout.width(stripe));
                let lost = (0..k).filter(|&unit| is_bad(unit, offset)).count();
                let parity = (k..width).filter(|&unit| !is_bad(unit, offset)).count();
                is_bad(column, offset) && lost > parity
            }
        };
        if self.state.has_failed() {
            return;
        }
        if self.state.members().version() != version {
            self.losses.suspect(stripe);
            return;
        }
        let mut lost = self.losses.lost.borrow_mut();
        for (column, offset) in (0..layout.columns(stripe))
            .flat_map(|column| (0..layout.chunk_blocks).map(move |at| (column, at)))
        {
            let slot = column as u32 * layout.chunk_blocks + offset;
            let Some(block) = layout.local(stripe, slot) else { continue };
            // What the journal has is read from there, and is brought here later.
            let in_journal = self.journal.dirty().range(stripe, slot, 1).next().is_some();
            if in_journal || !is_lost(column, offset) {
                lost.remove(&block);
            } else if lost.len() < BLOCKS_MAX && !mutation::on(Mutation::ForgetLostBlocks) {
                lost.insert(block);
            }
        }
    }

    /// The blocks of a unit that cannot be read: all of them if its member is out, or the unit stale there. The fewer reads fail
    /// for this the better, since members with many errors are taken out.
    async fn bad_offsets(&self, stripe: u64, unit: usize) -> BTreeSet<u32> {
        let chunk_blocks = self.state.layout().chunk_blocks;
        if !self.is_readable(stripe, unit) {
            return (0..chunk_blocks).collect();
        }
        let (mut bad, mut left) = (BTreeSet::new(), vec![(0, chunk_blocks)]);
        while let Some((offset, blocks)) = left.pop() {
            if self.read_unit(stripe, UnitRun { unit, offset, blocks }).await.is_ok() {
                continue;
            }
            match blocks / 2 {
                0 => drop(bad.insert(offset)),
                half => left.extend([(offset + half, blocks - half), (offset, half)]),
            }
        }
        bad
    }

    /// Whether the members that are there suffice to read everything: what is on members that are out is not lost.
    fn has_enough_members(&self, stripe: u64) -> bool {
        match self.form(stripe) {
            Form::Empty => true,
            Form::Mirrored => self.has_copy_of_each(stripe, &[]),
            Form::Parity => {
                let health = self.health(stripe, &[]);
                health.parity_for(health.lost_data()).is_ok()
            }
        }
    }
}
