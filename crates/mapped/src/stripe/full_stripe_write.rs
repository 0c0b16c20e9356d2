//! Large writes: whole stripes in their final form, data with parity (or mirrors, in a pool of mirrors) in one go,
//! nothing read.
//!
//! Compaction writes through here too. A stripe is as wide as its data needs and only the last chunk is padded, unless the
//! policy is whole chunks.

use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;

use crate::shard::MappedShard;
use crate::store::chunk_allocator::{Purpose, StripePlan};
use crate::store::overlapped_commit::Beside;
use crate::stripe::append::Piece;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::Mark;
use sinew_core::ids::{Home, StripeId};
use sinew_core::io::{Gather, Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{end_all, next_of};
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;
use sinew_format::model::policy::Packing;
use sinew_layout::parity;

/// How often a stripe is written anew elsewhere because a member failed under it.
const ATTEMPTS_MAX: usize = 16;

impl<I: Io> MappedShard<I> {
    /// Whether a write of this many blocks goes straight to a stripe of its own: when that, with parity, is less to write than
    /// its copies; without parity, or with whole chunks, when it is more than half a stripe (FusionRAID, FAST'21, section 4.2).
    pub(crate) fn is_large(&self, blocks: u32) -> bool {
        let g = &self.geometry;
        let parity = g.parity_columns() as u32;
        if parity == 0 || self.policy.get().packing == Packing::WholeChunks {
            return blocks * 2 > g.slots_per_stripe();
        }
        (blocks.div_ceil(CHUNK_BLOCKS) + parity) * CHUNK_BLOCKS < blocks * g.copies() as u32
    }

    /// Stores pieces as one stripe. They are at most a full stripe's blocks.
    ///
    /// # Errors
    /// `NoSpace` when there is no room for `purpose`; a user's request waits for room first.
    pub(crate) async fn write_stripe(
        self: &Rc<Self>,
        pieces: &[Piece],
        purpose: Purpose,
    ) -> Result<StripeId, VolumeError> {
        let blocks: u32 = pieces.iter().map(Piece::blocks).sum();
        debug_assert!(blocks > 0 && blocks <= self.geometry.slots_per_stripe());
        for _ in 0..ATTEMPTS_MAX {
            let columns = match self.policy.get().packing {
                Packing::WholeChunks if purpose == Purpose::User => self.geometry.data_columns,
                _ => blocks.div_ceil(CHUNK_BLOCKS) as usize,
            };
            let (id, plan) = self.plan_whole(columns, purpose).await?;
            if (plan.columns as u32 * CHUNK_BLOCKS) < blocks {
                // Fewer members are left than the stripe is wide: two stripes.
                self.io.mark(Mark::StripeHalved);
                self.unplan(id, plan);
                return Box::pin(self.write_halves(pieces, purpose)).await;
            }
            self.unflushed_stripes.borrow_mut().insert(id);
            let version = self.members.version();
            let (written, mut beside) = self.write_chunks(id, &plan, pieces, purpose).await;
            // A flush that began meanwhile took the stripe for covered; it is not.
            self.unflushed_stripes.borrow_mut().insert(id);
            let all_written = written
                .iter()
                .all(|(home, result)| result.is_ok() && !self.members.lost_since(home.member, version));
            if !all_written {
                self.take_back(beside.take());
            }
            for (home, result) in written {
                if let Err(error) = result {
                    self.members.report_failure(home.member, error).await;
                }
            }
            if all_written {
                let records = || self.stripe_records(id, &plan, pieces);
                let committed = self.commit_landed(beside, records).await;
                self.opening.borrow_mut().remove(&id);
                self.emptied.borrow_mut().insert(id);
                self.counters.stripes_written.add(1);
                return committed.map(|()| id);
            }
            self.io.mark(Mark::StripeMemberLost);
            self.unplan(id, plan);
        }
        Err(VolumeError::Failed)
    }

    /// Writes the chunks of a stripe. A client's has its records go to the journal when half of them are written: the rest
    /// will be soon, and whatever is recorded later waits for it.
    async fn write_chunks(
        self: &Rc<Self>,
        id: StripeId,
        plan: &StripePlan,
        pieces: &[Piece],
        purpose: Purpose,
    ) -> (Vec<(Home, Result<(), IoError>)>, Option<Beside>) {
        let chunks = self.fill_chunks(pieces, plan);
        let writes = plan.homes.iter().zip(chunks).filter_map(|(home, data)| home.map(|h| (h, data)));
        let mut writing: Vec<_> =
            writes.map(|(home, data)| (home, Box::pin(self.members.write(home, 0, data)))).collect();
        let mut written = Vec::with_capacity(writing.len());
        let mut beside = None;
        if purpose == Purpose::User && self.members.may_hedge() {
            while written.len() < writing.len() {
                written.extend(next_of(&mut writing).await);
            }
            let (first, slots) = (self.geometry.slot(id, 0, 0), plan.columns as u32 * CHUNK_BLOCKS);
            beside = self.record_beside(|| self.stripe_records(id, plan, pieces), first, slots);
        }
        let homes: Vec<Home> = writing.iter().map(|(home, _)| *home).collect();
        let mut rest = pin!(end_all(&mut writing));
        if beside.is_some() {
            if let Some(rest) = self.in_time(&homes, rest.as_mut()).await {
                written.extend(rest);
                return (written, beside);
            }
            self.io.mark(Mark::StripeLate);
            self.take_back(beside.take());
        }
        written.extend(rest.await);
        (written, beside)
    }

    /// The records that say that a stripe has these pieces.
    fn stripe_records(&self, id: StripeId, plan: &StripePlan, pieces: &[Piece]) -> Vec<Record> {
        let (columns, homes) = (plan.columns as u8, plan.homes.clone());
        let parity = self.geometry.parity_columns() > 0;
        let mut records = vec![Record::Open { stripe: id, parity, columns, homes }];
        let mut slot = self.geometry.slot(id, 0, 0);
        for piece in pieces {
            piece.records(slot, &mut records);
            slot.0 += piece.blocks();
        }
        records
    }

    async fn write_halves(
        self: &Rc<Self>,
        pieces: &[Piece],
        purpose: Purpose,
    ) -> Result<StripeId, VolumeError> {
        let blocks: u32 = pieces.iter().map(Piece::blocks).sum();
        let mut rest: VecDeque<Piece> = pieces.to_vec().into();
        let front = take_blocks(&mut rest, blocks / 2);
        self.write_stripe(&front, purpose).await?;
        self.write_stripe(&Vec::from(rest), purpose).await
    }

    async fn plan_whole(
        self: &Rc<Self>,
        columns: usize,
        purpose: Purpose,
    ) -> Result<(StripeId, StripePlan), VolumeError> {
        let parity = self.geometry.parity_columns() > 0;
        match purpose {
            Purpose::User => self.plan_in_time(columns, parity, || ()).await,
            Purpose::Leisure | Purpose::Internal => {
                self.plan(columns, parity, purpose).ok_or(VolumeError::NoSpace)
            }
        }
    }

    /// The data of each home's chunk, in the order of homes.
    fn fill_chunks(&self, pieces: &[Piece], plan: &StripePlan) -> Vec<Gather> {
        let mut rest: VecDeque<Piece> = pieces.iter().cloned().collect();
        let zero = Buf::zeroed(BLOCK_BYTES);
        let mut columns: Vec<Vec<Buf>> = Vec::with_capacity(plan.columns);
        for _ in 0..plan.columns {
            let mut chunk: Vec<Buf> =
                take_blocks(&mut rest, CHUNK_BLOCKS).into_iter().map(|p| p.data).collect();
            let filled: usize = chunk.iter().map(Buf::len).sum();
            chunk.extend(std::iter::repeat_n(zero.clone(), CHUNK_BLOCKS as usize - filled / BLOCK_BYTES));
            columns.push(chunk);
        }
        let parity = self.compute_parity(&columns);
        if mutation::on(Mutation::SwapColumns) && columns.len() > 1 {
            columns.swap(0, 1);
        }
        columns.resize(self.geometry.data_columns, Vec::new());
        let columns: Vec<Gather> = columns.into_iter().map(Gather::from).collect();
        let parity = parity.into_iter().map(|p| Gather::from([p]));
        let mirrors = (0..self.geometry.failures()).flat_map(|_| columns.clone());
        columns.iter().cloned().chain(parity).chain(mirrors).collect()
    }

    /// Parity chunks of columns given as runs of blocks.
    pub(crate) fn compute_parity(&self, columns: &[Vec<Buf>]) -> Vec<Buf> {
        let chunk_bytes = CHUNK_BLOCKS as usize * BLOCK_BYTES;
        if self.geometry.parity_columns() == 0 {
            return Vec::new();
        }
        let mut parity: Vec<Buf> =
            (0..self.geometry.parity_columns()).map(|_| Buf::stale(chunk_bytes)).collect();
        let blocks: Vec<Vec<&[u8]>> = columns
            .iter()
            .map(|chunk| chunk.iter().flat_map(|buf| buf.bytes().chunks_exact(BLOCK_BYTES)).collect())
            .collect();
        let mut data: Vec<Option<&[u8]>> = vec![None; columns.len()];
        for offset in 0..CHUNK_BLOCKS as usize {
            for (column, blocks) in blocks.iter().enumerate() {
                data[column] = Some(blocks[offset]);
            }
            let range = offset * BLOCK_BYTES..(offset + 1) * BLOCK_BYTES;
            let mut out: Vec<&mut [u8]> =
                parity.iter_mut().map(|p| &mut p.bytes_mut()[range.clone()]).collect();
            parity::compute(&data, &mut out);
        }
        parity
    }
}

/// Takes the first `blocks` blocks, or what there is.
pub(crate) fn take_blocks(pieces: &mut VecDeque<Piece>, blocks: u32) -> Vec<Piece> {
    let (mut taken, mut left) = (Vec::new(), blocks);
    while left > 0
        && let Some(front) = pieces.front_mut()
    {
        if front.blocks() <= left {
            left -= front.blocks();
            taken.extend(pieces.pop_front());
        } else {
            taken.push(front.split_front(left));
            left = 0;
        }
    }
    taken
}
