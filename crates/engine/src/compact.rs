//! Compaction: the live blocks of sparse stripes move together into new parity stripes, and the sparse ones die.
//!
//! Every move is conditional, so a client that overwrites a block meanwhile simply wins.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::addr::{SlotNo, StripeId};
use crate::append::{From, Piece};
use crate::buf::BLOCK_BYTES;
use crate::geometry::{CHUNK_BLOCKS, CHUNK_BYTES};
use crate::io::Io;
use crate::paths::Path;
use crate::shard::{Shard, StripeLock};
use crate::space::Purpose;
use crate::tables::StripeState;

/// Stripes looked up at once as candidates.
const VICTIMS_LISTED: usize = 64;
/// Stripes drained into one new stripe at most.
const VICTIMS_PER_ROUND: usize = 16;

impl<I: Io> Shard<I> {
    /// Fills one new stripe from the sparsest ones; false when nothing would be gained or room is lacking.
    pub(crate) async fn compact_some(self: &Rc<Self>) -> bool {
        let Some(slots) = self.slots_plannable() else {
            self.io.reach(Path::CompactNoRoom);
            return false;
        };
        let victims = self.choose_victims(slots);
        if victims.is_empty() {
            self.io.reach(Path::CompactNoGain);
            return false;
        }
        let mut pieces = Vec::new();
        for lock in &victims {
            let Some(mut found) = self.read_live(lock.stripe()).await else {
                self.io.reach(Path::CompactUnreadable);
                continue;
            };
            found.truncate(slots as usize - pieces.len());
            pieces.append(&mut found);
        }
        if pieces.is_empty() {
            // Dead meanwhile, and freed once unlocked; or unreadable, and then there is nothing to gain.
            self.io.reach(Path::CompactDead);
            return victims.iter().any(|lock| self.tables.borrow().stripe(lock.stripe()).live == 0);
        }
        pieces.sort_by_key(|piece| piece.block);
        self.throttle.pay(&self.io, pieces.len() as u64 * BLOCK_BYTES as u64).await;
        let moved = self.write_stripe(&pieces, Purpose::Internal).await.is_ok();
        if moved {
            self.counters.blocks_compacted.add(pieces.len() as u64);
        } else {
            self.io.reach(Path::CompactFailed);
        }
        moved
    }

    /// Slots of the widest stripe that there is room for.
    fn slots_plannable(&self) -> Option<u32> {
        let g = &self.geometry;
        let (id, plan) = self.try_plan(g.data_columns, g.parity_columns() > 0, Purpose::Internal)?;
        let slots = plan.columns as u32 * CHUNK_BLOCKS;
        self.unplan(id, plan);
        Some(slots)
    }

    /// Stripes to drain into one new one of so many slots, such that more chunks become free than are used.
    fn choose_victims(self: &Rc<Self>, slots: u32) -> Vec<StripeLock<I>> {
        if self.victims.borrow().is_empty() {
            self.list_victims();
        }
        let (mut live, mut chunks, mut chosen) = (0u32, 0usize, Vec::new());
        while chosen.len() < VICTIMS_PER_ROUND && live < slots {
            let Some(stripe) = self.victims.borrow_mut().pop_front() else { break };
            let found = self.tables.borrow().stripe(stripe);
            if found.state == StripeState::Free {
                continue;
            }
            let Some(lock) = self.lock_stripe(stripe) else { continue };
            if live + u32::from(found.live) <= slots {
                chunks += self.chunks_of(stripe);
            }
            live += u32::from(found.live);
            chosen.push(lock);
        }
        let moved = live.min(slots);
        let g = &self.geometry;
        let columns = moved.div_ceil(CHUNK_BLOCKS) as usize;
        let needed = if g.parity_columns() > 0 { columns + g.parity_columns() } else { columns * g.copies() };
        if chunks <= needed {
            self.victims.borrow_mut().clear();
            return Vec::new();
        }
        chosen
    }

    fn chunks_of(&self, stripe: StripeId) -> usize {
        self.tables.borrow().homes(stripe).iter().flatten().count()
    }

    /// Lists the stripes with the fewest live blocks per chunk they occupy.
    fn list_victims(&self) {
        let mut sparsest: BTreeMap<(u32, StripeId), ()> = BTreeMap::new();
        let tables = self.tables.borrow();
        for stripe in (0..tables.stripe_count()).map(StripeId) {
            let found = tables.stripe(stripe);
            if found.state == StripeState::Free || found.live == 0 {
                continue;
            }
            let chunks = tables.homes(stripe).iter().flatten().count() as u32;
            sparsest.insert((u32::from(found.live) * 1024 / chunks.max(1), stripe), ());
            if sparsest.len() > VICTIMS_LISTED {
                sparsest.pop_last();
            }
        }
        *self.victims.borrow_mut() = sparsest.into_keys().map(|(_, stripe)| stripe).collect();
    }

    /// The live blocks of a stripe with their content; `None` when one cannot be read.
    async fn read_live(self: &Rc<Self>, stripe: StripeId) -> Option<Vec<Piece>> {
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
