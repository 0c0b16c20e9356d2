//! Compaction: the live blocks of sparse stripes move together into new parity stripes, and the sparse ones die.
//!
//! Every move is conditional, so a client that overwrites a block meanwhile simply wins.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::shard::MappedShard;
use crate::store::chunk_allocator::Purpose;
use crate::store::tables::StripeState;
use crate::stripe::append::{From, Piece};
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::coverage::Mark;
use sinew_core::ids::{SlotNo, StripeId};
use sinew_core::io::Io;
use sinew_format::model::mapped_geometry::{CHUNK_BLOCKS, CHUNK_BYTES};

/// Stripes drained at most before it is looked again which ones are sparsest.
const VICTIMS_MAX: usize = 64;
/// One chunk in so many must be gained while no client waits; otherwise the last bit of room would be made by rewriting
/// nearly everything.
const GAIN_AT_LEISURE: usize = 8;

impl<I: Io> MappedShard<I> {
    /// Fills one new stripe from the sparsest ones; false when nothing would be gained or room is lacking.
    pub(crate) async fn compact_some(self: &Rc<Self>) -> bool {
        let Some(slots) = self.slots_plannable() else {
            self.io.mark(Mark::CompactNoRoom);
            return false;
        };
        let chosen_now = self.victims.borrow().is_empty();
        if chosen_now {
            *self.victims.borrow_mut() = self.choose_victims(slots as usize).into();
        }
        let (mut pieces, mut locks) = (Vec::new(), Vec::new());
        while pieces.len() < slots as usize {
            let Some(stripe) = self.victims.borrow_mut().pop_front() else { break };
            let Some(lock) = self.lock_stripe(stripe) else { continue };
            let Some(mut found) = self.read_live(stripe).await else {
                self.io.mark(Mark::CompactUnreadable);
                self.unreadable.borrow_mut().insert(stripe);
                continue;
            };
            let room = slots as usize - pieces.len();
            if found.len() > room {
                // The next round goes on with it.
                self.victims.borrow_mut().push_front(stripe);
                found.truncate(room);
            }
            pieces.append(&mut found);
            locks.push(lock);
        }
        if pieces.is_empty() {
            if locks.is_empty() {
                self.io.mark(Mark::CompactNoGain);
            } else {
                self.io.mark(Mark::CompactDead);
            }
            // Dead meanwhile, and freed once unlocked; or in use, and then there may be others.
            return !locks.is_empty() || !chosen_now;
        }
        pieces.sort_by_key(|piece| piece.block);
        self.throttle.pay(&self.io, pieces.len() as u64 * BLOCK_BYTES as u64).await;
        let moved = self.write_stripe(&pieces, Purpose::Internal).await.is_ok();
        if moved {
            self.counters.blocks_compacted.add(pieces.len() as u64);
        } else {
            self.io.mark(Mark::CompactFailed);
            self.victims.borrow_mut().clear();
        }
        moved
    }

    /// Whether moving the live blocks of a mirrored stripe writes less than its parity would be.
    pub(crate) fn is_sparse(&self, stripe: StripeId) -> bool {
        let g = &self.geometry;
        let stripe = self.tables.borrow().stripe(stripe);
        let (k, m) = (g.data_columns as u32, g.parity_columns() as u32);
        u32::from(stripe.live) * (k + m) <= m * CHUNK_BLOCKS * u32::from(stripe.columns)
    }

    /// Moves the blocks of mirrored stripes that conversion left out, once they fill a stripe; false when they do not.
    pub(crate) async fn drain_sparse(self: &Rc<Self>) -> bool {
        let found = |stripe: StripeId| self.tables.borrow().stripe(stripe);
        let mut sparse = self.sparse.take();
        // Some have died meanwhile, and their numbers may be others' by now.
        sparse.retain(|&id| {
            found(id).state == StripeState::Mirrored && found(id).live > 0 && self.is_sparse(id)
        });
        let all: u32 = sparse.iter().map(|&id| u32::from(found(id).live)).sum();
        self.sparse.replace(sparse);
        if all < self.geometry.slots_per_stripe() {
            return false;
        }
        self.io.mark(Mark::SparseDrained);
        self.victims.borrow_mut().extend(self.sparse.take());
        self.compact_some().await
    }

