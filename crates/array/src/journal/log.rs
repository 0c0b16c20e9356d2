//! The log of a shard: one ring on every member, to which groups are appended, each on f + 1 members in turn.
//!
//! With a journal it is the write journal of Elastic RAID (section 4): new data is acknowledged once it is here, and goes
//! to its place in the background; what requests ask for while a group is being written shares the next one. Before a
//! stripe is changed in place its whole after-image, parity included, is here and durable, so that replay depends on
//! nothing that a torn update left behind. Without a journal only the state of the regions is kept here.
//!
//! Parity of an after-image is written once, at its position in the ring of the member that it belongs to: it is needed
//! only there, and whoever loses that member has no place for it (`replay`).
//!
//! One group is in flight at a time, so there is no gap before an acknowledged one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::checksum::crc32c;
use sinew_core::completion::Completion;
use sinew_core::coverage::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::{Gather, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Fulfil, Promise, Signal, join_all, promise};
use sinew_core::volume::VolumeError;
use sinew_format::log_group::{GROUP_HEADER_BYTES, GroupHeader, GroupRecord, encode_head};

use crate::ArrayShard;
use crate::journal::group_builder::{Draft, Group, parity_runs};
use sinew_format::model::array_shard_layout::Run;

/// Bytes of records in a group, but for a state, which may be larger.
const HEAD_BYTES_MAX: usize = 8 * BLOCK_BYTES;
/// Data blocks of a group at most.
const GROUP_BLOCKS_MAX: u32 = 256;

/// Something to be appended.
pub(crate) enum Entry {
    /// New content of consecutive slots.
    Data { run: Run, data: Buf, ticket: Rc<Completion> },
    /// New content of part of a block, whose place held `base` when `Pending::version` was `version`. Void if that is
    /// out of date.
    Merge { run: Run, at: usize, bytes: Rc<[u8]>, base: Buf, version: u64, ticket: Rc<Completion> },
    /// A stripe's after-image, or part of what changes rows.
    Drain { record: GroupRecord, data: Vec<Buf>, ticket: Rc<Completion> },
}

impl Entry {
    fn refuse(self) {
        match self {
            Entry::Data { run, ticket, .. } => ticket.done(run.blocks, Err(VolumeError::Failed)),
            Entry::Merge { ticket, .. } | Entry::Drain { ticket, .. } => {
                ticket.done(1, Err(VolumeError::Failed));
            }
        }
    }
}

/// The log's queues and marks.
pub(crate) struct Log {
    ring: u64,
    /// Blocks that clients' data may take. Bringing all of it to its place takes at most m times as many for parity, so that
    /// always fits, and leaves some for the images of rounds that a crash cut short.
    client_blocks: u64,
    /// How many of them others are about to take.
    reserved: Cell<u64>,
    queue: RefCell<VecDeque<Entry>>,
    drains: RefCell<VecDeque<Entry>>,
    /// Who waits for a state group.
    states: RefCell<Vec<Fulfil<Result<(), VolumeError>>>>,
    work: Signal,
    pub(crate) room: Signal,
    /// The next block.
    next: Cell<u64>,
    /// The last group written.
    last: Cell<u64>,
    /// The last group that is known durable with all before it.
    flushed: Cell<u64>,
    /// The last group with a state.
    state: Cell<u64>,
    /// Groups that carried a new tail and are not known durable yet: (group, tail).
    tails_written: RefCell<VecDeque<(u64, u64)>>,
    tail_durable: Cell<u64>,
    /// Nothing can be brought to its place: waiting for room is in vain.
    pub(crate) stuck: Cell<bool>,
    pub(crate) epoch: u64,
    /// The group that no member took.
    unwritten: RefCell<Option<Group>>,
    pub(crate) blocks_written: Cell<u64>,
    groups_written: Cell<u64>,
}

