//! What a shard can tell about itself.

use std::cell::Cell;

use crate::latency::MemberLatency;
use crate::members::MemberStats;
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
        /// What one shard has done since the pool was opened.
        #[derive(Default, Debug)]
        pub struct Counters {
            $(#[doc = $doc] pub $name: Counter,)*
        }

        /// What the pool has done since it was opened.
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
            /// What each of them counts, in the order of [`CounterValues::named`].
            pub const MEANINGS: &[&str] = &[$($doc.trim_ascii(),)*];

            /// Adds another shard's.
            pub fn add(&mut self, other: &CounterValues) {
                $(self.$name += other.$name;)*
            }

            /// All of them with their names.
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
    /// Mirrored stripes opened for small writes.
    stripes_opened,
    /// Stripes written in their final form at once.
    stripes_written,
    /// Mirrored stripes that became parity stripes.
    stripes_converted,
    /// Dead stripes freed.
    stripes_freed,
    /// Blocks moved out of sparse stripes.
    blocks_compacted,
    /// Blocks that lay together in a volume and now do on the members.
    blocks_gathered,
    /// Chunks given back a good home.
    chunks_rebuilt,
    /// Chunks moved to members that had less than their share.
    chunks_balanced,
    /// Table pages written.
    pages_written,
    /// Reads answered from the rest of a stripe.
    reconstructed_reads,
    /// Reads of which no good copy was left.
    failed_reads,
    /// Scrubs that came to the end.
    scrubs_done,
    /// Stripes scrubbed.
    stripes_scrubbed,
    /// Chunks or blocks a scrub found wrong.
    scrub_errors,
    /// Of those, not repaired because no good copy was left.
    scrub_unrepaired,
    /// Stripes of an array changed in place.
    stripes_updated,
    /// Changes of an array's stripes by clients, without a journal.
    stripe_changes,
    /// Nanoseconds those waited for their stripe, added up.
    stripe_wait_ns,
    /// Nanoseconds they waited for what was read for their parity.
    stripe_read_ns,
    /// Nanoseconds they waited for the mark of their region to be durable.
    stripe_mark_ns,
    /// Nanoseconds they waited to be written.
    stripe_write_ns,
    /// Blocks of an array brought from the journal to their place.
    blocks_drained,
    /// Stripes of an array resynced.
    stripes_resynced,
    /// Chunks of an array moved onto more members.
    chunks_moved,
}

/// A shard's state, or, added up, the pool's.
#[derive(Clone, Debug, Default)]
pub struct ShardStatus {
    /// Bytes that clients have stored.
    pub stored_bytes: u64,
    /// Of those, in mirrored stripes.
    pub stored_mirrored_bytes: u64,
    /// And in parity stripes; in an array without redundancy they are in neither.
    pub stored_parity_bytes: u64,
    /// Bytes that clients may store.
    pub capacity_bytes: u64,
    /// Bytes of chunks on active members.
    pub raw_bytes: u64,
    /// Of those, free.
    pub free_bytes: u64,
    /// Mirrored stripes.
    pub stripes_mirrored: u64,
    /// Parity stripes.
    pub stripes_parity: u64,
    /// Stripes with a chunk that is not where it should be.
    pub stripes_degraded: u64,
    /// Of those, stripes that have lost as much as the protection covers, or more.
    pub stripes_at_risk: u64,
    /// Shards whose metadata is not yet on as many members as it should be.
    pub metadata_degraded: u64,
    /// Chunks that can be rebuilt now.
    pub rebuild_chunks_left: u64,
    /// Chunks still to be moved until members have their shares; 0 when nobody moves any.
    pub balance_chunks_left: u64,
    /// Stripes of an array that await their first resync.
    pub resync_stripes_left: u64,
    /// Stripes the scrub has still to look at; none when none is under way.
    pub scrub_stripes_left: Option<u64>,
    /// Chunks of an array that are about to move onto more members; none when it is not growing.
    pub growth_chunks_left: Option<u64>,
    /// Shards whose growth waits because chunks cannot be read or written now.
    pub growth_stuck: u64,
    /// Heap bytes of the tables.
    pub table_bytes: u64,
    /// Blocks of the journal in use.
    pub journal_blocks_used: u64,
    /// Blocks of the journal written since the pool was opened.
    pub journal_blocks_written: u64,
    /// Times clients were refused for lack of room although all members were there and no more than the
    /// capacity was stored.
    pub refused_early: u64,
    /// Requests that wait for a member that failed them to be recorded as out.
    pub failures_reported: u64,
    /// What waits for what, for the diagnosis of a standstill.
    pub waits: String,
    /// Counters.
    pub counters: CounterValues,
    /// Of an array without a journal: what changes of its stripes waited for.
    pub update_latency: UpdateLatency,
    /// Each member's part in it.
    pub members: Vec<MemberStats>,
    /// How each member answers.
    pub member_latency: Vec<MemberLatency>,
    /// Chunks of stripes on each member.
    pub member_chunks_used: Vec<u64>,
    /// Of those, parity chunks; of mapped pools only.
    pub member_chunks_parity: Vec<u64>,
    /// Chunks of an array on each member that are not up to date.
    pub member_chunks_stale: Vec<u64>,
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
        self.stripes_degraded += other.stripes_degraded;
        self.stripes_at_risk += other.stripes_at_risk;
        self.metadata_degraded += other.metadata_degraded;
        self.rebuild_chunks_left += other.rebuild_chunks_left;
        self.balance_chunks_left += other.balance_chunks_left;
        self.resync_stripes_left += other.resync_stripes_left;
        let sum = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a + b.unwrap_or(0)));
        self.scrub_stripes_left = sum(self.scrub_stripes_left, other.scrub_stripes_left);
        self.growth_chunks_left = sum(self.growth_chunks_left, other.growth_chunks_left);
        self.growth_stuck += other.growth_stuck;
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
            mine.reads += theirs.reads;
            mine.read_bytes += theirs.read_bytes;
            mine.writes += theirs.writes;
            mine.written_bytes += theirs.written_bytes;
            mine.flushes += theirs.flushes;
            mine.read_errors += theirs.read_errors;
            mine.checksum_errors += theirs.checksum_errors;
            mine.repaired_blocks += theirs.repaired_blocks;
        }
        self.member_latency.resize(self.members.len(), MemberLatency::default());
        for (mine, theirs) in self.member_latency.iter_mut().zip(&other.member_latency) {
            mine.add(theirs);
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
