//! Numbers for new stripes.

use crate::store::Store;
use crate::store::chunk_allocator::Purpose;
use sinew_core::ids::StripeId;
use sinew_core::io::Io;

/// Stripe numbers kept back for compaction, which merges short stripes when there are too many.
const STRIPE_IDS_KEPT: u64 = 4;

impl<I: Io> Store<I> {
    /// Numbers that were never used.
    fn unused_ids(&self) -> u64 {
        let all = self.geometry.stripes_max(self.allocator.borrow().all_chunks());
        all.saturating_sub(u64::from(self.next_id.get()))
    }

    /// Whether there are no numbers left but those that are kept back.
    pub(crate) fn are_stripe_ids_short(&self) -> bool {
        self.unused_ids() + self.free_ids.borrow().len() as u64 <= STRIPE_IDS_KEPT
    }

    pub(crate) fn take_stripe_id(&self, purpose: Purpose) -> Option<StripeId> {
        if purpose != Purpose::Internal && self.are_stripe_ids_short() {
            return None;
        }
        // Reclaim may still hold a stripe that it has freed together with others.
        let free = self.free_ids.borrow().iter().copied().find(|&id| !self.in_use(id));
        if let Some(id) = free {
            self.free_ids.borrow_mut().remove(&id);
            return Some(id);
        }
        (self.unused_ids() > 0).then(|| {
            let next = self.next_id.get();
            self.next_id.set(next + 1);
            StripeId(next)
        })
    }

    /// A stripe has its number and chunks; the record that opens it is to follow.
    pub(crate) fn begin_opening(&self, id: StripeId) {
        self.opening.borrow_mut().insert(id, self.members.version());
    }

    /// The record that opens a stripe is applied, or there will be none.
    pub(crate) fn end_opening(&self, id: StripeId) {
        self.opening.borrow_mut().remove(&id);
    }

    /// Gives back a number that was not used.
    pub(crate) fn return_stripe_id(&self, id: StripeId) {
        self.free_ids.borrow_mut().insert(id);
    }
}
