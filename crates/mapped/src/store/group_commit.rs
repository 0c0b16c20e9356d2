//! Group commit: journal blocks go in groups to f + 1 members.
//!
//! At most two groups are in flight, so that all records queued meanwhile share the next group. A block's position in the
//! ring is its sequence number modulo the ring's length, on every member that it is written to.

use std::ops::Range;
use std::rc::Rc;

use crate::marks::Mark;
use crate::store::Store;
use crate::store::journal::{Block, CommitResult};
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::{Lsn, MemberId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Batches, Signal};
use sinew_format::journal_block::encode_block;
use sinew_members::members::Members;
use sinew_members::ring::writer::{LateCopies, ReplicatedRing, RingGroup, RingMarks, write_group};

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
        let mut batches = Batches::default();
        loop {
            let room = self.journal_room(&mut batches).await;
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
    async fn journal_room(&self, batches: &mut Batches) -> RingRoom {
        let journal = &self.journal;
        journal.work.wait(|| (!journal.queue.borrow().is_empty()).then_some(())).await;
        batches.fill(|| journal.queued(), usize::MAX).await;
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
        let page_lsns = self.tables.borrow().pages.lsns();
        let mut data = Buf::zeroed(blocks.len() * BLOCK_BYTES);
        for (block, bytes) in blocks.iter().zip(data.bytes_mut().chunks_exact_mut(BLOCK_BYTES)) {
            let header = journal.header(self.pool, self.index, block.lsn, page_lsns);
            let packed = encode_block(&header, &block.records, bytes);
            debug_assert_eq!(packed, block.records.len());
        }
        let lsns = blocks[0].lsn..journal.next.get();
        journal.unapplied.borrow_mut().extend(blocks);
        (lsns, data)
    }

    /// Writes a group to f + 1 members.
    async fn write_group(self: &Rc<Self>, first: Lsn, data: Buf) -> CommitResult {
        if mutation::on(Mutation::SkipJournal) {
            return Ok(());
        }
        let position = (first % u64::from(self.geometry.journal_blocks)) as u32;
        let began = self.io.now_coarse();
        let group = RingGroup { turn: first / ROTATION_BLOCKS, position, data: Rc::new([data]) };
        let written = write_group(self, group).await;
        self.journal.on_the_spot.set(self.io.now_coarse() == began);
        written
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

impl<I: Io> ReplicatedRing<I> for Store<I> {
    const MARKS: RingMarks = RingMarks {
        around: Mark::JournalAround.name(),
        hedged: Mark::JournalHedged.name(),
        too_dear: Mark::AroundTooDear.name(),
        held_up: Mark::JournalHeldUp.name(),
        member_lost: Mark::JournalMemberLost.name(),
        refused: Mark::JournalRefused.name(),
    };

    fn members(&self) -> &Members<I> {
        &self.members
    }

    fn late_copies(&self) -> &LateCopies {
        &self.journal.late
    }

    fn room(&self) -> &Signal {
        &self.journal.room
    }

    fn copies(&self) -> usize {
        self.geometry.copies()
    }

    /// Any members: chunks lie on any as well.
    fn replica_sets(&self, turn: u64) -> Vec<Vec<MemberId>> {
        let n = self.members.count() as u64;
        vec![(0..n).map(|i| MemberId(((turn + i) % n) as u8)).collect()]
    }

    fn ring_members(&self) -> Vec<MemberId> {
        self.members.ids().collect()
    }

    fn offset(&self, member: MemberId, position: u32) -> u64 {
        self.members.get(member).layout.journal_offset(self.index, position)
    }
}
