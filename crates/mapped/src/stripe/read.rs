//! Reading part of a stripe: hedged where members may be late, otherwise one copy after the other.

use std::rc::Rc;

use crate::marks::Mark;
use crate::store::volumes::Stretch;
use crate::stripe::Stripes;
use crate::stripe::part::ChunkPart;
use crate::stripe::piece::{Condition, Piece};
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::{ShardBlock, SlotNo, StripeId};
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;
use sinew_members::hedged_read::{self, ReadOutcome};

impl<I: Io> Stripes<I> {
    /// Reads consecutive slots of one chunk. The caller is inside an epoch.
    pub(crate) fn read_slots(
        self: &Rc<Self>,
        slot: SlotNo,
        count: u32,
    ) -> impl Future<Output = Result<Buf, VolumeError>> {
        self.read_part(self.part_at(slot, count))
    }

    /// Reads part of a data column from its copies or the rest of the stripe. The caller is inside an epoch.
    ///
    /// What follows when the first copy does not have the part, or its slots are not in memory, is on the heap, so that the
    /// common case does not carry the size of its futures.
    async fn read_part(self: &Rc<Self>, part: ChunkPart) -> Result<Buf, VolumeError> {
        let Some(copy) = self.next_copy(part, &[]) else {
            return Box::pin(self.read_part_without(part, Vec::new())).await;
        };
        let result = if self.store.members().may_be_late() {
            match hedged_read::read(self, part, copy).await {
                ReadOutcome::Alternate(buf) => return Ok(buf),
                ReadOutcome::Primary(result) => result,
            }
        } else {
            self.store.members().read(copy.1, part.offset, part.count).await
        };
        match result {
            Ok(buf) if self.is_known_good(part, &buf) => Ok(buf),
            result => Box::pin(self.accept(part, copy, result)).await,
        }
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
        self.read_blocks(whole).await
    }

    /// As [`Stripes::read_slots`], block by block where it must be.
    ///
    /// # Errors
    /// When a block of it cannot be had from anywhere.
    pub(crate) async fn read_slots_singly(
        self: &Rc<Self>,
        slot: SlotNo,
        count: u32,
    ) -> Result<Buf, VolumeError> {
        match self.read_slots(slot, count).await {
            Ok(buf) => Ok(buf),
            Err(_) => self.read_blocks(self.part_at(slot, count)).await,
        }
    }

    /// The blocks of a stored stretch, each for itself; `None` when they cannot be read. The caller is inside
    /// an epoch.
    pub(crate) async fn read_stretch(self: &Rc<Self>, stretch: Stretch) -> Option<Vec<Piece>> {
        let slot = stretch.slot?;
        let data = self.read_slots_singly(slot, stretch.count).await.ok()?;
        let piece = |i: u32| Piece {
            block: ShardBlock(stretch.block.0 + i),
            data: data.slice(i as usize * BLOCK_BYTES, BLOCK_BYTES),
            condition: Condition::StillAt(Some(SlotNo(slot.0 + i))),
        };
        Some((0..stretch.count).map(piece).collect())
    }

    /// Reads each block of a part for itself. All are tried, so that all that are lost are known.
    async fn read_blocks(self: &Rc<Self>, whole: ChunkPart) -> Result<Buf, VolumeError> {
        let mut data = Buf::zeroed(whole.count as usize * BLOCK_BYTES);
        let mut is_lost = false;
        for i in 0..whole.count {
            match self.read_part(ChunkPart { offset: whole.offset + i, count: 1, ..whole }).await {
                Ok(block) => {
                    data.bytes_mut()[i as usize * BLOCK_BYTES..][..BLOCK_BYTES]
                        .copy_from_slice(block.bytes());
                }
                Err(_) => is_lost = true,
            }
        }
        if is_lost { Err(VolumeError::Failed) } else { Ok(data) }
    }
}
