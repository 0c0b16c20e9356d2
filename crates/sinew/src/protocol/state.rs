//! The state of a pool, as the answer to `status` has it. The doc comments are the descriptions of the schema.
//!
//! Fields are only added, and every field has a default: a command can read the answer of a server of another version.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names;

/// The version of the requests and answers. It changes when a field changes its meaning or is removed.
pub(crate) const API_VERSION: u32 = 1;

/// The state of a pool. Sizes are in bytes. Counters count from when the pool was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct PoolState {
    /// Version of the requests and answers: 1.
    pub(crate) api_version: u32,
    /// Version of the server.
    pub(crate) server_version: String,
    /// Name of the pool.
    pub(crate) pool: String,
    /// Identity of the pool.
    pub(crate) uuid: String,
    /// `degraded`: less redundancy than there should be; `at risk`: one more failure may lose data; `damaged`: blocks
    /// without a good copy were found; `suspended`: writes wait or are refused because members have no physical space;
    /// `failed`: more members are out than the pool survives, so it refuses everything until it is served again.
    #[schemars(schema_with = "names::health")]
    pub(crate) health: String,
    /// `read-write`; `read-only`: nothing is written to the members; `last-resort`: the same, with more members missing than
    /// the pool survives.
    pub(crate) access: String,
    /// Whether the data is safe, for people.
    pub(crate) data_safe: String,
    /// False if there is nothing to do but to wait.
    pub(crate) needs_attention: bool,
    /// Number of damaged ranges of volumes; `damage` lists them.
    pub(crate) damaged_ranges: usize,
    /// Recommended actions, for people, the most urgent first. Commands in it name the pool or its control socket.
    pub(crate) advice: Vec<String>,
    /// Level or protection.
    pub(crate) protection: String,
    /// Data columns of a stripe.
    pub(crate) data_columns: usize,
    /// Parity columns of a stripe.
    pub(crate) parity_columns: usize,
    /// Shards, each served by one thread.
    pub(crate) shards: usize,
    /// Whether blocks have checksums; an array never has them.
    pub(crate) checksums: bool,
    /// Null for a mapped pool.
    pub(crate) array: Option<ArrayState>,
    /// Null for an array.
    pub(crate) policy: Option<PolicyState>,
    /// Limits of background work.
    pub(crate) throttle: ThrottleState,
    /// Bytes that clients store.
    pub(crate) stored_bytes: u64,
    /// Of the stored bytes, those in mirrored stripes.
    pub(crate) stored_mirrored_bytes: u64,
    /// Of the stored bytes, those in parity stripes.
    pub(crate) stored_parity_bytes: u64,
    /// Bytes that clients may store.
    pub(crate) capacity_bytes: u64,
    /// Sum of the sizes of volumes.
    pub(crate) provisioned_bytes: u64,
    /// Whether that is more than the capacity.
    pub(crate) overprovisioned: bool,
    /// Bytes of chunks on active members.
    pub(crate) raw_bytes: u64,
    /// Of those, bytes of free chunks.
    pub(crate) free_bytes: u64,
    /// Numbers of stripes.
    pub(crate) stripes: StripeCounts,
    /// Metadata is on fewer members than required.
    pub(crate) metadata_degraded: bool,
    /// Chunks that can be rebuilt now, or that must leave their member.
    pub(crate) rebuild_chunks_left: u64,
    /// Chunks still to be moved until members have their shares.
    pub(crate) rebalance_chunks_left: u64,
    /// Why shares of members differ although nothing is moved; null while they do not, or chunks move.
    pub(crate) rebalance_blocked: Option<RebalanceBlocked>,
    /// Stripes of an array that wait for their first resync.
    pub(crate) resync_stripes_left: u64,
    /// Stripes that a scrub still has to check; null when no scrub is running.
    pub(crate) scrub_stripes_left: Option<u64>,
    /// Chunks that still have to move onto new members, approximately; null when the array is not growing.
    pub(crate) growth_chunks_left: Option<u64>,
    /// Stripes of an elastic array that still have to change their form.
    pub(crate) conversions_left: u64,
    /// Long work that is under way.
    pub(crate) work: Vec<WorkState>,
    /// Memory of the tables.
    pub(crate) table_bytes: u64,
    /// Bound of the table cache of a mapped pool; null for none.
    pub(crate) table_cache_bytes: Option<u64>,
    /// The journal.
    pub(crate) journal: JournalState,
    /// Counters by name.
    pub(crate) counters: BTreeMap<String, u64>,
    /// Every counter per second, over the last `over_s` seconds; null in the first second.
    pub(crate) per_second: Option<BTreeMap<String, f64>>,
    /// Members, by their numbers.
    pub(crate) members: Vec<MemberView>,
    /// Physical space of thin members, once for members that share it.
    pub(crate) physical: Vec<SharedSpace>,
    /// Volumes.
    pub(crate) volumes: Vec<VolumeView>,
    /// How latency spikes are detected.
    pub(crate) spike_avoidance: String,
    /// Seconds after which a hung member is taken out; null for never.
    pub(crate) io_timeout_s: Option<f64>,
    /// Seconds after which what a member held that stays away is rebuilt into free space; null for never.
    pub(crate) rebuild_after_s: Option<f64>,
    /// Whether the free space of the others takes what any one member holds, should it be lost; null for an array.
    pub(crate) rebuild_room: Option<bool>,
    /// Where volumes are served.
    pub(crate) nbd: NbdPlaces,
    /// Where volumes are served over vhost-user.
    pub(crate) vhost_user: Vec<VhostUserPlace>,
    /// Block devices of the kernel by which volumes are served.
    pub(crate) ublk: Vec<BlockDevicePlace>,
    /// TCP address of the metrics; null if there is none.
    pub(crate) metrics: Option<String>,
    /// TCP address of the page; null if there is none.
    pub(crate) http: Option<String>,
}

