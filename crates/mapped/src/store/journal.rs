//! Group commit: records go to the journal on f + 1 members, then to the tables, then their owners are told.
//!
//! Few groups of blocks are in flight at a time, so that whatever queues up meanwhile shares the next one. They are applied in
//! order, and only then acknowledged: the journal on the members never has a hole before an acknowledged record. A block's
//! place in the ring is its sequence number modulo the ring's length, on whichever members it is written to.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use crate::shard::MappedShard;
use crate::store::overlapped_commit::Landing;
use crate::store::tables::Effects;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::Mark;
use sinew_core::ids::{Lsn, MemberId};
use sinew_core::io::{Gather, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Fulfil, Promise, Signal, batch, poll_next, promise};
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::{JOURNAL_PAYLOAD_BYTES, JournalHeader, Record, encode_block};

/// Blocks written by one group at most.
const GROUP_BLOCKS: u64 = 16;
/// Groups on their way at the same time.
const GROUPS_IN_FLIGHT_MAX: usize = 2;
/// Blocks of the ring kept for what room itself depends on: markers that let the tail advance, and marks that a flush
/// waits for. Nothing else goes into them, since a stripe opened there could make another mark necessary.
const RESERVED_BLOCKS: u64 = 8;
/// Blocks between changes of the members that hold the journal.
const LEG_BLOCKS: u64 = 64;

/// What became of a commit.
pub(crate) type CommitResult = Result<(), VolumeError>;

struct Entry {
    /// None: a block is wanted for the tail that it carries, or for nothing any more.
    record: Option<Record>,
    /// For a record whose data is on its way.
    landing: Option<Rc<Landing>>,
    /// Who waits for it; the last record of a commit has the waiter.
    waiter: Option<Fulfil<CommitResult>>,
    /// May use the reserve.
    urgent: bool,
}

/// The state of one shard's journal.
pub(crate) struct Journal {
    queue: RefCell<VecDeque<Entry>>,
    work: Signal,
    /// Something that the ring's room depends on has changed.
    pub(crate) room: Signal,
    next: Cell<Lsn>,
    applied: Cell<Lsn>,
    flushed: Cell<Lsn>,
    tail: Cell<Lsn>,
    /// Blocks that carried a new tail and are not known durable yet: (block, tail).
    tails_written: RefCell<VecDeque<(Lsn, Lsn)>>,
    tail_durable: Cell<Lsn>,
    pub(crate) epoch: u64,
    /// Blocks written since the pool was opened.
    pub(crate) blocks_written: Cell<u64>,
    /// Members that still write a group which is written without them.
    late: RefCell<Vec<MemberId>>,
    /// Blocks on their way to members, and those that wait for one before them, or for data that is on its way.
    unapplied: RefCell<VecDeque<Block>>,
    /// Groups on their way.
    in_flight: Cell<usize>,
    /// Requests whose records went ahead of their data.
    pub(crate) beside: Cell<u32>,
}

impl Journal {
    /// A journal whose last replayed block is `last`, and whose last one known durable is `flushed`.
    pub(crate) fn new(epoch: u64, last: Lsn, tail: Lsn, flushed: Lsn) -> Journal {
        Journal {
            queue: RefCell::default(),
            work: Signal::default(),
            room: Signal::default(),
            next: Cell::new(last + 1),
            applied: Cell::new(last),
            flushed: Cell::new(flushed),
            tail: Cell::new(tail),
            tails_written: RefCell::default(),
            tail_durable: Cell::new(tail),
            epoch,
            blocks_written: Cell::new(0),
            late: RefCell::default(),
            unapplied: RefCell::default(),
            in_flight: Cell::new(0),
            beside: Cell::new(0),
        }
    }

    /// The last block whose records are in the tables.
    pub(crate) fn applied(&self) -> Lsn {
        self.applied.get()
    }

    /// Its state, for the diagnosis of a standstill.
    pub(crate) fn waits(&self) -> String {
        let (queued, next, tail) = (self.queue.borrow().len(), self.next.get(), self.tail_durable.get());
        format!(
            "journal queue {queued}, next {next}, unapplied {}, applied {}, flushed {}, tail {tail}",
            self.unapplied(),
            self.applied(),
            self.flushed()
        )
    }

    /// Entries that are not in a block yet.
    pub(crate) fn queued(&self) -> usize {
        self.queue.borrow().len()
    }

