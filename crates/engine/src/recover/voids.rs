//! Records that were taken back by later ones.

use std::ops::Range;

use crate::addr::{Lsn, SlotNo};
use crate::disk::journal::{JournalHeader, Record};

/// What the journal takes back: slots, and the blocks whose records of them did not come about.
pub(super) struct Voids(Vec<(Range<Lsn>, SlotNo, u32)>);

impl Voids {
    /// Of these blocks.
    pub(super) fn of(chain: &[(JournalHeader, Vec<Record>)]) -> Voids {
        let each =
            chain.iter().flat_map(|(header, records)| records.iter().map(|record| (header.lsn, record)));
        Voids(
            each.filter_map(|(lsn, record)| match *record {
                Record::Void { slot, count, since } => Some((since..lsn, slot, u32::from(count))),
                _ => None,
            })
            .collect(),
        )
    }

    /// Whether a record of block `lsn` was taken back.
    pub(super) fn are_about(&self, lsn: Lsn, record: &Record) -> bool {
        let Record::Write { slot: written, .. } = record else { return false };
        let has = |slot: &SlotNo, count: &u32| (slot.0..slot.0 + count).contains(&written.0);
        self.0.iter().any(|(blocks, slot, count)| blocks.contains(&lsn) && has(slot, count))
    }
}
