//! The latency of one member as one shard measures it, and the thresholds that follow from it.

use crate::latency::histogram::LatencyHistogram;
use crate::latency::report::{MemberLatency, Response};
use crate::latency::spike_avoidance::{SpikeAvoidance, Thresholds};
use crate::latency::straggler_detector::{RequestStart, StragglerDetector};

/// Requests of a kind from which on its quantiles are used.
const ENOUGH: u32 = 64;
/// Requests after which the thresholds are tuned.
const TUNED_AFTER: u32 = 256;
/// A straggler is pending for this multiple of the 90 % quantile of latency. Not a higher quantile: a member may spike for
/// some per cent of its requests, and its spikes must not raise the threshold.
const LATE_TIMES: u64 = 3;
/// A read is hedged after the 90 % quantile of latency (hedged requests: Dean and Barroso, "The Tail at Scale", CACM 56(2),
/// 2013); while the other members are idle, after the quantile divided by this.
const EARLY_PART: u64 = 2;
/// No request is late before this, and no read is hedged before `HEDGE_NS_MIN`, whatever the histogram says: less is not
/// worth the extra requests.
const LATE_NS_MIN: u64 = 300_000;
const HEDGE_NS_MIN: u64 = 150_000;
const LATE_NS_MAX: u64 = 1_000_000_000;
/// A member's threshold is at most this multiple of the threshold of most members: a member that spikes for more than a
/// tenth of its requests, or is slow for good, must not raise its own threshold by that.
const PEERS_TIMES: u64 = 2;
/// Time after which the histograms are halved, since the load may have changed. The typical latency falls at once, but in
/// this time rises by 1 / `RISES_PART` at most: a spike may last as long, and is not typical.
const AGED_NS: u64 = 1_000_000_000;
const RISES_PART: u64 = 4;
/// Requests after which tuning is tried again when a spike prevented it.
const TRIED_AGAIN_AFTER: u32 = 16;
/// A member is suspect when its median latency is this multiple of its peers' for `SUSPECT_AFTER_NS`, until it is less than
/// half of that multiple.
const SUSPECT_TIMES: u64 = 4;
const SUSPECT_AFTER_NS: u64 = 30_000_000_000;

/// A kind of request whose latency is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// The 90 % quantile of latency, which falls at once and rises slowly.
#[derive(Clone, Copy, Debug, Default)]
struct TypicalLatency {
    ns: Option<u64>,
    /// Limit of `ns` until it is aged the next time.
    ns_max: Option<u64>,
}

impl TypicalLatency {
    fn set(&mut self, found: Option<u64>) {
        let limited = |ns: u64| self.ns_max.map_or(ns, |most| ns.min(most));
        self.ns = found.map(limited).or(self.ns);
    }

    fn age(&mut self) {
        self.ns_max = self.ns.map(|ns| ns + ns / RISES_PART);
    }
}

/// The latency of one member.
#[derive(Clone, Debug)]
pub struct TrackedMember {
    mode: SpikeAvoidance,
    detector: StragglerDetector,
    reads: LatencyHistogram,
    writes: LatencyHistogram,
    aged_at: u64,
    /// Of reads.
    typical_read: TypicalLatency,
    /// Of reads or writes, whichever is slower.
    typical: TypicalLatency,
    since_tuned: u32,
    /// A read pending for longer is hedged.
    hedge_ns: u64,
    /// The same, while the other members are idle.
    early_ns: u64,
    /// Since when the member has been slower than its peers.
    slow_since: Option<u64>,
    suspect: bool,
    /// Until when the rate of background work on this member is used up.
    paid_until: u64,
    /// Requests sent to other members because this one is in a spike.
    pub redirections: u64,
    /// Requests sent to an alternate as well because this member was late.
    pub hedges: u64,
    /// Reads reconstructed from other members because this one is in a spike, or was late.
    pub reconstructions: u64,
    /// Writes of chunks while spikes are only counted.
    watched_writes: u64,
    /// Of those, writes sent in a spike.
    spiking_writes: u64,
}

impl TrackedMember {
    /// A member without a history.
    pub(crate) fn new(mode: SpikeAvoidance) -> TrackedMember {
        let thresholds = mode.thresholds();
        TrackedMember {
            mode,
            detector: StragglerDetector::new(thresholds),
            reads: LatencyHistogram::default(),
            writes: LatencyHistogram::default(),
            aged_at: 0,
            typical_read: TypicalLatency::default(),
            typical: TypicalLatency::default(),
            since_tuned: 0,
            hedge_ns: thresholds.late_ns,
            early_ns: thresholds.late_ns,
            slow_since: None,
            suspect: false,
            paid_until: 0,
            redirections: 0,
            hedges: 0,
            reconstructions: 0,
            watched_writes: 0,
            spiking_writes: 0,
        }
    }

    /// Notes that a request is sent.
    pub(crate) fn begin(&mut self, now: u64) -> RequestStart {
        self.detector.begin(now)
    }

