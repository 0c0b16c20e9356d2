//! What one shard knows of how one member answers.

use crate::latency::{
    LatencyHistogram, MemberLatency, Response, SpikeAvoidance, StragglerDetector, Thresholds, Token,
};

/// Requests of a kind that say enough of it.
const ENOUGH: u32 = 64;
/// Requests after which the thresholds are set anew.
const TUNED_AFTER: u32 = 256;
/// A straggler is pending for so many times what nine of ten requests take. Ninety per cent, since a member may well spike
/// for some per cent of its requests, and shall not take that for its usual way.
const LATE_TIMES: u64 = 3;
/// A read is asked for elsewhere after what nine of ten take (hedged requests: Dean and Barroso, "The Tail at Scale", CACM
/// 56(2), 2013); while the others have little to do, after this part of it.
const EARLY_PART: u64 = 2;
/// No request is late before this, and no read asked for elsewhere, whatever the history says: less is not worth the
/// trouble.
const LATE_NS_MIN: u64 = 300_000;
const HEDGE_NS_MIN: u64 = 150_000;
const LATE_NS_MAX: u64 = 1_000_000_000;
/// Nor is it in time after so many times what is late to most members: one that spikes for more than a tenth of its
/// requests, or is slow for good, shall not take that for its usual way.
const PEERS_TIMES: u64 = 2;
/// After so long half of what is known of a member is forgotten: its load may have become another. What is usual falls at
/// once, but rises in that time by this part only: a spike, which may last as long, is not usual.
const AGED_NS: u64 = 1_000_000_000;
const RISES_PART: u64 = 4;
/// Requests after which tuning is tried again where a spike was in the way.
const TRIED_AGAIN_AFTER: u32 = 16;
/// A member is suspect whose median is so many times that of its peers, for so long; and no more, once it is less than
/// half of that.
const SUSPECT_TIMES: u64 = 4;
const SUSPECT_AFTER_NS: u64 = 30_000_000_000;

/// What a request is to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// What nine of ten requests take.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    ns: Option<u64>,
    most: Option<u64>,
}

impl Usual {
    fn set(&mut self, found: Option<u64>) {
        let limited = |ns: u64| self.most.map_or(ns, |most| ns.min(most));
        self.ns = found.map(limited).or(self.ns);
    }

    fn age(&mut self) {
        self.most = self.ns.map(|ns| ns + ns / RISES_PART);
    }
}

/// One member, watched.
#[derive(Clone, Debug)]
pub struct Watch {
    mode: SpikeAvoidance,
    detector: StragglerDetector,
    reads: LatencyHistogram,
    writes: LatencyHistogram,
    aged_at: u64,
    /// Of reads, and of the slower kind.
    usual_read: Usual,
    usual: Usual,
    since_tuned: u32,
    /// A read pending for longer is asked for elsewhere.
    hedge_ns: u64,
    /// The same, while the others have little to do.
    early_ns: u64,
    slow_since: Option<u64>,
    suspect: bool,
    /// When what background work has done here is paid for.
    paid_until: u64,
    /// Requests that went elsewhere because it does not respond.
    pub redirections: u64,
    /// Requests made again elsewhere because it was late.
    pub hedges: u64,
    /// Reads worked out of other members because it does not respond, or was late.
    pub reconstructions: u64,
    /// Writes of chunks while nobody was avoided, and those of them sent in a spike.
    watched_writes: u64,
    spiking_writes: u64,
}

