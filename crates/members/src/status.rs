//! State and counters of a shard, and their sums over the shards of a pool.

use std::cell::Cell;
use std::collections::BTreeMap;

use sinew_core::ids::VolumeId;

use crate::latency::MemberLatency;
use crate::member_stats::MemberStats;
use crate::update_latency::UpdateLatency;

/// A number that only grows.
#[derive(Default, Debug)]
pub struct Counter(Cell<u64>);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.set(self.0.get() + n);
    }
}

macro_rules! counters {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// Counters of one shard since the pool was opened.
        #[derive(Default, Debug)]
        pub struct Counters {
            $(#[doc = $doc] pub $name: Counter,)*
        }

        /// Values of the counters of a shard or, added up, of the pool.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CounterValues {
            $(#[doc = $doc] pub $name: u64,)*
        }

        impl Counters {
            /// The present values.
            pub fn values(&self) -> CounterValues {
                CounterValues { $($name: self.$name.0.get(),)* }
            }
        }

        impl CounterValues {
            /// Descriptions of the counters, in the order of [`CounterValues::named`].
            pub const MEANINGS: &[&str] = &[$($doc.trim_ascii(),)*];

            /// Adds another shard's.
            pub fn add(&mut self, other: &CounterValues) {
                $(self.$name += other.$name;)*
            }

            /// All values with their names.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Reads of a volume.
    reads,
    /// Writes of whole blocks.
    writes,
    /// Writes of parts of a block.
    merges,
    /// Bytes that clients read.
    read_bytes,
    /// Bytes that clients wrote.
    written_bytes,
    /// Discards.
    discards,
    /// Rounds of flushing the members.
    flushes,
    /// Pages of the stripe table read since the owners and checksums of their slots were not in memory.
    slot_pages_read,
    /// Pages of the block map read since they were not in memory.
    map_pages_read,
    /// Mirrored stripes opened for small writes.
    stripes_opened,
    /// Full stripes written in their final form.
    stripes_written,
    /// Mirrored stripes that became parity stripes.
    stripes_converted,
    /// Dead stripes freed.
    stripes_freed,
    /// Blocks moved out of sparse stripes.
    blocks_compacted,
    /// Scattered blocks rewritten next to each other by defragmentation.
    blocks_gathered,
    /// Blocks of volumes moved to stripes of another class, since the protection of their volume has changed.
    blocks_reclassed,
    /// Chunks rebuilt.
    chunks_rebuilt,
    /// Chunks moved to members with less than their fair share.
    chunks_balanced,
    /// Table pages written.
    pages_written,
    /// Reads reconstructed from the other columns of a stripe.
    reconstructed_reads,
    /// Reads of blocks without a good copy.
    failed_reads,
    /// Scrubs completed.
    scrubs_done,
    /// Stripes scrubbed.
    stripes_scrubbed,
    /// Chunks or blocks that a scrub found wrong.
    scrub_errors,
    /// Of the scrub errors, those not repaired for lack of a good copy.
    scrub_unrepaired,
    /// Units of an elastic array that a scrub found in use of physical space, though the form of their stripe does not use them.
    untidy_found,
    /// Stripes of an array updated in place.
    stripes_updated,
    /// Stripe updates by clients in an array without a journal.
    stripe_changes,
    /// Nanoseconds for which those updates waited for the lock of their stripe.
    stripe_wait_ns,
    /// Nanoseconds for which those updates waited for reads that parity needs.
    stripe_read_ns,
    /// Nanoseconds for which those updates waited until the write-intent bitmap was durable.
    stripe_mark_ns,
    /// Nanoseconds for which those updates waited for their writes.
    stripe_write_ns,
    /// Blocks of an array destaged from the journal.
    blocks_drained,
    /// Stripes of an array resynced.
    stripes_resynced,
    /// Chunks of an array moved onto more members.
    chunks_moved,
    /// Stripes of an elastic array that became mirrored.
    stripes_promoted,
    /// Stripes of an elastic array that got parity instead of copies.
    stripes_demoted,
    /// Stripes of an elastic array that became empty.
    stripes_emptied,
}

/// What the governor of an elastic array has seen lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GovernorStatus {
    /// Requests of clients in the last minute in which there were some, one for each stripe that they used.
    pub requests: u64,
    /// Of `requests`, those that used a mirrored stripe.
    pub hits: u64,
    /// Bytes of data that were looked at for their compressibility; those of long ago count less.
    pub data_bytes: u64,
    /// The space that they are estimated to take.
    pub data_stored_bytes: u64,
    /// Bytes of parity, likewise.
    pub parity_bytes: u64,
    /// The space that they are estimated to take.
    pub parity_stored_bytes: u64,
}

impl GovernorStatus {
    /// Adds another shard's.
    pub fn add(&mut self, other: &GovernorStatus) {
        self.requests += other.requests;
        self.hits += other.hits;
        self.data_bytes += other.data_bytes;
        self.data_stored_bytes += other.data_stored_bytes;
        self.parity_bytes += other.parity_bytes;
        self.parity_stored_bytes += other.parity_stored_bytes;
    }
}

/// Chunks of a mapped pool on members with more than their shares, and why none of them may move. All zero while there is
/// something that may move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalanceBlocked {
    /// Chunks that would have to move for even shares.
    pub chunks: u64,
    /// Chunks whose stripes need another member than those with less than their shares: these hold a chunk of them already.
    pub together: u64,
    /// Chunks for which the members with less than their shares have no free chunk.
    pub no_room: u64,
    /// Chunks of stripes that lack a chunk.
    pub degraded: u64,
    /// Chunks of stripes that are being filled.
    pub open: u64,
    /// Chunks that could not be read or written.
    pub unmovable: u64,
}