    /// Notes that a request has ended. Returns whether it is time to tune.
    pub(crate) fn end(&mut self, kind: RequestKind, start: RequestStart, now: u64) -> bool {
        self.detector.end(start, now);
        match kind {
            RequestKind::Read => self.reads.add(start.age(now)),
            RequestKind::Write => self.writes.add(start.age(now)),
        }
        self.since_tuned += 1;
        self.since_tuned >= TUNED_AFTER
    }

    /// Notes the write of a chunk while spikes are only counted.
    pub(crate) fn note_write(&mut self, now: u64) {
        self.watched_writes += 1;
        self.spiking_writes += u64::from(self.detector.is_spiking(now));
    }

    /// Whether the member is not in a spike.
    pub(crate) fn responds(&mut self, now: u64) -> bool {
        !self.detector.is_spiking(now)
    }

    /// Number of stragglers.
    pub(crate) fn stragglers(&mut self, now: u64) -> u32 {
        self.detector.is_spiking(now);
        self.detector.stragglers(now)
    }

    /// Latency after which a read is hedged.
    pub(crate) fn hedge_ns(&self) -> u64 {
        self.hedge_ns
    }

    /// The same, while the other members are idle.
    pub(crate) fn early_ns(&self) -> u64 {
        self.early_ns
    }

    /// Latency after which a write is late.
    pub(crate) fn late_ns(&self) -> u64 {
        self.detector.late_ns()
    }

    /// Latency after which a request is late by the member's own histogram; `None` before there are enough requests.
    pub(crate) fn own_late_ns(&self) -> Option<u64> {
        self.typical.ns.map(|ns| (ns * LATE_TIMES).clamp(LATE_NS_MIN, LATE_NS_MAX))
    }

    /// Updates the typical latencies from the histograms.
    fn update_typical(&mut self, now: u64) {
        if now - self.aged_at >= AGED_NS {
            self.aged_at = now;
            self.reads.age();
            self.writes.age();
            self.typical_read.age();
            self.typical.age();
        }
        let of = |history: &LatencyHistogram| history.quantile_ns(0.9).filter(|_| history.total() >= ENOUGH);
        self.typical_read.set(of(&self.reads));
        self.typical.set(of(&self.reads).max(of(&self.writes)));
    }

    /// The median latency of reads and writes together; `None` before there are enough requests.
    pub(crate) fn median_ns(&self) -> Option<u64> {
        let mut both = self.reads.clone();
        both.merge(&self.writes);
        both.quantile_ns(0.5).filter(|_| both.total() >= ENOUGH)
    }

    /// Sets the thresholds from the histograms, and from the threshold of most members.
    pub(crate) fn tune(&mut self, now: u64, peers_late_ns: Option<u64>) {
        self.since_tuned = 0;
        self.update_typical(now);
        let fixed = self.mode.thresholds();
        let (SpikeAvoidance::Auto, Some(own)) = (self.mode, self.own_late_ns()) else {
            self.detector.set(fixed, now);
            (self.hedge_ns, self.early_ns) = (fixed.late_ns, fixed.late_ns);
            return;
        };
        let late_ns = peers_late_ns.map_or(own, |peers| own.min(peers.saturating_mul(PEERS_TIMES)));
        if self.detector.set(Thresholds { late_ns, ..fixed }, now) {
            let after = |ns: Option<u64>| ns.map_or(late_ns, |ns| ns.clamp(HEDGE_NS_MIN, late_ns));
            self.hedge_ns = after(self.typical_read.ns);
            self.early_ns = after(self.typical_read.ns.map(|ns| ns / EARLY_PART));
        } else {
            self.since_tuned = TUNED_AFTER - TRIED_AGAIN_AFTER;
        }
    }

    /// Changes the mode. Pending requests are counted out in the way they were counted in.
    pub(crate) fn set_mode(&mut self, mode: SpikeAvoidance, now: u64) {
        self.mode = mode;
        self.tune(now, None);
    }

    /// Forgets the latencies: another device has taken the member's place.
    pub(crate) fn forget(&mut self) {
        (self.reads, self.writes) = (LatencyHistogram::default(), LatencyHistogram::default());
        (self.typical_read, self.typical) = (TypicalLatency::default(), TypicalLatency::default());
        (self.slow_since, self.suspect) = (None, false);
    }

    /// Compares the member with its peers: suspect or not.
    pub(crate) fn compare(&mut self, now: u64, peers_median_ns: Option<u64>) {
        let (Some(own), Some(peers)) = (self.median_ns(), peers_median_ns) else { return };
        let times = if self.slow_since.is_some() { SUSPECT_TIMES / 2 } else { SUSPECT_TIMES };
        if own < peers.saturating_mul(times) {
            (self.slow_since, self.suspect) = (None, false);
            return;
        }
        let since = *self.slow_since.get_or_insert(now);
        self.suspect = now - since >= SUSPECT_AFTER_NS;
    }

    /// Charges background work that takes `ns` at the rate it may have here. Returns when it may begin.
    pub(crate) fn pay(&mut self, now: u64, ns: u64) -> u64 {
        let due = self.paid_until.max(now);
        self.paid_until = due + ns;
        due
    }