    /// Slots of the widest stripe that there is room for.
    fn slots_plannable(&self) -> Option<u32> {
        let g = &self.geometry;
        let (id, plan) = self.try_plan(g.data_columns, g.parity_columns() > 0, Purpose::Internal)?;
        let slots = plan.columns as u32 * CHUNK_BLOCKS;
        self.unplan(id, plan);
        Some(slots)
    }

    /// The sparsest stripes, enough of them that their blocks, in new stripes of so many slots, take fewer chunks than
    /// now; none when that cannot be.
    fn choose_victims(&self, slots: usize) -> Vec<StripeId> {
        let at_leisure = self.waiting_for_room.get() == 0;
        let is_gain = |live, chunks| {
            let needed = self.chunks_needed(live, slots);
            chunks > needed + if at_leisure { needed / GAIN_AT_LEISURE } else { 0 }
        };
        let (mut live, mut chunks, mut chosen) = (0, 0, Vec::new());
        for (stripe, stripe_live, stripe_chunks) in self.sparsest() {
            chosen.push(stripe);
            live += stripe_live;
            chunks += stripe_chunks;
            if live >= slots && is_gain(live, chunks) {
                return chosen;
            }
        }
        if is_gain(live, chunks) { chosen } else { Vec::new() }
    }

    /// Chunks that so many blocks take in stripes of so many slots.
    fn chunks_needed(&self, blocks: usize, slots: usize) -> usize {
        let g = &self.geometry;
        let copies = g.copies().min(self.members.taking_new());
        let chunks = |blocks: usize| match (blocks.div_ceil(CHUNK_BLOCKS as usize), g.parity_columns()) {
            (0, _) => 0,
            (columns, 0) => columns * copies,
            (columns, parity) => columns + parity,
        };
        blocks / slots * chunks(slots) + chunks(blocks % slots)
    }

    /// The stripes with the fewest live blocks for each chunk they occupy on active members: their live blocks, and those
    /// chunks.
    fn sparsest(&self) -> Vec<(StripeId, usize, usize)> {
        let mut found = BTreeMap::new();
        let (tables, unreadable) = (self.tables.borrow(), self.unreadable.borrow());
        let active: Vec<bool> = self.members.ids().map(|m| self.members.is_active(m)).collect();
        for id in (0..tables.stripe_count()).map(StripeId) {
            let stripe = tables.stripe(id);
            let is_candidate = stripe.state != StripeState::Free && stripe.live > 0;
            if !is_candidate || self.in_use(id) || unreadable.contains(&id) {
                continue;
            }
            let homes = tables.homes(id).iter().flatten();
            let chunks = homes.filter(|home| active[usize::from(home.member.0)]).count();
            let live = usize::from(stripe.live);
            found.insert((live * 1024 / chunks.max(1), id), (id, live, chunks));
            if found.len() > VICTIMS_MAX {
                found.pop_last();
            }
        }
        found.into_values().collect()
    }

    /// The live blocks of a stripe with their content; `None` when one cannot be read.
    async fn read_live(self: &Rc<Self>, stripe: StripeId) -> Option<Vec<Piece>> {
        self.step_back(stripe, CHUNK_BYTES).await;
        let first = self.geometry.slot(stripe, 0, 0).0;
        let slots = (first..first + self.geometry.slots_per_stripe()).map(SlotNo);
        let live: Vec<SlotNo> = {
            let tables = self.tables.borrow();
            slots.filter(|&slot| tables.is_live(slot).is_some()).collect()
        };
        let mut pieces = Vec::with_capacity(live.len());
        let mut rest = live.as_slice();
        while let Some(&start) = rest.first() {
            let room = (CHUNK_BLOCKS - start.0 % CHUNK_BLOCKS) as usize;
            let run = rest.iter().take(room).zip(start.0..).take_while(|(slot, n)| slot.0 == *n).count();
            let data = self.read_slots(start, run as u32).await.ok()?;
            for (i, &slot) in rest[..run].iter().enumerate() {
                // Dead by now: its owner has a newer place.
                let Some(block) = self.tables.borrow().is_live(slot) else { continue };
                let data = data.slice(i * BLOCK_BYTES, BLOCK_BYTES);
                pieces.push(Piece { block, data, from: From::Slot(Some(slot)) });
            }
            rest = &rest[run..];
        }
        self.throttle.pay(&self.io, CHUNK_BYTES).await;
        Some(pieces)
    }
}