    /// Blocks that are not written, or wait for one before them or for their data.
    pub(crate) fn unapplied(&self) -> usize {
        self.unapplied.borrow().len()
    }

    /// Whether a member still writes what is written without it.
    pub(crate) fn is_late(&self, member: MemberId) -> bool {
        self.late.borrow().contains(&member)
    }

    /// Writes that came too late to count and have not ended.
    pub(crate) fn late_writes(&self) -> usize {
        self.late.borrow().len()
    }

    /// The last block known durable with everything before it.
    pub(crate) fn flushed(&self) -> Lsn {
        self.flushed.get()
    }

    /// The sequence number the next block will have.
    pub(crate) fn next(&self) -> Lsn {
        self.next.get()
    }

    /// Where replay would start after a crash now, at the latest.
    pub(crate) fn tail_durable(&self) -> Lsn {
        self.tail_durable.get()
    }

    /// Blocks of the ring that may not be overwritten yet.
    pub(crate) fn used(&self) -> u64 {
        self.next.get() - self.tail_durable.get()
    }

    /// Everything up to `lsn` is durable.
    pub(crate) fn set_flushed(&self, lsn: Lsn) {
        self.flushed.set(self.flushed.get().max(lsn));
        let mut tails = self.tails_written.borrow_mut();
        while let Some(&(block, tail)) = tails.front()
            && block <= lsn
        {
            self.tail_durable.set(tail);
            tails.pop_front();
        }
        self.room.notify();
    }

    /// Replay starts here.
    pub(crate) fn tail(&self) -> Lsn {
        self.tail.get()
    }

    /// Replay needs nothing before `lsn` any more, because pages with all of it are durable.
    pub(crate) fn set_tail(&self, lsn: Lsn) {
        debug_assert!(lsn >= self.tail.get());
        self.tail.set(lsn);
    }

    /// Queues records; they are applied together or, after a crash, as a prefix. Resolves when they are applied.
    pub(crate) fn commit(&self, records: Vec<Record>) -> impl Future<Output = CommitResult> + use<> {
        let (entries, promise) = entries(records, false);
        self.queue.borrow_mut().extend(entries);
        self.work.notify();
        promise
    }

    /// As `commit`, for records whose data is on its way: they are applied once it has landed, and not if it does not.
    pub(crate) fn commit_beside(&self, records: Vec<Record>, landing: &Rc<Landing>) -> Promise<CommitResult> {
        let (mut entries, promise) = entries(records, false);
        entries.iter_mut().for_each(|entry| entry.landing = Some(Rc::clone(landing)));
        self.queue.borrow_mut().extend(entries);
        self.work.notify();
        promise
    }

    /// As `commit`, ahead of the queue: for records that depend on none before them and that a flush waits for.
    pub(crate) fn commit_urgent(&self, records: Vec<Record>) -> impl Future<Output = CommitResult> + use<> {
        let (entries, promise) = entries(records, true);
        let mut queue = self.queue.borrow_mut();
        entries.into_iter().rev().for_each(|entry| queue.push_front(entry));
        drop(queue);
        self.work.notify();
        self.room.notify();
        promise
    }

    /// Has the next block carry the present tail, even when there are no records for it: ahead of the queue, since the
    /// queue may be waiting for the room that this makes.
    pub(crate) fn mark(&self) -> impl Future<Output = CommitResult> + use<> {
        self.commit_urgent(Vec::new())
    }

    fn header(&self, pool: sinew_core::ids::Uuid, shard: usize, lsn: Lsn) -> JournalHeader {
        let (tail, flushed) = (self.tail.get(), self.flushed.get());
        let mut tails = self.tails_written.borrow_mut();
        if tails.back().map_or(self.tail_durable.get(), |t| t.1) != tail {
            tails.push_back((lsn, tail));
        }
        JournalHeader { pool, shard: shard as u16, epoch: self.epoch, rewritten: 0, lsn, tail, flushed }
    }

