//! Compaction: the live blocks of sparse stripes of a class move together into new stripes of it in their final form, and the
//! sparse stripes are freed.
//!
//! Every move is conditional: when a client overwrites a block meanwhile, the client's write wins.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use crate::background::io_priority::IoPriority;
use crate::marks::Mark;
use crate::store::Store;
use crate::store::chunk_allocator::Purpose;
use crate::store::map_pins::MapPins;
use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use crate::stripe::piece::{Condition, Piece};
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::StripeId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_format::model::mapped_geometry::{CHUNK_BLOCKS, CHUNK_BYTES};
use sinew_format::model::stripe_form::StripeClass;

/// Stripes compacted at most before the sparsest ones are chosen again.
const VICTIMS_MAX: usize = 64;

/// At least one chunk in this many must be gained while no client waits; otherwise the last bit of room would be made
/// by rewriting nearly everything.
const GAIN_AT_LEISURE: usize = 8;

/// The stripe that compaction is to fill.
struct Target {
    slots: usize,
    /// Its blocks may come from stripes that lack a copy. To move these takes a chunk of a member that gets none back, so
    /// the reserve of each member must be left.
    takes_short: bool,
}

/// Stripes that are compacted one after the other; compacted together they give room.
#[derive(Default)]
struct Victims {
    stripes: VecDeque<StripeId>,
    /// Slots of the new stripes for which they were chosen. Together they give nothing if narrower ones take their blocks.
    slots: usize,
    /// Chunks that compaction has taken less those it has given back since they were chosen. The last of the stripes make up for
    /// them; if others take their place, these must, or compaction could go in circles.
    taken: isize,
}

/// Compaction, and which stripes it works on.
pub(crate) struct Compactor<I> {
    store: Rc<Store<I>>,
    stripes: Rc<Stripes<I>>,
    priority: Rc<IoPriority<I>>,
    /// Mirrored stripes with so few live blocks that they are compacted instead of converted.
    sparse: RefCell<Vec<StripeId>>,
    /// Of each class, the stripes being compacted.
    victims: [RefCell<Victims>; StripeClass::ALL.len()],
    /// Stripes that cannot be compacted since a live block cannot be read from any member that is there.
    unreadable: RefCell<BTreeSet<StripeId>>,
}

impl<I: Io> Compactor<I> {
    pub(crate) fn new(stripes: Rc<Stripes<I>>, priority: Rc<IoPriority<I>>) -> Compactor<I> {
        Compactor {
            store: Rc::clone(stripes.store()),
            stripes,
            priority,
            sparse: RefCell::default(),
            victims: Default::default(),
            unreadable: RefCell::default(),
        }
    }

    /// Fills one new stripe from the sparsest ones of a class; false when nothing would be gained or room is lacking.
    pub(super) async fn compact_some(&self) -> bool {
        if self.compact_class(StripeClass::Pool).await {
            return true;
        }
        self.store.tables().live.pinned() > 0 && self.compact_class(StripeClass::Pinned).await
    }

    async fn compact_class(&self, class: StripeClass) -> bool {
        let Some(Target { slots, takes_short }) = self.target(class) else {
            self.store.mark(Mark::CompactNoRoom);
            return false;
        };
        let victims = &self.victims[class as usize];
        let is_narrower = slots < victims.borrow().slots && !mutation::on(Mutation::CompactIntoNarrower);
        let chosen_now = victims.borrow().stripes.is_empty() || is_narrower;
        if chosen_now {
            if is_narrower {
                self.store.mark(Mark::CompactNarrower);
            }
            let taken = if is_narrower { victims.borrow().taken.max(0) } else { 0 };
            let stripes = self.choose_victims(class, slots, takes_short, taken as usize).into();
            *victims.borrow_mut() = Victims { stripes, slots, taken };
        }
        let (mut pieces, mut locks, mut maps, mut given) = (Vec::new(), Vec::new(), MapPins::none(), 0);
        while pieces.len() < slots {
            let Some(stripe) = victims.borrow_mut().stripes.pop_front() else { break };
            // Its number may be another's by now. It is short, too, if a member is back since it was chosen.
            let lock = self.store.lock_stripe(stripe);
            let lock = lock
                .filter(|_| !self.is_of_another(class, stripe) && (takes_short || !self.is_short(stripe)));
            let Some(lock) = lock else { continue };
            let Some((mut found, pins)) = self.read_live(stripe).await else {
                self.store.mark(Mark::CompactUnreadable);
                self.unreadable.borrow_mut().insert(stripe);
                continue;
            };
            let room = slots - pieces.len();
            if found.len() > room {
                // The next round goes on with it.
                victims.borrow_mut().stripes.push_front(stripe);
                found.truncate(room);
            } else {
                given += self.chunks_of(stripe, self.is_short(stripe));
            }
            pieces.append(&mut found);
            maps.merge(pins);
            locks.push(lock);
        }
        if pieces.is_empty() {
            if locks.is_empty() {
                self.store.mark(Mark::CompactNoGain);
            } else {
                self.store.mark(Mark::CompactDead);
            }
            // Dead meanwhile, and freed once unlocked; or in use, and then there may be others.
            return !locks.is_empty() || !chosen_now;
        }
        pieces.sort_by_key(|piece| piece.block);
        self.store.throttle().pay(self.store.io(), pieces.len() as u64 * BLOCK_BYTES as u64).await;
        let moved = self.stripes.write_stripe(class, &pieces, Purpose::Internal).await.is_ok();
        if moved {
            if class == StripeClass::Pinned {
                self.store.mark(Mark::CompactedPinned);
            }
            self.store.counters().blocks_compacted.add(pieces.len() as u64);
            let taken = self.chunks_needed(class, pieces.len(), slots);
            victims.borrow_mut().taken += taken as isize - given as isize;
        } else {
            self.store.mark(Mark::CompactFailed);
            victims.borrow_mut().stripes.clear();
        }
        moved
    }