impl BalanceBlocked {
    /// Adds another shard's.
    pub fn add(&mut self, other: &BalanceBlocked) {
        self.chunks += other.chunks;
        self.together += other.together;
        self.no_room += other.no_room;
        self.degraded += other.degraded;
        self.open += other.open;
        self.unmovable += other.unmovable;
    }
}

/// Requests that had to wait, and for how long all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delayed {
    /// Requests.
    pub requests: u64,
    /// Nanoseconds.
    pub ns: u64,
}

/// A shard's state, or, added up, the pool's.
#[derive(Clone, Debug, Default)]
pub struct ShardStatus {
    /// Bytes stored by clients.
    pub stored_bytes: u64,
    /// Of `stored_bytes`, bytes in mirrored stripes.
    pub stored_mirrored_bytes: u64,
    /// Of `stored_bytes`, bytes in parity stripes. In an array without redundancy all bytes are in neither.
    pub stored_parity_bytes: u64,
    /// Bytes that clients may store.
    pub capacity_bytes: u64,
    /// Bytes of chunks on active members.
    pub raw_bytes: u64,
    /// Of `raw_bytes`, bytes of free chunks.
    pub free_bytes: u64,
    /// Mirrored stripes.
    pub stripes_mirrored: u64,
    /// Parity stripes.
    pub stripes_parity: u64,
    /// Stripes of an elastic array that store nothing.
    pub stripes_empty: u64,
    /// Stripes of an elastic array that become mirrored or get parity by an order, and have not yet.
    pub conversions_left: u64,
    /// What the governor of an elastic array has seen.
    pub governor: GovernorStatus,
    /// Stripes with a missing or stale chunk.
    pub stripes_degraded: u64,
    /// Of `stripes_degraded`, stripes without any redundancy left, or lost.
    pub stripes_at_risk: u64,
    /// Members whose loss the weakest stripe of a mapped pool has had. In an array members say that.
    pub losses_most: u64,
    /// Shards whose metadata has fewer copies than the protection asks for.
    pub metadata_degraded: u64,
    /// Shards whose metadata may have fewer: those, and shards that have been opened and have not copied it again yet.
    pub metadata_unsettled: u64,
    /// Chunks still to be rebuilt, of those that can be rebuilt now.
    pub rebuild_chunks_left: u64,
    /// Chunks still to be moved until members have their fair shares; 0 while no rebalance runs.
    pub balance_chunks_left: u64,
    /// Why shares differ although no rebalance runs. Not among the vitals.
    pub balance_blocked: BalanceBlocked,
    /// Stripes of an array that await their first resync.
    pub resync_stripes_left: u64,
    /// Stripes still to be scrubbed; `None` while no scrub runs.
    pub scrub_stripes_left: Option<u64>,
    /// Chunks of an array still to be moved onto more members; `None` when it is not growing.
    pub growth_chunks_left: Option<u64>,
    /// Shards whose growth waits because chunks cannot be read or written now.
    pub growth_stuck: u64,
    /// Regions of members of an array whose rebuild waits because other units of their stripes cannot be read.
    pub rebuild_stuck: u64,
    /// Heap bytes of the tables.
    pub table_bytes: u64,
    /// Blocks of the journal in use.
    pub journal_blocks_used: u64,
    /// Blocks of the journal written since the pool was opened.
    pub journal_blocks_written: u64,
    /// Client requests refused for lack of room although all members were active and less than the capacity was stored.
    pub refused_early: u64,
    /// Requests that wait until the member that failed them is recorded as out.
    pub failures_reported: u64,
    /// Tasks and what they wait for, for the diagnosis of a standstill.
    pub waits: String,
    /// Blocks of volumes, as the shard numbers them, that had no good copy and have not been written since. Of one shard only.
    pub lost_blocks: Vec<(VolumeId, u64)>,
    /// Counters.
    pub counters: CounterValues,
    /// Breakdown of the latency of stripe updates; of arrays without a journal only.
    pub update_latency: UpdateLatency,
    /// Requests of each member.
    pub members: Vec<MemberStats>,
    /// Latency of each member.
    pub member_latency: Vec<MemberLatency>,
    /// Used chunks on each member.
    pub member_chunks_used: Vec<u64>,
    /// Of `member_chunks_used`, parity chunks; of mapped pools only.
    pub member_chunks_parity: Vec<u64>,
    /// Stale chunks of an array on each member.
    pub member_chunks_stale: Vec<u64>,
    /// Bytes of each member for chunks that store nothing now.
    pub member_unused_bytes: Vec<u64>,
    /// Of each member, whether it has refused a write for lack of physical space a short time ago.
    pub member_full: Vec<bool>,
    /// Shards in which writes that others depend on wait for physical space.
    pub waits_for_space: u64,
    /// Bytes that each volume of a mapped pool stores. Volumes without any may be absent.
    pub volume_bytes: BTreeMap<VolumeId, u64>,
    /// Of volumes whose protection has changed, bytes that are yet to be moved.
    pub volume_misplaced_bytes: BTreeMap<VolumeId, u64>,
    /// Requests of volumes that waited while others had their share.
    pub volume_queued: BTreeMap<VolumeId, Delayed>,
}

