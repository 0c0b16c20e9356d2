//! Reading part of a stripe: hedged where members may be late, otherwise one copy after the other.

use std::rc::Rc;

use crate::marks::Mark;
use crate::stripe::Stripes;
use crate::stripe::part::ChunkPart;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::{SlotNo, StripeId};
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;

impl<I: Io> Stripes<I> {
    /// Reads consecutive slots of one chunk. The caller is inside an epoch.
    pub(crate) async fn read_slots(self: &Rc<Self>, slot: SlotNo, count: u32) -> Result<Buf, VolumeError> {
        self.read_part(self.part_at(slot, count)).await
    }

    /// Reads part of a data column from its copies or the rest of the stripe. The caller is inside an epoch.
    async fn read_part(self: &Rc<Self>, part: ChunkPart) -> Result<Buf, VolumeError> {
        if self.store.members().may_be_late() {
            return self.read_hedged(part).await;
        }
        self.read_part_without(part, Vec::new()).await
    }

    /// The part of a column that consecutive slots of one chunk are.
    pub(crate) fn part_at(&self, slot: SlotNo, count: u32) -> ChunkPart {
        let (stripe, column, offset) = self.store.geometry().place(slot);
        ChunkPart { stripe, column, offset, count }
    }

    /// A whole data chunk, block by block where it must be.
    ///
    /// # Errors
    /// When a block of it cannot be had from anywhere.
    pub(crate) async fn read_chunk(
        self: &Rc<Self>,
        stripe: StripeId,
        column: usize,
    ) -> Result<Buf, VolumeError> {
        let whole = ChunkPart { stripe, column, offset: 0, count: CHUNK_BLOCKS };
        if let Ok(buf) = self.read_part(whole).await {
            return Ok(buf);
        }
        self.store.mark(Mark::ChunkBlockByBlock);
        let mut chunk = Buf::zeroed(CHUNK_BLOCKS as usize * BLOCK_BYTES);
        for offset in 0..CHUNK_BLOCKS {
            let block = self.read_part(ChunkPart { offset, count: 1, ..whole }).await?;
            chunk.bytes_mut()[offset as usize * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(block.bytes());
        }
        Ok(chunk)
    }
}