    /// Moves the blocks of mirrored stripes that conversion left out, once they fill a stripe; false when they do not.
    pub(super) async fn drain_sparse(&self) -> bool {
        let found = |stripe: StripeId| self.store.tables().stripe(stripe);
        let mut sparse = self.sparse.take();
        // Some have died meanwhile, and their numbers may be others' by now.
        sparse.retain(|&id| {
            found(id).state == StripeState::Mirrored && found(id).live > 0 && self.stripes.is_sparse(id)
        });
        let all: u32 = sparse.iter().map(|&id| found(id).live).sum();
        self.sparse.replace(sparse);
        if all < self.store.geometry().slots_per_stripe() {
            return false;
        }
        self.store.mark(Mark::SparseDrained);
        {
            let mut victims = self.victims[StripeClass::Pool as usize].borrow_mut();
            victims.stripes.extend(self.sparse.take());
            // There is room, so it matters little how much they give.
            victims.slots = 0;
        }
        self.compact_class(StripeClass::Pool).await
    }

    /// The widest stripe of a class that there is room for; `None` when there is none for any.
    fn target(&self, class: StripeClass) -> Option<Target> {
        let g = self.store.geometry();
        let (id, chunks) = self.stripes.try_allocate(g.data_columns, g.form_of(class), Purpose::Internal)?;
        let slots = chunks.columns * CHUNK_BLOCKS as usize;
        let takes_short = self.store.allocator().keeps_member_reserves();
        self.stripes.cancel_allocation(id, chunks);
        Some(Target { slots, takes_short })
    }

    /// The sparsest stripes of a class, enough of them that their blocks, in new stripes of `slots` slots, take fewer chunks than
    /// now, and fewer by `taken` chunks, or no more chunks and fewer stripe numbers where these are short; none when there are no
    /// such stripes.
    fn choose_victims(
        &self,
        class: StripeClass,
        slots: usize,
        takes_short: bool,
        taken: usize,
    ) -> Vec<StripeId> {
        let at_leisure = self.store.room().waiting() == 0;
        let ids_are_short = self.store.are_stripe_ids_short();
        let is_gain = |live: usize, chunks, stripes| {
            let needed = self.chunks_needed(class, live, slots) + taken;
            chunks > needed + if at_leisure { needed / GAIN_AT_LEISURE } else { 0 }
                || ids_are_short && chunks == needed && stripes > live.div_ceil(slots)
        };
        let (mut live, mut chunks, mut chosen) = (0, 0, Vec::new());
        for (stripe, stripe_live, stripe_chunks) in self.sparsest(class, takes_short) {
            chosen.push(stripe);
            live += stripe_live;
            chunks += stripe_chunks;
            if live >= slots && is_gain(live, chunks, chosen.len()) {
                return chosen;
            }
        }
        if is_gain(live, chunks, chosen.len()) { chosen } else { Vec::new() }
    }

    /// Chunks that `blocks` blocks take in stripes of a class, of `slots` slots.
    fn chunks_needed(&self, class: StripeClass, blocks: usize, slots: usize) -> usize {
        let (g, copies) = (self.store.geometry(), self.copies_now());
        let parity = g.parity_columns_of(g.form_of(class));
        let chunks = |blocks: usize| match (blocks.div_ceil(CHUNK_BLOCKS as usize), parity) {
            (0, _) => 0,
            (columns, 0) => columns * copies,
            (columns, parity) => columns + parity,
        };
        blocks / slots * chunks(slots) + chunks(blocks % slots)
    }

