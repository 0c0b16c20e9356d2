//! Counts stragglers, requests that are pending for too long, by time slots (FusionRAID, FAST '21, section 4.3).
//!
//! One counter for each of the latest slots holds the pending requests that began in the slot; one counter holds all that
//! began earlier, the stragglers. A request costs one increment when it begins and one decrement when it ends, whatever
//! the number of others.

use crate::latency::spike_avoidance::Thresholds;

/// Slots of the window: the paper's y (section 5.5).
const SLOTS: usize = 10;

/// When a pending request began; given back when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestStart {
    began: u64,
    slot: u64,
    revision: u32,
}

impl RequestStart {
    /// Nanoseconds since the request began.
    pub(crate) fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.began)
    }
}

/// The pending requests of one member.
#[derive(Clone, Debug)]
pub(crate) struct StragglerDetector {
    thresholds: Thresholds,
    slot_ns: u64,
    /// The present slot.
    slot: u64,
    /// When the present slot ends.
    slot_end: u64,
    /// Pending requests, by the slot in which they began.
    pending: [u32; SLOTS],
    stragglers: u32,
    /// Counts changes of the thresholds.
    revision: u32,
    /// Pending requests that began before the last change; they count as late from `older_late` on.
    older: u32,
    older_late: u64,
    spiking: bool,
    /// When the spike began that is on.
    spiking_since: u64,
    /// Total duration of the spikes that have ended.
    spiked_ns: u64,
    /// Spikes begun.
    pub(crate) spikes: u64,
    /// Requests that became stragglers, since the member was opened.
    pub(crate) stragglers_seen: u64,
}

impl StragglerDetector {
    /// A detector with nothing pending.
    pub(crate) fn new(thresholds: Thresholds) -> StragglerDetector {
        let mut detector = StragglerDetector {
            thresholds,
            slot_ns: 1,
            slot: 0,
            slot_end: 0,
            pending: [0; SLOTS],
            stragglers: 0,
            revision: 0,
            older: 0,
            older_late: 0,
            spiking: false,
            spiking_since: 0,
            spiked_ns: 0,
            spikes: 0,
            stragglers_seen: 0,
        };
        detector.apply(thresholds, 0);
        detector
    }

    fn apply(&mut self, thresholds: Thresholds, now: u64) {
        self.thresholds = thresholds;
        self.slot_ns = (thresholds.late_ns / SLOTS as u64).max(1);
        self.slot = now / self.slot_ns;
        self.slot_end = (self.slot + 1) * self.slot_ns;
    }

    /// Changes the thresholds. Returns false and changes nothing while requests from before the last change are pending: they
    /// could not be told apart from those before this change.
    pub(crate) fn set(&mut self, thresholds: Thresholds, now: u64) -> bool {
        self.is_spiking(now);
        if self.thresholds == thresholds {
            return true;
        }
        if self.older > 0 || self.spiking {
            return false;
        }
        self.older = self.pending.iter().sum::<u32>() + self.stragglers;
        self.older_late = now + thresholds.late_ns;
        (self.pending, self.stragglers) = ([0; SLOTS], 0);
        self.revision += 1;
        self.apply(thresholds, now);
        true
    }

    /// Counts a request that begins.
    pub(crate) fn begin(&mut self, now: u64) -> RequestStart {
        self.advance(now);
        self.pending[self.slot as usize % SLOTS] += 1;
        RequestStart { began: now, slot: self.slot, revision: self.revision }
    }

    /// Counts a request that has ended.
    pub(crate) fn end(&mut self, start: RequestStart, now: u64) {
        self.advance(now);
        let count = if start.revision != self.revision {
            &mut self.older
        } else if self.slot - start.slot < SLOTS as u64 {
            &mut self.pending[start.slot as usize % SLOTS]
        } else {
            &mut self.stragglers
        };
        *count -= 1;
        self.update_spiking(now);
    }

    /// Whether the member is in a spike.
    pub(crate) fn is_spiking(&mut self, now: u64) -> bool {
        self.advance(now);
        self.update_spiking(now);
        self.spiking
    }

    /// Number of stragglers.
    pub(crate) fn stragglers(&self, now: u64) -> u32 {
        self.stragglers + if now >= self.older_late { self.older } else { 0 }
    }

    /// Total duration of spikes, the one that is on included.
    pub(crate) fn spiking_ns(&self, now: u64) -> u64 {
        self.spiked_ns + if self.spiking { now.saturating_sub(self.spiking_since) } else { 0 }
    }

