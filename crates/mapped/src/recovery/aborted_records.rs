//! Aborted records: records that later abort records cancel.

use std::ops::Range;

use sinew_core::ids::Lsn;
use sinew_format::journal_block::{JournalHeader, Record};
use sinew_format::model::mapped_geometry::MappedGeometry;

/// The records that the journal cancels, by their slots and by the blocks that may hold them.
pub(crate) struct AbortedRecords(Vec<(Range<Lsn>, Range<u32>)>);

impl AbortedRecords {
    /// Of these blocks.
    pub(crate) fn of(chain: &[(JournalHeader, Vec<Record>)]) -> AbortedRecords {
        let each =
            chain.iter().flat_map(|(header, records)| records.iter().map(|record| (header.lsn, record)));
        AbortedRecords(
            each.filter_map(|(lsn, record)| match *record {
                Record::Void { slot, count, since } => Some((since..lsn, slot.0..slot.0 + u32::from(count))),
                _ => None,
            })
            .collect(),
        )
    }

    /// Whether a record of block `lsn` was aborted. A stripe whose opening is recorded together with its data is
    /// aborted with it.
    pub(super) fn are_about(&self, lsn: Lsn, record: &Record, geometry: MappedGeometry) -> bool {
        let first = match *record {
            Record::Write { slot, .. } => slot,
            Record::Open { stripe, .. } => geometry.slot(stripe, 0, 0),
            _ => return false,
        };
        self.0.iter().any(|(blocks, slots)| blocks.contains(&lsn) && slots.contains(&first.0))
    }
}
