//! The journal's queue and its positions in the ring: records wait here until a group of blocks takes them.
//!
//! `group_commit` writes the groups, `apply` applies the blocks to the tables, `overlapped_commit` commits records while
//! their data is still being written.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;

use crate::store::data_status::DataStatus;
use sinew_core::ids::{Lsn, MemberId, Uuid};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Fulfil, Promise, Signal, promise};
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::{JOURNAL_PAYLOAD_BYTES, JournalHeader, Record};
use sinew_members::ring::writer::LateCopies;

/// What became of a commit.
pub(crate) type CommitResult = Result<(), VolumeError>;

pub(crate) struct Entry {
    /// `None`: write a block only to publish a new tail, or the record was aborted before it was written.
    pub(super) record: Option<Record>,
    /// For a record whose data is still being written.
    pub(super) data_status: Option<Rc<DataStatus>>,
    /// The request that waits for it; the last record of a commit has the waiter.
    pub(super) waiter: Option<Fulfil<CommitResult>>,
    /// May use the reserve.
    pub(super) urgent: bool,
}

/// The state of one shard's journal.
pub(crate) struct Journal {
    pub(super) queue: RefCell<VecDeque<Entry>>,
    pub(super) work: Signal,
    /// Something that the ring's room depends on has changed.
    pub(super) room: Signal,
    pub(super) next: Cell<Lsn>,
    pub(super) applied: Cell<Lsn>,
    pub(super) flushed: Cell<Lsn>,
    pub(super) tail: Cell<Lsn>,
    /// Blocks that carried a new tail and are not known durable yet: (block, tail).
    tails_written: RefCell<VecDeque<(Lsn, Lsn)>>,
    pub(super) tail_durable: Cell<Lsn>,
    pub(super) epoch: u64,
    /// Blocks written since the pool was opened.
    pub(super) blocks_written: Cell<u64>,
    /// Members that still write a group which counts without them.
    pub(super) late: LateCopies,
    /// Blocks being written to members, and blocks that wait for one before them, or for data that is still being
    /// written.
    pub(super) unapplied: RefCell<VecDeque<Block>>,
    /// Groups in flight.
    pub(super) in_flight: Cell<usize>,
    /// Overlapped commits under way.
    pub(super) overlapped: Cell<u32>,
    /// The last group was written on the spot, as to memory with a battery.
    pub(super) on_the_spot: Cell<bool>,
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
            late: LateCopies::default(),
            unapplied: RefCell::default(),
            in_flight: Cell::new(0),
            overlapped: Cell::new(0),
            on_the_spot: Cell::new(false),
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

