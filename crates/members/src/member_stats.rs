//! Counts of the requests that one shard sent to one member.

/// Failed reads of one shard after which the control is asked to do without a member, and after as many again each time.
const READ_ERRORS_MANY: u32 = 64;

/// Requests of one shard to one member, and their errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberStats {
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Reads that failed.
    pub read_errors: u32,
    /// Blocks whose checksum did not match.
    pub checksum_errors: u64,
    /// Blocks rewritten from redundancy.
    pub repaired_blocks: u64,
}

impl MemberStats {
    /// What has been counted since these counts; everything, if the counts have begun anew since.
    pub fn since(&self, earlier: &MemberStats) -> MemberStats {
        let has_begun_anew = self.reads < earlier.reads
            || self.writes < earlier.writes
            || self.read_errors < earlier.read_errors
            || self.checksum_errors < earlier.checksum_errors;
        if has_begun_anew {
            return *self;
        }
        MemberStats {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            flushes: self.flushes.saturating_sub(earlier.flushes),
            read_errors: self.read_errors.saturating_sub(earlier.read_errors),
            checksum_errors: self.checksum_errors.saturating_sub(earlier.checksum_errors),
            repaired_blocks: self.repaired_blocks.saturating_sub(earlier.repaired_blocks),
        }
    }

    /// Whether many reads have failed since there were `told` errors, which are then as many as now.
    pub(crate) fn has_many_read_errors(&self, told: &mut u32) -> bool {
        // The count begins anew with another device.
        *told = (*told).min(self.read_errors);
        let has_many = self.read_errors - *told >= READ_ERRORS_MANY;
        if has_many {
            *told = self.read_errors;
        }
        has_many
    }

    /// Adds the counts of another shard.
    pub fn add(&mut self, other: &MemberStats) {
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
        self.flushes += other.flushes;
        self.read_errors += other.read_errors;
        self.checksum_errors += other.checksum_errors;
        self.repaired_blocks += other.repaired_blocks;
    }
}
