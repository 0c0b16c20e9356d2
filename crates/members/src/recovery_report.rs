//! What an opening of a pool did.

/// What recovery did, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Bytes of journal and pages read.
    pub bytes_read: u64,
    /// Table pages loaded.
    pub pages: u64,
    /// Journal blocks replayed.
    pub blocks_replayed: u64,
    /// Records whose data had to be verified.
    pub records_verified: u64,
    /// Of those, dropped.
    pub records_dropped: u64,
    /// Nanoseconds it took.
    pub elapsed_ns: u64,
}

impl RecoveryReport {
    /// Adds another shard's; they recover at the same time.
    pub fn add(&mut self, other: &RecoveryReport) {
        self.bytes_read += other.bytes_read;
        self.pages += other.pages;
        self.blocks_replayed += other.blocks_replayed;
        self.records_verified += other.records_verified;
        self.records_dropped += other.records_dropped;
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
    }
}