impl ShardStatus {
    /// Adds another shard's.
    pub fn add(&mut self, other: &ShardStatus) {
        self.stored_bytes += other.stored_bytes;
        self.stored_mirrored_bytes += other.stored_mirrored_bytes;
        self.stored_parity_bytes += other.stored_parity_bytes;
        self.capacity_bytes += other.capacity_bytes;
        self.raw_bytes += other.raw_bytes;
        self.free_bytes += other.free_bytes;
        self.stripes_mirrored += other.stripes_mirrored;
        self.stripes_parity += other.stripes_parity;
        self.stripes_empty += other.stripes_empty;
        self.conversions_left += other.conversions_left;
        self.governor.add(&other.governor);
        self.stripes_degraded += other.stripes_degraded;
        self.stripes_at_risk += other.stripes_at_risk;
        self.losses_most = self.losses_most.max(other.losses_most);
        self.metadata_degraded += other.metadata_degraded;
        self.metadata_unsettled += other.metadata_unsettled;
        self.rebuild_chunks_left += other.rebuild_chunks_left;
        self.balance_chunks_left += other.balance_chunks_left;
        self.balance_blocked.add(&other.balance_blocked);
        self.resync_stripes_left += other.resync_stripes_left;
        let sum = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a + b.unwrap_or(0)));
        self.scrub_stripes_left = sum(self.scrub_stripes_left, other.scrub_stripes_left);
        self.growth_chunks_left = sum(self.growth_chunks_left, other.growth_chunks_left);
        self.growth_stuck += other.growth_stuck;
        self.rebuild_stuck += other.rebuild_stuck;
        self.table_bytes += other.table_bytes;
        self.journal_blocks_used += other.journal_blocks_used;
        self.journal_blocks_written += other.journal_blocks_written;
        self.refused_early += other.refused_early;
        self.failures_reported += other.failures_reported;
        self.waits += &other.waits;
        self.counters.add(&other.counters);
        self.update_latency.add(&other.update_latency);
        self.members.resize(self.members.len().max(other.members.len()), MemberStats::default());
        self.member_chunks_used.resize(self.members.len(), 0);
        for (mine, theirs) in self.members.iter_mut().zip(&other.members) {
            mine.add(theirs);
        }
        self.member_latency.resize(self.members.len(), MemberLatency::default());
        for (mine, theirs) in self.member_latency.iter_mut().zip(&other.member_latency) {
            mine.add(theirs);
        }
        self.member_unused_bytes.resize(self.members.len(), 0);
        for (mine, theirs) in self.member_unused_bytes.iter_mut().zip(&other.member_unused_bytes) {
            *mine += theirs;
        }
        self.waits_for_space += other.waits_for_space;
        for (volume, bytes) in &other.volume_bytes {
            *self.volume_bytes.entry(*volume).or_default() += bytes;
        }
        for (volume, bytes) in &other.volume_misplaced_bytes {
            *self.volume_misplaced_bytes.entry(*volume).or_default() += bytes;
        }
        for (volume, delayed) in &other.volume_queued {
            let sum = self.volume_queued.entry(*volume).or_default();
            sum.requests += delayed.requests;
            sum.ns += delayed.ns;
        }
        self.member_full.resize(self.members.len(), false);
        for (mine, theirs) in self.member_full.iter_mut().zip(&other.member_full) {
            *mine |= theirs;
        }
        self.member_chunks_stale.resize(self.members.len(), 0);
        for (mine, theirs) in self.member_chunks_stale.iter_mut().zip(&other.member_chunks_stale) {
            *mine += theirs;
        }
        self.member_chunks_parity.resize(self.members.len(), 0);
        for (mine, theirs) in self.member_chunks_parity.iter_mut().zip(&other.member_chunks_parity) {
            *mine += theirs;
        }
        for (mine, theirs) in self.member_chunks_used.iter_mut().zip(&other.member_chunks_used) {
            *mine += theirs;
        }
    }
}
