//! Gathering: blocks that lie together in a volume, but were written apart and so are stored apart, are brought together
//! into a parity stripe when somebody reads them in sequence. Only those who read in sequence pay for it, and only once; for all
//! others conversion moves nothing.
//!
//! Every move is conditional, so a client that overwrites a block meanwhile simply wins.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use crate::shard::MappedShard;
use crate::store::chunk_allocator::Purpose;
use crate::stripe::append::{From, Piece};
use crate::stripe::read::Stretch;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::coverage::Mark;
use sinew_core::ids::{MemberId, ShardBlock, SlotNo, VolumeId};
use sinew_core::io::Io;
use sinew_core::sync::{Kick, join_all};
use sinew_format::model::mapped_geometry::{CHUNK_BLOCKS, CHUNK_BYTES};

/// A read of fewer blocks is not a sequential one.
const SEQUENTIAL_BLOCKS: u32 = 16;
/// Blocks that lie together in fewer than so many are scattered: a read of them costs more requests than bytes are worth.
const TOGETHER_BLOCKS: usize = 4;
/// They fill the chunks they take, but for one block in so many.
const HOLES: u32 = CHUNK_BLOCKS;
/// Places remembered; what does not fit is found again by the next read.
const PLACES_MAX: usize = 64;

/// What is to be gathered: volumes, and blocks there, at multiples of a stripe's.
#[derive(Default)]
pub(crate) struct Gatherer {
    places: RefCell<VecDeque<(VolumeId, u64)>>,
    work: Kick,
}

impl<I: Io> MappedShard<I> {
    /// A client reads blocks that consist of these stretches.
    pub(crate) fn note_scatter(&self, volume: VolumeId, local: u64, count: u32, stretches: &[Stretch]) {
        if count < SEQUENTIAL_BLOCKS || !self.policy.get().gather || !is_scattered(stretches) {
            return;
        }
        let unit = u64::from(self.geometry.slots_per_stripe());
        let mut places = self.gatherer.places.borrow_mut();
        for first in (local / unit..(local + u64::from(count)).div_ceil(unit)).map(|n| n * unit) {
            if places.len() < PLACES_MAX && !places.contains(&(volume, first)) {
                places.push_back((volume, first));
                self.gatherer.work.kick();
            }
        }
    }

    /// Gathers, for ever.
    pub(crate) async fn run_gatherer(self: Rc<Self>) {
        loop {
            self.gatherer.work.kicked().await;
            while let Some((volume, first)) = self.next_place() {
                self.gather(volume, first).await;
            }
        }
    }

    fn next_place(&self) -> Option<(VolumeId, u64)> {
        self.gatherer.places.borrow_mut().pop_front()
    }

    /// Brings the blocks of a stripe's length of a volume together.
    async fn gather(self: &Rc<Self>, volume: VolumeId, first: u64) {
        if self.deleted.borrow().contains(&volume) {
            return;
        }
        // Not from the room that clients wait for: until conversion and compaction are through it takes more than it gives.
        if self.waiting_for_room.get() > 0 || self.space.borrow().free_chunks() < 2 * self.low_water() {
            self.io.mark(Mark::GatherNoRoom);
            return;
        }
        let members = self.members_of(&self.stored(volume, first));
        self.step_back_on(&members, CHUNK_BYTES).await;
        self.throttle.pay(&self.io, self.geometry.data_columns as u64 * CHUNK_BYTES).await;
        let _volume = self.enter_volume(volume);
        // Inside the era the slots read from are not reused, so they can stand for their content.
        let _era = self.eras.enter();
        let stored = self.stored(volume, first);
        if !is_scattered(&stored) {
            return;
        }
        let read = join_all(stored.iter().map(|stretch| self.pieces_of(*stretch))).await;
        let pieces: Option<Vec<Vec<Piece>>> = read.into_iter().collect();
        let Some(pieces) = pieces.map(|pieces| pieces.concat()) else {
            self.io.mark(Mark::GatherUnreadable);
            return;
        };
        if self.write_stripe(&pieces, Purpose::Leisure).await.is_ok() {
            self.io.mark(Mark::Gathered);
            self.counters.blocks_gathered.add(pieces.len() as u64);
        } else {
            self.io.mark(Mark::GatherFailed);
        }
    }

    /// The stored stretches of a stripe's length of a volume.
    fn stored(&self, volume: VolumeId, first: u64) -> Vec<Stretch> {
        let mut stored = Vec::new();
        let tell = |stretch: Stretch| stored.extend(stretch.slot.map(|_| stretch));
        self.stretches(volume, first, self.geometry.slots_per_stripe(), tell);
        stored
    }

    /// The members that stored stretches are on.
    fn members_of(&self, stored: &[Stretch]) -> Vec<MemberId> {
        let tables = self.tables.borrow();
        let stripes = stored.iter().filter_map(|stretch| Some(self.geometry.place(stretch.slot?).0));
        let members: BTreeSet<MemberId> = stripes
            .flat_map(|stripe| tables.homes(stripe).iter().flatten())
            .map(|home| home.member)
            .collect();
        members.into_iter().collect()
    }

    /// The blocks of a stored stretch, each for itself; `None` when they cannot be read.
    async fn pieces_of(self: &Rc<Self>, stretch: Stretch) -> Option<Vec<Piece>> {
        let slot = stretch.slot?;
        let data = self.read_slots(slot, stretch.count).await.ok()?;
        let piece = |i: u32| Piece {
            block: ShardBlock(stretch.block.0 + i),
            data: data.slice(i as usize * BLOCK_BYTES, BLOCK_BYTES),
            from: From::Slot(Some(SlotNo(slot.0 + i))),
        };
        Some((0..stretch.count).map(piece).collect())
    }
}

/// Whether stored stretches are worth bringing together: they are short, and fill the chunks they would take.
fn is_scattered(stretches: &[Stretch]) -> bool {
    let stored = stretches.iter().filter(|stretch| stretch.slot.is_some());
    let blocks: u32 = stored.clone().map(|stretch| stretch.count).sum();
    let is_full = blocks * (HOLES + 1) >= blocks.next_multiple_of(CHUNK_BLOCKS) * HOLES;
    is_full && (blocks as usize) < stored.count() * TOGETHER_BLOCKS
}
