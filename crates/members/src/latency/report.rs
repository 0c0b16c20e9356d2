//! Report of a member's latency.

use crate::latency::histogram::LatencyHistogram;

/// The state of a member's latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Response {
    /// Normal.
    #[default]
    Responsive,
    /// Much slower than its peers for a long time: worth replacing.
    Suspect,
    /// In a latency spike: avoided at present.
    Spiking,
}

impl Response {
    /// The state's name.
    pub fn name(self) -> &'static str {
        match self {
            Response::Responsive => "responsive",
            Response::Suspect => "suspect",
            Response::Spiking => "spiking",
        }
    }
}

/// A member's latency as one shard measures it, or the sum over all shards.
#[derive(Clone, Debug, Default)]
pub struct MemberLatency {
    /// The state.
    pub response: Response,
    /// Whether it is much slower than its peers for a long time, in a spike or not.
    pub suspect: bool,
    /// Stragglers: requests pending for longer than `late_after_ns`.
    pub stragglers: u32,
    /// Requests that became stragglers since the pool was opened.
    pub stragglers_seen: u64,
    /// Spikes since the pool was opened.
    pub spikes: u64,
    /// Total duration of the spikes; a spike that is on counts up to now.
    pub spiking_ns: u64,
    /// Writes of chunks while spikes are only counted.
    pub watched_writes: u64,
    /// Of `watched_writes`, those sent to the member in a spike.
    pub spiking_writes: u64,
    /// Requests sent to other members because this one was in a spike.
    pub redirections: u64,
    /// Requests sent to an alternate as well because this member was late.
    pub hedges: u64,
    /// Reads reconstructed from other members because this one was in a spike, or late.
    pub reconstructions: u64,
    /// Nanoseconds for which it has been slower than its peers.
    pub slow_for_ns: u64,
    /// Age of its oldest pending request, rounded down to ticks of the I/O timeout.
    pub unanswered_ns: u64,
    /// A request pending for longer is a straggler.
    pub late_after_ns: u64,
    /// Recent latencies of reads.
    pub reads: LatencyHistogram,
    /// Recent latencies of writes.
    pub writes: LatencyHistogram,
}

impl MemberLatency {
    /// Adds the report of another shard. States and ages become the worst of both.
    pub fn add(&mut self, other: &MemberLatency) {
        self.response = self.response.max(other.response);
        self.suspect |= other.suspect;
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
