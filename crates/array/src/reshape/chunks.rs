//! Growing: chunks move to where more members have them, in the order of their keys, a batch at a time.
//!
//! What was copied is in two places, and both are right until somebody writes. So how far the shard is need not be on the
//! members at once: after a crash chunks are read from where they were, and copied again. It is recorded, by the state in
//! the log, before a chunk is written that has moved since the last record, and before anything is copied to a place
//! whose own chunk has (*lazy checkpoint*, FastScale, FAST '11, section 3.2).
//!
//! A chunk's stripe is locked while it is copied. Reads that take no lock are waited for before other shards hear that a
//! chunk has left the place that they may be reading.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use sinew_layout::Home;
use sinew_layout::moves::Move;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::{DeviceId, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Kick, Signal, join_all};
use sinew_core::volume::VolumeError;
use sinew_format::model::config::MemberState;
use sinew_members::message::ShardEvent;

use crate::bitmap::regions::LongWork;
use crate::stripe::parity_plan::UnitRun;
use crate::{ArrayShard, RETRY_NS};
use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_format::model::array_growth::Manner;
use sinew_format::model::array_shard_layout::ShardLayout;

/// How far a shard is in growing.
#[derive(Default)]
pub(crate) struct Mover {
    kick: Kick,
    /// Below this key everything has moved, durably; below `recorded` the members say so.
    flushed: Cell<u64>,
    recorded: Cell<u64>,
    /// Below this key every shard has recorded that everything has moved.
    everywhere: Cell<u64>,
    /// Somebody is recording.
    recording: Cell<bool>,
    signal: Signal,
    /// Reads without a lock, by when they began: before or after the last time that they were waited for.
    reads: [Cell<u32>; 2],
    phase: Cell<usize>,
    /// A batch cannot be read.
    pub(crate) stuck: Cell<bool>,
}

/// A read that takes no lock, while it lasts.
pub(crate) struct Reading<'a> {
    mover: &'a Mover,
    phase: usize,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let left = self.mover.reads[self.phase].get() - 1;
        self.mover.reads[self.phase].set(left);
        if left == 0 {
            self.mover.signal.notify();
        }
    }
}

/// A chunk that moves.
#[derive(Clone, Copy)]
struct ChunkMove {
    stripe: u64,
    way: Move,
}

/// Chunks that follow one another on a disk, by their index in the batch.
struct Span {
    first: Home,
    chunks: Vec<usize>,
}

impl Mover {
    /// Where recovery found it.
    pub(crate) fn resume(&self, key: u64) {
        self.flushed.set(key);
        self.recorded.set(key);
        self.everywhere.set(0);
    }

    /// The array failed, or is about to close.
    pub(crate) fn notify(&self) {
        self.signal.notify();
    }

    /// Below this key the members say that everything has moved.
    pub(crate) fn recorded(&self) -> u64 {
        self.recorded.get()
    }

    /// They say so up to here.
    pub(crate) fn set_recorded(&self, key: u64) {
        self.recorded.set(key);
    }

    /// The log is about to say that everything below this key has changed.
    pub(crate) fn note_changed(&self, key: u64) {
        self.flushed.set(key);
    }

    pub(crate) fn reading(&self) -> Reading<'_> {
        let phase = self.phase.get();
        self.reads[phase].set(self.reads[phase].get() + 1);
        Reading { mover: self, phase }
    }

    /// Waits for the reads that have begun.
    pub(crate) async fn readers_gone(&self) {
        let before = self.phase.get();
        // Those that the last caller waited for are gone; nobody else waits now.
        self.phase.set(1 - before);
        self.signal.wait(|| (self.reads[before].get() == 0).then_some(())).await;
    }
}

impl<I: Io> ArrayShard<I> {
    /// Moves whenever there is something to move, for ever.
    pub(crate) async fn run_mover(self: Rc<Self>) {
        self.mover.kick.kick();
        loop {
            self.mover.kick.kicked().await;
            if self.slice().changing().is_some() {
                self.change_rows().await;
            } else {
                self.move_all().await;
            }
        }
    }

    /// The array has another shape, with these members: it begins to grow, or has grown.
    pub(crate) fn reshape(&self, geometry: ArrayGeometry, members: &[(MemberState, Option<DeviceId>)]) {
        let before = self.slice();
        let next = ShardLayout::new(geometry, before.index);
        let known = before.geometry.members();
        self.members.extend(known, &members[known..]);
        self.regions.borrow_mut().extend(next.regions(), geometry.members());
        self.mover.resume(0);
        self.slice.replace(Rc::new(next));
        self.judge();
        self.mover.kick.kick();
        self.rebuilder.kick();
    }

    /// How far long work is, as the members may know it.
    pub(crate) fn long_work(&self) -> LongWork {
        let slice = self.slice();
        let growing = slice.growth().is_some() || slice.changing().is_some();
        LongWork {
            scrub: self.scrub_next.get(),
            moved: if growing { self.mover.flushed.get() } else { 0 },
            moving_to: if growing { slice.geometry.members() as u8 } else { 0 },
        }
    }

