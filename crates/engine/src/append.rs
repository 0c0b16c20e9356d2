//! Small writes: appended, packed, to the columns of an open mirrored stripe.
//!
//! Whatever is queued when the appender looks goes out as runs of up to one chunk: one member write per copy for each
//! run, then one commit. Each run takes the next column, so that consecutive runs use different members.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::addr::{Home, MemberId, ShardBlock, SlotNo, StripeId};
use crate::buf::{BLOCK_BYTES, Buf};
use crate::checksum::crc32c;
use crate::disk::journal::{Record, WRITE_BLOCKS_MAX};
use crate::geometry::CHUNK_BLOCKS;
use crate::io::{Gather, Io};
use crate::mapped::MappedShard;
use crate::paths::Path;
use crate::run_map::PAGE_INDICES;
use crate::sabotage::{self, Sabotage};
use crate::sync::{Promise, Signal, gather, join_all};
use crate::ticket::{AppendResult, Ticket};
use crate::volume::VolumeError;

/// Runs being written at the same time.
const RUNS_IN_FLIGHT_MAX: u32 = 8;

/// Blocks to be stored: consecutive, with their data.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) block: ShardBlock,
    pub(crate) data: Buf,
    pub(crate) from: From,
}

/// Whether what is stored replaces anything, or only what it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// A client's write: replaces whatever is there.
    Client,
    /// A copy or merge of one block: void unless the block is still there (none: unmapped).
    Slot(Option<SlotNo>),
}

impl Piece {
    pub(crate) fn blocks(&self) -> u32 {
        (self.data.len() / BLOCK_BYTES) as u32
    }

    /// Splits off the first `blocks` blocks.
    pub(crate) fn split_front(&mut self, blocks: u32) -> Piece {
        let bytes = blocks as usize * BLOCK_BYTES;
        let front = Piece { block: self.block, data: self.data.slice(0, bytes), from: self.from };
        self.block.0 += blocks;
        self.data = self.data.slice(bytes, self.data.len() - bytes);
        front
    }

    /// The records that say this piece is at `slot` and following.
    pub(crate) fn records(&self, slot: SlotNo, records: &mut Vec<Record>) {
        let crcs = self.data.bytes().chunks_exact(BLOCK_BYTES).map(crc32c);
        match self.from {
            From::Client => push_write(records, self.block, slot, crcs.collect()),
            From::Slot(_) if sabotage::on(Sabotage::MoveUnconditionally) => {
                push_write(records, self.block, slot, crcs.collect());
            }
            From::Slot(from) => {
                debug_assert_eq!(self.blocks(), 1);
                records.extend(crcs.map(|crc| Record::Move { block: self.block, from, slot, crc }));
            }
        }
    }
}

/// Adds to the last record what is about the blocks and slots just after it, within one map page; the rest becomes
/// records of its own.
fn push_write(records: &mut Vec<Record>, mut block: ShardBlock, mut slot: SlotNo, mut crcs: Vec<u32>) {
    if let Some(Record::Write { block: b, slot: s, crcs: before }) = records.last_mut() {
        let n = before.len() as u32;
        let adjacent = b.0 + n == block.0 && s.0 + n == slot.0 && !block.0.is_multiple_of(PAGE_INDICES);
        if adjacent && before.len() + crcs.len() <= WRITE_BLOCKS_MAX {
            before.append(&mut crcs);
            return;
        }
    }
    while crcs.len() > WRITE_BLOCKS_MAX {
        let rest = crcs.split_off(WRITE_BLOCKS_MAX);
        records.push(Record::Write { block, slot, crcs });
        crcs = rest;
        block.0 += WRITE_BLOCKS_MAX as u32;
        slot.0 += WRITE_BLOCKS_MAX as u32;
    }
    records.push(Record::Write { block, slot, crcs });
}

/// The stripe being appended to.
struct OpenStripe {
    id: StripeId,
    homes: Vec<Option<Home>>,
    /// Blocks appended to each column.
    fill: Vec<u32>,
    column_next: usize,
}

/// The queue of small writes and the stripe they go to.
#[derive(Default)]
pub(crate) struct Appender {
    queue: RefCell<VecDeque<(Piece, Rc<Ticket>)>>,
    work: Signal,
    open: RefCell<Option<OpenStripe>>,
    in_flight: Cell<u32>,
    /// Waiting for room. Conditional pieces do not wait with it: whoever queued them holds up the release of chunks.
    starved: Cell<bool>,
}

/// One run of blocks for one column.
struct Run {
    stripe: StripeId,
    slot: SlotNo,
    offset: u32,
    homes: Vec<Home>,
    pieces: Vec<(Piece, Rc<Ticket>)>,
}

