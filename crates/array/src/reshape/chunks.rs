//! Growth without parity: chunks move to their places on more members, in the order of their keys, a batch at a time.
//!
//! A chunk that was copied is in two places, and both are right until it is written. So the progress need not be on the
//! members at once: after a crash chunks are read from their former places, and copied again. `journal/progress` records it
//! before a chunk is written that has moved since the last record, and before a chunk is copied to a place whose own chunk
//! has (*lazy checkpoint*, FastScale, FAST '11, section 3.2).
//!
//! A chunk's stripe is locked while it is copied. Before other shards hear that a chunk has left its place, reads of that
//! place that hold no lock are waited for.

use std::collections::BTreeSet;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::io::{Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::model::array_growth::Manner;
use sinew_format::model::array_shard_layout::ShardLayout;
use sinew_layout::Home;
use sinew_layout::moves::Move;

use crate::reshape::Reshape;
use crate::state::RETRY_NS;
use crate::stripe::part::UnitRun;

/// A chunk that moves.
#[derive(Clone, Copy)]
struct ChunkMove {
    stripe: u64,
    way: Move,
}

/// Consecutive chunks of a disk, by their index in the batch.
struct Span {
    first: Home,
    chunks: Vec<usize>,
}

impl<I: Io> Reshape<I> {
    /// Moves batch after batch until the growth has ended.
    pub(super) async fn move_all(&self) {
        if self.state.layout().growth().is_some() {
            if self.journal.progress().recorded() > 0 {
                self.state.mark(Mark::ArrayMoveResumed);
            }
            self.journal.report_moved().await;
        }
        loop {
            let layout = self.state.layout();
            let Some(growth) = layout.growth() else { return };
            if self.state.is_closing() {
                return;
            }
            if layout.moved() >= growth.end() {
                if self.journal.record_moved(growth.end()).await.is_ok() {
                    return;
                }
                self.state.io().sleep(RETRY_NS).await;
                continue;
            }
            let moved = if self.state.has_failed() {
                Err(VolumeError::Failed)
            } else {
                self.move_batch(&layout).await
            };
            self.stuck.set(moved.is_err());
            if moved.is_err() {
                self.state.mark(Mark::ArrayMoveRetried);
                self.state.io().sleep(RETRY_NS).await;
            }
        }
    }

    /// Moves the next batch, or as much of it as can be moved without overwriting a chunk that is still needed.
    async fn move_batch(&self, layout: &ShardLayout) -> Result<(), VolumeError> {
        self.journal.wait_for_state_room().await?;
        let growth = layout.growth().expect("the caller found one");
        let manner = layout.manner().expect("a growth has a method");
        let from = layout.moved();
        let mut upto = growth.batch_end(from, manner.batch);
        let mut moves = Vec::new();
        for (chunk, way) in growth.moves(from..upto) {
            let Some(stripe) = layout.own(chunk) else { continue };
            if let Some(needed) = growth.key_before(way.to)
                && needed >= self.journal.progress().everywhere()
                && !mutation::on(Mutation::OverwriteUnmoved)
            {
                upto = growth.key(chunk);
                if upto == from {
                    return self.free_place(from, needed).await;
                }
                break;
            }
            moves.push(ChunkMove { stripe, way });
        }
        let bytes = moves.len() as u64 * layout.chunk_bytes();
        self.state.throttle().pay(self.state.io(), bytes).await;
        self.yield_to_clients(bytes).await;
        let stripes: BTreeSet<u64> = moves.iter().map(|m| m.stripe).collect();
        let mut locks = Vec::with_capacity(stripes.len());
        for &stripe in &stripes {
            locks.push(self.stripes.lock_exclusive(stripe).await);
        }
        if !self.stripes.is_all_placed() {
            self.state.mark(Mark::ArrayMoveNoSpace);
            return Err(VolumeError::NoSpace);
        }
        for ChunkMove { stripe, way } in &moves {
            let places = (0..layout.w).map(|unit| layout.member_home(way.to, unit));
            self.require_rebuilt(layout, *stripe, places.map(|place| MemberId(place.member as u8)))?;
        }
        let version = self.state.members().version();
        let uses: Vec<_> = stripes.iter().map(|&stripe| self.bitmap.use_region_of(stripe)).collect();
        self.copy(layout, &moves, manner).await?;
        drop(uses);
        if self.state.members().version() != version {
            self.state.mark(Mark::ArrayMoveVoid);
            return Ok(());
        }
        layout.set_moved(upto);
        self.state.counters().chunks_moved.add(moves.len() as u64);
        drop(locks);
        let window_ends = manner.window.is_some_and(|window| upto / window > from / window);
        if window_ends && !moves.is_empty() { self.journal.record_moved(upto).await } else { Ok(()) }
    }

    /// The batch that begins at `key` would overwrite the chunk with the key `needed`: waits until that is not needed any more.
    async fn free_place(&self, key: u64, needed: u64) -> Result<(), VolumeError> {
        self.state.mark(Mark::ArrayMoveBlocked);
        self.journal.record_moved(key).await?;
        let over = || self.state.is_closing() || self.state.has_failed();
        self.journal.progress().wait_until_everywhere_past(needed, over).await;
        if self.state.has_failed() { Err(VolumeError::Failed) } else { Ok(()) }
    }

    /// Copies chunks to their new places. Their stripes are locked and in use.
    async fn copy(
        &self,
        layout: &ShardLayout,
        moves: &[ChunkMove],
        manner: Manner,
    ) -> Result<(), VolumeError> {
        if self.state.has_redundancy() {
            moves.iter().for_each(|m| self.bitmap.mark_region(layout.region(m.stripe)));
        }
        let chunk_blocks = layout.chunk_blocks;
        let part_blocks = manner.part_blocks.unwrap_or(chunk_blocks);
        let reads = spans(moves, |m| m.way.from, manner.read_chunks);
        let writes = spans(moves, |m| m.way.to, manner.write_chunks);
        for offset in (0..chunk_blocks).step_by(part_blocks as usize) {
            let blocks = part_blocks.min(chunk_blocks - offset);
            let read =
                join_all(reads.iter().map(|span| self.read_span(layout, moves, span, offset, blocks))).await;
            let mut contents: Vec<Option<Buf>> = vec![None; moves.len()];
            for (span, bufs) in reads.iter().zip(read) {
                span.chunks.iter().zip(bufs?).for_each(|(&i, buf)| contents[i] = Some(buf));
            }
            let targets = writes.iter().flat_map(|span| (0..layout.w).map(move |unit| (span, unit)));
            let written = join_all(targets.map(|(span, unit)| {
                let parts = span.chunks.iter().map(|&i| contents[i].clone().expect("every chunk was read"));
                self.write_span(layout, span.first, unit, offset, parts.collect())
            }));
            written.await.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    /// Reads the same part of each chunk of a span. A span whose part is not a whole chunk has one chunk.
    async fn read_span(
        &self,
        layout: &ShardLayout,
        moves: &[ChunkMove],
        span: &Span,
        offset: u32,
        blocks: u32,
    ) -> Result<Vec<Buf>, VolumeError> {
        let bytes = blocks as usize * BLOCK_BYTES;
        let readable = |unit: &usize| {
            span.chunks.iter().all(|&i| self.stripes.health(moves[i].stripe, &[]).readable[*unit])
        };
        let in_sync = span.chunks.iter().all(|&i| self.stripes.health(moves[i].stripe, &[]).in_sync);
        let member = |unit: usize| MemberId(layout.member_home(span.first, unit).member as u8);
        let units = (0..layout.w).filter(readable);
        // Before a resync reads return the first copy.
        let unit = if in_sync {
            units.min_by_key(|&u| self.state.members().in_flight(member(u)))
        } else {
            units.min()
        };
        if let Some(unit) = unit {
            let home = layout.member_home(span.first, unit);
            let at = layout.chunk_offset(home) + u64::from(offset) * BLOCK_BYTES as u64;
            let len = bytes * span.chunks.len();
            if let Ok(buf) = self.state.members().read_at(MemberId(home.member as u8), at, len).await {
                return Ok((0..span.chunks.len()).map(|i| buf.slice(i * bytes, bytes)).collect());
            }
        }
        self.state.mark(Mark::ArrayMoveUnreadable);
        let mut bufs = Vec::with_capacity(span.chunks.len());
        for &i in &span.chunks {
            let part = UnitRun { unit: 0, offset, blocks };
            bufs.push(self.stripes.reconstruct(moves[i].stripe, part, &[]).await?);
        }
        Ok(bufs)
    }

    async fn write_span(
        &self,
        layout: &ShardLayout,
        first: Home,
        unit: usize,
        offset: u32,
        parts: Vec<Buf>,
    ) -> Result<(), VolumeError> {
        let home = layout.member_home(first, unit);
        let member = MemberId(home.member as u8);
        let at = layout.chunk_offset(home) + u64::from(offset) * BLOCK_BYTES as u64;
        if !self.state.members().is_active(member) {
            return Ok(());
        }
        let Err(error) = self.state.members().write_at(member, at, parts.into()).await else { return Ok(()) };
        if error == IoError::NoSpace {
            self.state.mark(Mark::ArrayMoveNoSpace);
            return Err(VolumeError::NoSpace);
        }
        self.state.mark(Mark::ArrayMoveMemberLost);
        self.state.members().report_failure(member, error).await;
        // An array without redundancy keeps a member that fails.
        if self.state.members().is_active(member) { Err(VolumeError::Failed) } else { Ok(()) }
    }
}

/// Groups moves into spans, each of at most `limit` chunks.
fn spans(moves: &[ChunkMove], home: impl Fn(&ChunkMove) -> Home, limit: u64) -> Vec<Span> {
    let mut order: Vec<usize> = (0..moves.len()).collect();
    order.sort_unstable_by_key(|&i| home(&moves[i]));
    let mut spans: Vec<Span> = Vec::new();
    for i in order {
        let here = home(&moves[i]);
        match spans.last_mut() {
            Some(span)
                if span.first.member == here.member
                    && span.first.chunk + span.chunks.len() as u64 == here.chunk
                    && (span.chunks.len() as u64) < limit =>
            {
                span.chunks.push(i);
            }
            _ => spans.push(Span { first: here, chunks: vec![i] }),
        }
    }
    spans
}
