//! A part of one column of a stripe: the unit of reading.

use crate::stripe::Stripes;
use sinew_core::ids::{SlotNo, StripeId};
use sinew_core::io::Io;

/// Part of a data column of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkPart {
    pub(crate) stripe: StripeId,
    pub(crate) column: usize,
    pub(crate) offset: u32,
    pub(crate) count: u32,
}

impl<I: Io> Stripes<I> {
    /// The part of a column that consecutive slots of one chunk are.
    pub(crate) fn part_at(&self, slot: SlotNo, count: u32) -> ChunkPart {
        let (stripe, column, offset) = self.store.geometry().place(slot);
        ChunkPart { stripe, column, offset, count }
    }
}
