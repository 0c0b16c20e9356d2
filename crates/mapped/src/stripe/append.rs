//! Small writes: appended to the columns of an open mirrored stripe, packed unless the policy says otherwise.
//!
//! Whatever is queued when the appender looks goes out as runs of up to one chunk: one member write per copy for each
//! run, and one commit. Each run takes the next column, so that consecutive runs use different members.
//!
//! A client's run is recorded while it is written (`beside`).
//!
//! A run goes to a column whose members respond. While those of all columns with room are in spikes another stripe is
//! opened, and the first goes on later; when no other can be, the run waits for the least bad. A run that turns out to be
//! late is written again elsewhere, as one whose member failed is, and its stripe is held until the late write has ended.
//! Copies are never fewer than they should be.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;

use crate::shard::MappedShard;
use crate::store::chunk_allocator::StripePlan;
use crate::store::overlapped_commit::Beside;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::checksum::crc32c;
use sinew_core::completion::{AppendResult, Completion};
use sinew_core::coverage::Mark;
use sinew_core::ids::{Home, MemberId, ShardBlock, SlotNo, StripeId};
use sinew_core::io::{Gather, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Promise, Signal, batch, join_all};
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::{Record, WRITE_BLOCKS_MAX};
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;
use sinew_format::model::mapped_geometry::PAGE_INDICES;
use sinew_format::model::policy::Packing;

