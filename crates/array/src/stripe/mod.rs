//! Stripes of an array: their locks and barrier, reading them, and the one way to change them.
//!
//! A task that changes a stripe, or that computes with more than one of its units, holds the stripe's lock.

mod admission;
mod barrier;
mod compare;
mod compressibility;
mod convert;
mod discard;
mod estimate;
mod first_write;
mod form;
mod give_up;
mod hedged;
mod locate;
pub(crate) mod locks;
mod losses;
mod parity_plan;
pub(crate) mod part;
mod places;
mod read;
mod reconstruct;
mod resync;
mod units;
mod unplaced;
pub(crate) mod update;

use std::rc::Rc;

use sinew_core::io::Io;
use sinew_format::model::form::Form;
use sinew_members::hedged_read::ReadSlots;

use crate::bitmap::Bitmap;
use crate::forms::Forms;
use crate::journal::Journal;
use crate::md_dirty::MdDirty;
use crate::state::ShardState;
use crate::stripe::barrier::Barrier;
use crate::stripe::compressibility::MeanCompressibility;
use crate::stripe::locks::{StripeLock, StripeLocks};
use crate::stripe::losses::Losses;
use crate::stripe::part::StripePart;
use crate::stripe::unplaced::Unplaced;

/// The stripes of a shard.
pub(crate) struct Stripes<I> {
    state: Rc<ShardState<I>>,
    bitmap: Rc<Bitmap<I>>,
    forms: Rc<Forms<I>>,
    journal: Rc<Journal<I>>,
    md_dirty: Rc<MdDirty<I>>,
    locks: StripeLocks,
    barrier: Barrier,
    unplaced: Unplaced,
    losses: Losses,
    compressibility: MeanCompressibility,
    read_slots: ReadSlots<Stripes<I>, StripePart, usize>,
}

impl<I: Io> Stripes<I> {
    /// No stripe is locked.
    pub(crate) fn new(
        state: &Rc<ShardState<I>>,
        bitmap: &Rc<Bitmap<I>>,
        forms: &Rc<Forms<I>>,
        journal: &Rc<Journal<I>>,
        md_dirty: &Rc<MdDirty<I>>,
    ) -> Stripes<I> {
        Stripes {
            state: Rc::clone(state),
            bitmap: Rc::clone(bitmap),
            forms: Rc::clone(forms),
            journal: Rc::clone(journal),
            md_dirty: Rc::clone(md_dirty),
            locks: StripeLocks::default(),
            barrier: Barrier::default(),
            unplaced: Unplaced::default(),
            losses: Losses::default(),
            compressibility: MeanCompressibility::default(),
            read_slots: ReadSlots::default(),
        }
    }

    /// Locks a stripe to change it.
    pub(crate) async fn lock_exclusive(&self, stripe: u64) -> StripeLock<'_> {
        self.locks.exclusive(stripe).await
    }

    /// The form of a stripe. It changes only under the stripe's lock.
    pub(crate) fn form(&self, stripe: u64) -> Form {
        self.forms.get(stripe)
    }

    /// A client's request uses a stripe.
    pub(crate) fn note_use(&self, stripe: u64, writes: bool) {
        if self.state.layout().is_elastic() {
            self.forms.note_use(stripe, writes);
        }
    }

    /// Notes that a client's write waits for physical space, which stripes can give up.
    pub(crate) fn note_waiting(&self, blocks: u64) {
        if self.state.layout().is_elastic() {
            self.forms.note_waiting(blocks);
        }
    }

    /// Blocks of the journal that are not in their places.
    pub(crate) fn blocks_to_place(&self) -> u64 {
        self.journal.dirty().len()
    }

    /// Stripes that are locked, or for which a task waits.
    pub(crate) fn locked(&self) -> usize {
        self.locks.count()
    }
}
