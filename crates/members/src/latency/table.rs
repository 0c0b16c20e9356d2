//! The latency of all members as one shard measures it, and the shard's hedge budget.

use std::cell::{Cell, RefCell};

use sinew_core::ids::MemberId;

use crate::latency::hedge_budget::HedgeBudget;
use crate::latency::member::{RequestKind, TrackedMember};
use crate::latency::report::MemberLatency;
use crate::latency::spike_avoidance::SpikeAvoidance;
use crate::latency::straggler_detector::RequestStart;

/// How often members are compared with each other.
const COMPARED_NS: u64 = 1_000_000_000;

/// Latency after which a read is hedged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HedgeDelays {
    /// While the other members are idle.
    pub(crate) idle_ns: u64,
    /// In any case.
    pub(crate) ns: u64,
}

/// The latency of every member, and the shard's hedge budget.
#[derive(Default)]
pub struct LatencyTable {
    mode: Cell<SpikeAvoidance>,
    members: RefCell<Vec<TrackedMember>>,
    budget: RefCell<HedgeBudget>,
    compared_at: Cell<u64>,
    /// The median of the members' own thresholds.
    late_ns: Cell<Option<u64>>,
}

impl LatencyTable {
    /// Tracks at least `count` members. No entry is ever dropped, since requests may be pending.
    pub(crate) fn resize(&self, count: usize) {
        let mut members = self.members.borrow_mut();
        let count = count.max(members.len());
        members.resize_with(count, || TrackedMember::new(self.mode.get()));
    }

    /// Forgets a member's latencies: another device has taken its place.
    pub(crate) fn forget(&self, member: MemberId) {
        self.members.borrow_mut()[usize::from(member.0)].forget();
    }

    /// Whether the latency of requests is measured.
    pub(crate) fn measures(&self) -> bool {
        self.mode.get().measures()
    }

    /// Whether members in a spike are avoided.
    pub(crate) fn avoids(&self) -> bool {
        self.mode.get().avoids()
    }

    /// Whether spikes are counted, and no member is avoided.
    pub(crate) fn only_counts(&self) -> bool {
        self.mode.get() == SpikeAvoidance::Watch
    }

    /// Whether late requests are hedged.
    pub(crate) fn hedges(&self) -> bool {
        self.mode.get().hedges()
    }

    /// Detects spikes in another way from now on.
    pub(crate) fn set_mode(&self, mode: SpikeAvoidance, now: u64) {
        self.mode.set(mode);
        self.members.borrow_mut().iter_mut().for_each(|tracked| tracked.set_mode(mode, now));
    }

    /// Notes that a request is sent to a member.
    pub(crate) fn begin(&self, member: MemberId, now: u64) -> RequestStart {
        self.members.borrow_mut()[usize::from(member.0)].begin(now)
    }

    /// Notes that a request has ended.
    pub(crate) fn end(&self, member: MemberId, kind: RequestKind, start: RequestStart, now: u64) {
        if self.members.borrow_mut()[usize::from(member.0)].end(kind, start, now) {
            self.tune(member, now);
        }
    }

    fn tune(&self, member: MemberId, now: u64) {
        if now - self.compared_at.get() >= COMPARED_NS {
            self.compared_at.set(now);
            self.compare(now);
        }
        self.members.borrow_mut()[usize::from(member.0)].tune(now, self.late_ns.get());
    }

    /// Compares each member with the median of all.
    fn compare(&self, now: u64) {
        let mut members = self.members.borrow_mut();
        let median = |of: fn(&TrackedMember) -> Option<u64>, members: &[TrackedMember]| {
            let mut all: Vec<u64> = members.iter().filter_map(of).collect();
            all.sort_unstable();
            // Of two members the faster one, so that the slower one of a pair is found.
            all.get(all.len().saturating_sub(1) / 2).copied()
        };
        self.late_ns.set(median(TrackedMember::own_late_ns, &members));
        let peers = median(TrackedMember::median_ns, &members);
        members.iter_mut().for_each(|tracked| tracked.compare(now, peers));
    }

    /// Whether the member is not in a spike.
    pub(crate) fn responds(&self, member: MemberId, now: u64) -> bool {
        self.members.borrow_mut()[usize::from(member.0)].responds(now)
    }

    /// The member's stragglers.
    pub(crate) fn stragglers(&self, member: MemberId, now: u64) -> u32 {
        self.members.borrow_mut()[usize::from(member.0)].stragglers(now)
    }

    /// Latency after which a read of the member is hedged.
    pub(crate) fn hedge_delays(&self, member: MemberId) -> HedgeDelays {
        let tracked = &self.members.borrow()[usize::from(member.0)];
        HedgeDelays { idle_ns: tracked.early_ns(), ns: tracked.hedge_ns() }
    }

    /// Latency after which a write to the member is late.
    pub fn late_ns(&self, member: MemberId) -> u64 {
        self.members.borrow()[usize::from(member.0)].late_ns()
    }

    /// The shortest latency after which any request is hedged.
    pub(crate) fn shortest_delay_ns(&self) -> u64 {
        self.members.borrow().iter().map(TrackedMember::early_ns).min().unwrap_or(u64::MAX)
    }

    /// Updates the member's counters of redirections, hedges and reconstructions.
    pub fn note(&self, member: MemberId, f: impl FnOnce(&mut TrackedMember)) {
        f(&mut self.members.borrow_mut()[usize::from(member.0)]);
    }

    /// Charges background work that takes `ns` at the rate it may have on the member. Returns when it may begin.
    pub fn pay(&self, member: MemberId, now: u64, ns: u64) -> u64 {
        self.members.borrow_mut()[usize::from(member.0)].pay(now, ns)
    }

    /// Credits the hedge budget with a request of a client.
    pub fn earn(&self) {
        self.budget.borrow_mut().earn();
    }

    /// Pays for extra requests; false when the budget does not allow them.
    pub fn spend(&self, requests: usize) -> bool {
        self.budget.borrow_mut().spend(requests as u32)
    }

    /// As `spend`, for early hedging, which leaves a reserve.
    pub(crate) fn spend_early(&self, requests: usize) -> bool {
        self.budget.borrow_mut().spend_early(requests as u32)
    }

    /// The report of every member.
    pub(crate) fn report(&self, now: u64) -> Vec<MemberLatency> {
        self.members.borrow_mut().iter_mut().map(|tracked| tracked.report(now)).collect()
    }
}
