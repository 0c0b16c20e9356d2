//! Full-stripe writes: whole stripes in their final form, data with parity (or mirrors, where stripes stay mirrored) at once,
//! without reading anything.
//!
//! Compaction writes its stripes here too. A stripe is as wide as its data needs, and only the last chunk is padded, unless
//! the policy is whole chunks.

use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;

use crate::marks::Mark;
use crate::store::chunk_allocator::{Purpose, StripeChunks};
use crate::store::overlapped_commit::OverlappedCommit;
use crate::stripe::Stripes;
use crate::stripe::piece::{Piece, take_blocks};
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::{ChunkAddr, StripeId};
use sinew_core::io::{Gather, Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{end_all, next_of};
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;
use sinew_format::model::policy::Packing;
use sinew_format::model::stripe_form::{StripeClass, StripeForm};

/// Overlapped commits at which that of a stripe holds up hardly any other records.
const OVERLAPPED_FEW: u32 = 8;

/// How often a stripe is written anew elsewhere because a member failed under it.
const ATTEMPTS_MAX: usize = 16;

impl<I: Io> Stripes<I> {
    /// Stores pieces of volumes of a class as one stripe. They are at most a full stripe's blocks.
    ///
    /// # Errors
    /// `NoSpace` when there is no room for `purpose`, or a member is full; a user's request waits for room first.
    pub(crate) async fn write_stripe(
        self: &Rc<Self>,
        class: StripeClass,
        pieces: &[Piece],
        purpose: Purpose,
    ) -> Result<StripeId, VolumeError> {
        let form = self.store.geometry().form_of(class);
        let blocks: u32 = pieces.iter().map(Piece::blocks).sum();
        debug_assert!(blocks > 0 && blocks <= self.store.geometry().slots_per_stripe());
        for _ in 0..ATTEMPTS_MAX {
            let columns = match self.policy.get().packing {
                Packing::WholeChunks if purpose == Purpose::User => self.store.geometry().data_columns,
                _ => blocks.div_ceil(CHUNK_BLOCKS) as usize,
            };
            let (id, allocated) = self.allocate_whole(columns, form, purpose).await?;
            if (allocated.columns as u32 * CHUNK_BLOCKS) < blocks {
                // Fewer members are left than the stripe is wide: two stripes.
                self.store.mark(Mark::StripeHalved);
                self.cancel_allocation(id, allocated);
                return Box::pin(self.write_halves(class, pieces, purpose)).await;
            }
            if let Some(written) = self.write_allocated((id, allocated), form, pieces, purpose).await {
                return written.map(|()| id);
            }
        }
        Err(VolumeError::Failed)
    }

    /// Stores pieces as the stripe allocated for them; `None` when a member failed under it, and they are to be written
    /// elsewhere.
    pub(super) async fn write_allocated(
        self: &Rc<Self>,
        (id, allocated): (StripeId, StripeChunks),
        form: StripeForm,
        pieces: &[Piece],
        purpose: Purpose,
    ) -> Option<Result<(), VolumeError>> {
        self.store.note_unflushed(id);
        let version = self.store.members().version();
        let (written, mut overlapped) = self.write_chunks(id, form, &allocated, pieces, purpose).await;
        // A flush that began meanwhile took the stripe for covered; it is not.
        self.store.note_unflushed(id);
        let all_written = written
            .iter()
            .all(|(home, result)| result.is_ok() && !self.store.members().lost_since(home.member, version));
        if !all_written {
            self.store.abort(overlapped.take());
        }
        let is_full = written.iter().any(|(_, result)| *result == Err(IoError::NoSpace));
        for (home, result) in written {
            if let Err(error) = result {
                self.store.members().report_failure(home.member, error).await;
            }
        }
        if all_written {
            let records = || self.stripe_records(id, form, &allocated, pieces);
            let committed = self.store.finish_commit(overlapped, records).await;
            self.store.end_opening(id);
            self.store.note_emptied(id);
            self.store.counters().stripes_written.add(1);
            return Some(committed);
        }
        self.store.mark(if is_full { Mark::StripeNoSpace } else { Mark::StripeMemberLost });
        self.cancel_allocation(id, allocated);
        if !is_full {
            return None;
        }
        let settled = if self.overlaps(purpose) { self.store.settle_aborted().await } else { Ok(()) };
        Some(settled.and(Err(VolumeError::NoSpace)))
    }

    /// Whether blocks of a class of volumes that fill whole chunks are less to write with parity than as copies.
    pub(crate) fn is_less_with_parity(&self, class: StripeClass, blocks: u32) -> bool {
        let g = self.store.geometry();
        let parity = g.parity_columns_of(g.form_of(class)) as u32;
        parity > 0 && (blocks.div_ceil(CHUNK_BLOCKS) + parity) * CHUNK_BLOCKS < blocks * g.copies() as u32
    }

    /// Writes the chunks of a stripe. The records of a client's go to the journal with them; where many others do so, when half of
    /// the chunks are written: the rest will be soon, and whatever is recorded later waits for it.
    async fn write_chunks(
        self: &Rc<Self>,
        id: StripeId,
        form: StripeForm,
        allocated: &StripeChunks,
        pieces: &[Piece],
        purpose: Purpose,
    ) -> (Vec<(ChunkAddr, Result<(), IoError>)>, Option<OverlappedCommit>) {
        let chunks = self.fill_chunks(form, pieces, allocated);
        let writes = allocated.homes.iter().zip(chunks).filter_map(|(home, data)| home.map(|h| (h, data)));
        let mut writing: Vec<_> =
            writes.map(|(home, data)| (home, Box::pin(self.store.members().write(home, 0, data)))).collect();
        let mut written = Vec::with_capacity(writing.len());
        let overlaps = self.overlaps(purpose);
        let holds_up_few = self.store.journal().overlapped() < OVERLAPPED_FEW;
        while overlaps && !holds_up_few && written.len() < writing.len() {
            written.extend(next_of(&mut writing).await);
        }
        let homes: Vec<ChunkAddr> = writing.iter().map(|(home, _)| *home).collect();
        let begin = || {
            let (first, slots) =
                (self.store.geometry().slot(id, 0, 0), allocated.columns as u32 * CHUNK_BLOCKS);
            let records = || self.stripe_records(id, form, allocated, pieces);
            self.store.begin_overlapped_commit(&homes, records, first, slots)
        };
        let mut overlapped = overlaps.then(begin).flatten();
        let mut rest = pin!(end_all(&mut writing));
        if overlapped.is_some() {
            if let Some(rest) = self.store.await_in_time(&homes, rest.as_mut()).await {
                written.extend(rest);
                return (written, overlapped);
            }
            self.store.mark(Mark::StripeLate);
            self.store.abort(overlapped.take());
        }
        written.extend(rest.await);
        (written, overlapped)
    }

    /// Whether records go to the journal before all data of a stripe is written.
    fn overlaps(&self, purpose: Purpose) -> bool {
        purpose == Purpose::User && self.store.members().may_hedge()
    }

    /// The records that say that a stripe has these pieces.
    fn stripe_records(
        &self,
        id: StripeId,
        form: StripeForm,
        allocated: &StripeChunks,
        pieces: &[Piece],
    ) -> Vec<Record> {
        let (columns, homes) = (allocated.columns as u8, allocated.homes.clone());
        let mut records = vec![Record::Open { stripe: id, form, columns, homes }];
        let mut slot = self.store.geometry().slot(id, 0, 0);
        for piece in pieces {
            piece.records(slot, &mut records);
            slot.0 += piece.blocks();
        }
        records
    }

    async fn write_halves(
        self: &Rc<Self>,
        class: StripeClass,
        pieces: &[Piece],
        purpose: Purpose,
    ) -> Result<StripeId, VolumeError> {
        let blocks: u32 = pieces.iter().map(Piece::blocks).sum();
        let mut rest: VecDeque<Piece> = pieces.to_vec().into();
        let front = take_blocks(&mut rest, blocks / 2);
        self.write_stripe(class, &front, purpose).await?;
        self.write_stripe(class, &Vec::from(rest), purpose).await
    }

    async fn allocate_whole(
        self: &Rc<Self>,
        columns: usize,
        form: StripeForm,
        purpose: Purpose,
    ) -> Result<(StripeId, StripeChunks), VolumeError> {
        match purpose {
            Purpose::User => self.allocate_waiting(columns, form, || ()).await,
            Purpose::Leisure | Purpose::Internal => {
                self.allocate(columns, form, purpose).ok_or(VolumeError::NoSpace)
            }
        }
    }

    /// The data of each home's chunk, in the order of homes.
    fn fill_chunks(&self, form: StripeForm, pieces: &[Piece], allocated: &StripeChunks) -> Vec<Gather> {
        let mut rest: VecDeque<Piece> = pieces.iter().cloned().collect();
        let zero = Buf::zeroed(BLOCK_BYTES);
        let mut columns: Vec<Vec<Buf>> = Vec::with_capacity(allocated.columns);
        for _ in 0..allocated.columns {
            let mut chunk: Vec<Buf> =
                take_blocks(&mut rest, CHUNK_BLOCKS).into_iter().map(|p| p.data).collect();
            let filled: usize = chunk.iter().map(Buf::len).sum();
            chunk.extend(std::iter::repeat_n(zero.clone(), CHUNK_BLOCKS as usize - filled / BLOCK_BYTES));
            columns.push(chunk);
        }
        let parity = match form {
            StripeForm::Parity => self.compute_parity(&columns),
            _ => Vec::new(),
        };
        if mutation::on(Mutation::SwapColumns) && columns.len() > 1 {
            columns.swap(0, 1);
        }
        columns.resize(self.store.geometry().data_columns, Vec::new());
        let columns: Vec<Gather> = columns.into_iter().map(Gather::from).collect();
        let mut parity: Vec<Gather> = parity.into_iter().map(|p| Gather::from([p])).collect();
        // Chunks that the stripe does not have.
        parity.resize(self.store.geometry().parity_columns(), Gather::from([]));
        let mirrors = (0..self.store.geometry().failures()).flat_map(|_| columns.clone());
        columns.iter().cloned().chain(parity).chain(mirrors).collect()
    }
}
