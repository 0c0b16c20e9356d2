//! Verification: whether the data of records that were not known durable is there, and its redundancy with it.
//!
//! First every record is looked at as it is replayed; when it is known what each chunk is by the end of the journal, copies
//! are mended and parity is made to match.

use crate::marks::Mark;
use crate::recovery::released_chunks::ReleasedChunks;
use crate::recovery::{Recovery, SlotRecord};
use crate::store::tables::StripeState;
use crate::stripe::row::StripeRow;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::checksum::crc32c;
use sinew_core::ids::{ChunkAddr, Lsn, SlotNo, StripeId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;
use sinew_format::model::stripe_form::StripeForm;
use sinew_layout::parity;
use sinew_members::open_error::RecoverError;

impl<I: Io> Recovery<I> {
    /// Whether a record that may have outlived its data is still true.
    pub(super) async fn is_sound(&mut self, lsn: Lsn, record: &Record, released: &ReleasedChunks) -> bool {
        match record {
            Record::Open { stripe, form, .. } => {
                self.touched.insert(*stripe);
                if *form == StripeForm::Parity {
                    self.resync.insert(*stripe);
                }
                true
            }
            Record::Write { slot, crcs, .. } => {
                // All or nothing would be legal too, but what survived is worth keeping together.
                for (i, &crc) in crcs.iter().enumerate() {
                    if !self.verify_slot(SlotNo(slot.0 + i as u32), SlotRecord { lsn, crc }, released).await {
                        return false;
                    }
                }
                true
            }
            Record::Move { slot, crc, .. } => {
                self.verify_slot(*slot, SlotRecord { lsn, crc: *crc }, released).await
            }
            // Dropping a record can bring a block back to a stripe that died by it.
            Record::Free { stripe } => {
                let holds_live = self.tables.stripe(*stripe).live > 0;
                if holds_live {
                    self.io.mark(Mark::RecoverFreeDropped);
                }
                !holds_live
            }
            _ => true,
        }
    }

    /// Takes the slots into memory that verification looks at: those of stripes that records not known durable are about.
    pub(super) async fn read_unflushed_slots(&mut self) -> Result<(), RecoverError> {
        let geometry = self.config.mapped();
        let slots = self.verified.keys().chain(self.presumed.keys());
        let of_slots = slots.map(|&slot| geometry.place(slot).0);
        self.read_slots(&of_slots.chain(self.resync.iter().copied()).collect()).await
    }

    /// Whether any copy of a slot is good, or may have been good when its stripe released a chunk. Nothing is mended yet:
    /// what the slot's chunk is by the end of the journal is not known, and it may long be another stripe's.
    async fn verify_slot(&mut self, slot: SlotNo, record: SlotRecord, released: &ReleasedChunks) -> bool {
        self.report.records_verified += 1;
        if mutation::on(Mutation::TrustTail) {
            return true;
        }
        let (stripe, ..) = self.config.mapped().place(slot);
        self.touched.insert(stripe);
        if self.tables.stripe(stripe).state == StripeState::Free {
            // Only as a last resort: the block that opened the stripe is missing, so what is in it is not known.
            self.io.mark(Mark::LastResortStripeUnknown);
            return true;
        }
        if !self.lost.contains(&(record.lsn, slot)) {
            if self.note_if_good(slot, record).await {
                return true;
            }
            if released.any_since(record.lsn, stripe) && !mutation::on(Mutation::DropReleased) {
                self.io.mark(Mark::RecoverPresumed);
                self.presumed.insert(slot, record);
                return true;
            }
        }
        self.io.mark(Mark::RecoverDropped);
        self.report.records_dropped += 1;
        false
    }

    /// Reads a slot, and notes it as verified if any copy is good.
    async fn note_if_good(&mut self, slot: SlotNo, record: SlotRecord) -> bool {
        let (good, bad) = self.read_copies(slot, record.crc).await;
        let Some(good) = good else { return false };
        self.verified.insert(slot, record);
        // An earlier record may have been about the same slot.
        self.presumed.remove(&slot);
        self.rescued.remove(&slot);
        if !bad.is_empty() {
            self.rescued.insert(slot, good);
        }
        true
    }

    /// Verifies the slots of records presumed sound whose stripe is in use after all. Dead slots count as well: conversion,
    /// rebuild and scrub need every block of a stripe that has a checksum.
    pub(super) async fn verify_presumed(&mut self) {
        for (slot, record) in std::mem::take(&mut self.presumed) {
            let (stripe, ..) = self.config.mapped().place(slot);
            let is_in_use = match mutation::on(Mutation::PresumeDead) {
                true => self.tables.owner(slot).is_some_and(|block| {
                    !self.tables.is_known(block) || self.tables.lookup(block) == Some(slot)
                }),
                false => {
                    self.tables.stripe(stripe).state != StripeState::Free && self.tables.owner(slot).is_some()
                }
            };
            if is_in_use && !self.note_if_good(slot, record).await {
                self.io.mark(Mark::RecoverPresumedWrongly);
                self.lost.insert((record.lsn, slot));
            }
        }
    }

    /// Where a chunk can be read as it should be: its home, if it is complete there, on an active member.
    fn live_home(&self, stripe: StripeId, index: usize) -> Option<ChunkAddr> {
        self.tables.good_home(stripe, index).filter(|home| self.members.is_active(home.member))
    }

    /// The content of a slot, if any copy or the rest of the stripe has what the checksum says, and the homes where it is
    /// something else.
    async fn read_copies(&self, slot: SlotNo, crc: u32) -> (Option<Buf>, Vec<ChunkAddr>) {
        let g = self.config.mapped();
        let (stripe, column, offset) = g.place(slot);
        let homes: Vec<ChunkAddr> = g.copies_of(column).filter_map(|i| self.live_home(stripe, i)).collect();
        let mut good = None;
        let mut bad = Vec::new();
        for home in homes {
            match self.members.read(home, offset, 1).await {
                Ok(buf) if crc32c(buf.bytes()) == crc => good = Some(buf),
                _ => bad.push(home),
            }
        }
        if good.is_none() && self.tables.stripe(stripe).state == StripeState::Parity {
            good = self.reconstruct(stripe, column, offset, crc).await;
            if good.is_some() {
                self.io.mark(Mark::RecoverReconstructed);
            }
        }
        (good, bad)
    }

    /// Makes every copy of the slots verified good, where those slots still hold what was verified.
    pub(super) async fn repair_verified(&mut self) -> Result<(), RecoverError> {
        let mut unmended = Vec::new();
        for (&slot, &SlotRecord { crc, .. }) in &self.verified {
            let (stripe, _, offset) = self.config.mapped().place(slot);
            if self.tables.stripe(stripe).state == StripeState::Free || self.tables.owner(slot).is_none() {
                continue;
            }
            let (good, bad) = self.read_copies(slot, crc).await;
            let Some(good) = good.or_else(|| self.rescued.get(&slot).cloned()) else { continue };
            for home in bad {
                self.io.mark(Mark::RecoverMended);
                if !self.mend(home, offset, good.clone()).await? {
                    unmended.extend(
                        self.tables
                            .homes(stripe)
                            .iter()
                            .position(|h| *h == Some(home))
                            .map(|i| (stripe, i as u8)),
                    );
                }
            }
        }
        self.unmended.extend(unmended);
        Ok(())
    }

    /// One block of a data column from the rest of its stripe, if that gives what the checksum says.
    async fn reconstruct(&self, stripe: StripeId, column: usize, offset: u32, crc: u32) -> Option<Buf> {
        let rest = self.read_row(stripe, offset, Some(column)).await;
        let g = self.config.mapped();
        let fits = |buf: &Buf| crc32c(buf.bytes()) == crc;
        let leave_out = std::iter::once(None).chain((0..g.data_columns + g.parity_columns()).map(Some));
        leave_out.filter_map(|left_out| self.row(stripe, &rest).recover(column, left_out)).find(fits)
    }

    /// The same block of every column and of parity, as far as it can be read.
    async fn read_row(&self, stripe: StripeId, offset: u32, without: Option<usize>) -> Vec<Option<Buf>> {
        let g = self.config.mapped();
        join_all((0..g.data_columns + g.parity_columns()).map(|i| async move {
            let home = self.live_home(stripe, i)?;
            if without == Some(i) { None } else { self.members.read(home, offset, 1).await.ok() }
        }))
        .await
    }

    /// The row of a stripe of which these blocks were read.
    fn row<'a>(&'a self, stripe: StripeId, columns: &'a [Option<Buf>]) -> StripeRow<'a> {
        let used = usize::from(self.tables.stripe(stripe).columns);
        StripeRow { columns, used, geometry: self.config.geometry.mapped().expect("the pool is mapped") }
    }

    /// Makes parity match the data in stripes whose writing was not known durable; marks what missing members missed.
    pub(super) async fn resync_parity(&mut self) -> Result<(), RecoverError> {
        for stripe in std::mem::take(&mut self.resync) {
            if self.tables.stripe(stripe).state == StripeState::Parity {
                for offset in 0..CHUNK_BLOCKS {
                    self.resync_row(stripe, offset).await?;
                }
            }
        }
        Ok(())
    }

    async fn resync_row(&mut self, stripe: StripeId, offset: u32) -> Result<(), RecoverError> {
        let g = self.config.mapped();
        let row = self.read_row(stripe, offset, None).await;
        let used = usize::from(self.tables.stripe(stripe).columns);
        let mut data: Vec<Buf> = Vec::with_capacity(used);
        for column in 0..used {
            if self.zero_discarded(stripe, column, offset).await? {
                data.push(Buf::zeroed(BLOCK_BYTES));
                continue;
            }
            let block = match &row[column] {
                Some(block) if self.fits(stripe, column, offset, block) => block.clone(),
                _ => {
                    self.io.mark(Mark::RecoverGuessed);
                    match self.missing_block(stripe, column, offset, &row) {
                        Some(block) => block,
                        None => {
                            let slot = g.slot(stripe, column, offset);
                            self.lost.insert((self.verified[&slot].lsn, slot));
                            return Ok(());
                        }
                    }
                }
            };
            data.push(block);
        }
        let mut parity: Vec<Buf> = (0..g.parity_columns()).map(|_| Buf::zeroed(BLOCK_BYTES)).collect();
        let columns: Vec<Option<&[u8]>> = data.iter().map(|b| Some(b.bytes())).collect();
        let mut out: Vec<&mut [u8]> = parity.iter_mut().map(Buf::bytes_mut).collect();
        parity::compute(&columns, &mut out);
        for (p, right) in parity.into_iter().enumerate() {
            let index = g.parity_index(p);
            if row[index].as_ref().is_some_and(|found| found.bytes() == right.bytes()) {
                continue;
            }
            if let Some(home) = self.live_home(stripe, index) {
                self.io.mark(Mark::RecoverResynced);
                if !self.mend(home, offset, right).await? {
                    self.unmended.insert((stripe, index as u8));
                }
            }
        }
        Ok(())
    }

    /// Writes zeros to a block without an owner, where a discarded block may read as something else each time: its
    /// padding may be lost. Returns whether it did.
    async fn zero_discarded(
        &mut self,
        stripe: StripeId,
        column: usize,
        offset: u32,
    ) -> Result<bool, RecoverError> {
        let is_owned = self.tables.owner(self.config.mapped().slot(stripe, column, offset)).is_some();
        let home = self.live_home(stripe, column).filter(|home| self.members.takes_discards(home.member));
        let Some(home) = home.filter(|_| !is_owned) else { return Ok(false) };
        self.io.mark(Mark::RecoverFilled);
        if !self.mend(home, offset, Buf::zeroed(BLOCK_BYTES)).await? {
            // No parity is right for what may read as something else each time.
            let g = self.config.mapped();
            let parity = (0..g.parity_columns()).map(|p| g.parity_index(p));
            let there: Vec<usize> = parity.filter(|&i| self.live_home(stripe, i).is_some()).collect();
            self.unmended.extend(there.into_iter().map(|i| (stripe, i as u8)));
        }
        Ok(true)
    }

    /// Whether a block is what its slot's checksum says, if there is one.
    fn fits(&self, stripe: StripeId, column: usize, offset: u32, block: &Buf) -> bool {
        let expected = self.expected(self.config.mapped().slot(stripe, column, offset));
        expected.is_none_or(|crc| crc32c(block.bytes()) == crc)
    }

    /// The checksum of a slot's content. A pool without checksums has those of the records just verified.
    fn expected(&self, slot: SlotNo) -> Option<u32> {
        self.tables.owner(slot)?;
        self.tables.crc(slot).or_else(|| self.verified_crc(slot))
    }

    fn verified_crc(&self, slot: SlotNo) -> Option<u32> {
        self.verified.get(&slot).map(|record| record.crc)
    }

    /// A block that is damaged or whose member is missing: what the checksum confirms, else whatever parity says, else
    /// zeros. `None` when it was verified, and cannot be had any more.
    fn missing_block(
        &self,
        stripe: StripeId,
        column: usize,
        offset: u32,
        row: &[Option<Buf>],
    ) -> Option<Buf> {
        let g = self.config.mapped();
        let slot = g.slot(stripe, column, offset);
        let expected = self.expected(slot);
        let leave_out = std::iter::once(None).chain((0..g.data_columns + g.parity_columns()).map(Some));
        let mut guesses: Vec<Buf> =
            leave_out.filter_map(|left_out| self.row(stripe, row).recover(column, left_out)).collect();
        let right = guesses.iter().position(|b| expected.is_some_and(|crc| crc32c(b.bytes()) == crc));
        match right {
            Some(i) => Some(guesses.swap_remove(i)),
            None if expected.is_some() && self.verified_crc(slot) == expected => None,
            None => Some(guesses.into_iter().next().unwrap_or_else(|| Buf::zeroed(BLOCK_BYTES))),
        }
    }
}
