//! Stripe locks: a stripe is used by any number of requests, or by one background job alone.

use std::rc::Rc;

use crate::store::Store;
use crate::store::stripe_use::StripeUse;
use sinew_core::ids::StripeId;
use sinew_core::io::Io;

/// A stripe held by background work alone.
pub(crate) struct StripeLock<I: Io> {
    store: Rc<Store<I>>,
    stripe: StripeId,
}

impl<I: Io> StripeLock<I> {
    /// The stripe.
    pub(crate) fn stripe(&self) -> StripeId {
        self.stripe
    }
}

impl<I: Io> Drop for StripeLock<I> {
    fn drop(&mut self) {
        self.store.users.borrow_mut().remove(&self.stripe);
        if self.store.tables.borrow().stripe(self.stripe).live == 0 {
            self.store.emptied.borrow_mut().insert(self.stripe);
            self.store.wakeups.reclaim.kick();
        }
    }
}

impl<I: Io> Store<I> {
    /// Uses a stripe together with others; background work keeps off until `unshare`.
    pub(crate) fn share(&self, stripe: StripeId) {
        match self.users.borrow_mut().entry(stripe).or_insert(StripeUse::Shared(0)) {
            StripeUse::Shared(count) => *count += 1,
            StripeUse::Alone => unreachable!("no request writes to a stripe that background work has locked"),
        }
    }

    /// Ends a `share`.
    pub(crate) fn unshare(&self, stripe: StripeId) {
        let mut users = self.users.borrow_mut();
        match users.get_mut(&stripe) {
            Some(StripeUse::Shared(1)) => {
                users.remove(&stripe);
                drop(users);
                self.emptied.borrow_mut().insert(stripe);
                self.wakeups.reclaim.kick();
            }
            Some(StripeUse::Shared(count)) => *count -= 1,
            _ => unreachable!("not shared"),
        }
    }

    /// Whether requests or background work use the stripe, or it is being made.
    pub(crate) fn in_use(&self, stripe: StripeId) -> bool {
        self.has_users(stripe) || self.is_opening(stripe)
    }

    /// Locks a stripe for one background job, unless it is in use or still being opened.
    pub(crate) fn lock_stripe(self: &Rc<Self>, stripe: StripeId) -> Option<StripeLock<I>> {
        if self.in_use(stripe) {
            return None;
        }
        self.users.borrow_mut().insert(stripe, StripeUse::Alone);
        Some(StripeLock { store: Rc::clone(self), stripe })
    }

    /// Whether requests or a background job use the stripe.
    pub(crate) fn has_users(&self, stripe: StripeId) -> bool {
        self.users.borrow().contains_key(&stripe)
    }

    /// Whether the record that opens a stripe is to come, or is not applied yet.
    pub(crate) fn is_opening(&self, stripe: StripeId) -> bool {
        self.opening.borrow().contains_key(&stripe)
    }

    /// Stripes that are used or being opened.
    pub(crate) fn stripes_in_use(&self) -> usize {
        self.users.borrow().len() + self.opening.borrow().len()
    }
}
