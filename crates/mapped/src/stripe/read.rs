//! Reading part of a stripe: from the least burdened good copy, and if there is none, from the rest of the stripe.
//!
//! Every block with a known checksum is verified. A block that does not match, or cannot be read, is fetched from the
//! redundancy, rewritten where it was bad, and counted.

use std::rc::Rc;

use crate::marks::Mark;
use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use crate::stripe::part::ChunkPart;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::{ChunkAddr, SlotNo, StripeId};
use sinew_core::io::{Io, IoError};
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

    /// As `read_part`, with copies known to be `bad`, which are rewritten.
    pub(super) async fn read_part_without(
        self: &Rc<Self>,
        part: ChunkPart,
        mut bad: Vec<(usize, ChunkAddr)>,
    ) -> Result<Buf, VolumeError> {
        while let Some((index, home)) = self.next_copy(part, &bad) {
            let result = self.store.members().read(home, part.offset, part.count).await;
            if let Some(buf) = self.classify_read(part, home, result).await {
                if !bad.is_empty() {
                    self.repair(part, &bad, &buf).await;
                }
                return Ok(buf);
            }
            bad.push((index, home));
        }
        let buf = self.reconstruct_part(part).await.ok_or(VolumeError::Failed);
        match &buf {
            Ok(buf) => {
                self.store.mark(Mark::ReadReconstructed);
                self.store.counters().reconstructed_reads.add(1);
                self.repair(part, &bad, buf).await;
            }
            Err(_) => {
                self.store.mark(Mark::ReadLost);
                self.store.counters().failed_reads.add(1);
            }
        }
        buf
    }

    /// What was read, if it is good; otherwise what follows from that for the member.
    pub(super) async fn classify_read(
        &self,
        part: ChunkPart,
        home: ChunkAddr,
        result: Result<Buf, IoError>,
    ) -> Option<Buf> {
        match result {
            Ok(buf) if self.matches(part, &buf, home) => return Some(buf),
            Ok(_) => self.store.mark(Mark::ReadChecksumBad),
            Err(error) if self.store.members().read_error_is_fatal(home.member, error) => {
                self.store.mark(Mark::ReadMemberLost);
                self.store.members().report_failure(home.member, error).await;
            }
            Err(_) => self.store.mark(Mark::ReadFailed),
        }
        None
    }

    /// The good copy, not yet tried, whose member has least to do.
    pub(super) fn next_copy(
        &self,
        part: ChunkPart,
        tried: &[(usize, ChunkAddr)],
    ) -> Option<(usize, ChunkAddr)> {
        let tables = self.store.tables();
        let g = self.store.geometry();
        if tables.stripe(part.stripe).state == StripeState::Free {
            return None;
        }
        g.copies_of(part.column)
            .filter_map(|index| Some((index, tables.good_home(part.stripe, index)?)))
            .filter(|copy| {
                self.store.members().is_active(copy.1.member) && !tried.iter().any(|t| t.1 == copy.1)
            })
            .min_by_key(|copy| self.store.members().burden(copy.1.member))
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

    /// Reads part of a chunk at one home as it is there, counting and acting on errors.
    pub(crate) async fn read_home(&self, home: ChunkAddr, offset: u32, count: u32) -> Result<Buf, IoError> {
        let result = self.store.members().read(home, offset, count).await;
        if let Err(error) = result
            && self.store.members().read_error_is_fatal(home.member, error)
        {
            self.store.members().report_failure(home.member, error).await;
        }
        result
    }
}