    /// The stripes of a class with the fewest live blocks for each of their chunks: their live blocks, and their chunks.
    fn sparsest(&self, class: StripeClass, takes_short: bool) -> Vec<(StripeId, usize, usize)> {
        let mut found = BTreeMap::new();
        let (tables, unreadable) = (self.store.tables(), self.unreadable.borrow());
        for id in (0..tables.stripe_count()).map(StripeId) {
            let stripe = tables.stripe(id);
            let is_candidate = stripe.state != StripeState::Free && stripe.live > 0;
            if !is_candidate || self.store.in_use(id) || unreadable.contains(&id) {
                continue;
            }
            if self.is_of_another(class, id) {
                continue;
            }
            let is_short = self.is_short(id);
            if is_short && !takes_short {
                continue;
            }
            let chunks = self.chunks_of(id, is_short);
            let live = stripe.live as usize;
            found.insert((live * 1024 / chunks.max(1), id), (id, live, chunks));
            if found.len() > VICTIMS_MAX {
                found.pop_last();
            }
        }
        found.into_values().collect()
    }

    /// The chunks that a stripe occupies on active members, or is owed there.
    fn chunks_of(&self, id: StripeId, is_short: bool) -> usize {
        let members = self.store.members();
        if is_short {
            return usize::from(self.store.tables().stripe(id).columns) * self.copies_now();
        }
        self.store.tables().homes(id).iter().flatten().filter(|home| members.is_active(home.member)).count()
    }

    /// Copies that a new mirrored stripe gets.
    fn copies_now(&self) -> usize {
        self.store.geometry().copies().min(self.store.members().taking_new())
    }

    /// Whether a stripe is of another class than this.
    fn is_of_another(&self, class: StripeClass, id: StripeId) -> bool {
        self.store.tables().is_of_another_class(id, class) && !mutation::on(Mutation::CompactTogether)
    }

    /// Whether a stripe that stays mirrored has fewer copies than a new one would get, since members were out when it was
    /// planned. A rebuild gives it the copies that it is owed.
    fn is_short(&self, id: StripeId) -> bool {
        let (g, tables) = (self.store.geometry(), self.store.tables());
        if tables.stripe(id).state.form().is_none_or(|form| g.parity_columns_of(form) > 0) {
            return false;
        }
        let (columns, homes) = (usize::from(tables.stripe(id).columns), tables.homes(id));
        let copies = self.copies_now();
        (0..columns).any(|column| g.copies_of(column).filter(|&i| homes[i].is_some()).count() < copies)
    }

    /// The live blocks of a stripe with their content, and pins on their map pages; `None` when one cannot be read.
    async fn read_live(&self, stripe: StripeId) -> Option<(Vec<Piece>, MapPins)> {
        self.priority.yield_stripe_to_clients(stripe, CHUNK_BYTES).await;
        let _slots = self.store.pin_slots(stripe).await.ok()?;
        let (live, maps) = self.store.live_slots(stripe).await.ok()?;
        let mut pieces = Vec::with_capacity(live.len());
        let mut rest = live.as_slice();
        while let Some(&start) = rest.first() {
            let room = (CHUNK_BLOCKS - start.0 % CHUNK_BLOCKS) as usize;
            let run = rest.iter().take(room).zip(start.0..).take_while(|(slot, n)| slot.0 == *n).count();
            let data = self.stripes.read_slots_singly(start, run as u32).await.ok()?;
            for (i, &slot) in rest[..run].iter().enumerate() {
                // Dead by now: its owner has a newer place.
                let Some(block) = self.store.tables().is_live(slot) else { continue };
                let data = data.slice(i * BLOCK_BYTES, BLOCK_BYTES);
                pieces.push(Piece { block, data, condition: Condition::StillAt(Some(slot)) });
            }
            rest = &rest[run..];
        }
        self.store.throttle().pay(self.store.io(), CHUNK_BYTES).await;
        Some((pieces, maps))
    }

    /// A mirrored stripe is so sparse that it is compacted instead of converted.
    pub(super) fn add_sparse(&self, stripe: StripeId) {
        self.sparse.borrow_mut().push(stripe);
    }

    /// Takes the sparse stripes, to be converted after all.
    pub(super) fn take_sparse(&self) -> Vec<StripeId> {
        self.sparse.take()
    }

    /// Members have changed: what could not be read may be readable.
    pub(crate) fn retry_unreadable(&self) {
        self.unreadable.borrow_mut().clear();
    }
}