    /// Takes the records of one block, or a marker, off the queue; of the reserve, for urgent ones only.
    fn take_block(&self, reserved: bool) -> Option<Taken> {
        let mut queue = self.queue.borrow_mut();
        let (mut records, mut landings, mut waiters, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
        while let Some(mut entry) = queue.pop_front() {
            if entry.landing.as_ref().is_some_and(|landing| landing.has_failed()) {
                entry.record = None;
            }
            let len = entry.record.as_ref().map_or(0, Record::encoded_len);
            if bytes + len > JOURNAL_PAYLOAD_BYTES || reserved && !entry.urgent {
                queue.push_front(entry);
                break;
            }
            bytes += len;
            if let Some(record) = entry.record {
                records.push(record);
                entry.landing.iter().for_each(|landing| landing.set_recorded());
                landings.push(entry.landing);
            }
            waiters.extend(entry.waiter);
        }
        (!records.is_empty() || !waiters.is_empty()).then_some((records, landings, waiters))
    }
}

/// Records, the landings of those whose data is on its way, and who waits for them.
type Taken = (Vec<Record>, Vec<Option<Rc<Landing>>>, Vec<Fulfil<CommitResult>>);

fn entries(records: Vec<Record>, urgent: bool) -> (Vec<Entry>, Promise<CommitResult>) {
    let (fulfil, promise) = promise();
    let mut entries: Vec<Entry> = records
        .into_iter()
        .map(|record| Entry { record: Some(record), landing: None, waiter: None, urgent })
        .collect();
    if entries.is_empty() {
        entries.push(Entry { record: None, landing: None, waiter: None, urgent });
    }
    entries.last_mut().expect("not empty").waiter = Some(fulfil);
    (entries, promise)
}

/// What the ring has room for.
struct Room {
    blocks: u64,
    /// Only what is urgent.
    reserved: bool,
}

/// One block of a group: its records, and who waits for them.
struct Block {
    lsn: Lsn,
    records: Vec<Record>,
    /// Of each record.
    landings: Vec<Option<Rc<Landing>>>,
    waiters: Vec<Fulfil<CommitResult>>,
    /// What came of its group.
    written: Option<CommitResult>,
}

impl Block {
    /// Whether it is written, and known of all its data that it has landed, or has not.
    fn is_settled(&self) -> bool {
        let is_settled =
            |landing: &Rc<Landing>| landing.is_settled() || mutation::on(Mutation::ApplyUnlanded);
        self.written.is_some() && self.landings.iter().flatten().all(is_settled)
    }
}

impl<I: Io> MappedShard<I> {
    /// Sends group after group on its way, for ever.
    pub(crate) async fn run_journal(self: Rc<Self>) {
        loop {
            let room = self.journal_room().await;
            let (lsns, data) = self.build_group(&room);
            self.journal.in_flight.set(self.journal.in_flight.get() + 1);
            let shard = Rc::clone(&self);
            self.io.spawn(async move {
                let written = shard.write_group(lsns.start, data).await;
                shard.group_written(lsns, written);
            });
        }
    }

    fn group_written(self: &Rc<Self>, lsns: Range<Lsn>, written: CommitResult) {
        let journal = &self.journal;
        journal.in_flight.set(journal.in_flight.get() - 1);
        journal.blocks_written.set(journal.blocks_written.get() + (lsns.end - lsns.start));
        let mut unapplied = journal.unapplied.borrow_mut();
        unapplied.iter_mut().filter(|b| lsns.contains(&b.lsn)).for_each(|b| b.written = Some(written));
        drop(unapplied);
        self.apply_settled();
    }

    /// Applies, in order, the blocks that are written with all before them, and whose data is.
    pub(crate) fn apply_settled(self: &Rc<Self>) {
        let next = || self.journal.unapplied.borrow_mut().pop_front_if(|block| block.is_settled());
        while let Some(block) = next() {
            self.apply_block(block);
        }
        self.journal.room.notify();
    }

    /// Waits for something to write and for room in the ring.
    async fn journal_room(&self) -> Room {
        let journal = &self.journal;
        journal.work.wait(|| (!journal.queue.borrow().is_empty()).then_some(())).await;
        batch(|| journal.queued(), usize::MAX).await;
        let ring = u64::from(self.geometry.journal_blocks);
        self.cleaner.kick();
        journal
            .room
            .wait(|| {
                if journal.in_flight.get() >= GROUPS_IN_FLIGHT_MAX {
                    return None;
                }
                if !self.members.any_active() {
                    // Nothing will be written, and nobody makes room any more: whoever waits is refused.
                    return Some(Room { blocks: GROUP_BLOCKS, reserved: false });
                }
                let blocks = ring.saturating_sub(journal.used() + RESERVED_BLOCKS);
                if blocks > 0 {
                    return Some(Room { blocks, reserved: false });
                }
                let urgent = journal.queue.borrow().front().is_some_and(|entry| entry.urgent);
                // All that is taken back is queued by then, and goes out together.
                let all_applied = journal.unapplied.borrow().is_empty();
                if urgent && all_applied && journal.used() < ring {
                    self.io.mark(Mark::JournalReserveUsed);
                    return Some(Room { blocks: 1, reserved: true });
                }
                self.io.mark(Mark::JournalFull);
                None
            })
            .await
    }

