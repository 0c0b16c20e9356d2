//! Group commit: journal blocks go in groups to f + 1 members.
//!
//! At most two groups are in flight, so that all records queued meanwhile share the next group. A block's position in the
//! ring is its sequence number modulo the ring's length, on every member that it is written to.

use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use crate::marks::Mark;
use crate::store::Store;
use crate::store::journal::{Block, CommitResult};
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::{Lsn, MemberId};
use sinew_core::io::{Gather, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{batch, poll_next};
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::encode_block;

/// Blocks written by one group at most.
const GROUP_BLOCKS: u64 = 16;

/// Groups on their way at the same time.
const GROUPS_IN_FLIGHT_MAX: usize = 2;

/// Blocks of the ring kept for what room itself depends on: markers that let the tail advance, and marks that a flush
/// waits for. Nothing else goes into them, since a stripe opened there could make another mark necessary.
const RESERVED_BLOCKS: u64 = 8;

/// Blocks between changes of the members that hold the journal.
const ROTATION_BLOCKS: u64 = 64;

/// What the ring has room for.
struct RingRoom {
    blocks: u64,
    /// Only urgent records.
    reserved: bool,
}

impl<I: Io> Store<I> {
    /// The task that writes group after group. It never ends.
    pub(crate) async fn run_journal(self: Rc<Self>) {
        loop {
            let room = self.journal_room().await;
            let (lsns, data) = self.build_group(&room);
            self.journal.in_flight.set(self.journal.in_flight.get() + 1);
            let store = Rc::clone(&self);
            self.io.spawn(async move {
                let written = store.write_group(lsns.start, data).await;
                store.group_written(lsns, written);
            });
        }
    }

    /// Waits for something to write and for room in the ring.
    async fn journal_room(&self) -> RingRoom {
        let journal = &self.journal;
        journal.work.wait(|| (!journal.queue.borrow().is_empty()).then_some(())).await;
        batch(|| journal.queued(), usize::MAX).await;
        let ring = u64::from(self.geometry.journal_blocks);
        self.wakeups.checkpoint.kick();
        journal
            .room
            .wait(|| {
                if journal.in_flight.get() >= GROUPS_IN_FLIGHT_MAX {
                    return None;
                }
                if !self.members.any_active() {
                    // Nothing will be written, and no job makes room any more: every request that waits is refused.
                    return Some(RingRoom { blocks: GROUP_BLOCKS, reserved: false });
                }
                let blocks = ring.saturating_sub(journal.used() + RESERVED_BLOCKS);
                if blocks > 0 {
                    return Some(RingRoom { blocks, reserved: false });
                }
                let urgent = journal.queue.borrow().front().is_some_and(|entry| entry.urgent);
                // All abort records are queued by then, and go out together.
                let all_applied = journal.unapplied.borrow().is_empty();
                if urgent && all_applied && journal.used() < ring {
                    self.io.mark(Mark::JournalReserveUsed);
                    return Some(RingRoom { blocks: 1, reserved: true });
                }
                self.io.mark(Mark::JournalFull);
                None
            })
            .await
    }

    fn build_group(&self, room: &RingRoom) -> (Range<Lsn>, Buf) {
        let journal = &self.journal;
        let ring = u64::from(self.geometry.journal_blocks);
        let until_wrap = ring - journal.next.get() % ring;
        let mut blocks = Vec::new();
        while (blocks.len() as u64) < room.blocks.min(until_wrap).min(GROUP_BLOCKS) {
            let Some((records, data_statuses, waiters)) = journal.take_block(room.reserved) else { break };
            blocks.push(Block { lsn: journal.next.get(), records, data_statuses, waiters, written: None });
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
            for member in self.choose_copies(first, &taken, wanted.saturating_sub(taken.len())).await {
                writing
                    .push((member, Box::pin(Rc::clone(self).write_copy(member, position, Rc::clone(&data)))));
            }
            if writing.is_empty() {
                if written.is_empty() {
                    self.io.mark(Mark::JournalRefused);
                    return Err(VolumeError::Failed);
                }
                break;
            }
            match self.next_written(&mut writing, wanted > copies).await {
                Some((member, true)) => written.push(member),
                Some((_, false)) => {}
                None if mutation::on(Mutation::CountLateJournal) => copies -= 1,
                None => wanted += writing.len(),
            }
        }
        if !writing.is_empty() {
            self.journal.late.borrow_mut().extend(writing.iter().map(|w| w.0));
            self.io.spawn(Rc::clone(self).await_late_copies(writing));
        }
        Ok(())
    }

    /// Writes a group to one member; whether that went well.
    async fn write_copy(self: Rc<Self>, member: MemberId, position: u32, data: Gather) -> bool {
        let offset = self.members.get(member).layout.journal_offset(self.index, position);
        let result = self.members.write_at(member, offset, data).await;
        if let Err(error) = result {
            self.io.mark(Mark::JournalMemberLost);
            self.members.report_failure(member, error).await;
        }
        result.is_ok()
    }

    /// The next member whose write has ended, and its result; `None` when all are late and another member shall get
    /// the group.
    async fn next_written<F: Future<Output = bool>>(
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
                if self.may_hedge_group(writing.iter().map(|w| w.0)) {
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
    fn may_hedge_group(&self, late: impl Iterator<Item = MemberId> + Clone) -> bool {
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
    async fn await_late_copies<F: Future<Output = bool>>(
        self: Rc<Self>,
        writing: Vec<(MemberId, Pin<Box<F>>)>,
    ) {
        for (member, write) in writing {
            write.await;
            let mut late = self.journal.late.borrow_mut();
            let place = late.iter().position(|&m| m == member).expect("it is listed");
            late.swap_remove(place);
            drop(late);
            self.journal.room.notify();
        }
    }

    /// Up to `count` further members to write a group to: those that respond, with the least to do first and in turn where
    /// they are alike, then the others. Members that still write an earlier group are none; where only such are left, they
    /// are waited for.
    async fn choose_copies(&self, first: Lsn, taken: &[MemberId], count: usize) -> Vec<MemberId> {
        if count == 0 {
            return Vec::new();
        }
        let n = self.members.count() as u64;
        let in_turn = || {
            (0..n)
                .map(|i| MemberId(((first / ROTATION_BLOCKS + i) % n) as u8))
                .filter(|m| self.members.takes_new(*m) && !taken.contains(m))
        };
        let is_late = |m: &MemberId| self.journal.late.borrow().contains(m);
        let chosen = || {
            let (mut chosen, others): (Vec<_>, Vec<_>) =
                in_turn().filter(|m| !is_late(m)).partition(|&m| self.members.responds(m));
            if others.iter().any(|other| in_turn().take(count).any(|m| m == *other)) && chosen.len() >= count
            {
                self.io.mark(Mark::JournalAround);
            }
            chosen.sort_by_key(|&m| self.members.in_flight(m));
            chosen.extend(others);
            chosen.truncate(count);
            if chosen.len() < count && in_turn().any(|m| is_late(&m)) {
                self.io.mark(Mark::JournalHeldUp);
                return None;
            }
            Some(chosen)
        };
        self.journal.room.wait(chosen).await
    }

    fn group_written(self: &Rc<Self>, lsns: Range<Lsn>, written: CommitResult) {
        let journal = &self.journal;
        journal.in_flight.set(journal.in_flight.get() - 1);
        journal.blocks_written.set(journal.blocks_written.get() + (lsns.end - lsns.start));
        let mut unapplied = journal.unapplied.borrow_mut();
        unapplied.iter_mut().filter(|b| lsns.contains(&b.lsn)).for_each(|b| b.written = Some(written));
        drop(unapplied);
        self.apply_ready();
    }
}
