//! The log of a shard: one ring on every member, to which groups are appended, each on f + 1 members in turn.
//!
//! In an array with a journal the log is the write journal of Elastic RAID (section 4): new data is acknowledged once it is
//! in the log, and goes to its place in the background. Before a stripe is changed in place, its whole after-image, parity
//! included, is in the log and durable, so that replay depends on nothing that a torn update left behind. In an array
//! without a journal the log holds only the state: the bitmap and the progress of long work.
//!
//! Parity of an after-image is written once, at its position in the ring of the member that the parity belongs to. It is
//! needed only there: when that member is lost, the parity has no place any more (`recovery/replay`).
//!
//! This file holds the queues, the positions and the room; `writer` writes groups and `group_builder` composes them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::completion::Completion;
use sinew_core::sync::{Fulfil, Promise, Signal, promise};
use sinew_core::volume::VolumeError;
use sinew_format::log_group::GroupRecord;
use sinew_format::model::array_shard_layout::Run;
use sinew_members::ring::writer::LateCopies;

use crate::journal::form_costs::FormCosts;
use crate::journal::group::BuiltGroup;

/// Data blocks of a group at most.
const GROUP_BLOCKS_MAX: u32 = 256;

/// Something to be appended.
pub(crate) enum Entry {
    /// New content of consecutive slots. That of a discard waits for space on full members, other content is refused.
    Data { run: Run, data: Buf, is_discard: bool, completion: Rc<Completion> },
    /// New content of part of a block that held `base` when `DirtyBlocks::version` was `version`. The entry is void if that
    /// is out of date.
    Merge { run: Run, at: usize, bytes: Rc<[u8]>, base: Buf, version: u64, completion: Rc<Completion> },
    /// A stripe's after-image, or a part of the images with which a growth changes rows.
    Image { record: GroupRecord, data: Vec<Buf>, completion: Rc<Completion> },
    /// Stripes change their form. The answer is the group that has the record.
    Form { record: GroupRecord, logged: Fulfil<Result<u64, VolumeError>> },
}

impl Entry {
    /// Whether full members refuse it.
    pub(super) fn is_refused_by_full(&self) -> bool {
        !matches!(self, Entry::Data { is_discard: true, .. })
    }

    /// Answers the request that it has failed.
    pub(super) fn refuse(self, error: VolumeError) {
        match self {
            Entry::Data { run, completion, .. } => completion.done(run.blocks, Err(error)),
            Entry::Merge { completion, .. } | Entry::Image { completion, .. } => {
                completion.done(1, Err(error));
            }
            Entry::Form { logged, .. } => logged.fulfil(Err(VolumeError::Failed)),
        }
    }
}

/// Where a log continues. Groups are numbered by the block that they begin at, counted from the log's beginning.
pub(crate) struct LogStart {
    /// Blocks of the ring.
    pub(crate) ring_blocks: u32,
    /// Blocks of the ring that clients' data may take.
    pub(crate) client_blocks: u64,
    /// Counts the openings of the pool.
    pub(crate) epoch: u64,
    /// The last group.
    pub(crate) last: u64,
    /// The end of the last group.
    pub(crate) next: u64,
    /// The oldest group that is needed.
    pub(crate) tail: u64,
    /// The last group with a state.
    pub(crate) state: u64,
}

/// A tail that a group has brought to the members.
#[derive(Clone, Copy)]
pub(super) struct WrittenTail {
    pub(super) group: u64,
    pub(super) tail: u64,
}

