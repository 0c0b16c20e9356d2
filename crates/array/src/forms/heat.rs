//! Heat: which stripes of an elastic array clients have used lately, and how many of their requests find a mirrored stripe
//! (Elastic RAID, 2022, section 3.2).
//!
//! Three bits a stripe, in memory only: whether it was used in the present epoch, in the last one, and in the one before that. An
//! epoch ends when as many stripes have been used as there may be candidates, not after a fixed time: under a high rate of
//! requests every stripe would be used in it, and the bits would tell nothing. A stripe that was used in both epochs that have
//! ended is hot.

use std::cell::{Cell, RefCell};

/// Stripes of a word.
const WORD: u64 = 64;

/// The heat of a shard's stripes.
#[derive(Default)]
pub(crate) struct Heat {
    bits: RefCell<EpochBits>,
    /// Used stripes that end an epoch.
    epoch_stripes: Cell<u64>,
    epochs: Cell<u64>,
    requests: Cell<u64>,
    hits: Cell<u64>,
    writes: Cell<u64>,
}

#[derive(Default)]
struct EpochBits {
    now: Vec<u64>,
    last: Vec<u64>,
    before: Vec<u64>,
    /// Bits of `now` that are set.
    used: u64,
}

fn get(bits: &[u64], stripe: u64) -> bool {
    bits[(stripe / WORD) as usize] >> (stripe % WORD) & 1 == 1
}

fn clear(bits: &mut [u64], stripe: u64) -> bool {
    let (word, bit) = (&mut bits[(stripe / WORD) as usize], 1 << (stripe % WORD));
    let was_set = *word & bit != 0;
    *word &= !bit;
    was_set
}

impl Heat {
    /// No stripe has been used.
    pub(crate) fn new(stripes: u64) -> Heat {
        let words = stripes.div_ceil(WORD) as usize;
        let bits = EpochBits { now: vec![0; words], last: vec![0; words], before: vec![0; words], used: 0 };
        Heat { bits: RefCell::new(bits), epoch_stripes: Cell::new(1), ..Heat::default() }
    }

    /// A client's request uses a stripe, which is mirrored or not.
    pub(crate) fn note(&self, stripe: u64, mirrored: bool, writes: bool) {
        self.requests.set(self.requests.get() + 1);
        self.hits.set(self.hits.get() + u64::from(mirrored));
        self.writes.set(self.writes.get() + u64::from(writes));
        let mut bits = self.bits.borrow_mut();
        let (word, bit) = (&mut bits.now[(stripe / WORD) as usize], 1 << (stripe % WORD));
        if *word & bit != 0 {
            return;
        }
        *word |= bit;
        bits.used += 1;
        if bits.used >= self.epoch_stripes.get() {
            let EpochBits { now, last, before, used } = &mut *bits;
            std::mem::swap(last, before);
            std::mem::swap(now, last);
            now.fill(0);
            *used = 0;
            self.epochs.set(self.epochs.get() + 1);
        }
    }

    /// Lets epochs end when this many stripes have been used.
    pub(crate) fn set_epoch_stripes(&self, stripes: u64) {
        self.epoch_stripes.set(stripes.max(1));
    }

    /// Requests so far, and how many of them used a mirrored stripe. One that uses several stripes counts for each.
    pub(crate) fn requests_and_hits(&self) -> (u64, u64) {
        (self.requests.get(), self.hits.get())
    }

    /// Requests so far that change a stripe.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.get()
    }

    /// Epochs that have ended.
    pub(crate) fn epochs(&self) -> u64 {
        self.epochs.get()
    }

    /// Whether a stripe was used in this epoch or in the last one.
    pub(crate) fn is_used(&self, stripe: u64) -> bool {
        let bits = self.bits.borrow();
        get(&bits.now, stripe) || get(&bits.last, stripe)
    }

    /// Whether a stripe was used in both of the last epochs that have ended.
    pub(crate) fn is_hot(&self, stripe: u64) -> bool {
        let bits = self.bits.borrow();
        get(&bits.last, stripe) && get(&bits.before, stripe)
    }

    /// Second chance: whether a stripe was used; it counts as not used from now on.
    pub(crate) fn take_chance(&self, stripe: u64) -> bool {
        let EpochBits { now, last, used, .. } = &mut *self.bits.borrow_mut();
        let in_this = clear(now, stripe);
        *used -= u64::from(in_this);
        clear(last, stripe) || in_this
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_is_hot_when_two_epochs_use_it() {
        let heat = Heat::new(200);
        heat.set_epoch_stripes(3);
        for stripe in [5, 5, 130, 7] {
            heat.note(stripe, stripe == 130, false);
        }
        assert_eq!((heat.epochs(), heat.requests_and_hits()), (1, (4, 1)));
        assert!(heat.is_used(5) && !heat.is_hot(5) && !heat.is_used(6));
        heat.note(5, false, true);
        assert_eq!(heat.writes(), 1);
        for stripe in [1, 2] {
            heat.note(stripe, false, false);
        }
        assert!(heat.is_hot(5) && !heat.is_hot(130) && !heat.is_hot(1));
        assert!(!heat.is_used(130), "it was used before the last epoch");
    }

    #[test]
    fn a_second_chance_is_given_once() {
        let heat = Heat::new(64);
        heat.set_epoch_stripes(2);
        heat.note(63, false, false);
        assert!(heat.take_chance(63) && !heat.take_chance(63));
        heat.note(1, false, false);
        assert_eq!(heat.epochs(), 0, "a stripe that was forgotten does not end an epoch");
        heat.note(2, false, false);
        assert!(heat.take_chance(1) && heat.epochs() == 1);
    }
}