    /// The latency from which on a request is a straggler.
    pub(crate) fn late_ns(&self) -> u64 {
        self.thresholds.late_ns
    }

    /// Requests pending.
    #[cfg(test)]
    pub(crate) fn pending(&self) -> u32 {
        self.pending.iter().sum::<u32>() + self.stragglers + self.older
    }

    fn advance(&mut self, now: u64) {
        if now < self.slot_end {
            return;
        }
        let slot = now / self.slot_ns;
        // Once every counter has been passed, all requests are late.
        for passed in 1..=(slot - self.slot).min(SLOTS as u64) {
            let late = std::mem::take(&mut self.pending[(self.slot + passed) as usize % SLOTS]);
            self.stragglers += late;
            self.stragglers_seen += u64::from(late);
            // The spike began with the slot, even if the detector is called only now.
            if late > 0 {
                self.update_spiking((self.slot + passed) * self.slot_ns);
            }
        }
        self.slot = slot;
        self.slot_end = (slot + 1) * self.slot_ns;
        self.update_spiking(now);
    }

    fn update_spiking(&mut self, now: u64) {
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
        let old: Vec<RequestStart> = (0..3).map(|_| d.begin(0)).collect();
        let starts: Vec<RequestStart> = (0..7).map(|_| d.begin(100)).collect();
        assert!(!d.is_spiking(1099));
        assert_eq!(d.stragglers(1099), 3);
        d.end(old[0], 1099);
        d.end(starts[0], 1099);
        assert!(d.is_spiking(1100));
        assert_eq!(d.stragglers(1100), 8);
        starts[1..].iter().for_each(|&start| d.end(start, 1200));
        assert!(!d.is_spiking(1200));
    }

    #[test]
    fn changed_thresholds_forget_no_request() {
        let mut d = StragglerDetector::new(T);
        let starts: Vec<RequestStart> = (0..5).map(|_| d.begin(0)).collect();
        assert!(d.set(Thresholds { late_ns: 200, up: 3, down: 0 }, 50));
        assert!(!d.set(T, 60), "requests of two changes could not be told apart");
        assert!(!d.is_spiking(249) && d.is_spiking(250));
        starts.into_iter().for_each(|start| d.end(start, 300));
        assert!(!d.is_spiking(300) && d.pending() == 0);
        assert!(d.set(T, 310));
    }

    #[test]
    fn a_spike_lasts_from_the_slot_in_which_it_begins() {
        let mut d = StragglerDetector::new(T);
        let starts: Vec<RequestStart> = (0..3).map(|_| d.begin(50)).collect();
        // Late from 1000 on, though the detector is not called before 1730.
        assert!(d.is_spiking(1730));
        assert_eq!((d.spikes, d.spiking_ns(1730)), (1, 730));
        starts.into_iter().for_each(|start| d.end(start, 1900));
        assert!(!d.is_spiking(1900));
        assert_eq!(d.spiking_ns(5000), 900);
        let starts: Vec<RequestStart> = (0..3).map(|_| d.begin(5000)).collect();
        assert!(d.is_spiking(6100));
        starts.into_iter().for_each(|start| d.end(start, 6100));
        assert_eq!((d.spikes, d.spiking_ns(9000)), (2, 1000));
    }

    #[test]
    fn long_silence_makes_everything_late() {
        let mut d = StragglerDetector::new(T);
        let start = d.begin(0);
        d.begin(950);
        d.begin(1_000_000);
        assert_eq!(d.stragglers(1_000_000), 2);
        d.end(start, 2_000_000);
        assert_eq!(d.stragglers(2_000_000), 2);
    }

    proptest! {
        #[test]
        fn it_counts_as_the_list_of_pending_requests_does(
            steps in prop::collection::vec((0u64..400, 0usize..8), 1..200)
        ) {
            let mut d = StragglerDetector::new(T);
            let mut naive = Naive::default();
            let mut starts = Vec::new();
            let mut now = 0;
            for (pause, act) in steps {
                // Now and then a long silence.
                now += if pause > 390 { pause * 20 } else { pause };
                naive.look(now);
                prop_assert_eq!(d.is_spiking(now), naive.spiking);
                if act < 5 || starts.is_empty() {
                    starts.push(d.begin(now));
                    naive.pending.push(now);
                } else {
                    let which = act % starts.len();
                    d.end(starts.remove(which), now);
                    naive.pending.remove(which);
                }
                naive.look(now);
                prop_assert_eq!(d.is_spiking(now), naive.spiking);
                prop_assert_eq!(d.pending() as usize, naive.pending.len());
            }
        }
    }
}
