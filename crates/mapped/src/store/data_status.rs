//! The data of an overlapped commit: where it goes, and whether it is written yet.

use std::cell::Cell;

use sinew_core::ids::{Lsn, SlotNo};
use sinew_format::journal_block::Record;

/// Whether the data that records name is written in all its places.
pub(crate) struct DataStatus {
    /// None: not known yet.
    pub(super) written: Cell<Option<bool>>,
    /// A record is in a block.
    pub(super) recorded: Cell<bool>,
    /// The slots that the records are about, and the first block that may have them.
    pub(super) first: SlotNo,
    pub(super) slots: u32,
    pub(super) since: Lsn,
}

impl DataStatus {
    /// Of data that is being written.
    pub(super) fn new(first: SlotNo, slots: u32, since: Lsn) -> DataStatus {
        DataStatus { written: Cell::new(None), recorded: Cell::new(false), first, slots, since }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.written.get().is_some()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.written.get() == Some(false)
    }

    pub(super) fn set_recorded(&self) {
        self.recorded.set(true);
    }

    /// The records that cancel those that name this data.
    pub(super) fn abort_records(&self) -> Vec<Record> {
        let most = u32::from(u8::MAX);
        let parts = (0..self.slots).step_by(most as usize);
        parts
            .map(|done| Record::Void {
                slot: SlotNo(self.first.0 + done),
                count: (self.slots - done).min(most) as u8,
                since: self.since,
            })
            .collect()
    }
}