/// The log's queues and positions.
pub(crate) struct Log {
    pub(super) ring: u64,
    /// Blocks that clients' data may take. Destaging all of it takes at most m times as many blocks for parity, which always
    /// fits and leaves room for the images of rounds that a crash cut short.
    client_blocks: u64,
    /// Blocks of these that a growth is about to take.
    reserved: Cell<u64>,
    pub(super) queue: RefCell<VecDeque<Entry>>,
    pub(super) images: RefCell<VecDeque<Entry>>,
    /// Callers that wait for a state group.
    pub(super) states: RefCell<Vec<Fulfil<Result<(), VolumeError>>>>,
    pub(super) work: Signal,
    pub(super) room: Signal,
    /// The next block.
    pub(super) next: Cell<u64>,
    /// The last group written.
    pub(super) last: Cell<u64>,
    /// The last group that is known durable with all before it.
    pub(super) flushed: Cell<u64>,
    /// The last group with a state.
    pub(super) state: Cell<u64>,
    /// New tails whose groups are not known durable yet.
    pub(super) tails_written: RefCell<VecDeque<WrittenTail>>,
    tail_durable: Cell<u64>,
    /// Nothing can be destaged: it is no use to wait for room.
    stuck: Cell<Option<VolumeError>>,
    pub(super) epoch: u64,
    /// A group whose write failed on every member.
    pub(super) unwritten: RefCell<Option<BuiltGroup>>,
    /// Members that still write a group which counts without them.
    pub(super) late: LateCopies,
    /// Groups whose parity is being written.
    pub(super) parity_writes: Cell<u32>,
    pub(super) blocks_written: Cell<u64>,
    pub(super) groups_written: Cell<u64>,
    /// How long groups took as copies and striped.
    pub(crate) form_costs: FormCosts,
}

impl Log {
    /// A log that continues where recovery found it.
    pub(crate) fn new(start: LogStart) -> Log {
        Log {
            ring: u64::from(start.ring_blocks),
            client_blocks: start.client_blocks,
            reserved: Cell::new(0),
            queue: RefCell::default(),
            images: RefCell::default(),
            states: RefCell::default(),
            work: Signal::default(),
            room: Signal::default(),
            next: Cell::new(start.next),
            last: Cell::new(start.last),
            flushed: Cell::new(start.last),
            state: Cell::new(start.state),
            tails_written: RefCell::default(),
            tail_durable: Cell::new(start.tail),
            stuck: Cell::new(None),
            epoch: start.epoch,
            unwritten: RefCell::default(),
            late: LateCopies::default(),
            parity_writes: Cell::new(0),
            blocks_written: Cell::new(0),
            groups_written: Cell::new(0),
            form_costs: FormCosts::default(),
        }
    }

    /// Data blocks of one group at most: few enough that the parity of one group's data fits the reserve.
    pub(crate) fn group_blocks(&self) -> u32 {
        (self.ring as u32 / 64).clamp(4, GROUP_BLOCKS_MAX)
    }

    /// Blocks that clients' data may take.
    pub(crate) fn client_blocks(&self) -> u64 {
        self.client_blocks
    }

    /// Blocks that clients' data may take now.
    pub(crate) fn open_blocks(&self) -> u64 {
        self.client_blocks.saturating_sub(self.reserved.get())
    }

    /// Reserves blocks that clients' data might take for a growth; 0 ends the reservation.
    pub(crate) fn reserve(&self, blocks: u64) {
        self.reserved.set(blocks);
        self.room.notify();
    }

    /// The next block's number.
    pub(crate) fn next(&self) -> u64 {
        self.next.get()
    }

    /// The last group written.
    pub(crate) fn last(&self) -> u64 {
        self.last.get()
    }

    /// Whether this group is known durable with all before it.
    pub(crate) fn is_flushed(&self, group: u64) -> bool {
        group <= self.flushed.get()
    }

    /// The group at which a replay after a crash now would start, at the latest.
    pub(crate) fn tail_durable(&self) -> u64 {
        self.tail_durable.get()
    }

    /// Whether so much of the ring is in use that clients will soon wait.
    pub(crate) fn is_crowded(&self) -> bool {
        self.used() > self.open_blocks() * 2 / 3
    }

    /// Whether so much of the ring is in use that blocks are to go to their places.
    pub(crate) fn is_filling(&self) -> bool {
        self.used() > self.open_blocks() / 3
    }