impl Appender {
    /// Queues pieces; resolves when all of them are stored and findable.
    pub(crate) fn append(&self, pieces: Vec<Piece>) -> Promise<AppendResult> {
        let (ticket, promise) = Ticket::new(pieces.iter().map(Piece::blocks).sum());
        self.queue.borrow_mut().extend(pieces.into_iter().map(|piece| (piece, Rc::clone(&ticket))));
        if self.starved.get() {
            self.refuse_conditional();
        }
        self.work.notify();
        promise
    }

    /// Queues pieces that were on their way in front of all others.
    fn queue_again(&self, pieces: Vec<(Piece, Rc<Ticket>)>) {
        let mut queue = self.queue.borrow_mut();
        pieces.into_iter().rev().for_each(|entry| queue.push_front(entry));
        drop(queue);
        if self.starved.get() {
            self.refuse_conditional();
        }
    }

    /// Its state, for the diagnosis of a standstill.
    pub(crate) fn waits(&self) -> String {
        let open = self.open.borrow().as_ref().map(|open| (open.id, open.fill.clone()));
        let (queued, in_flight) = (self.queue.borrow().len(), self.in_flight.get());
        format!("append queue {queued}, in flight {in_flight}, starved {}, open {open:?}", self.is_starved())
    }

    /// Pieces and runs that are not stored yet.
    pub(crate) fn queued(&self) -> usize {
        self.queue.borrow().len() + self.in_flight.get() as usize
    }

    /// The stripe being appended to.
    pub(crate) fn open_stripe(&self) -> Option<StripeId> {
        self.open.borrow().as_ref().map(|open| open.id)
    }

    /// Whether appending waits for room.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved.get()
    }

    /// Sends conditional pieces away; false when there are none.
    fn refuse_conditional(&self) -> bool {
        let queued = std::mem::take(&mut *self.queue.borrow_mut());
        let (clients, conditional): (VecDeque<_>, VecDeque<_>) =
            queued.into_iter().partition(|(piece, _)| piece.from == From::Client);
        *self.queue.borrow_mut() = clients;
        let any = !conditional.is_empty();
        for (piece, ticket) in conditional {
            ticket.done(piece.blocks(), Err(VolumeError::NoSpace));
        }
        any
    }

    /// Stops appending to a stripe with a chunk on this member.
    pub(crate) fn abandon_member<I: Io>(&self, shard: &MappedShard<I>, member: MemberId) {
        let concerned = |open: &OpenStripe| open.homes.iter().flatten().any(|h| h.member == member);
        let abandoned = self.open.borrow_mut().take_if(|open| concerned(open));
        if let Some(open) = abandoned {
            shard.io.reach(Path::OpenStripeAbandoned);
            shard.close_stripe(open.id);
        }
    }

    /// Stops appending to the open stripe, so that it can be converted.
    pub(crate) fn close<I: Io>(&self, shard: &MappedShard<I>) {
        let closed = self.open.borrow_mut().take();
        if let Some(open) = closed {
            shard.close_stripe(open.id);
        }
    }

    fn fail_all(&self, error: VolumeError) {
        let queued = std::mem::take(&mut *self.queue.borrow_mut());
        for (piece, ticket) in queued {
            ticket.done(piece.blocks(), Err(error));
        }
    }

    fn has_room(&self) -> bool {
        self.open.borrow().as_ref().is_some_and(|open| open.fill.iter().any(|&f| f < CHUNK_BLOCKS))
    }

    /// Cuts a run off the queue for the next column with room.
    fn cut_run<I: Io>(&self, shard: &MappedShard<I>) -> Option<Run> {
        let mut open = self.open.borrow_mut();
        let mut queue = self.queue.borrow_mut();
        let open = open.as_mut()?;
        let columns = open.fill.len();
        let column = (0..columns)
            .map(|i| (open.column_next + i) % columns)
            .find(|&column| open.fill[column] < CHUNK_BLOCKS)?;
        let offset = open.fill[column];
        let mut room = CHUNK_BLOCKS - offset;
        let mut pieces = Vec::new();
        while room > 0
            && let Some((piece, ticket)) = queue.front_mut()
        {
            if piece.blocks() <= room {
                room -= piece.blocks();
                pieces.push(queue.pop_front().expect("just seen"));
            } else {
                pieces.push((piece.split_front(room), Rc::clone(ticket)));
                room = 0;
            }
        }
        if pieces.is_empty() {
            return None;
        }
        open.fill[column] = CHUNK_BLOCKS - room;
        open.column_next = (column + 1) % columns;
        let g = &shard.geometry;
        let mirrors = (0..g.failures()).map(|copy| g.mirror_index(copy, column));
        let homes = std::iter::once(column).chain(mirrors).filter_map(|index| open.homes[index]).collect();
        shard.share(open.id);
        Some(Run { stripe: open.id, slot: g.slot(open.id, column, offset), offset, homes, pieces })
    }
}

