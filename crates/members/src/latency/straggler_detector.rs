//! Counts requests that are pending for too long, in time slots (FusionRAID, FAST '21, section 4.3).
//!
//! For each of the latest slots there is the number of requests that began in it and are pending; what began earlier is
//! counted together, as stragglers. A request costs the same whatever the number of others: one slot counted up when it
//! begins, and the same slot or the stragglers counted down when it ends.

use crate::latency::Thresholds;

/// Slots of the window: the paper's y (section 5.5).
const SLOTS: usize = 10;

/// What a pending request is known by.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    began: u64,
    slot: u64,
    era: u32,
}

impl Token {
    /// How long the request has taken.
    pub fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.began)
    }
}

/// The pending requests of one member.
#[derive(Clone, Debug)]
pub struct StragglerDetector {
    thresholds: Thresholds,
    slot_ns: u64,
    /// The present slot, and when it ends.
    slot: u64,
    slot_end: u64,
    /// Requests pending, by the slot they began in.
    pending: [u32; SLOTS],
    stragglers: u32,
    /// Counts changes of the thresholds. What began before the last counts as late from `older_late` on.
    era: u32,
    older: u32,
    older_late: u64,
    spiking: bool,
    /// Since when, if it is; and how long the spikes before lasted.
    spiking_since: u64,
    spiked_ns: u64,
    /// Spikes begun.
    pub spikes: u64,
    /// Requests that became stragglers, since the member was opened.
    pub stragglers_seen: u64,
}

impl StragglerDetector {
    /// A detector with nothing pending.
    pub fn new(thresholds: Thresholds) -> StragglerDetector {
        let mut detector = StragglerDetector {
            thresholds,
            slot_ns: 1,
            slot: 0,
            slot_end: 0,
            pending: [0; SLOTS],
            stragglers: 0,
            era: 0,
            older: 0,
            older_late: 0,
            spiking: false,
            spiking_since: 0,
            spiked_ns: 0,
            spikes: 0,
            stragglers_seen: 0,
        };
        detector.cut(thresholds, 0);
        detector
    }

    fn cut(&mut self, thresholds: Thresholds, now: u64) {
        self.thresholds = thresholds;
        self.slot_ns = (thresholds.late_ns / SLOTS as u64).max(1);
        self.slot = now / self.slot_ns;
        self.slot_end = (self.slot + 1) * self.slot_ns;
    }

    /// Changes the thresholds. False, and nothing has changed, while requests from before the last change are pending:
    /// they could not be told apart.
    pub fn set(&mut self, thresholds: Thresholds, now: u64) -> bool {
        self.look(now);
        if self.thresholds == thresholds {
            return true;
        }
        if self.older > 0 || self.spiking {
            return false;
        }
        self.older = self.pending.iter().sum::<u32>() + self.stragglers;
        self.older_late = now + thresholds.late_ns;
        (self.pending, self.stragglers) = ([0; SLOTS], 0);
        self.era += 1;
        self.cut(thresholds, now);
        true
    }

    /// A request begins.
    pub fn begin(&mut self, now: u64) -> Token {
        self.advance(now);
        self.pending[self.slot as usize % SLOTS] += 1;
        Token { began: now, slot: self.slot, era: self.era }
    }

    /// A request has ended.
    pub fn end(&mut self, token: Token, now: u64) {
        self.advance(now);
        let count = if token.era != self.era {
            &mut self.older
        } else if self.slot - token.slot < SLOTS as u64 {
            &mut self.pending[token.slot as usize % SLOTS]
        } else {
            &mut self.stragglers
        };
        *count -= 1;
        self.judge(now);
    }

    /// Whether a spike is on now.
    pub fn look(&mut self, now: u64) -> bool {
        self.advance(now);
        self.judge(now);
        self.spiking
    }

    /// Requests pending for too long.
    pub fn stragglers(&self, now: u64) -> u32 {
        self.stragglers + if now >= self.older_late { self.older } else { 0 }
    }

    /// How long spikes lasted, with the one that is on.
    pub fn spiking_ns(&self, now: u64) -> u64 {
        self.spiked_ns + if self.spiking { now.saturating_sub(self.spiking_since) } else { 0 }
    }

    /// After how long a request is a straggler.
    pub fn late_ns(&self) -> u64 {
        self.thresholds.late_ns
    }

    /// Requests pending.
    #[cfg(test)]
    pub fn pending(&self) -> u32 {
        self.pending.iter().sum::<u32>() + self.stragglers + self.older
    }

    fn advance(&mut self, now: u64) {
        if now < self.slot_end {
            return;
        }
        let slot = now / self.slot_ns;
        // More slots than there are counts: all are late.
        for passed in 1..=(slot - self.slot).min(SLOTS as u64) {
            let late = std::mem::take(&mut self.pending[(self.slot + passed) as usize % SLOTS]);
            self.stragglers += late;
            self.stragglers_seen += u64::from(late);
            // Where nobody looked meanwhile the spike began with the slot all the same.
            if late > 0 {
                self.judge((self.slot + passed) * self.slot_ns);
            }
        }
        self.slot = slot;
        self.slot_end = (slot + 1) * self.slot_ns;
        self.judge(now);
    }