    /// Every shard is so far.
    pub(crate) fn moved_everywhere(&self, to: usize, key: u64) {
        if self.slice().geometry.members() == to {
            self.mover.everywhere.set(key);
        }
        self.mover.signal.notify();
    }

    async fn move_all(&self) {
        if self.slice().growth().is_some() {
            if self.mover.recorded.get() > 0 {
                self.io.mark(Mark::ArrayMoveResumed);
            }
            self.report_moved().await;
        }
        loop {
            let slice = self.slice();
            let Some(growth) = slice.growth() else { return };
            if self.closing.get() {
                return;
            }
            if slice.moved() >= growth.end() {
                if self.record_moved(growth.end()).await.is_ok() {
                    return;
                }
                self.io.sleep(RETRY_NS).await;
                continue;
            }
            let moved =
                if self.failed.get() { Err(VolumeError::Failed) } else { self.move_batch(&slice).await };
            self.mover.stuck.set(moved.is_err());
            if moved.is_err() {
                self.io.mark(Mark::ArrayMoveRetried);
                self.io.sleep(RETRY_NS).await;
            }
        }
    }

    /// Moves the next batch, or as much of it as can be moved without overwriting what is needed.
    async fn move_batch(&self, slice: &ShardLayout) -> Result<(), VolumeError> {
        let growth = slice.growth().expect("the caller looked");
        let manner = slice.manner().expect("a growth has a method");
        let from = slice.moved();
        let mut upto = growth.batch_end(from, manner.batch);
        let mut moves = Vec::new();
        for (chunk, way) in growth.moves(from..upto) {
            let Some(stripe) = slice.own(chunk) else { continue };
            if let Some(needed) = growth.key_before(way.to)
                && needed >= self.mover.everywhere.get()
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
        let bytes = moves.len() as u64 * u64::from(slice.geometry.layout.chunk_bytes());
        self.throttle.pay(&self.io, bytes).await;
        let stripes: BTreeSet<u64> = moves.iter().map(|m| m.stripe).collect();
        let mut held = Vec::with_capacity(stripes.len());
        for &stripe in &stripes {
            held.push(self.locks.alone(stripe).await);
        }
        let version = self.members.version();
        let uses: Vec<_> = stripes.iter().map(|&stripe| self.use_region(stripe)).collect();
        self.copy(slice, &moves, manner).await?;
        drop(uses);
        if self.members.version() != version {
            self.io.mark(Mark::ArrayMoveVoid);
            return Ok(());
        }
        slice.set_moved(upto);
        self.counters.chunks_moved.add(moves.len() as u64);
        drop(held);
        let window_ends = manner.window.is_some_and(|window| upto / window > from / window);
        if window_ends && !moves.is_empty() { self.record_moved(upto).await } else { Ok(()) }
    }

    /// The batch that begins at a key would overwrite what has the key `needed`: waits until that is not needed any more.
    async fn free_place(&self, key: u64, needed: u64) -> Result<(), VolumeError> {
        self.io.mark(Mark::ArrayMoveBlocked);
        self.record_moved(key).await?;
        let over = || self.closing.get() || self.failed.get();
        self.mover.signal.wait(|| (self.mover.everywhere.get() > needed || over()).then_some(())).await;
        if self.failed.get() { Err(VolumeError::Failed) } else { Ok(()) }
    }

    /// Has the members say that everything below this key has moved.
    pub(crate) async fn record_moved(&self, key: u64) -> Result<(), VolumeError> {
        let mover = &self.mover;
        loop {
            if mover.recorded.get() >= key {
                return Ok(());
            }
            if mover.recording.replace(true) {
                mover.signal.wait(|| (!mover.recording.get()).then_some(())).await;
                continue;
            }
            let recorded = self.record().await;
            mover.recording.set(false);
            mover.signal.notify();
            recorded?;
        }
    }

    async fn record(&self) -> Result<(), VolumeError> {
        let moved = self.slice().moved();
        if !mutation::on(Mutation::RecordUnflushed) {
            self.flush().await?;
        }
        self.mover.flushed.set(moved);
        self.log.write_state().await?;
        self.flush().await?;
        self.mover.recorded.set(moved);
        self.io.mark(Mark::ArrayMoveRecorded);
        // From the report on, any shard may write where they were.
        if !mutation::on(Mutation::ForgetReaders) {
            self.mover.readers_gone().await;
        }
        self.report_moved().await;
        Ok(())
    }

    pub(crate) async fn report_moved(&self) {
        let slice = self.slice();
        let key = self.mover.recorded.get();
        let key = slice.changing().map_or(key, |rows| u64::from(key >= rows.end()));
        if slice.geometry.shards == 1 {
            self.mover.everywhere.set(key);
        }
        self.members
            .report(ShardEvent::Moved { shard: slice.index, to: slice.geometry.members(), key })
            .await;
    }

    /// Before a stripe is written: if it has moved, the members must know. The caller holds it.
    pub(crate) async fn settle_move(&self, stripe: u64) -> Result<(), VolumeError> {
        let slice = self.slice();
        let Some(key) = slice.key(stripe) else { return Ok(()) };
        if key >= slice.moved() || key < self.mover.recorded.get() || mutation::on(Mutation::WriteUnrecorded)
        {
            return Ok(());
        }
        self.io.mark(Mark::ArrayMoveSettled);
        self.record_moved(key + 1).await
    }

    /// Copies chunks to where they go. Their stripes are locked and in use.
    async fn copy(
        &self,
        slice: &ShardLayout,
        moves: &[ChunkMove],
        manner: Manner,
    ) -> Result<(), VolumeError> {
        if self.is_redundant() {
            moves.iter().for_each(|m| self.regions.borrow_mut().mark(slice.region(m.stripe), self.out()));
        }
        let chunk_blocks = slice.chunk_blocks;
        let part_blocks = manner.part_blocks.unwrap_or(chunk_blocks);
        let reads = spans(moves, |m| m.way.from, manner.read_chunks);
        let writes = spans(moves, |m| m.way.to, manner.write_chunks);
        for offset in (0..chunk_blocks).step_by(part_blocks as usize) {
            let blocks = part_blocks.min(chunk_blocks - offset);
            let read =
                join_all(reads.iter().map(|span| self.read_span(slice, moves, span, offset, blocks))).await;
            let mut contents: Vec<Option<Buf>> = vec![None; moves.len()];
            for (span, bufs) in reads.iter().zip(read) {
                span.chunks.iter().zip(bufs?).for_each(|(&i, buf)| contents[i] = Some(buf));
            }
            let targets = writes.iter().flat_map(|span| (0..slice.w).map(move |unit| (span, unit)));
            let written = join_all(targets.map(|(span, unit)| {
                let parts = span.chunks.iter().map(|&i| contents[i].clone().expect("every chunk was read"));
                self.write_span(slice, span.first, unit, offset, parts.collect())
            }));
            written.await.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    /// The same part of each chunk of a span. One of a part of a chunk has one chunk.
    async fn read_span(
        &self,
        slice: &ShardLayout,
        moves: &[ChunkMove],
        span: &Span,
        offset: u32,
        blocks: u32,
    ) -> Result<Vec<Buf>, VolumeError> {
        let bytes = blocks as usize * BLOCK_BYTES;
        let readable =
            |unit: &usize| span.chunks.iter().all(|&i| self.health(moves[i].stripe, &[]).readable[*unit]);
        let even = span.chunks.iter().all(|&i| self.health(moves[i].stripe, &[]).even);
        let member = |unit: usize| MemberId(slice.member_home(span.first, unit).member as u8);
        let units = (0..slice.w).filter(readable);
        // Before a resync the first copy is what reads return.
        let unit = if even { units.min_by_key(|&u| self.members.in_flight(member(u))) } else { units.min() };
        if let Some(unit) = unit {
            let home = slice.member_home(span.first, unit);
            let at = slice.chunk_offset(home) + u64::from(offset) * BLOCK_BYTES as u64;
            let len = bytes * span.chunks.len();
            if let Ok(buf) = self.members.read_at(MemberId(home.member as u8), at, len).await {
                return Ok((0..span.chunks.len()).map(|i| buf.slice(i * bytes, bytes)).collect());
            }
        }
        self.io.mark(Mark::ArrayMoveUnreadable);
        let mut bufs = Vec::with_capacity(span.chunks.len());
        for &i in &span.chunks {
            let part = UnitRun { unit: 0, offset, blocks };
            bufs.push(self.reconstruct(moves[i].stripe, part, &[]).await?);
        }
        Ok(bufs)
    }

    async fn write_span(
        &self,
        slice: &ShardLayout,
        first: Home,
        unit: usize,
        offset: u32,
        parts: Vec<Buf>,
    ) -> Result<(), VolumeError> {
        let home = slice.member_home(first, unit);
        let member = MemberId(home.member as u8);
        let at = slice.chunk_offset(home) + u64::from(offset) * BLOCK_BYTES as u64;
        if !self.members.is_active(member) {
            return Ok(());
        }
        let Err(error) = self.members.write_at(member, at, parts.into()).await else { return Ok(()) };
        self.io.mark(Mark::ArrayMoveMemberLost);
        self.members.report_failure(member, error).await;
        // An array without redundancy keeps its members whatever they do.
        if self.members.is_active(member) { Err(VolumeError::Failed) } else { Ok(()) }
    }
}

/// Chunks that follow one another on a disk, as far as one request reaches.
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
