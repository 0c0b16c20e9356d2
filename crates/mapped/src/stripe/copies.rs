//! Reading part of a stripe from the least burdened good copy, and if there is none, from the rest of the stripe.
//!
//! Every block with a known checksum is verified. A block that does not match, or cannot be read, is fetched from the
//! redundancy, rewritten where it was bad, and counted.

use std::rc::Rc;

use crate::marks::Mark;
use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use crate::stripe::part::ChunkPart;
use sinew_core::buf::Buf;
use sinew_core::ids::ChunkAddr;
use sinew_core::io::{Io, IoError};
use sinew_core::volume::VolumeError;

impl<I: Io> Stripes<I> {
    /// Reads part of a data column from its copies, except for those known to be `bad`, or from the rest of the stripe. The bad
    /// ones are rewritten.
    pub(super) async fn read_part_without(
        self: &Rc<Self>,
        part: ChunkPart,
        mut bad: Vec<(usize, ChunkAddr)>,
    ) -> Result<Buf, VolumeError> {
        let _slots = self.store.pin_slots(part.stripe).await?;
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
                Box::pin(self.note_lost(part)).await;
            }
        }
        buf
    }

    /// What a copy gave, or what can be had without it.
    pub(super) async fn accept(
        self: &Rc<Self>,
        part: ChunkPart,
        copy: (usize, ChunkAddr),
        result: Result<Buf, IoError>,
    ) -> Result<Buf, VolumeError> {
        let _slots = self.store.pin_slots(part.stripe).await?;
        match self.classify_read(part, copy.1, result).await {
            Some(buf) => Ok(buf),
            None => self.read_part_without(part, vec![copy]).await,
        }
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
            Err(error) => {
                let is_out = self.store.members().report_read_error(home.member, error).await;
                self.store.mark(if is_out { Mark::ReadMemberLost } else { Mark::ReadFailed });
            }
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

    /// Reads part of a chunk at one home as it is there, counting and acting on errors.
    pub(crate) async fn read_home(&self, home: ChunkAddr, offset: u32, count: u32) -> Result<Buf, IoError> {
        let result = self.store.members().read(home, offset, count).await;
        if let Err(error) = result {
            self.store.members().report_read_error(home.member, error).await;
        }
        result
    }
}
