//! The data of a journal record: whether it is written yet.

use std::cell::Cell;

/// Whether the data that a record names is written in all its places.
#[derive(Default)]
pub(crate) struct DataStatus {
    /// None: not known yet.
    pub(super) written: Cell<Option<bool>>,
    /// The record is in a block.
    pub(super) recorded: Cell<bool>,
}

impl DataStatus {
    /// Of a record that names no data.
    pub(super) fn without_data() -> DataStatus {
        DataStatus { written: Cell::new(Some(true)), recorded: Cell::default() }
    }

    /// Whether the record is in a block.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded.get()
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
}