    fn judge(&mut self, now: u64) {
        let stragglers = self.stragglers(now);
        if self.spiking {
            self.spiking = stragglers > self.thresholds.down;
            if !self.spiking {
                self.spiked_ns += now.saturating_sub(self.spiking_since);
            }
        } else if stragglers >= self.thresholds.up {
            (self.spiking, self.spiking_since) = (true, now);
            self.spikes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const T: Thresholds = Thresholds { late_ns: 1000, up: 3, down: 1 };

    /// The list of pending requests, each with the slot it began in.
    #[derive(Default)]
    struct Naive {
        pending: Vec<u64>,
        spiking: bool,
    }

    impl Naive {
        fn look(&mut self, now: u64) {
            let slot = |at: u64| at / (T.late_ns / SLOTS as u64);
            let late = self.pending.iter().filter(|&&began| slot(now) - slot(began) >= SLOTS as u64).count();
            if self.spiking {
                self.spiking = late > T.down as usize;
            } else {
                self.spiking = late >= T.up as usize;
            }
        }
    }

    #[test]
    fn what_the_paper_draws() {
        // Figure 8: a straggler counter of 3, 7 in the oldest slot, 2 return, and 8 exceed the threshold of 6.
        let mut d = StragglerDetector::new(Thresholds { late_ns: 1000, up: 6, down: 5 });
        let old: Vec<Token> = (0..3).map(|_| d.begin(0)).collect();
        let tokens: Vec<Token> = (0..7).map(|_| d.begin(100)).collect();
        assert!(!d.look(1099));
        assert_eq!(d.stragglers(1099), 3);
        d.end(old[0], 1099);
        d.end(tokens[0], 1099);
        assert!(d.look(1100));
        assert_eq!(d.stragglers(1100), 8);
        tokens[1..].iter().for_each(|&token| d.end(token, 1200));
        assert!(!d.look(1200));
    }

    #[test]
    fn changed_thresholds_forget_nobody() {
        let mut d = StragglerDetector::new(T);
        let tokens: Vec<Token> = (0..5).map(|_| d.begin(0)).collect();
        assert!(d.set(Thresholds { late_ns: 200, up: 3, down: 0 }, 50));
        assert!(!d.set(T, 60), "requests of two changes could not be told apart");
        assert!(!d.look(249) && d.look(250));
        tokens.into_iter().for_each(|token| d.end(token, 300));
        assert!(!d.look(300) && d.pending() == 0);
        assert!(d.set(T, 310));
    }

    #[test]
    fn a_spike_lasts_from_the_slot_in_which_it_begins() {
        let mut d = StragglerDetector::new(T);
        let tokens: Vec<Token> = (0..3).map(|_| d.begin(50)).collect();
        // Late from 1000 on, though nobody looks before 1730.
        assert!(d.look(1730));
        assert_eq!((d.spikes, d.spiking_ns(1730)), (1, 730));
        tokens.into_iter().for_each(|token| d.end(token, 1900));
        assert!(!d.look(1900));
        assert_eq!(d.spiking_ns(5000), 900);
        let tokens: Vec<Token> = (0..3).map(|_| d.begin(5000)).collect();
        assert!(d.look(6100));
        tokens.into_iter().for_each(|token| d.end(token, 6100));
        assert_eq!((d.spikes, d.spiking_ns(9000)), (2, 1000));
    }

    #[test]
    fn long_silence_makes_everything_late() {
        let mut d = StragglerDetector::new(T);
        let token = d.begin(0);
        d.begin(950);
        d.begin(1_000_000);
        assert_eq!(d.stragglers(1_000_000), 2);
        d.end(token, 2_000_000);
        assert_eq!(d.stragglers(2_000_000), 2);
    }

    proptest! {
        #[test]
        fn it_counts_as_the_list_of_pending_requests_does(
            steps in prop::collection::vec((0u64..400, 0usize..8), 1..200)
        ) {
            let mut d = StragglerDetector::new(T);
            let mut naive = Naive::default();
            let mut tokens = Vec::new();
            let mut now = 0;
            for (pause, act) in steps {
                // Now and then a long silence.
                now += if pause > 390 { pause * 20 } else { pause };
                naive.look(now);
                prop_assert_eq!(d.look(now), naive.spiking);
                if act < 5 || tokens.is_empty() {
                    tokens.push(d.begin(now));
                    naive.pending.push(now);
                } else {
                    let which = act % tokens.len();
                    d.end(tokens.remove(which), now);
                    naive.pending.remove(which);
                }
                naive.look(now);
                prop_assert_eq!(d.look(now), naive.spiking);
                prop_assert_eq!(d.pending() as usize, naive.pending.len());
            }
        }
    }
}