    /// Blocks written since the pool was opened.
    pub(crate) fn blocks_written(&self) -> u64 {
        self.blocks_written.get()
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
    pub(super) fn is_late(&self, member: MemberId) -> bool {
        self.late.contains(member)
    }

    /// Writes that came too late to count and have not ended.
    pub(crate) fn late_writes(&self) -> usize {
        self.late.count()
    }

    /// The last block known durable with everything before it.
    pub(crate) fn flushed(&self) -> Lsn {
        self.flushed.get()
    }

    /// The sequence number the next block will have.
    pub(crate) fn next(&self) -> Lsn {
        self.next.get()
    }

    /// Overlapped commits under way.
    pub(crate) fn overlapped(&self) -> u32 {
        self.overlapped.get()
    }

    /// Where replay would start after a crash now, at the latest.
    pub(super) fn tail_durable(&self) -> Lsn {
        self.tail_durable.get()
    }

    /// Blocks of the ring that may not be overwritten yet.
    pub(crate) fn used(&self) -> u64 {
        self.next.get() - self.tail_durable.get()
    }

    /// Everything up to `lsn` is durable.
    pub(super) fn set_flushed(&self, lsn: Lsn) {
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

    /// As `commit`, for records whose data is still being written: they are applied once it is written, and not at all
    /// if it fails.
    pub(super) fn commit_overlapped(
        &self,
        records: Vec<Record>,
        data_status: &Rc<DataStatus>,
    ) -> Promise<CommitResult> {
        let (mut entries, promise) = entries(records, false);
        entries.iter_mut().for_each(|entry| entry.data_status = Some(Rc::clone(data_status)));
        self.queue.borrow_mut().extend(entries);
        self.work.notify();
        promise
    }

    /// As `commit`, for the record that opens a stripe; the status tells when a block has it.
    pub(crate) fn commit_opening(&self, record: Record) -> (Rc<DataStatus>, Promise<CommitResult>) {
        let status = Rc::new(DataStatus::without_data());
        let committed = self.commit_overlapped(vec![record], &status);
        (status, committed)
    }

    /// As `commit`, ahead of the queue: for records that depend on none before them and that a flush waits for.
    pub(super) fn commit_urgent(&self, records: Vec<Record>) -> impl Future<Output = CommitResult> + use<> {
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

    pub(crate) fn header(&self, pool: Uuid, shard: usize, lsn: Lsn, page_lsns: u64) -> JournalHeader {
        let (tail, flushed) = (self.tail.get(), self.flushed.get());
        let mut tails = self.tails_written.borrow_mut();
        if tails.back().map_or(self.tail_durable.get(), |t| t.1) != tail {
            tails.push_back((lsn, tail));
        }
        let (shard, epoch) = (shard as u16, self.epoch);
        JournalHeader { pool, shard, epoch, rewritten: 0, lsn, tail, flushed, page_lsns }
    }

    /// Takes the records of one block, or a marker, off the queue; of the reserve, for urgent ones only.
    pub(super) fn take_block(&self, reserved: bool) -> Option<Taken> {
        let mut queue = self.queue.borrow_mut();
        let (mut records, mut data_statuses, mut waiters, mut bytes) =
            (Vec::new(), Vec::new(), Vec::new(), 0);
        while let Some(mut entry) = queue.pop_front() {
            if entry.data_status.as_ref().is_some_and(|data_status| data_status.has_failed()) {
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
                entry.data_status.iter().for_each(|data_status| data_status.set_recorded());
                data_statuses.push(entry.data_status);
            }
            waiters.extend(entry.waiter);
        }
        (!records.is_empty() || !waiters.is_empty()).then_some((records, data_statuses, waiters))
    }
}

/// Records, the status of the data of each, and the requests that wait for them.
pub(crate) type Taken = (Vec<Record>, Vec<Option<Rc<DataStatus>>>, Vec<Fulfil<CommitResult>>);

pub(super) fn entries(records: Vec<Record>, urgent: bool) -> (Vec<Entry>, Promise<CommitResult>) {
    let (fulfil, promise) = promise();
    let mut entries: Vec<Entry> = records
        .into_iter()
        .map(|record| Entry { record: Some(record), data_status: None, waiter: None, urgent })
        .collect();
    if entries.is_empty() {
        entries.push(Entry { record: None, data_status: None, waiter: None, urgent });
    }
    entries.last_mut().expect("not empty").waiter = Some(fulfil);
    (entries, promise)
}

/// One block of a group: its records, and the requests that wait for them.
pub(crate) struct Block {
    pub(super) lsn: Lsn,
    pub(super) records: Vec<Record>,
    /// Of each record.
    pub(super) data_statuses: Vec<Option<Rc<DataStatus>>>,
    pub(super) waiters: Vec<Fulfil<CommitResult>>,
    /// What came of its group.
    pub(super) written: Option<CommitResult>,
}

impl Block {
    /// Whether it is written, and the status of all its data is known.
    pub(super) fn is_settled(&self) -> bool {
        let is_settled =
            |data_status: &Rc<DataStatus>| data_status.is_settled() || mutation::on(Mutation::ApplyUnlanded);
        self.written.is_some() && self.data_statuses.iter().flatten().all(is_settled)
    }
}