    /// The state of the member's latency.
    pub(crate) fn response(&mut self, now: u64) -> Response {
        match (self.detector.is_spiking(now), self.suspect) {
            (true, _) => Response::Spiking,
            (false, true) => Response::Suspect,
            (false, false) => Response::Responsive,
        }
    }

    /// The report of this member.
    pub(crate) fn report(&mut self, now: u64) -> MemberLatency {
        MemberLatency {
            response: self.response(now),
            suspect: self.suspect,
            stragglers: self.stragglers(now),
            stragglers_seen: self.detector.stragglers_seen,
            spikes: self.detector.spikes,
            spiking_ns: self.detector.spiking_ns(now),
            watched_writes: self.watched_writes,
            spiking_writes: self.spiking_writes,
            redirections: self.redirections,
            hedges: self.hedges,
            reconstructions: self.reconstructions,
            slow_for_ns: self.slow_since.map_or(0, |since| now - since),
            unanswered_ns: 0,
            late_after_ns: self.detector.late_ns(),
            reads: self.reads.clone(),
            writes: self.writes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;
    const SECOND: u64 = 1_000_000_000;

    /// Sends `count` requests to the member, one after the other, each of which takes `took`.
    fn seen(member: &mut TrackedMember, now: &mut u64, count: usize, took: u64) {
        for _ in 0..count {
            let start = member.begin(*now);
            *now += took;
            if member.end(RequestKind::Read, start, *now) {
                member.tune(*now, None);
            }
        }
    }

    #[test]
    fn thresholds_follow_the_history() {
        let (mut member, mut now) = (TrackedMember::new(SpikeAvoidance::Auto), 0);
        assert_eq!(member.late_ns(), SpikeAvoidance::Auto.thresholds().late_ns);
        seen(&mut member, &mut now, 1000, 200 * US);
        assert!((600 * US..=800 * US).contains(&member.late_ns()), "{}", member.late_ns());
        assert!((200 * US..=250 * US).contains(&member.hedge_ns()), "{}", member.hedge_ns());
        assert_eq!(member.early_ns(), HEDGE_NS_MIN);
        // One in twenty is a spike, which does not make spikes typical.
        for _ in 0..200 {
            seen(&mut member, &mut now, 19, 200 * US);
            seen(&mut member, &mut now, 1, 10_000 * US);
        }
        assert!(member.late_ns() <= 800 * US && member.early_ns() <= member.hedge_ns());
        let start = member.begin(now);
        assert!(member.responds(now + 500 * US) && !member.responds(now + 900 * US));
        member.end(RequestKind::Read, start, now + 1200 * US);
        assert!(member.responds(now + 1200 * US));
    }

    #[test]
    fn typical_latency_falls_at_once_and_rises_slowly() {
        let (mut member, mut now) = (TrackedMember::new(SpikeAvoidance::Auto), 0);
        seen(&mut member, &mut now, 4000, 800 * US);
        assert!((800 * US..=1000 * US).contains(&member.hedge_ns()));
        assert!((400 * US..=500 * US).contains(&member.early_ns()));
        seen(&mut member, &mut now, 4000, 400 * US);
        assert!((400 * US..=500 * US).contains(&member.hedge_ns()), "{}", member.hedge_ns());
        // As long as a spike of a consumer SSD, and all that is asked of it meanwhile.
        seen(&mut member, &mut now, 300, 3000 * US);
        assert!(member.hedge_ns() <= 500 * US * 5 / 4, "{}", member.hedge_ns());
        // Slow for good becomes typical in the end.
        seen(&mut member, &mut now, 20_000, 1000 * US);
        assert!((1000 * US..=1300 * US).contains(&member.hedge_ns()), "{}", member.hedge_ns());
    }

    #[test]
    fn fixed_thresholds_stay() {
        let (mut member, mut now) = (TrackedMember::new(SpikeAvoidance::Consumer), 0);
        seen(&mut member, &mut now, 2000, 50 * US);
        assert_eq!((member.late_ns(), member.hedge_ns()), (2000 * US, 2000 * US));
        member.set_mode(SpikeAvoidance::Datacenter, now);
        assert_eq!(member.late_ns(), 5000 * US);
    }

    #[test]
    fn slow_for_good_is_suspect_and_may_recover() {
        let (mut member, mut now) = (TrackedMember::new(SpikeAvoidance::Auto), 0);
        seen(&mut member, &mut now, 500, 1000 * US);
        let peers = Some(100 * US);
        for second in 0..=31 {
            assert_eq!(member.response(now), Response::Responsive, "after {second} s");
            member.compare(now + second * SECOND, peers);
            if second == 30 {
                break;
            }
        }
        let later = now + 31 * SECOND;
        assert_eq!(member.response(later), Response::Suspect);
        assert_eq!(member.report(later).slow_for_ns, 31 * SECOND);
        // Its peers are as slow as it is.
        member.compare(later, Some(900 * US));
        assert_eq!(member.response(later), Response::Responsive);
        // The threshold of its peers limits its own.
        member.tune(later, Some(LATE_NS_MIN));
        assert_eq!(member.late_ns(), PEERS_TIMES * LATE_NS_MIN);
    }
}