    /// Blocks that may go ahead of clients' data, and leave room to destage all there is.
    pub(crate) fn room_for_fillers(&self) -> u64 {
        (2 * self.client_blocks).saturating_sub(self.used() + self.room_needed())
    }

    /// Whether states may be written that can wait: room is left for two groups, and for those that destaging all there is takes.
    pub(super) fn has_room_for_states(&self) -> bool {
        self.used() <= self.client_blocks.max((2 * self.client_blocks).saturating_sub(2 * self.room_needed()))
    }

    /// Whether nothing can be destaged, so that it is no use to wait for room.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.get().is_some()
    }

    /// Why nothing can be destaged.
    pub(super) fn stuck_by(&self) -> Option<VolumeError> {
        self.stuck.get()
    }

    /// Notes why blocks cannot be destaged, or that they can.
    pub(super) fn set_stuck(&self, stuck: Option<VolumeError>) {
        self.stuck.set(stuck);
    }

    /// Has the writer look again whether there is room.
    pub(super) fn notify_room(&self) {
        self.room.notify();
    }

    /// Writes that nothing waits for: of groups to members that were late, and of parity.
    pub(crate) fn writes_under_way(&self) -> usize {
        self.late.count() + self.parity_writes.get() as usize
    }

    /// Blocks written to the log since it was opened.
    pub(crate) fn blocks_written(&self) -> u64 {
        self.blocks_written.get()
    }

    /// Blocks that may not be overwritten yet.
    pub(crate) fn used(&self) -> u64 {
        self.next.get() - self.tail_durable.get()
    }

    /// Everything up to this group is durable.
    pub(super) fn set_flushed(&self, group: u64) {
        self.flushed.set(self.flushed.get().max(group));
        let mut tails = self.tails_written.borrow_mut();
        while let Some(&WrittenTail { group: carrier, tail }) = tails.front()
            && carrier <= group
        {
            self.tail_durable.set(tail);
            tails.pop_front();
        }
        self.room.notify();
    }

    /// Queues entries.
    pub(super) fn append(&self, entries: impl IntoIterator<Item = Entry>) {
        self.queue.borrow_mut().extend(entries);
        self.work.notify();
    }

    /// Queues after-images, and zeros for blocks that were given up, ahead of everything.
    pub(super) fn append_images(&self, entries: impl IntoIterator<Item = Entry>) {
        self.images.borrow_mut().extend(entries);
        self.work.notify();
        self.room.notify();
    }

    /// Has the next group carry the state and the tail; resolves when it is written.
    pub(super) fn write_state(&self) -> Promise<Result<(), VolumeError>> {
        let (fulfil, promise) = promise();
        self.states.borrow_mut().push(fulfil);
        self.work.notify();
        self.room.notify();
        promise
    }

    /// Entries that are in no group yet.
    pub(crate) fn queued(&self) -> usize {
        self.queue.borrow().len() + self.images.borrow().len() + self.states.borrow().len()
    }

    /// Whether anything waits to be written.
    pub(super) fn has_work(&self) -> bool {
        self.has_urgent() || !self.queue.borrow().is_empty()
    }

    /// Whether images or a state wait to be written, which do not wait for the room that clients' data needs.
    pub(super) fn has_urgent(&self) -> bool {
        !self.images.borrow().is_empty() || !self.states.borrow().is_empty()
    }

    /// Room for a group of any size, wherever the ring ends.
    pub(super) fn room_needed(&self) -> u64 {
        2 * (u64::from(self.group_blocks()) + 2)
    }

    /// The queues and positions in words, to diagnose a standstill.
    pub(crate) fn waits(&self) -> String {
        format!(
            "log queue {}, images {}, states {}, next {}, tail {}, state {}, ring {}, stuck {}",
            self.queue.borrow().len(),
            self.images.borrow().len(),
            self.states.borrow().len(),
            self.next.get(),
            self.tail_durable.get(),
            self.state.get(),
            self.ring,
            self.is_stuck()
        )
    }
}
