//! A part of one column of a stripe: the unit of reading.

use sinew_core::ids::StripeId;

/// Part of a data column of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkPart {
    pub(crate) stripe: StripeId,
    pub(crate) column: usize,
    pub(crate) offset: u32,
    pub(crate) count: u32,
}
