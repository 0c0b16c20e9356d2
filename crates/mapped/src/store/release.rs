//! The life of a released chunk: from the record that released it until it may be used again.
//!
//! 1. `apply_effects`: a record that releases the chunk is applied. Requests that looked the chunk up before may still
//!    read it.
//! 2. The record becomes durable: `flush`.
//! 3. The last of those requests ends: `epoch_reclaim`.
//! 4. `free_released` gives the chunk back to the allocator. Stripe numbers go the same way.

use std::collections::BTreeSet;

use crate::marks::Mark;
use crate::store::Store;
use crate::store::tables::Effects;
use sinew_core::ids::{Lsn, StripeId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};

impl<I: Io> Store<I> {
    /// What follows from records of block `lsn` having been applied.
    pub(super) fn apply_effects(&self, lsn: Lsn, effects: Effects) {
        if mutation::on(Mutation::ReuseEarly) {
            self.allocator.borrow_mut().give_back(effects.released);
            self.return_stripe_ids(effects.freed);
        } else if !effects.released.is_empty() || !effects.freed.is_empty() {
            self.allocator.borrow_mut().release(lsn, self.epochs.advance(), effects.released, effects.freed);
        }
        if !effects.emptied.is_empty() {
            self.emptied.borrow_mut().extend(effects.emptied);
            self.wakeups.reclaim.kick();
        }
    }

    /// Frees what was released by now durable records and is not read any more.
    pub(crate) fn free_released(&self) {
        let freed = self.allocator.borrow_mut().free_released(self.journal.flushed(), self.epochs.oldest());
        self.return_stripe_ids(freed.stripes);
        if freed.is_read {
            self.io.mark(Mark::ReleaseHeldByReaders);
            self.epochs.kick_when_unpinned(&self.wakeups.reclaim);
        }
        if freed.count > 0 {
            self.wakeups.reclaim.kick();
            self.wakeups.discard.kick();
            self.room.changed().notify();
        }
    }

    /// Stripe numbers that may be used again.
    fn return_stripe_ids(&self, stripes: Vec<StripeId>) {
        let mut tables = self.tables.borrow_mut();
        stripes.iter().for_each(|&stripe| tables.release_slots(stripe));
        drop(tables);
        self.free_ids.borrow_mut().extend(stripes);
    }

    /// A stripe may have no live block any more.
    pub(crate) fn note_emptied(&self, stripe: StripeId) {
        self.emptied.borrow_mut().insert(stripe);
    }

    /// As `note_emptied`, of many stripes.
    pub(crate) fn note_all_emptied(&self, stripes: impl Iterator<Item = StripeId>) {
        self.emptied.borrow_mut().extend(stripes);
    }

    /// Takes the stripes that may have no live block any more.
    pub(crate) fn take_emptied(&self) -> BTreeSet<StripeId> {
        std::mem::take(&mut *self.emptied.borrow_mut())
    }

    /// Stripes that reclaim has not looked at yet.
    pub(crate) fn emptied(&self) -> usize {
        self.emptied.borrow().len()
    }
}