    fn build_group(&self, room: &Room) -> (Range<Lsn>, Buf) {
        let journal = &self.journal;
        let ring = u64::from(self.geometry.journal_blocks);
        let until_wrap = ring - journal.next.get() % ring;
        let mut blocks = Vec::new();
        while (blocks.len() as u64) < room.blocks.min(until_wrap).min(GROUP_BLOCKS) {
            let Some((records, landings, waiters)) = journal.take_block(room.reserved) else { break };
            blocks.push(Block { lsn: journal.next.get(), records, landings, waiters, written: None });
            journal.next.set(journal.next.get() + 1);
        }
        let mut data = Buf::zeroed(blocks.len() * BLOCK_BYTES);
        for (block, bytes) in blocks.iter().zip(data.bytes_mut().chunks_exact_mut(BLOCK_BYTES)) {
            let header = journal.header(self.pool, self.index, block.lsn);
            let packed = encode_block(&header, &block.records, bytes);
            debug_assert_eq!(packed, block.records.len());
        }
        let lsns = blocks[0].lsn..journal.next.get();
        journal.unapplied.borrow_mut().extend(blocks);
        (lsns, data)
    }

    /// Writes a group to f + 1 active members, or to all that are left; a member that fails is replaced by another. Where
    /// one is late another gets the group, too, and the group counts as written as soon as any f + 1 have it.
    async fn write_group(self: &Rc<Self>, first: Lsn, data: Buf) -> CommitResult {
        if mutation::on(Mutation::SkipJournal) {
            return Ok(());
        }
        let position = (first % u64::from(self.geometry.journal_blocks)) as u32;
        let data: Gather = Rc::new([data]);
        let mut copies = if mutation::on(Mutation::OneJournalCopy) { 1 } else { self.geometry.copies() };
        let (mut written, mut writing): (Vec<MemberId>, Vec<(MemberId, Pin<Box<_>>)>) = Default::default();
        let mut wanted = copies;
        self.members.latency.earn();
        loop {
            written.retain(|&m| self.members.takes_new(m));
            if written.len() >= copies {
                break;
            }
            let taken: Vec<MemberId> = written.iter().copied().chain(writing.iter().map(|w| w.0)).collect();
            for leg in self.journal_legs(first, &taken, wanted.saturating_sub(taken.len())).await {
                writing.push((leg, Box::pin(Rc::clone(self).write_leg(leg, position, Rc::clone(&data)))));
            }
            if writing.is_empty() {
                if written.is_empty() {
                    self.io.mark(Mark::JournalRefused);
                    return Err(VolumeError::Failed);
                }
                break;
            }
            match self.next_leg(&mut writing, wanted > copies).await {
                Some((leg, true)) => written.push(leg),
                Some((_, false)) => {}
                None if mutation::on(Mutation::CountLateJournal) => copies -= 1,
                None => wanted += writing.len(),
            }
        }
        if !writing.is_empty() {
            self.journal.late.borrow_mut().extend(writing.iter().map(|w| w.0));
            self.io.spawn(Rc::clone(self).await_late_legs(writing));
        }
        Ok(())
    }

    /// Writes a group to one member; whether that went well.
    async fn write_leg(self: Rc<Self>, leg: MemberId, position: u32, data: Gather) -> bool {
        let offset = self.members.get(leg).layout.journal_offset(self.index, position);
        let result = self.members.write_at(leg, offset, data).await;
        if let Err(error) = result {
            self.io.mark(Mark::JournalMemberLost);
            self.members.report_failure(leg, error).await;
        }
        result.is_ok()
    }

