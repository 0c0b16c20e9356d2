//! Discards: blocks whose content is not needed any more take no space on members that make use of that.

use sinew_core::ids::{ChunkAddr, MemberId};
use sinew_core::io::{Io, IoError};
use sinew_format::model::mapped_geometry::CHUNK_BYTES;

use crate::members::Members;

impl<I: Io> Members<I> {
    /// Whether the member's device makes use of discards: beyond giving space back, unless space `is_short`.
    pub fn takes_discards(&self, member: MemberId, is_short: bool) -> bool {
        let takes =
            |device| self.io.takes_discards(device) && (is_short || !self.io.discards_only_free(device));
        !self.are_read_only() && self.get(member).device.is_some_and(takes)
    }

    /// Whether discarded blocks of the member read as zeros until they are written again.
    pub fn discards_to_zeros(&self, member: MemberId) -> bool {
        self.get(member).device.is_some_and(|device| self.io.discards_to_zeros(device))
    }

    /// Discards `chunks` consecutive chunks.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub async fn discard(&self, first: ChunkAddr, chunks: u64) -> Result<(), IoError> {
        let offset = self.chunk_offset(first, 0);
        let (device, origin) = self.place(first.member)?;
        if self.are_read_only() {
            return Ok(());
        }
        self.io.discard(device, origin + offset, chunks * CHUNK_BYTES).await
    }

    /// Discards a range of the member's part of its device, if the device makes use of discards. A flush makes that durable.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub async fn discard_at(&self, member: MemberId, offset: u64, bytes: u64) -> Result<(), IoError> {
        let (device, origin) = self.place(member)?;
        if self.are_read_only() || !self.io.takes_discards(device) {
            return Ok(());
        }
        let result = self.io.discard(device, origin + offset, bytes).await;
        self.set_unflushed(member);
        result
    }
}
