//! The hash of everything that happened in a world, in order.
//!
//! Two runs are the same run when their hashes are equal at the end. Every completed request is folded in with its
//! time, place, outcome and content, so a divergence shows in the first event that differs.

use crc_fast::CrcAlgorithm;

/// CRC32C of some bytes.
pub(crate) fn crc(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes)
}

/// A running 64-bit hash. Order matters; not for secrets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TraceHash(u64);

impl TraceHash {
    /// Adds one word.
    pub(crate) fn word(&mut self, word: u64) {
        let mixed = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9fb2_1c65_1e98_df25);
        self.0 = mixed ^ (mixed >> 29);
    }

    /// Adds bytes and their length.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        self.word(crc(bytes));
    }

    /// The hash so far.
    pub(crate) fn value(self) -> u64 {
        self.0
    }
}
