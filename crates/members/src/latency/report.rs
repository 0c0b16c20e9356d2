//! How a member answers, for people.

use crate::latency::{LatencyHistogram, Response};

/// How a member answers, as one shard sees it or, added up, all of them.
#[derive(Clone, Debug, Default)]
pub struct MemberLatency {
    /// What it is to be called.
    pub response: Response,
    /// Requests pending for too long.
    pub stragglers: u32,
    /// Requests that were, since the pool was opened.
    pub stragglers_seen: u64,
    /// Spikes since then.
    pub spikes: u64,
    /// How long they lasted, all together; one that is on counts as far as it has come.
    pub spiking_ns: u64,
    /// While nobody is avoided: writes of chunks, and those of them that it was sent in a spike.
    pub watched_writes: u64,
    /// See `watched_writes`.
    pub spiking_writes: u64,
    /// Requests that went elsewhere because it did not respond.
    pub redirections: u64,
    /// Requests made again elsewhere because it was late.
    pub hedges: u64,
    /// Reads worked out of other members, because it did not respond or was late.
    pub reconstructions: u64,
    /// For how long it has been slower than its peers.
    pub slow_for_ns: u64,
    /// For how long its oldest request has been pending, counted in looks a second or so apart.
    pub unanswered_ns: u64,
    /// A request pending for longer is a straggler.
    pub late_after_ns: u64,
    /// How long reads took lately.
    pub reads: LatencyHistogram,
    /// How long writes took lately.
    pub writes: LatencyHistogram,
}

impl MemberLatency {
    /// Adds what another shard saw. The worst that one says of it counts.
    pub fn add(&mut self, other: &MemberLatency) {
        self.response = self.response.max(other.response);
        self.stragglers += other.stragglers;
        self.stragglers_seen += other.stragglers_seen;
        self.spikes += other.spikes;
        self.spiking_ns += other.spiking_ns;
        self.watched_writes += other.watched_writes;
        self.spiking_writes += other.spiking_writes;
        self.redirections += other.redirections;
        self.hedges += other.hedges;
        self.reconstructions += other.reconstructions;
        self.slow_for_ns = self.slow_for_ns.max(other.slow_for_ns);
        self.unanswered_ns = self.unanswered_ns.max(other.unanswered_ns);
        self.late_after_ns = self.late_after_ns.max(other.late_after_ns);
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
    }
}
