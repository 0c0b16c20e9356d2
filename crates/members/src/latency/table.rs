//! How all members answer, as one shard sees it: what each request tells, and what a choice between members goes by.

use std::cell::{Cell, RefCell};

use sinew_core::ids::MemberId;

use crate::latency::{HedgeBudget, Kind, MemberLatency, SpikeAvoidance, Token, Watch};

/// How often members are compared with each other.
const COMPARED_NS: u64 = 1_000_000_000;

/// The watches of one shard.
#[derive(Default)]
pub struct LatencyTable {
    mode: Cell<SpikeAvoidance>,
    watches: RefCell<Vec<Watch>>,
    budget: RefCell<HedgeBudget>,
    compared_at: Cell<u64>,
    /// After how long a request is late to most members.
    late_ns: Cell<Option<u64>>,
}

impl LatencyTable {
    /// There is a watch for each of so many members; none goes, since requests may be pending.
    pub fn watch(&self, members: usize) {
        let mut watches = self.watches.borrow_mut();
        let count = members.max(watches.len());
        watches.resize_with(count, || Watch::new(self.mode.get()));
    }

    /// Another device has taken the member's place.
    pub fn forget(&self, member: MemberId) {
        self.watches.borrow_mut()[usize::from(member.0)].forget();
    }

    /// Whether requests are watched.
    pub fn measures(&self) -> bool {
        self.mode.get().measures()
    }

    /// Whether anything is done about members that are late.
    pub fn is_on(&self) -> bool {
        self.mode.get().avoids()
    }

    /// Whether spikes are counted and nothing else.
    pub fn only_watches(&self) -> bool {
        self.mode.get() == SpikeAvoidance::Watch
    }

    /// Whether requests that are late are made again elsewhere.
    pub fn hedges(&self) -> bool {
        self.mode.get().hedges()
    }

    /// Detects spikes in another way from now on.
    pub fn set_mode(&self, mode: SpikeAvoidance, now: u64) {
        self.mode.set(mode);
        self.watches.borrow_mut().iter_mut().for_each(|watch| watch.set_mode(mode, now));
    }

    /// A request is sent to a member.
    pub fn begin(&self, member: MemberId, now: u64) -> Token {
        self.watches.borrow_mut()[usize::from(member.0)].begin(now)
    }

    /// It has ended.
    pub fn end(&self, member: MemberId, kind: Kind, token: Token, now: u64) {
        if self.watches.borrow_mut()[usize::from(member.0)].end(kind, token, now) {
            self.tune(member, now);
        }
    }

    fn tune(&self, member: MemberId, now: u64) {
        if now - self.compared_at.get() >= COMPARED_NS {
            self.compared_at.set(now);
            self.compare(now);
        }
        self.watches.borrow_mut()[usize::from(member.0)].tune(now, self.late_ns.get());
    }

    /// Compares each member with the median of all.
    fn compare(&self, now: u64) {
        let mut watches = self.watches.borrow_mut();
        let median = |of: fn(&Watch) -> Option<u64>, watches: &[Watch]| {
            let mut all: Vec<u64> = watches.iter().filter_map(of).collect();
            all.sort_unstable();
            // Of two, the faster: a pair tells who is slow.
            all.get(all.len().saturating_sub(1) / 2).copied()
        };
        self.late_ns.set(median(Watch::own_late_ns, &watches));
        let peers = median(Watch::median_ns, &watches);
        watches.iter_mut().for_each(|watch| watch.compare(now, peers));
    }

    /// Whether the member is not in a spike.
    pub fn responds(&self, member: MemberId, now: u64) -> bool {
        self.watches.borrow_mut()[usize::from(member.0)].responds(now)
    }

    /// Requests that the member has not answered for long.
    pub fn stragglers(&self, member: MemberId, now: u64) -> u32 {
        self.watches.borrow_mut()[usize::from(member.0)].stragglers(now)
    }

    /// After how long a read of the member is asked for elsewhere: while the others have little to do, and in any case.
    pub fn hedges_after_ns(&self, member: MemberId) -> (u64, u64) {
        let watch = &self.watches.borrow()[usize::from(member.0)];
        (watch.early_ns(), watch.hedge_ns())
    }

    /// After how long a write to the member is done elsewhere.
    pub fn late_ns(&self, member: MemberId) -> u64 {
        self.watches.borrow()[usize::from(member.0)].late_ns()
    }

    /// The least time after which anything is late.
    pub fn least_ns(&self) -> u64 {
        self.watches.borrow().iter().map(Watch::early_ns).min().unwrap_or(u64::MAX)
    }

    /// Counts what was done about the member.
    pub fn note(&self, member: MemberId, f: impl FnOnce(&mut Watch)) {
        f(&mut self.watches.borrow_mut()[usize::from(member.0)]);
    }

    /// Background work takes so long on the member at the rate that it may have. When it may begin.
    pub fn pay(&self, member: MemberId, now: u64, ns: u64) -> u64 {
        self.watches.borrow_mut()[usize::from(member.0)].pay(now, ns)
    }

    /// A request was sent as it should be.
    pub fn earn(&self) {
        self.budget.borrow_mut().earn();
    }

    /// Whether so many extra requests may be made.
    pub fn spend(&self, requests: usize) -> bool {
        self.budget.borrow_mut().spend(requests as u32)
    }

    /// The same for what may as well wait for a while.
    pub fn spend_early(&self, requests: usize) -> bool {
        self.budget.borrow_mut().spend_early(requests as u32)
    }

    /// Each member, for people.
    pub fn report(&self, now: u64) -> Vec<MemberLatency> {
        self.watches.borrow_mut().iter_mut().map(|watch| watch.report(now)).collect()
    }
}