/// Runs being written at the same time, or as many as there are members: few, so that more share each, where they are packed.
const RUNS_IN_FLIGHT_LEAST: u32 = 8;
const LONE_RUNS_IN_FLIGHT_MAX: u32 = 256;
/// Stripes open at the same time: one, and others while members of it do not respond.
const OPEN_MAX: usize = 3;

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
            From::Slot(_) if mutation::on(Mutation::MoveUnconditionally) => {
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

/// A stripe being appended to.
struct OpenStripe {
    id: StripeId,
    homes: Vec<Option<Home>>,
    /// Blocks appended to each column.
    fill: Vec<u32>,
    column_next: usize,
}

impl OpenStripe {
    fn is_full(&self) -> bool {
        self.fill.iter().all(|&fill| fill == CHUNK_BLOCKS)
    }

    /// Columns with room, the next one first.
    fn columns(&self) -> impl Iterator<Item = usize> {
        let columns = self.fill.len();
        (0..columns).map(move |i| (self.column_next + i) % columns).filter(|&c| self.fill[c] < CHUNK_BLOCKS)
    }
}

/// The queue of small writes and the stripes they go to.
#[derive(Default)]
pub(crate) struct Appender {
    queue: RefCell<VecDeque<(Piece, Rc<Completion>)>>,
    work: Signal,
    /// The oldest first.
    open: RefCell<Vec<OpenStripe>>,
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
    pieces: Vec<(Piece, Rc<Completion>)>,
}

impl Appender {
    /// Queues pieces; resolves when all of them are stored and findable.
    pub(crate) fn append(&self, pieces: Vec<Piece>) -> Promise<AppendResult> {
        let (ticket, promise) = Completion::new(pieces.iter().map(Piece::blocks).sum());
        self.queue.borrow_mut().extend(pieces.into_iter().map(|piece| (piece, Rc::clone(&ticket))));
        if self.starved.get() {
            self.refuse_conditional();
        }
        self.work.notify();
        promise
    }

    /// Queues pieces that were on their way in front of all others.
    fn queue_again(&self, pieces: Vec<(Piece, Rc<Completion>)>) {
        let mut queue = self.queue.borrow_mut();
        pieces.into_iter().rev().for_each(|entry| queue.push_front(entry));
        drop(queue);
        if self.starved.get() {
            self.refuse_conditional();
        }
    }

    /// Its state, for the diagnosis of a standstill.
    pub(crate) fn waits(&self) -> String {
        let open = self.open.borrow();
        let open: Vec<_> = open.iter().map(|open| (open.id, &open.fill)).collect();
        let (queued, in_flight) = (self.queue.borrow().len(), self.in_flight.get());
        format!("append queue {queued}, in flight {in_flight}, starved {}, open {open:?}", self.is_starved())
    }

    /// Pieces and runs that are not stored yet.
    pub(crate) fn queued(&self) -> usize {
        self.queue.borrow().len() + self.in_flight.get() as usize
    }

    /// The stripes being appended to.
    pub(crate) fn open_stripes(&self) -> Vec<StripeId> {
        self.open.borrow().iter().map(|open| open.id).collect()
    }

    /// Stripes that nothing can be appended to and that are not closed.
    pub(crate) fn full_stripes(&self) -> usize {
        self.open.borrow().iter().filter(|open| open.is_full()).count()
    }

    /// Whether a stripe is being appended to.
    pub(crate) fn is_open(&self, stripe: StripeId) -> bool {
        self.open.borrow().iter().any(|open| open.id == stripe)
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

    /// Stops appending to stripes with a chunk on this member.
    pub(crate) fn abandon_member<I: Io>(&self, shard: &MappedShard<I>, member: MemberId) {
        let concerned = |open: &OpenStripe| open.homes.iter().flatten().any(|h| h.member == member);
        if self.close_those(shard, concerned) {
            shard.io.mark(Mark::OpenStripeAbandoned);
        }
    }

    /// Stops appending to a stripe, so that something else can be done with it.
    pub(crate) fn close<I: Io>(&self, shard: &MappedShard<I>, stripe: StripeId) {
        self.close_those(shard, |open| open.id == stripe);
    }

    fn close_those<I: Io>(&self, shard: &MappedShard<I>, concerned: impl Fn(&OpenStripe) -> bool) -> bool {
        let closed: Vec<OpenStripe> = self.open.borrow_mut().extract_if(.., |open| concerned(open)).collect();
        closed.iter().for_each(|open| shard.close_stripe(open.id));
        !closed.is_empty()
    }

    fn run_ended(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
        self.work.notify();
    }

    fn fail_all(&self, error: VolumeError) {
        let queued = std::mem::take(&mut *self.queue.borrow_mut());
        for (piece, ticket) in queued {
            ticket.done(piece.blocks(), Err(error));
        }
    }

    /// The open stripe and column for the next run: of those whose members all respond, that with the least to do.
    fn choose<I: Io>(&self, shard: &MappedShard<I>) -> Option<(usize, usize)> {
        let open = self.open.borrow();
        let members =
            |(i, column): (usize, usize)| shard.copies_of(&open[i].homes, column).map(|home| home.member);
        columns_of(&open)
            .filter(|&at| members(at).all(|member| shard.members.responds(member)))
            .min_by_key(|&at| members(at).map(|member| shard.members.in_flight(member)).max())
    }

    /// As `choose`, where no column's members all respond: the one with the fewest stragglers.
    fn choose_least_bad<I: Io>(&self, shard: &MappedShard<I>) -> Option<(usize, usize)> {
        let open = self.open.borrow();
        columns_of(&open).min_by_key(|&(i, column)| {
            let burdens =
                shard.copies_of(&open[i].homes, column).map(|h| shard.members.burden(h.member).stragglers);
            burdens.max()
        })
    }

    /// Cuts a run off the queue for a column with room. A stripe that is full by that is closed.
    fn cut_run<I: Io>(&self, shard: &MappedShard<I>, (stripe, column): (usize, usize)) -> Option<Run> {
        let run = self.fill_column(shard, &mut self.open.borrow_mut()[stripe], column);
        self.close_those(shard, OpenStripe::is_full);
        run
    }

    fn fill_column<I: Io>(
        &self,
        shard: &MappedShard<I>,
        open: &mut OpenStripe,
        column: usize,
    ) -> Option<Run> {
        let mut queue = self.queue.borrow_mut();
        let columns = open.fill.len();
        let filled = open.fill[column];
        let alone = shard.policy.get().packing == Packing::WholeChunks;
        let offset = match queue.front() {
            Some((piece, _)) if alone => piece.block.0 % CHUNK_BLOCKS,
            _ => filled,
        };
        if offset < filled {
            // The policy was another one when the column was begun.
            open.fill[column] = CHUNK_BLOCKS;
            return None;
        }
        let mut room = CHUNK_BLOCKS - offset;
        let mut pieces = Vec::new();
        while room > 0
            && (!alone || pieces.is_empty())
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
        open.fill[column] = if alone { CHUNK_BLOCKS } else { CHUNK_BLOCKS - room };
        open.column_next = (column + 1) % columns;
        let g = &shard.geometry;
        let homes = shard.copies_of(&open.homes, column).collect();
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
                let in_flight_max = match self.policy.get().packing {
                    Packing::Packed => RUNS_IN_FLIGHT_LEAST.max(self.members.count() as u32),
                    Packing::WholeChunks => LONE_RUNS_IN_FLIGHT_MAX,
                };
                (!appender.queue.borrow().is_empty() && appender.in_flight.get() < in_flight_max)
                    .then_some(())
            };
            appender.work.wait(ready).await;
            batch(|| appender.queue.borrow().len(), CHUNK_BLOCKS as usize).await;
            let mut chosen = appender.choose(&self);
            if chosen.is_none() && !appender.open.borrow().is_empty() {
                self.open_around().await;
                chosen = appender.choose(&self).or_else(|| {
                    self.io.mark(Mark::AppendToSpiking);
                    appender.choose_least_bad(&self)
                });
            }
            if appender.open.borrow().is_empty() {
                if let Err(error) = self.open_mirrored().await {
                    self.io.mark(Mark::AppendRefused);
                    appender.fail_all(error);
                    continue;
                }
                chosen = appender.choose(&self).or_else(|| appender.choose_least_bad(&self));
            }
            if let Some(run) = chosen.and_then(|chosen| appender.cut_run(&self, chosen)) {
                appender.in_flight.set(appender.in_flight.get() + 1);
                self.io.spawn(Rc::clone(&self).write_run(run));
            }
        }
    }

    /// The homes of a data column and of its mirrors.
    fn copies_of(&self, homes: &[Option<Home>], column: usize) -> impl Iterator<Item = Home> {
        let g = self.geometry;
        let mirrors = (0..g.failures()).map(move |copy| g.mirror_index(copy, column));
        std::iter::once(column).chain(mirrors).filter_map(|index| homes[index])
    }

    /// Opens another stripe, if one can be had at once on members that all respond.
    async fn open_around(self: &Rc<Self>) {
        if self.appender.open.borrow().len() >= OPEN_MAX {
            return;
        }
        if let Some((id, plan)) = self.plan_around(self.geometry.data_columns) {
            self.io.mark(Mark::AppendAround);
            let all = (0..self.members.count()).map(|i| MemberId(i as u8));
            all.filter(|&m| self.members.takes_new(m) && !self.members.responds(m))
                .for_each(|m| self.members.latency.note(m, |watch| watch.redirections += 1));
            // When that fails those that are open will do.
            let _ = self.open_planned(id, plan).await;
        }
    }

    /// Opens the next stripe to append to.
    async fn open_mirrored(self: &Rc<Self>) -> Result<(), VolumeError> {
        let columns = self.geometry.data_columns;
        let starved = || {
            self.appender.starved.set(true);
            if self.appender.refuse_conditional() {
                self.io.mark(Mark::ConditionalRefused);
            }
        };
        let planned = self.plan_in_time(columns, false, starved).await;
        if self.appender.starved.take() {
            self.space_changed.notify();
        }
        let (id, plan) = planned?;
        self.open_planned(id, plan).await
    }

    async fn open_planned(self: &Rc<Self>, id: StripeId, plan: StripePlan) -> Result<(), VolumeError> {
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
            self.io.mark(Mark::OpenStripeVoid);
            // Empty, and never appended to: the keeper frees it.
            self.close_stripe(id);
            return committed;
        }
        let open = OpenStripe { id, homes: plan.homes, fill, column_next: 0 };
        self.appender.open.borrow_mut().push(open);
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

    /// Writes a run to all its copies and records it. When a member fails, the pieces are queued again, in front.
    async fn write_run(self: Rc<Self>, run: Run) {
        self.unflushed_stripes.borrow_mut().insert(run.stripe);
        let data: Gather = run.pieces.iter().map(|(piece, _)| piece.data.clone()).collect();
        let mut homes = run.homes;
        if mutation::on(Mutation::OneDataCopy) {
            homes.truncate(1);
        }
        if mutation::on(Mutation::AcknowledgeEarly) {
            run.pieces.iter().for_each(|(piece, ticket)| ticket.done(piece.blocks(), Ok(true)));
        }
        let version = self.members.version();
        let writes = homes.iter().map(|&home| self.members.write(home, run.offset, Rc::clone(&data)));
        let mut writes = pin!(join_all(writes));
        let mut beside = self.record_run_beside(run.slot, &run.pieces);
        let mut pieces = Some(run.pieces);
        let mut in_time = None;
        if self.members.may_hedge() {
            self.members.latency.earn();
            loop {
                in_time = self.in_time(&homes, writes.as_mut()).await;
                if in_time.is_none() {
                    // It shall hold up no other.
                    self.take_back(beside.take());
                }
                // What cannot be done now may be possible after as long again.
                if in_time.is_some() || self.may_write_again(&homes) {
                    break;
                }
            }
            if in_time.is_none() {
                self.io.mark(Mark::RunHedged);
                let pieces: Vec<_> = pieces.take().into_iter().flatten().collect();
                if mutation::on(Mutation::CountLateRun) {
                    self.record(run.slot, pieces, None).await;
                } else {
                    self.appender.queue_again(pieces);
                }
                self.appender.run_ended();
            }
        }
        let results = match in_time {
            Some(results) => results,
            None => writes.await,
        };
        // A flush that began meanwhile took the stripe for covered; it is not.
        self.unflushed_stripes.borrow_mut().insert(run.stripe);
        let failed = homes.is_empty()
            || results.iter().any(Result::is_err)
            || homes.iter().any(|home| self.members.lost_since(home.member, version));
        if failed {
            self.take_back(beside.take());
        }
        for (home, result) in homes.iter().zip(results) {
            if let Err(error) = result {
                self.members.report_failure(home.member, error).await;
            }
        }
        let Some(pieces) = pieces else {
            self.unshare(run.stripe);
            return;
        };
        if failed {
            self.io.mark(Mark::RunMemberLost);
            self.appender.queue_again(pieces);
        } else {
            self.record(run.slot, pieces, beside).await;
        }
        self.unshare(run.stripe);
        self.appender.run_ended();
    }

    /// Has the records of a client's run go to the journal beside its data.
    fn record_run_beside(&self, first: SlotNo, pieces: &[(Piece, Rc<Completion>)]) -> Option<Beside> {
        let is_clients = pieces.iter().all(|(piece, _)| piece.from == From::Client);
        if !is_clients || !self.members.may_hedge() || mutation::on(Mutation::AcknowledgeEarly) {
            return None;
        }
        let slots = pieces.iter().map(|(piece, _)| piece.blocks()).sum();
        self.record_beside(|| records_of(first, pieces), first, slots)
    }

    /// Whether a run that is late may be written again: other members respond, and not too much is done twice.
    fn may_write_again(&self, homes: &[Home]) -> bool {
        let responds = |&m: &MemberId| self.members.takes_new(m) && self.members.responds(m);
        let late = homes.iter().filter(|home| self.members.burden(home.member).stragglers > 0);
        let mut late = late.map(|home| home.member).peekable();
        let is_possible = late.peek().is_some() && self.members.ids().filter(responds).count() >= homes.len();
        if !is_possible || !self.members.latency.spend(homes.len()) {
            self.io.mark(Mark::AroundTooDear);
            return false;
        }
        late.for_each(|member| self.members.latency.note(member, |watch| watch.hedges += 1));
        true
    }

    /// Records a run whose data has landed, unless that was done beside, and tells those who wait.
    async fn record(
        self: &Rc<Self>,
        first: SlotNo,
        pieces: Vec<(Piece, Rc<Completion>)>,
        beside: Option<Beside>,
    ) {
        let committed = self.commit_landed(beside, || records_of(first, &pieces)).await;
        if mutation::on(Mutation::AcknowledgeEarly) {
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

/// Stripes and their columns that have room, in the order in which they are to be filled.
fn columns_of(open: &[OpenStripe]) -> impl Iterator<Item = (usize, usize)> {
    open.iter().enumerate().flat_map(|(i, open)| open.columns().map(move |column| (i, column)))
}

/// The records that say that a run's pieces are at its slots.
fn records_of(first: SlotNo, pieces: &[(Piece, Rc<Completion>)]) -> Vec<Record> {
    let mut records = Vec::with_capacity(pieces.len());
    let mut slot = first;
    for (piece, _) in pieces {
        piece.records(slot, &mut records);
        slot.0 += piece.blocks();
    }
    records
}