/// An array.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ArrayState {
    /// Level, for example 5.
    pub(crate) level: u32,
    /// How parity rotates; null for levels without parity.
    pub(crate) layout: Option<String>,
    /// The weights by which members hold parity, in lowest terms; null where they hold equal shares of it, or there is none.
    pub(crate) parity_weights: Option<Vec<u8>>,
    /// Copies of each chunk.
    pub(crate) copies: u64,
    /// Groups of members, of levels 50 and 60.
    pub(crate) groups: u64,
    /// Members that have a place in the layout.
    pub(crate) members: u64,
    /// Bytes of a chunk.
    pub(crate) chunk_bytes: u64,
    /// False for levels with parity: the write hole is open.
    pub(crate) journal: bool,
    /// Byte of each member at which data begins.
    pub(crate) data_offset: u64,
    /// How an array of md is served, `read-only` or `read-write`; null for other arrays.
    pub(crate) md: Option<String>,
    /// Method of a growth that is under way.
    pub(crate) growing: Option<String>,
    /// Sets of members, with parity members, at first and after each addition; null for an array with the layout of a new
    /// one.
    pub(crate) sets: Option<Vec<u64>>,
    /// Null for arrays that are not elastic.
    pub(crate) elastic: Option<ElasticState>,
}

/// An elastic array.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ElasticState {
    /// The ratio of compression that its size relies on.
    pub(crate) expect: f64,
    /// The physical space of each member that its size relies on; null if none was given.
    pub(crate) physical_bytes: Option<u64>,
    /// When stripes change their form.
    pub(crate) policy: ElasticPolicyState,
    /// What the governor has seen lately.
    pub(crate) governor: GovernorState,
}

/// When stripes of an elastic array change their form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ElasticPolicyState {
    /// Percent; null leaves the share to the governor.
    pub(crate) mirrored_share: Option<u8>,
    /// Whether the governor changes forms.
    pub(crate) govern: bool,
    /// Percent of the physical space below which stripes become mirrored.
    pub(crate) low: u8,
    /// Percent of the physical space above which stripes get parity.
    pub(crate) high: u8,
    /// Stripes are exchanged while the share of hits is below this many times the share of mirrored stripes.
    pub(crate) hit_factor: f64,
    /// The use is steady while ten samples lie within this percentage of the space.
    pub(crate) steady: f64,
    /// Time between two samples.
    pub(crate) interval_ms: u32,
    /// Bytes of data per second; 0 for no limit.
    pub(crate) convert_rate: u64,
    /// Whether stripes that compress better are preferred.
    pub(crate) weigh: bool,
    /// Whether stripes that take less space mirrored become so whatever the space.
    pub(crate) autonomous: bool,
    /// Time in which all stripes are looked at for that.
    pub(crate) autonomous_period_s: u32,
}

