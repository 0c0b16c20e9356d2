//! Second chance: which stripes clients have used since conversion last looked at them.

use std::cell::RefCell;

use sinew_core::ids::StripeId;

/// A bit for each stripe that clients have used since conversion last looked at it.
#[derive(Default)]
pub(crate) struct SecondChance(RefCell<Vec<u64>>);

impl SecondChance {
    pub(crate) fn note(&self, stripe: StripeId) {
        let (word, bit) = (stripe.0 as usize / 64, 1 << (stripe.0 % 64));
        let mut words = self.0.borrow_mut();
        if word >= words.len() {
            words.resize(word + 1, 0);
        }
        words[word] |= bit;
    }

    /// Whether it was used; it is not any more.
    pub(crate) fn take(&self, stripe: StripeId) -> bool {
        let (word, bit) = (stripe.0 as usize / 64, 1 << (stripe.0 % 64));
        let mut words = self.0.borrow_mut();
        let was = words.get(word).is_some_and(|bits| bits & bit != 0);
        if was {
            words[word] &= !bit;
        }
        was
    }
}