impl Log {
    /// A log that continues behind the group `last`, whose end is `next`.
    pub(crate) fn new(
        ring: u32,
        client_blocks: u64,
        epoch: u64,
        last: u64,
        next: u64,
        tail: u64,
        state: u64,
    ) -> Log {
        Log {
            ring: u64::from(ring),
            client_blocks,
            reserved: Cell::new(0),
            queue: RefCell::default(),
            drains: RefCell::default(),
            states: RefCell::default(),
            work: Signal::default(),
            room: Signal::default(),
            next: Cell::new(next),
            last: Cell::new(last),
            flushed: Cell::new(last),
            state: Cell::new(state),
            tails_written: RefCell::default(),
            tail_durable: Cell::new(tail),
            stuck: Cell::new(false),
            epoch,
            unwritten: RefCell::default(),
            blocks_written: Cell::new(0),
            groups_written: Cell::new(0),
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

    /// Blocks that clients' data may take beside what others are about to take.
    pub(crate) fn open_blocks(&self) -> u64 {
        self.client_blocks.saturating_sub(self.reserved.get())
    }

    /// Keeps clients from so many blocks of what they may take.
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

    /// Where replay would start after a crash now, at the latest.
    pub(crate) fn tail_durable(&self) -> u64 {
        self.tail_durable.get()
    }

    /// Blocks that may not be overwritten yet.
    pub(crate) fn used(&self) -> u64 {
        self.next.get() - self.tail_durable.get()
    }

    /// Everything up to this group is durable.
    pub(crate) fn set_flushed(&self, group: u64) {
        self.flushed.set(self.flushed.get().max(group));
        let mut tails = self.tails_written.borrow_mut();
        while let Some(&(carrier, tail)) = tails.front()
            && carrier <= group
        {
            self.tail_durable.set(tail);
            tails.pop_front();
        }
        self.room.notify();
    }

    /// Queues entries.
    pub(crate) fn append(&self, entries: impl IntoIterator<Item = Entry>) {
        self.queue.borrow_mut().extend(entries);
        self.work.notify();
    }

    /// Queues after-images, ahead of everything.
    pub(crate) fn append_drains(&self, entries: impl IntoIterator<Item = Entry>) {
        self.drains.borrow_mut().extend(entries);
        self.work.notify();
        self.room.notify();
    }

    /// Has the next group carry the state and the tail.
    pub(crate) fn write_state(&self) -> Promise<Result<(), VolumeError>> {
        let (fulfil, promise) = promise();
        self.states.borrow_mut().push(fulfil);
        self.work.notify();
        self.room.notify();
        promise
    }

    /// Entries that are in no group yet.
    pub(crate) fn queued(&self) -> usize {
        self.queue.borrow().len() + self.drains.borrow().len() + self.states.borrow().len()
    }

    fn has_work(&self) -> bool {
        self.has_urgent() || !self.queue.borrow().is_empty()
    }

    fn has_urgent(&self) -> bool {
        !self.drains.borrow().is_empty() || !self.states.borrow().is_empty()
    }

    /// Room for a group of any size, wherever the ring ends.
    fn room_needed(&self) -> u64 {
        2 * (u64::from(self.group_blocks()) + 2)
    }

    /// For the diagnosis of a standstill.
    pub(crate) fn waits(&self) -> String {
        format!(
            "log queue {}, drains {}, next {}, tail {}, state {}, ring {}, stuck {}",
            self.queue.borrow().len(),
            self.drains.borrow().len(),
            self.next.get(),
            self.tail_durable.get(),
            self.state.get(),
            self.ring,
            self.stuck.get()
        )
    }
}

impl<I: Io> ArrayShard<I> {
    /// Writes group after group, for ever.
    pub(crate) async fn run_log(self: Rc<Self>) {
        loop {
            let clients = self.log_room().await;
            if self.failed.get() {
                self.refuse_all();
                continue;
            }
            let unwritten = self.log.unwritten.take();
            if let Some(group) = unwritten
                && self.append_group(group).await.is_err()
            {
                self.refuse_all();
                continue;
            }
            if let Some(group) = self.build_group(clients) {
                let _ = self.append_group(group).await;
            }
        }
    }

    /// Writes a group and answers those who wait for it. One that no member took may be on one all the same: it is written
    /// again, as it is, before any other.
    async fn append_group(&self, mut group: Group) -> Result<(), VolumeError> {
        let acknowledged = mutation::on(Mutation::AcknowledgeEarly);
        let tickets = std::mem::take(&mut group.tickets);
        if acknowledged {
            tickets.iter().for_each(|(ticket, blocks, result)| ticket.done(*blocks, *result));
        }
        let seq = group.header.seq;
        let written = self.write_group(&group).await;
        self.log.blocks_written.set(self.log.blocks_written.get() + u64::from(group.header.blocks));
        let states = std::mem::take(&mut group.states);
        if written.is_ok() {
            self.take_contents(seq, group.contents);
            self.log.last.set(seq);
            if let Some(changes) = group.changes {
                self.regions.borrow_mut().set_written(changes);
            }
        } else {
            self.io.mark(Mark::ArrayLogUnwritten);
            self.log.unwritten.replace(Some(group));
        }
        self.drainer.kick();
        states.into_iter().for_each(|fulfil| fulfil.fulfil(written));
        if !acknowledged {
            for (ticket, blocks, result) in tickets {
                ticket.done(blocks, written.and(result));
            }
        }
        written
    }

    /// Waits for something to write and for room; tells whether there is room for clients' data.
    async fn log_room(&self) -> bool {
        let log = &self.log;
        log.work.wait(|| log.has_work().then_some(())).await;
        let free = || log.ring.saturating_sub(log.used());
        let for_clients = || log.used() <= log.open_blocks();
        self.drainer.kick();
        log.room
            .wait(|| {
                if !log.queue.borrow().is_empty() && (for_clients() || log.stuck.get()) || self.failed.get() {
                    return Some(true);
                }
                if log.has_urgent() && free() >= log.room_needed() {
                    return Some(false);
                }
                self.io.mark(Mark::ArrayLogFull);
                None
            })
            .await
            && {
                if !for_clients() {
                    self.refuse_queued();
                }
                for_clients()
            }
    }

    fn refuse_queued(&self) {
        self.io.mark(Mark::ArrayLogRefused);
        let queued = std::mem::take(&mut *self.log.queue.borrow_mut());
        queued.into_iter().for_each(Entry::refuse);
    }

    /// Nothing will be written any more: nobody waits for room in vain.
    fn refuse_all(&self) {
        self.refuse_queued();
        let drains = std::mem::take(&mut *self.log.drains.borrow_mut());
        drains.into_iter().for_each(Entry::refuse);
        let states = std::mem::take(&mut *self.log.states.borrow_mut());
        states.into_iter().for_each(|fulfil| fulfil.fulfil(Err(VolumeError::Failed)));
    }

    /// Takes what fits one group off the queues.
    fn build_group(&self, clients: bool) -> Option<Group> {
        let log = &self.log;
        let mut draft = Draft::default();
        self.take_drains(&mut draft);
        let states = std::mem::take(&mut *log.states.borrow_mut());
        let is_old = log.next() - log.state.get() > log.ring / 4;
        let with_state = !states.is_empty() || is_old || self.regions.borrow().changed();
        if with_state {
            let state = self.regions.borrow_mut().encode(self.long_work());
            draft.push(GroupRecord::State(state), []);
        }
        if clients {
            self.take_queued(&mut draft);
        }
        // Merges that came too late leave nothing to write, but somebody waits for that answer.
        if draft.records.is_empty() {
            draft.tickets.iter().for_each(|(ticket, blocks, result)| ticket.done(*blocks, *result));
            return None;
        }
        Some(self.seal(draft, with_state, states))
    }

    fn seal(
        &self,
        mut draft: Draft,
        with_state: bool,
        states: Vec<Fulfil<Result<(), VolumeError>>>,
    ) -> Group {
        let log = &self.log;
        let head_blocks = (GROUP_HEADER_BYTES + draft.head_bytes).div_ceil(BLOCK_BYTES) as u32;
        let blocks = head_blocks + draft.blocks;
        let position = log.next() % log.ring;
        let skipped = if position + u64::from(blocks) > log.ring { log.ring - position } else { 0 };
        let seq = log.next() + skipped;
        if with_state {
            log.state.set(seq);
        }
        let tail = self.tail().min(seq);
        let header = GroupHeader {
            log: self.slice().geometry.log,
            shard: self.slice().index as u16,
            epoch: log.epoch,
            seq,
            before: log.last.get(),
            tail,
            flushed: log.flushed.get(),
            head_blocks,
            blocks,
        };
        // In the order of a group's parts: each member's parity is one run.
        draft.parity.sort_by_key(|(member, _)| *member);
        let all = draft.data.iter().chain(draft.parity.iter().map(|(_, buf)| buf));
        let crcs: Vec<u32> = all.flat_map(|buf| buf.bytes().chunks_exact(BLOCK_BYTES).map(crc32c)).collect();
        let mut head = Buf::stale(head_blocks as usize * BLOCK_BYTES);
        encode_head(&header, &draft.records, &crcs, head.bytes_mut());
        log.next.set(seq + u64::from(blocks));
        assert!(log.used() <= log.ring, "a group would overwrite what is still needed: {}", log.waits());
        let mut tails = log.tails_written.borrow_mut();
        if tails.back().map_or(log.tail_durable(), |t| t.1) != tail {
            tails.push_back((seq, tail));
        }
        let parity = parity_runs(&draft.parity, blocks);
        let data: Gather = std::iter::once(head).chain(draft.data).collect();
        let changes = with_state.then(|| self.regions.borrow().encoded());
        Group { header, data, parity, contents: draft.contents, tickets: draft.tickets, states, changes }
    }

    fn take_drains(&self, draft: &mut Draft) {
        let mut drains = self.log.drains.borrow_mut();
        while let Some(Entry::Drain { record, .. }) = drains.front() {
            let blocks = record.data_blocks().expect("counted by who made it");
            let full = draft.blocks + blocks > self.log.group_blocks()
                || draft.head_bytes + record.encoded_len() > HEAD_BYTES_MAX;
            if full && !draft.records.is_empty() {
                return;
            }
            if let Some(Entry::Drain { record, data, ticket }) = drains.pop_front() {
                if let GroupRecord::Changed { upto, .. } = record {
                    // A state in this group or a later one must not say less.
                    self.mover.note_changed(upto);
                }
                draft.push(record, data);
                draft.tickets.push((ticket, 1, Ok(true)));
            }
        }
    }

    fn take_queued(&self, draft: &mut Draft) {
        let mut queue = self.log.queue.borrow_mut();
        while draft.blocks < self.log.group_blocks()
            && draft.head_bytes < HEAD_BYTES_MAX
            && let Some(entry) = queue.pop_front()
        {
            match entry {
                Entry::Data { mut run, data, ticket } => {
                    let blocks = run.blocks.min(self.log.group_blocks() - draft.blocks);
                    let bytes = blocks as usize * BLOCK_BYTES;
                    if blocks < run.blocks {
                        let rest = Run { slot: run.slot + blocks, blocks: run.blocks - blocks, ..run };
                        let data = data.slice(bytes, data.len() - bytes);
                        queue.push_front(Entry::Data { run: rest, data, ticket: Rc::clone(&ticket) });
                        run.blocks = blocks;
                    }
                    let data = data.slice(0, bytes);
                    let Run { stripe, slot, blocks } = run;
                    draft.push(GroupRecord::Data { stripe, slot, blocks }, [data.clone()]);
                    draft.contents.push((run, data));
                    draft.tickets.push((ticket, blocks, Ok(true)));
                }
                Entry::Merge { run, at, bytes, base, version, ticket } => {
                    let Some(mut merged) = self.merge_base(draft, run, base, version) else {
                        self.io.mark(Mark::ArrayMergeMoved);
                        draft.tickets.push((ticket, 1, Ok(false)));
                        continue;
                    };
                    merged.bytes_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
                    let Run { stripe, slot, blocks } = run;
                    draft.push(GroupRecord::Data { stripe, slot, blocks }, [merged.clone()]);
                    draft.contents.push((run, merged));
                    draft.tickets.push((ticket, 1, Ok(true)));
                }
                Entry::Drain { .. } => unreachable!("drains have a queue of their own"),
            }
        }
    }

    /// A copy of what the block holds once everything before this is written; `None` when the caller's is out of date.
    fn merge_base(&self, draft: &Draft, run: Run, base: Buf, version: u64) -> Option<Buf> {
        let covers = |(other, _): &&(Run, Buf)| {
            other.stripe == run.stripe && (other.slot..other.slot + other.blocks).contains(&run.slot)
        };
        if let Some((other, data)) = draft.contents.iter().rev().find(covers) {
            let from = (run.slot - other.slot) as usize * BLOCK_BYTES;
            return Some(Buf::copy_of(&data.bytes()[from..from + BLOCK_BYTES]));
        }
        let pending = self.pending.borrow();
        match pending.get(run.stripe, run.slot) {
            Some(pended) => Some(Buf::copy_of(pended.data.bytes())),
            None if pending.version() == version => Some(Buf::copy_of(base.bytes())),
            None => None,
        }
    }

    fn take_contents(&self, seq: u64, contents: Vec<(Run, Buf)>) {
        let mut pending = self.pending.borrow_mut();
        for (run, data) in contents {
            for i in 0..run.blocks {
                let block = data.slice(i as usize * BLOCK_BYTES, BLOCK_BYTES);
                pending.insert(seq, run.stripe, run.slot + i, block);
            }
        }
    }

    /// The oldest group that replay would need.
    pub(crate) fn tail(&self) -> u64 {
        let pending = self.pending.borrow_mut().oldest();
        [pending, self.draining.get(), self.changing_images.get(), self.unsettled.get(), self.settling.get()]
            .into_iter()
            .flatten()
            .fold(self.log.state.get(), u64::min)
    }

    /// Writes a group to f + 1 active members, or to all that are left; a member that fails is replaced by another. Parity
    /// goes to its members, if they are there: a member that is not has no use for it when it comes back.
    async fn write_group(&self, group: &Group) -> Result<(), VolumeError> {
        if mutation::on(Mutation::SkipJournal) {
            return Ok(());
        }
        let turn = self.log.groups_written.get();
        self.log.groups_written.set(turn + 1);
        let slice = self.slice();
        let position = (group.header.seq % self.log.ring) as u32;
        let (mut written, mut failed): (Vec<MemberId>, Vec<MemberId>) = (Vec::new(), Vec::new());
        let mut parity = &group.parity[..];
        loop {
            written.retain(|&m| self.members.is_active(m));
            let legs = self.log_legs(turn, &written, &failed);
            let runs = parity.iter().filter(|(member, ..)| self.members.is_active(*member));
            let mut writes: Vec<(MemberId, u32, &Gather)> =
                runs.map(|(member, first, data)| (*member, position + first, data)).collect();
            if mutation::on(Mutation::StrayImageParity) {
                writes.iter_mut().for_each(|write| write.0 = MemberId(u8::from(write.0.0 == 0)));
            }
            let parities = writes.len();
            writes.extend(legs.iter().map(|&leg| (leg, position, &group.data)));
            if writes.is_empty() {
                return if written.is_empty() { Err(VolumeError::Failed) } else { Ok(()) };
            }
            let results = join_all(writes.iter().map(|&(member, at, data)| {
                self.members.write_at(member, slice.log_offset(at), Rc::clone(data))
            }));
            for (i, (&(member, ..), result)) in writes.iter().zip(results.await).enumerate() {
                match result {
                    Ok(()) if i < parities => {}
                    Ok(()) => written.push(member),
                    Err(error) => {
                        self.io.mark(Mark::ArrayLogMemberLost);
                        failed.push(member);
                        self.members.report_failure(member, error).await;
                    }
                }
            }
            parity = &[];
        }
    }

    /// Further members to write a group to, beside those that have it.
    fn log_legs(&self, turn: u64, written: &[MemberId], failed: &[MemberId]) -> Vec<MemberId> {
        let copies = if mutation::on(Mutation::OneJournalCopy) { 1 } else { self.log_copies() };
        let slice = self.slice();
        // Members of one stripe first: who loses all of those has lost the array anyway.
        let stripe = turn % slice.stripes;
        let all = (0..slice.geometry.members()).map(|m| MemberId(m as u8));
        let mut legs = Vec::with_capacity(copies);
        for member in (0..slice.width(stripe)).map(|unit| slice.member(stripe, unit)).chain(all) {
            let known = written.contains(&member) || failed.contains(&member) || legs.contains(&member);
            if written.len() + legs.len() < copies && !known && self.members.is_active(member) {
                legs.push(member);
            }
        }
        legs
    }

    /// Members that a group is written to: f + 1.
    pub(crate) fn log_copies(&self) -> usize {
        self.slice().tolerates() + 1
    }
}