/// What the governor of an elastic array has seen lately.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct GovernorState {
    /// Requests of the last minute, one for each stripe that they used.
    pub(crate) requests: u64,
    /// Of those, requests to mirrored stripes.
    pub(crate) hits: u64,
    /// Null without requests.
    pub(crate) hit_rate: Option<f64>,
    /// The estimated ratio of compression of data; null while none is known.
    pub(crate) data_ratio: Option<f64>,
    /// The estimated ratio of compression of parity; null while none is known.
    pub(crate) parity_ratio: Option<f64>,
}

/// The policy of a mapped pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct PolicyState {
    /// How small writes lie in stripes.
    #[schemars(schema_with = "names::packing")]
    pub(crate) packing: String,
    /// Whether blocks read in sequence are rewritten together.
    pub(crate) defragment: bool,
    /// Whether free chunks are discarded on members.
    pub(crate) discard: bool,
    /// Percent.
    pub(crate) convert_below_free: u8,
    /// Percent.
    pub(crate) convert_above_mirrored: u8,
    /// Bytes per second of client I/O on a member; 0 for never.
    pub(crate) convert_pause_above: u64,
    /// What volumes get that are active at the same time.
    #[schemars(schema_with = "names::shares")]
    pub(crate) shares: String,
}

/// Limits of background work of the whole pool: conversion, compaction, rebuild, rebalance, growth, scrub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ThrottleState {
    /// 0 for no limit.
    pub(crate) bytes_per_second: u64,
    /// It pauses while clients make more requests per second than this; 0 for never.
    pub(crate) pause_above_iops: u64,
}

/// Numbers of stripes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct StripeCounts {
    pub(crate) mirrored: u64,
    pub(crate) parity: u64,
    /// Of an elastic array: stripes that store nothing.
    pub(crate) empty: u64,
    /// Stripes with a chunk that is not where it should be.
    pub(crate) degraded: u64,
    /// Of those, stripes that lack as many chunks as the protection covers, or more.
    pub(crate) at_risk: u64,
}

/// Long work that is under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct WorkState {
    /// What it is.
    #[schemars(schema_with = "names::work")]
    pub(crate) work: String,
    /// What is counted: `chunks` or `stripes`.
    pub(crate) unit: String,
    /// Done since it began.
    pub(crate) done: u64,
    /// Left.
    pub(crate) left: u64,
    /// Done, in percent.
    pub(crate) percent: u64,
    /// Rate of the last seconds; null without progress.
    pub(crate) per_second: Option<f64>,
    /// Seconds until it ends at that rate; null without progress.
    pub(crate) seconds_left: Option<u64>,
}

/// Why shares of members differ although no rebalance runs: all chunks on members with more than their shares, by what keeps
/// them there. As of the last look of the rebalancer, which looks when members come or go and when the pool is opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct RebalanceBlocked {
    /// Chunks that would have to move for even shares.
    pub(crate) chunks: u64,
    /// Chunks whose stripes have a chunk on each member with less than its share already.
    pub(crate) together: u64,
    /// Chunks for which members with less than their shares have no free chunk.
    pub(crate) no_room: u64,
    /// Chunks of stripes that lack a chunk.
    pub(crate) degraded: u64,
    /// Chunks of stripes that are being filled.
    pub(crate) open: u64,
    /// Chunks that could not be read or written.
    pub(crate) unmovable: u64,
}

/// The journal. Of an array: blocks that are not yet in their places, and blocks of groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct JournalState {
    pub(crate) blocks_used: u64,
    pub(crate) blocks_written: u64,
}

