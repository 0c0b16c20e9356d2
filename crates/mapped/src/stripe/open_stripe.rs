//! One stripe that small writes are appended to.

use std::rc::Rc;

use crate::store::data_status::DataStatus;
use sinew_core::ids::{ChunkAddr, StripeId};
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;

/// A stripe being appended to.
pub(crate) struct OpenStripe {
    pub(super) id: StripeId,
    pub(super) homes: Vec<Option<ChunkAddr>>,
    /// Blocks appended to each column.
    pub(super) fill: Vec<u32>,
    pub(super) column_next: usize,
    /// Of the record that opens it.
    pub(super) opening: Rc<DataStatus>,
}

impl OpenStripe {
    pub(super) fn is_full(&self) -> bool {
        self.fill.iter().all(|&fill| fill == CHUNK_BLOCKS)
    }

    /// Columns with room, the next one first.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        let columns = self.fill.len();
        (0..columns).map(move |i| (self.column_next + i) % columns).filter(|&c| self.fill[c] < CHUNK_BLOCKS)
    }
}