impl Watch {
    /// A member of which nothing is known yet.
    pub fn new(mode: SpikeAvoidance) -> Watch {
        let thresholds = mode.thresholds();
        Watch {
            mode,
            detector: StragglerDetector::new(thresholds),
            reads: LatencyHistogram::default(),
            writes: LatencyHistogram::default(),
            aged_at: 0,
            usual_read: Usual::default(),
            usual: Usual::default(),
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

    /// A request is sent.
    pub fn begin(&mut self, now: u64) -> Token {
        self.detector.begin(now)
    }

    /// It has ended. True when it is time to tune.
    pub fn end(&mut self, kind: Kind, token: Token, now: u64) -> bool {
        self.detector.end(token, now);
        match kind {
            Kind::Read => self.reads.add(token.age(now)),
            Kind::Write => self.writes.add(token.age(now)),
        }
        self.since_tuned += 1;
        self.since_tuned >= TUNED_AFTER
    }

    /// A chunk is written to it, though it may be in a spike.
    pub fn note_write(&mut self, now: u64) {
        self.watched_writes += 1;
        self.spiking_writes += u64::from(self.detector.look(now));
    }

    /// Whether it responds.
    pub fn responds(&mut self, now: u64) -> bool {
        !self.detector.look(now)
    }

    /// How late it is, for a choice between members.
    pub fn stragglers(&mut self, now: u64) -> u32 {
        self.detector.look(now);
        self.detector.stragglers(now)
    }

    /// After how long a read is asked for elsewhere.
    pub fn hedge_ns(&self) -> u64 {
        self.hedge_ns
    }

    /// The same, while the others have little to do.
    pub fn early_ns(&self) -> u64 {
        self.early_ns
    }

    /// After how long a write is late.
    pub fn late_ns(&self) -> u64 {
        self.detector.late_ns()
    }

    /// After how long a request is late, as its own history has it; none before there is enough of one.
    pub fn own_late_ns(&self) -> Option<u64> {
        self.usual.ns.map(|ns| (ns * LATE_TIMES).clamp(LATE_NS_MIN, LATE_NS_MAX))
    }

    /// Looks what is usual now.
    fn learn(&mut self, now: u64) {
        if now - self.aged_at >= AGED_NS {
            self.aged_at = now;
            self.reads.age();
            self.writes.age();
            self.usual_read.age();
            self.usual.age();
        }
        let of = |history: &LatencyHistogram| history.quantile_ns(0.9).filter(|_| history.total() >= ENOUGH);
        self.usual_read.set(of(&self.reads));
        self.usual.set(of(&self.reads).max(of(&self.writes)));
    }

    /// The median of both kinds together; none before there is enough to say.
    pub fn median_ns(&self) -> Option<u64> {
        let mut both = self.reads.clone();
        both.merge(&self.writes);
        both.quantile_ns(0.5).filter(|_| both.total() >= ENOUGH)
    }

    /// Sets the thresholds from its history, and from what is late to most members.
    pub fn tune(&mut self, now: u64, peers_late_ns: Option<u64>) {
        self.since_tuned = 0;
        self.learn(now);
        let fixed = self.mode.thresholds();
        let (SpikeAvoidance::Auto, Some(own)) = (self.mode, self.own_late_ns()) else {
            self.detector.set(fixed, now);
            (self.hedge_ns, self.early_ns) = (fixed.late_ns, fixed.late_ns);
            return;
        };
        let late_ns = peers_late_ns.map_or(own, |peers| own.min(peers.saturating_mul(PEERS_TIMES)));
        if self.detector.set(Thresholds { late_ns, ..fixed }, now) {
            let after = |ns: Option<u64>| ns.map_or(late_ns, |ns| ns.clamp(HEDGE_NS_MIN, late_ns));
            self.hedge_ns = after(self.usual_read.ns);
            self.early_ns = after(self.usual_read.ns.map(|ns| ns / EARLY_PART));
        } else {
            self.since_tuned = TUNED_AFTER - TRIED_AGAIN_AFTER;
        }
    }

    /// Has other thresholds from now on; those that are pending are counted out as they were counted in.
    pub fn set_mode(&mut self, mode: SpikeAvoidance, now: u64) {
        self.mode = mode;
        self.tune(now, None);
    }

    /// Another device has taken the member's place.
    pub fn forget(&mut self) {
        (self.reads, self.writes) = (LatencyHistogram::default(), LatencyHistogram::default());
        (self.usual_read, self.usual) = (Usual::default(), Usual::default());
        (self.slow_since, self.suspect) = (None, false);
    }

    /// Compares it with its peers.
    pub fn compare(&mut self, now: u64, peers_median_ns: Option<u64>) {
        let (Some(own), Some(peers)) = (self.median_ns(), peers_median_ns) else { return };
        let times = if self.slow_since.is_some() { SUSPECT_TIMES / 2 } else { SUSPECT_TIMES };
        if own < peers.saturating_mul(times) {
            (self.slow_since, self.suspect) = (None, false);
            return;
        }
        let since = *self.slow_since.get_or_insert(now);
        self.suspect = now - since >= SUSPECT_AFTER_NS;
    }

    /// Background work takes so long here at the rate that it may have. When it may begin.
    pub fn pay(&mut self, now: u64, ns: u64) -> u64 {
        let due = self.paid_until.max(now);
        self.paid_until = due + ns;
        due
    }

    /// What it is to be called.
    pub fn response(&mut self, now: u64) -> Response {
        match (self.detector.look(now), self.suspect) {
            (true, _) => Response::Spiking,
            (false, true) => Response::Suspect,
            (false, false) => Response::Responsive,
        }
    }

    /// For people.
    pub fn report(&mut self, now: u64) -> MemberLatency {
        MemberLatency {
            response: self.response(now),
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

    /// A watch that has seen so many requests, each of which took so long, one after the other.
    fn seen(watch: &mut Watch, now: &mut u64, count: usize, took: u64) {
        for _ in 0..count {
            let token = watch.begin(*now);
            *now += took;
            if watch.end(Kind::Read, token, *now) {
                watch.tune(*now, None);
            }
        }
    }

    #[test]
    fn thresholds_follow_the_history() {
        let (mut watch, mut now) = (Watch::new(SpikeAvoidance::Auto), 0);
        assert_eq!(watch.late_ns(), SpikeAvoidance::Auto.thresholds().late_ns);
        seen(&mut watch, &mut now, 1000, 200 * US);
        assert!((600 * US..=800 * US).contains(&watch.late_ns()), "{}", watch.late_ns());
        assert!((200 * US..=250 * US).contains(&watch.hedge_ns()), "{}", watch.hedge_ns());
        assert_eq!(watch.early_ns(), HEDGE_NS_MIN);
        // One in twenty is a spike, which does not make spikes usual.
        for _ in 0..200 {
            seen(&mut watch, &mut now, 19, 200 * US);
            seen(&mut watch, &mut now, 1, 10_000 * US);
        }
        assert!(watch.late_ns() <= 800 * US && watch.early_ns() <= watch.hedge_ns());
        let token = watch.begin(now);
        assert!(watch.responds(now + 500 * US) && !watch.responds(now + 900 * US));
        watch.end(Kind::Read, token, now + 1200 * US);
        assert!(watch.responds(now + 1200 * US));
    }

    #[test]
    fn what_is_usual_falls_at_once_and_rises_slowly() {
        let (mut watch, mut now) = (Watch::new(SpikeAvoidance::Auto), 0);
        seen(&mut watch, &mut now, 4000, 800 * US);
        assert!((800 * US..=1000 * US).contains(&watch.hedge_ns()));
        assert!((400 * US..=500 * US).contains(&watch.early_ns()));
        seen(&mut watch, &mut now, 4000, 400 * US);
        assert!((400 * US..=500 * US).contains(&watch.hedge_ns()), "{}", watch.hedge_ns());
        // As long as a spike of a consumer SSD, and all that is asked of it meanwhile.
        seen(&mut watch, &mut now, 300, 3000 * US);
        assert!(watch.hedge_ns() <= 500 * US * 5 / 4, "{}", watch.hedge_ns());
        // Slower for good is usual in the end.
        seen(&mut watch, &mut now, 20_000, 1000 * US);
        assert!((1000 * US..=1300 * US).contains(&watch.hedge_ns()), "{}", watch.hedge_ns());
    }

    #[test]
    fn fixed_thresholds_stay() {
        let (mut watch, mut now) = (Watch::new(SpikeAvoidance::Consumer), 0);
        seen(&mut watch, &mut now, 2000, 50 * US);
        assert_eq!((watch.late_ns(), watch.hedge_ns()), (2000 * US, 2000 * US));
        watch.set_mode(SpikeAvoidance::Datacenter, now);
        assert_eq!(watch.late_ns(), 5000 * US);
    }

    #[test]
    fn slow_for_good_is_suspect_and_may_recover() {
        let (mut watch, mut now) = (Watch::new(SpikeAvoidance::Auto), 0);
        seen(&mut watch, &mut now, 500, 1000 * US);
        let peers = Some(100 * US);
        for second in 0..=31 {
            assert_eq!(watch.response(now), Response::Responsive, "after {second} s");
            watch.compare(now + second * SECOND, peers);
            if second == 30 {
                break;
            }
        }
        let later = now + 31 * SECOND;
        assert_eq!(watch.response(later), Response::Suspect);
        assert_eq!(watch.report(later).slow_for_ns, 31 * SECOND);
        // Against peers as slow as it is there is nothing to say.
        watch.compare(later, Some(900 * US));
        assert_eq!(watch.response(later), Response::Responsive);
        // What is late to it is late to its peers first.
        watch.tune(later, Some(LATE_NS_MIN));
        assert_eq!(watch.late_ns(), PEERS_TIMES * LATE_NS_MIN);
    }
}