/// A member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct MemberView {
    /// Its number.
    pub(crate) member: usize,
    pub(crate) path: String,
    pub(crate) uuid: String,
    /// `active`, `failed`, `offline`, `missing`, `evacuating`, `removed`, `spare` or `leaving`.
    pub(crate) state: String,
    pub(crate) bytes: u64,
    /// Chunks that the pool can use.
    pub(crate) chunks: u64,
    pub(crate) chunks_used: u64,
    /// Of a mapped pool: used chunks with parity.
    pub(crate) chunks_parity: u64,
    /// Of an array: chunks that are not up to date.
    pub(crate) chunks_stale: u64,
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) flushes: u64,
    pub(crate) read_errors: u64,
    pub(crate) checksum_errors: u64,
    pub(crate) repaired_blocks: u64,
    /// How it answers now.
    #[schemars(schema_with = "names::response")]
    pub(crate) response: String,
    /// Recent latency of reads; null without any.
    pub(crate) read_latency_us: Option<Percentiles>,
    /// Recent latency of writes; null without any.
    pub(crate) write_latency_us: Option<Percentiles>,
    /// A request that has been pending for longer is a straggler.
    pub(crate) straggler_after_us: u64,
    /// Stragglers now.
    pub(crate) stragglers: u64,
    pub(crate) stragglers_total: u64,
    /// Latency spikes.
    pub(crate) spikes: u64,
    /// Writes that went to other members because of a spike.
    pub(crate) redirections: u64,
    /// Reads that were sent to another member as well.
    pub(crate) hedges: u64,
    /// Reads that were computed from other members because this one was late.
    pub(crate) reconstructions: u64,
    /// How long it has been slower than its peers.
    pub(crate) slower_than_peers_s: u64,
    /// How long its oldest request has been pending.
    pub(crate) unanswered_s: u64,
    /// Whether it is out because of the I/O timeout.
    pub(crate) timed_out: bool,
    /// Injected faults.
    pub(crate) faults: Vec<InjectedFault>,
    /// Null for a member that has as much space as addresses.
    pub(crate) physical: Option<MemberSpace>,
    /// Limit of the physical space, set by hand; 0 for none.
    pub(crate) physical_limit: u64,
    /// Percent of its space that is used first; the rest only while there is no room on other members.
    pub(crate) weight: u8,
}

/// Latencies in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Percentiles {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    #[serde(rename = "p99.9")]
    pub(crate) p999: u64,
}

/// An injected fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct InjectedFault {
    /// A description.
    pub(crate) fault: String,
    /// Requests that it has hit.
    pub(crate) requests: u64,
}

/// Physical space of a thin member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct MemberSpace {
    pub(crate) used: u64,
    /// Null if no limit is known.
    pub(crate) free: Option<u64>,
    /// Null if no limit is known.
    pub(crate) total: Option<u64>,
    /// Origin of the figures: `zram`, `file system`, `device` or `given`.
    pub(crate) source: String,
}

/// Physical space that members share, or that one has for itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct SharedSpace {
    pub(crate) members: Vec<usize>,
    /// Used by these members.
    pub(crate) used: u64,
    /// Null if no limit is known.
    pub(crate) free: Option<u64>,
    /// Growth in bytes per second over the last minute; null at first.
    pub(crate) growth_per_s: Option<i64>,
    /// Seconds until it is full at that rate; null if it does not grow.
    pub(crate) full_in_s: Option<u64>,
    /// Whether the space may end before the addresses of the members do.
    pub(crate) overcommitted: bool,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct VolumeView {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// Bytes that it stores; null for an array.
    pub(crate) used_bytes: Option<u64>,
    /// Its protection; null for an array.
    pub(crate) protection: Option<String>,
    /// Bytes that are yet to be moved to stripes with its protection; null where it has not changed, or all have moved.
    pub(crate) misplaced_bytes: Option<u64>,
    /// Connections of clients.
    pub(crate) connections: u64,
    /// What its clients may ask for.
    pub(crate) limits: VolumeLimitsState,
    /// Requests that its limits have delayed.
    pub(crate) delayed_requests: u64,
    /// Requests that waited for their turn beside those of other volumes.
    pub(crate) queued_requests: u64,
}

/// Limits of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct VolumeLimitsState {
    /// Requests per second; 0 for no limit.
    pub(crate) iops: u64,
    /// 0 for no limit.
    pub(crate) bytes_per_second: u64,
    /// Milliseconds in which an idle volume saves up what it may use at once.
    pub(crate) burst_ms: u32,
}

/// Where a volume is served as a disk of virtual machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct VhostUserPlace {
    /// Name of the volume.
    pub(crate) volume: String,
    /// Path of its Unix socket.
    pub(crate) unix: String,
}

/// The block device by which a volume is served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct BlockDevicePlace {
    /// Name of the volume.
    pub(crate) volume: String,
    /// Path of the device.
    pub(crate) device: String,
}

/// Where volumes are served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct NbdPlaces {
    /// Path of a Unix socket.
    pub(crate) unix: Option<String>,
    /// TCP address.
    pub(crate) tcp: Option<String>,
    /// Whether clients over TCP use TLS.
    #[schemars(schema_with = "names::tls")]
    pub(crate) tls: String,
}
