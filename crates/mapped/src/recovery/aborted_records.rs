//! Records that were taken back by later ones.

use std::ops::Range;

use sinew_core::ids::Lsn;
use sinew_format::journal_block::{JournalHeader, Record};
use sinew_format::model::mapped_geometry::Geometry;

/// What the journal takes back: slots, and the blocks whose records of them did not come about.
pub(crate) struct Voids(Vec<(Range<Lsn>, Range<u32>)>);

impl Voids {
    /// Of these blocks.
    pub(crate) fn of(chain: &[(JournalHeader, Vec<Record>)]) -> Voids {
        let each =
            chain.iter().flat_map(|(header, records)| records.iter().map(|record| (header.lsn, record)));
        Voids(
            each.filter_map(|(lsn, record)| match *record {
                Record::Void { slot, count, since } => Some((since..lsn, slot.0..slot.0 + u32::from(count))),
                _ => None,
            })
            .collect(),
        )
    }

    /// Whether a record of block `lsn` was taken back. A stripe whose opening is recorded with what is written to it has not
    /// come about either.
    pub(crate) fn are_about(&self, lsn: Lsn, record: &Record, geometry: Geometry) -> bool {
        let first = match *record {
            Record::Write { slot, .. } => slot,
            Record::Open { stripe, .. } => geometry.slot(stripe, 0, 0),
            _ => return false,
        };
        self.0.iter().any(|(blocks, slots)| blocks.contains(&lsn) && slots.contains(&first.0))
    }
}
