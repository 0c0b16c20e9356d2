//! What is known of the damage of a volume: blocks that a client could not read, until they are written or read well.
//!
//! Clients on all threads note it, and the control stores it. A volume without damage costs its requests one load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sinew_format::model::damage::DamagedRanges;

/// The damage of a volume.
#[derive(Debug, Default)]
pub(crate) struct KnownDamage {
    ranges: Mutex<DamagedRanges>,
    /// Whether there is any.
    any: AtomicBool,
    /// Counts changes.
    changes: AtomicU64,
}

impl KnownDamage {
    pub(crate) fn new(ranges: DamagedRanges) -> KnownDamage {
        let any = AtomicBool::new(!ranges.is_empty());
        KnownDamage { ranges: Mutex::new(ranges), any, ..KnownDamage::default() }
    }

    fn lock(&self) -> MutexGuard<'_, DamagedRanges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These blocks cannot be read.
    pub(crate) fn note_unreadable(&self, first: u64, blocks: u64) {
        let mut ranges = self.lock();
        if ranges.add(first, blocks, 0) {
            self.any.store(true, Ordering::SeqCst);
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// These blocks were written, discarded, or read well.
    pub(crate) fn note_good(&self, first: u64, blocks: u64) {
        if !self.any.load(Ordering::SeqCst) {
            return;
        }
        let mut ranges = self.lock();
        if ranges.remove(first, blocks) {
            self.any.store(!ranges.is_empty(), Ordering::SeqCst);
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How often the damage has changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// The ranges, those found since the last call with this time.
    pub(crate) fn stamped(&self, now_s: u64) -> DamagedRanges {
        let mut ranges = self.lock();
        ranges.stamp(now_s);
        ranges.clone()
    }
}
