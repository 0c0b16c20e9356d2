//! Counts of the work that recovery did when a pool was opened.

/// Counts of the work of recovery, of one shard or, added up, of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Bytes of journal and pages read.
    pub bytes_read: u64,
    /// Table pages loaded.
    pub pages: u64,
    /// Journal blocks replayed.
    pub blocks_replayed: u64,
    /// Journal records whose data was verified.
    pub records_verified: u64,
    /// Of the records verified, those dropped because their data was not durable.
    pub records_dropped: u64,
    /// Journal blocks needed that no member has. Only a pool that is opened as a last resort goes on without them.
    pub blocks_missing: u64,
    /// Blocks of volumes whose tables contradict each other, so that reading them fails. Last resort only.
    pub blocks_unknown: u64,
    /// Nanoseconds that recovery took.
    pub elapsed_ns: u64,
}

impl RecoveryReport {
    /// Adds the report of another shard, which recovered at the same time.
    pub fn add(&mut self, other: &RecoveryReport) {
        self.bytes_read += other.bytes_read;
        self.pages += other.pages;
        self.blocks_replayed += other.blocks_replayed;
        self.records_verified += other.records_verified;
        self.records_dropped += other.records_dropped;
        self.blocks_missing += other.blocks_missing;
        self.blocks_unknown += other.blocks_unknown;
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
    }
}