impl<I: Io> MappedShard<I> {
    /// Sends what is queued on its way, for ever.
    pub(crate) async fn run_appender(self: Rc<Self>) {
        let appender = &self.appender;
        loop {
            let ready = || {
                (!appender.queue.borrow().is_empty() && appender.in_flight.get() < RUNS_IN_FLIGHT_MAX)
                    .then_some(())
            };
            appender.work.wait(ready).await;
            gather(|| appender.queue.borrow().len(), CHUNK_BLOCKS as usize).await;
            if !appender.has_room()
                && let Err(error) = self.open_mirrored().await
            {
                self.io.reach(Path::AppendRefused);
                appender.fail_all(error);
                continue;
            }
            if let Some(run) = appender.cut_run(&self) {
                appender.in_flight.set(appender.in_flight.get() + 1);
                self.io.spawn(Rc::clone(&self).write_run(run));
            }
        }
    }

    /// Opens the next stripe to append to.
    async fn open_mirrored(self: &Rc<Self>) -> Result<(), VolumeError> {
        self.appender.close(self);
        let columns = self.geometry.data_columns;
        let starved = || {
            self.appender.starved.set(true);
            if self.appender.refuse_conditional() {
                self.io.reach(Path::ConditionalRefused);
            }
        };
        let planned = self.plan_in_time(columns, false, starved).await;
        if self.appender.starved.take() {
            self.space_changed.notify();
        }
        let (id, plan) = planned?;
        let version = self.members.version();
        self.share(id);
        let record = Record::Open {
            stripe: id,
            parity: false,
            columns: plan.columns as u8,
            homes: plan.homes.clone(),
        };
        let committed = self.journal.commit(vec![record]).await;
        self.opening.borrow_mut().remove(&id);
        let fill = vec![0; plan.columns];
        let lost = plan.homes.iter().flatten().any(|h| self.members.lost_since(h.member, version));
        if committed.is_err() || lost {
            self.io.reach(Path::OpenStripeVoid);
            // Empty, and never appended to: the keeper frees it.
            self.close_stripe(id);
            return committed;
        }
        *self.appender.open.borrow_mut() = Some(OpenStripe { id, homes: plan.homes, fill, column_next: 0 });
        self.counters.stripes_opened.add(1);
        Ok(())
    }

    /// Nobody will append to this stripe any more.
    pub(crate) fn close_stripe(&self, stripe: StripeId) {
        if self.geometry.parity_columns() > 0 {
            self.convertible.borrow_mut().push_back(stripe);
        }
        self.unshare(stripe);
    }

    /// Writes a run to all its copies and commits it. When a member fails, the pieces are queued again, in front.
    async fn write_run(self: Rc<Self>, run: Run) {
        self.unflushed_stripes.borrow_mut().insert(run.stripe);
        let data: Gather = run.pieces.iter().map(|(piece, _)| piece.data.clone()).collect();
        let mut homes = run.homes;
        if sabotage::on(Sabotage::OneDataCopy) {
            homes.truncate(1);
        }
        if sabotage::on(Sabotage::AcknowledgeEarly) {
            run.pieces.iter().for_each(|(piece, ticket)| ticket.done(piece.blocks(), Ok(true)));
        }
        let version = self.members.version();
        let results =
            join_all(homes.iter().map(|&home| self.members.write(home, run.offset, Rc::clone(&data)))).await;
        // A flush that began meanwhile took the stripe for covered; it is not.
        self.unflushed_stripes.borrow_mut().insert(run.stripe);
        let mut failed = homes.is_empty();
        for (home, result) in homes.iter().zip(results) {
            if let Err(error) = result {
                self.members.report_failure(home.member, error).await;
                failed = true;
            }
        }
        if failed || homes.iter().any(|home| self.members.lost_since(home.member, version)) {
            self.io.reach(Path::RunMemberLost);
            self.appender.queue_again(run.pieces);
        } else {
            self.commit_run(run.slot, run.pieces).await;
        }
        self.unshare(run.stripe);
        self.appender.in_flight.set(self.appender.in_flight.get() - 1);
        self.appender.work.notify();
    }

    async fn commit_run(&self, first: SlotNo, pieces: Vec<(Piece, Rc<Ticket>)>) {
        let mut records = Vec::with_capacity(pieces.len());
        let mut slot = first;
        for (piece, _) in &pieces {
            piece.records(slot, &mut records);
            slot.0 += piece.blocks();
        }
        let committed = self.journal.commit(records).await;
        if sabotage::on(Sabotage::AcknowledgeEarly) {
            return;
        }
        let mut slot = first;
        for (piece, ticket) in pieces {
            let held = piece.from == From::Client || self.tables.borrow().lookup(piece.block) == Some(slot);
            ticket.done(piece.blocks(), committed.map(|()| held));
            slot.0 += piece.blocks();
        }
    }
}
