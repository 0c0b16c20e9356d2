//! Group commit: records go to the journal on f + 1 members, then to the tables, then their owners are told.
//!
//! One group of blocks is in flight at a time, so the journal on the members never has a hole before an acknowledged
//! record, and whatever queues up meanwhile shares the next group. A block's place in the ring is its sequence number
//! modulo the ring's length, on whichever members it is written to.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::addr::{Lsn, MemberId};
use crate::buf::{BLOCK_BYTES, Buf};
use crate::disk::journal::{JOURNAL_PAYLOAD_BYTES, JournalHeader, Record, encode_block};
use crate::io::{Gather, Io};
use crate::mapped::MappedShard;
use crate::paths::Path;
use crate::sabotage::{self, Sabotage};
use crate::sync::{Fulfil, Promise, Signal, gather, join_all, promise};
use crate::tables::Effects;
use crate::volume::VolumeError;

/// Blocks written by one group at most.
const GROUP_BLOCKS: u64 = 16;
/// Blocks of the ring kept for what room itself depends on: markers that let the tail advance, and marks that a flush
/// waits for. Nothing else goes into them, since a stripe opened there could make another mark necessary.
const RESERVED_BLOCKS: u64 = 8;
/// Blocks between changes of the members that hold the journal.
const LEG_BLOCKS: u64 = 64;

/// What became of a commit.
pub(crate) type CommitResult = Result<(), VolumeError>;

