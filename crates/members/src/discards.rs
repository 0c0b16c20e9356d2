//! Discards: blocks whose content is not needed any more take no space on members that make use of that.

use sinew_core::ids::{ChunkAddr, MemberId};
use sinew_core::io::{Discards, Io, IoError};
use sinew_format::model::mapped_geometry::CHUNK_BYTES;

use crate::members::Members;

impl<I: Io> Members<I> {
    /// The effect of discards on the member's device.
    pub fn discards(&self, member: MemberId) -> Discards {
        self.get(member).device.map_or(Discards::Ignored, |device| self.io.discards(device))
    }

    /// Whether the member's device gains from discards, so that free chunks are discarded at any time. Blocks that were never
    /// written may read as anything then.
    pub fn takes_discards(&self, member: MemberId) -> bool {
        !self.are_read_only() && matches!(self.discards(member), Discards::Unspecified | Discards::Zeros)
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
        let _change = self.writing.begin(first.member).await;
        self.io.discard(device, origin + offset, chunks * CHUNK_BYTES).await
    }

    /// Discards a range of the member's part of its device, if the device makes use of discards. A flush makes that durable.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub async fn discard_at(&self, member: MemberId, offset: u64, bytes: u64) -> Result<(), IoError> {
        let (device, origin) = self.place(member)?;
        if self.are_read_only() || self.discards(member) == Discards::Ignored {
            return Ok(());
        }
        let _change = self.writing.begin(member).await;
        let result = self.io.discard(device, origin + offset, bytes).await;
        self.set_unflushed(member);
        result
    }
}
