//! For how long a volume may have more than its share in the shard.

use sinew_core::mutation::{self, Mutation};

/// The longest grace: for how long a volume that was quiet may disturb others before it takes turns.
const MOST_NS: u64 = 250_000_000;

/// The grace of a volume: it shrinks by the time in which the volume has more than its share in the shard, and grows by the time in
/// which it has not. So a volume that wants more for less than half of the time enters as if alone, and one that always does
/// soon takes turns.
#[derive(Debug)]
pub(super) struct Grace {
    /// What was left at this time.
    ns: u64,
    at: u64,
    shrinks: bool,
}

impl Default for Grace {
    fn default() -> Self {
        Grace { ns: MOST_NS, at: 0, shrinks: false }
    }
}

impl Grace {
    fn left_ns(&self, now: u64) -> u64 {
        let passed = now.saturating_sub(self.at);
        if self.shrinks { self.ns.saturating_sub(passed) } else { (self.ns + passed).min(MOST_NS) }
    }

    pub(super) fn is_left(&self, now: u64) -> bool {
        self.left_ns(now) > 0 || mutation::on(Mutation::EndlessGrace)
    }

    /// Takes all that is left.
    pub(super) fn use_up(&mut self, now: u64) {
        *self = Grace { ns: 0, at: now.max(self.at), ..*self };
    }

    /// Notes whether the volume has more than its share in the shard from now on. A clock that lags is a clock that stands still.
    pub(super) fn note(&mut self, now: u64, is_over: bool) {
        if is_over != self.shrinks {
            *self = Grace { ns: self.left_ns(now), at: now.max(self.at), shrinks: is_over };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn it_shrinks_above_the_share_and_grows_below() {
        let mut grace = Grace::default();
        grace.note(1000 * MS, true);
        assert_eq!(grace.left_ns(1100 * MS), MOST_NS - 100 * MS);
        grace.note(1100 * MS, true);
        assert!(!grace.is_left(1900 * MS));
        grace.note(1900 * MS, false);
        assert!(!grace.is_left(1900 * MS));
        assert_eq!(grace.left_ns(1910 * MS), 10 * MS);
        assert_eq!(grace.left_ns(60_000 * MS), MOST_NS);
        grace.use_up(60_000 * MS);
        assert_eq!(grace.left_ns(60_010 * MS), 10 * MS);
    }

    #[test]
    fn a_volume_that_wants_more_for_less_than_half_of_the_time_keeps_it() {
        let mut grace = Grace::default();
        for round in 1..100 {
            grace.note(round * 200 * MS, true);
            grace.note((round * 200 + 95) * MS, false);
            assert!(grace.is_left((round * 200 + 95) * MS));
        }
    }

    #[test]
    fn a_clock_that_lags_stands_still() {
        let mut grace = Grace::default();
        grace.note(1000 * MS, true);
        assert_eq!(grace.left_ns(990 * MS), MOST_NS);
        grace.note(990 * MS, false);
        assert_eq!(grace.left_ns(1001 * MS), MOST_NS);
    }
}