struct Entry {
    /// None: a block is wanted for the tail that it carries.
    record: Option<Record>,
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
            "journal queue {queued}, next {next}, applied {}, flushed {}, tail {tail}",
            self.applied(),
            self.flushed()
        )
    }

    /// Entries that are not in a block yet.
    pub(crate) fn queued(&self) -> usize {
        self.queue.borrow().len()
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

    fn header(&self, pool: crate::disk::Uuid, shard: usize, lsn: Lsn) -> JournalHeader {
        let (tail, flushed) = (self.tail.get(), self.flushed.get());
        let mut tails = self.tails_written.borrow_mut();
        if tails.back().map_or(self.tail_durable.get(), |t| t.1) != tail {
            tails.push_back((lsn, tail));
        }
        JournalHeader { pool, shard: shard as u16, epoch: self.epoch, rewritten: 0, lsn, tail, flushed }
    }

    /// Takes the records of one block, or a marker, off the queue; of the reserve, for urgent ones only.
    fn take_block(&self, reserved: bool) -> Option<(Vec<Record>, Vec<Fulfil<CommitResult>>)> {
        let mut queue = self.queue.borrow_mut();
        let (mut records, mut waiters, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(entry) = queue.pop_front() {
            let len = entry.record.as_ref().map_or(0, Record::encoded_len);
            if bytes + len > JOURNAL_PAYLOAD_BYTES || reserved && !entry.urgent {
                queue.push_front(entry);
                break;
            }
            bytes += len;
            records.extend(entry.record);
            waiters.extend(entry.waiter);
        }
        (!records.is_empty() || !waiters.is_empty()).then_some((records, waiters))
    }
}

fn entries(records: Vec<Record>, urgent: bool) -> (Vec<Entry>, Promise<CommitResult>) {
    let (fulfil, promise) = promise();
    let mut entries: Vec<Entry> =
        records.into_iter().map(|record| Entry { record: Some(record), waiter: None, urgent }).collect();
    if entries.is_empty() {
        entries.push(Entry { record: None, waiter: None, urgent });
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
    waiters: Vec<Fulfil<CommitResult>>,
}

impl<I: Io> MappedShard<I> {
    /// Writes group after group, for ever.
    pub(crate) async fn run_journal(self: Rc<Self>) {
        loop {
            let room = self.journal_room().await;
            let (blocks, data) = self.build_group(&room);
            let first = blocks[0].lsn;
            let written = self.write_group(first, data).await;
            self.journal.blocks_written.set(self.journal.blocks_written.get() + blocks.len() as u64);
            for block in blocks {
                self.apply_block(block, written);
            }
            self.journal.room.notify();
        }
    }

    /// Waits for something to write and for room in the ring.
    async fn journal_room(&self) -> Room {
        let journal = &self.journal;
        journal.work.wait(|| (!journal.queue.borrow().is_empty()).then_some(())).await;
        gather(|| journal.queued(), usize::MAX).await;
        let ring = u64::from(self.geometry.journal_blocks);
        self.cleaner.kick();
        journal
            .room
            .wait(|| {
                if !self.members.any_active() {
                    // Nothing will be written, and nobody makes room any more: whoever waits is refused.
                    return Some(Room { blocks: GROUP_BLOCKS, reserved: false });
                }
                let blocks = ring.saturating_sub(journal.used() + RESERVED_BLOCKS);
                if blocks > 0 {
                    return Some(Room { blocks, reserved: false });
                }
                let urgent = journal.queue.borrow().front().is_some_and(|entry| entry.urgent);
                if urgent && journal.used() < ring {
                    self.io.reach(Path::JournalReserveUsed);
                    return Some(Room { blocks: 1, reserved: true });
                }
                self.io.reach(Path::JournalFull);
                None
            })
            .await
    }

    fn build_group(&self, room: &Room) -> (Vec<Block>, Buf) {
        let journal = &self.journal;
        let ring = u64::from(self.geometry.journal_blocks);
        let until_wrap = ring - journal.next.get() % ring;
        let mut blocks = Vec::new();
        while (blocks.len() as u64) < room.blocks.min(until_wrap).min(GROUP_BLOCKS) {
            let Some((records, waiters)) = journal.take_block(room.reserved) else { break };
            blocks.push(Block { lsn: journal.next.get(), records, waiters });
            journal.next.set(journal.next.get() + 1);
        }
        let mut data = Buf::zeroed(blocks.len() * BLOCK_BYTES);
        for (block, bytes) in blocks.iter().zip(data.bytes_mut().chunks_exact_mut(BLOCK_BYTES)) {
            let header = journal.header(self.pool, self.index, block.lsn);
            let packed = encode_block(&header, &block.records, bytes);
            debug_assert_eq!(packed, block.records.len());
        }
        (blocks, data)
    }

    /// Writes a group to f + 1 active members, or to all that are left; a member that fails is replaced by another.
    async fn write_group(&self, first: Lsn, data: Buf) -> CommitResult {
        if sabotage::on(Sabotage::SkipJournal) {
            return Ok(());
        }
        let position = (first % u64::from(self.geometry.journal_blocks)) as u32;
        let data: Gather = Rc::new([data]);
        let mut written: Vec<MemberId> = Vec::new();
        loop {
            written.retain(|&m| self.members.takes_new(m));
            let legs = self.journal_legs(first, &written);
            if legs.is_empty() {
                if written.is_empty() {
                    self.io.reach(Path::JournalRefused);
                    return Err(VolumeError::Failed);
                }
                return Ok(());
            }
            let writes = legs.iter().map(|&leg| {
                let offset = self.members.get(leg).layout.journal_offset(self.index, position);
                self.members.write_at(leg, offset, Rc::clone(&data))
            });
            let results = join_all(writes).await;
            for (leg, result) in legs.into_iter().zip(results) {
                match result {
                    Ok(()) => written.push(leg),
                    Err(error) => {
                        self.io.reach(Path::JournalMemberLost);
                        self.members.report_failure(leg, error).await;
                    }
                }
            }
        }
    }

    /// Further members to write a group to, beside those that have it.
    fn journal_legs(&self, first: Lsn, written: &[MemberId]) -> Vec<MemberId> {
        let copies = if sabotage::on(Sabotage::OneJournalCopy) { 1 } else { self.geometry.copies() };
        let n = self.members.count() as u64;
        (0..n)
            .map(|i| MemberId(((first / LEG_BLOCKS + i) % n) as u8))
            .filter(|m| self.members.takes_new(*m) && !written.contains(m))
            .take(copies.saturating_sub(written.len()))
            .collect()
    }

    fn apply_block(self: &Rc<Self>, block: Block, written: CommitResult) {
        if written.is_ok() {
            let mut effects = Effects::default();
            {
                let mut tables = self.tables.borrow_mut();
                for record in &block.records {
                    tables.apply(block.lsn, record, &mut effects);
                }
            }
            self.journal.applied.set(block.lsn);
            self.take_effects(block.lsn, effects);
            self.mark_opened(&block.records);
        }
        for waiter in block.waiters {
            waiter.fulfil(written);
        }
    }
}