    /// The next leg that has ended, and how; none when all are late and another member shall get the group.
    async fn next_leg<F: Future<Output = bool>>(
        &self,
        writing: &mut Vec<(MemberId, Pin<Box<F>>)>,
        is_hedged: bool,
    ) -> Option<(MemberId, bool)> {
        let late_ns = writing.iter().map(|w| self.members.latency.late_ns(w.0)).max().unwrap_or(0);
        let may_be_late = self.members.may_hedge() && !is_hedged;
        let again = || self.members.deadlines.at(self.io.now_coarse().saturating_add(late_ns));
        let mut alarm = may_be_late.then(again);
        poll_fn(|cx| {
            if let Poll::Ready(ended) = poll_next(cx, writing) {
                return Poll::Ready(ended);
            }
            while let Some(set) = &mut alarm
                && set.poll(cx, self.io.now_coarse())
            {
                if self.may_write_journal_again(writing.iter().map(|w| w.0)) {
                    return Poll::Ready(None);
                }
                // What cannot be done now may be possible after as long again.
                alarm = Some(again());
            }
            Poll::Pending
        })
        .await
    }

    /// Whether a group may go to further members, since these are late: others respond, and enough of them for the groups
    /// to come, which must not go to members that still write this one.
    fn may_write_journal_again(&self, late: impl Iterator<Item = MemberId> + Clone) -> bool {
        let is_free = |&m: &MemberId| {
            let is_late = self.journal.is_late(m) || late.clone().any(|l| l == m);
            self.members.takes_new(m) && self.members.responds(m) && !is_late
        };
        let free = self.members.ids().filter(is_free).count();
        if free < self.geometry.copies() || !self.members.latency.spend(late.clone().count()) {
            self.io.mark(Mark::AroundTooDear);
            return false;
        }
        self.io.mark(Mark::JournalHedged);
        late.for_each(|m| self.members.latency.note(m, |watch| watch.hedges += 1));
        true
    }

    /// Waits for writes of the journal that came too late to count. Until then nothing else is written to these places.
    async fn await_late_legs<F: Future<Output = bool>>(
        self: Rc<Self>,
        writing: Vec<(MemberId, Pin<Box<F>>)>,
    ) {
        for (leg, write) in writing {
            write.await;
            let mut late = self.journal.late.borrow_mut();
            let place = late.iter().position(|&m| m == leg).expect("it is listed");
            late.swap_remove(place);
            drop(late);
            self.journal.room.notify();
        }
    }

    /// Up to `count` further members to write a group to: those that respond, with the least to do first and in turn where
    /// they are alike, then the others. Members that still write an earlier group are none; where only such are left, they
    /// are waited for.
    async fn journal_legs(&self, first: Lsn, taken: &[MemberId], count: usize) -> Vec<MemberId> {
        if count == 0 {
            return Vec::new();
        }
        let n = self.members.count() as u64;
        let in_turn = || {
            (0..n)
                .map(|i| MemberId(((first / LEG_BLOCKS + i) % n) as u8))
                .filter(|m| self.members.takes_new(*m) && !taken.contains(m))
        };
        let is_late = |m: &MemberId| self.journal.late.borrow().contains(m);
        let legs = || {
            let (mut legs, others): (Vec<_>, Vec<_>) =
                in_turn().filter(|m| !is_late(m)).partition(|&m| self.members.responds(m));
            if others.iter().any(|other| in_turn().take(count).any(|m| m == *other)) && legs.len() >= count {
                self.io.mark(Mark::JournalAround);
            }
            legs.sort_by_key(|&m| self.members.in_flight(m));
            legs.extend(others);
            legs.truncate(count);
            if legs.len() < count && in_turn().any(|m| is_late(&m)) {
                self.io.mark(Mark::JournalHeldUp);
                return None;
            }
            Some(legs)
        };
        self.journal.room.wait(legs).await
    }

    fn apply_block(self: &Rc<Self>, block: Block) {
        // After one that is not written the others cannot be found.
        let is_gap = block.lsn > self.journal.applied() + 1;
        let written = if is_gap { Err(VolumeError::Failed) } else { block.written.expect("it is settled") };
        if written.is_ok() {
            let has_landed =
                |landing: &Option<Rc<Landing>>| !landing.as_ref().is_some_and(|l| l.has_failed());
            let landed = block.records.iter().zip(&block.landings).filter(|(_, l)| has_landed(l));
            let mut effects = Effects::default();
            let mut tables = self.tables.borrow_mut();
            landed.clone().for_each(|(record, _)| tables.apply(block.lsn, record, &mut effects));
            drop(tables);
            self.journal.applied.set(block.lsn);
            self.take_effects(block.lsn, effects);
            self.mark_opened(landed.map(|(record, _)| record));
        }
        for waiter in block.waiters {
            waiter.fulfil(written);
        }
    }
}
