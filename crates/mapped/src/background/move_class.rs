//! Moves of volumes between classes: the blocks of a volume whose protection has changed go to stripes of its new class, while
//! clients use it.
//!
//! From the beginning of a move on, new blocks go there. The mover goes over the map pages of the volume until it finds none
//! of its blocks in a stripe of another class, and no write from before the beginning is under way.
//! Every move of a block is conditional: when a client overwrites it meanwhile, the client's write wins. After a crash the
//! next opening goes on.

use std::cell::Cell;
use std::rc::Rc;

use async_channel::Sender;

use crate::background::io_priority::IoPriority;
use crate::marks::Mark;
use crate::store::Store;
use crate::store::chunk_allocator::Purpose;
use crate::store::volumes::Stretch;
use crate::stripe::Stripes;
use crate::stripe::piece::Piece;
use sinew_core::ids::{ShardBlock, SlotNo, VolumeId};
use sinew_core::io::{Io, yield_now};
use sinew_core::sync::join_all;
use sinew_format::model::mapped_geometry::{CHUNK_BLOCKS, CHUNK_BYTES};
use sinew_format::model::stripe_form::StripeClass;
use sinew_format::table_page::PageId;
use sinew_members::io_priority::BackgroundWork;
use sinew_members::message::ShardEvent;

/// Pause before blocks that could not be moved are tried again.
const RETRY_NS: u64 = 50_000_000;

/// Moves volumes between classes.
pub(crate) struct ClassMover<I> {
    store: Rc<Store<I>>,
    stripes: Rc<Stripes<I>>,
    priority: Rc<IoPriority<I>>,
    control: Sender<ShardEvent>,
    is_running: Cell<bool>,
}

impl<I: Io> ClassMover<I> {
    pub(crate) fn new(
        stripes: Rc<Stripes<I>>,
        priority: Rc<IoPriority<I>>,
        control: Sender<ShardEvent>,
    ) -> ClassMover<I> {
        let (store, is_running) = (Rc::clone(stripes.store()), Cell::new(false));
        ClassMover { store, stripes, priority, control, is_running }
    }

    /// Begins to make the moves that there are, unless it is at work already.
    pub(crate) fn start(self: &Rc<Self>) {
        if !self.is_running.replace(true) {
            self.store.io().spawn(Rc::clone(self).run());
        }
    }

    async fn run(self: Rc<Self>) {
        while let Some(volume) = self.store.next_move().filter(|_| !self.store.is_closing()) {
            if self.move_volume(volume).await {
                self.store.end_move(volume);
                self.store.mark(Mark::VolumeMoved);
                let _ = self.control.send(ShardEvent::VolumeMoved { volume }).await;
            }
        }
        self.is_running.set(false);
    }

    /// Moves all blocks of a volume; false when its move was given up.
    async fn move_volume(&self, volume: VolumeId) -> bool {
        loop {
            // Before the pages are looked at: afterwards a write may have ended that stored a block behind the look.
            let is_settled = self.store.is_class_settled(volume);
            let mut all_in_place = true;
            let pages = self.store.tables().volume_pages(volume);
            for (_, page) in pages {
                yield_now().await;
                all_in_place &= self.move_page(volume, page).await;
                if !self.goes_on(volume) {
                    return false;
                }
            }
            if all_in_place && is_settled {
                return true;
            }
            if all_in_place {
                self.store.io().sleep(RETRY_NS).await;
            }
        }
    }

    /// Whether a move goes on: its volume was not deleted, and the pool is not being closed.
    fn goes_on(&self, volume: VolumeId) -> bool {
        self.store.is_moving(volume) && !self.store.is_closing()
    }

    /// Moves the blocks of a map page that are in stripes of another class; true if there were none.
    async fn move_page(&self, volume: VolumeId, page: u32) -> bool {
        let class = self.store.class_of(volume);
        let Ok(_map) = self.store.pin_page(PageId::Map(page)).await else {
            self.store.mark(Mark::MoveFailed);
            self.store.io().sleep(RETRY_NS).await;
            return false;
        };
        let misplaced = self.store.misplaced_in(page, class);
        for batch in misplaced.chunks(self.store.geometry().slots_per_stripe() as usize) {
            if !self.goes_on(volume) {
                break;
            }
            if !self.move_some(volume, class, batch).await {
                self.store.mark(Mark::MoveFailed);
                self.store.io().sleep(RETRY_NS).await;
            }
        }
        misplaced.is_empty()
    }

    /// Moves some blocks into one stripe of a class; false when that cannot be done now.
    async fn move_some(&self, volume: VolumeId, class: StripeClass, blocks: &[(ShardBlock, SlotNo)]) -> bool {
        let g = self.store.geometry();
        if !self.stripes.await_room(g.data_columns, g.form_of(class)).await {
            return false;
        }
        let members = self.store.tables().members_of(blocks.iter().map(|&(_, slot)| g.place(slot).0));
        self.priority.yield_to_clients(&members, CHUNK_BYTES).await;
        self.store.throttle().pay(self.store.io(), g.data_columns as u64 * CHUNK_BYTES).await;
        // As a client's write, it leaves the physical space in reserve alone.
        let admitted = self.store.members().admit(blocks.len() as u64, || self.store.space_need(), || ());
        let Ok(_space) = admitted.await else { return false };
        if !self.goes_on(volume) {
            return false;
        }
        let _volume = self.store.enter_volume(volume);
        // Inside the epoch the slots read from are not reused, so they can stand for their content.
        let _epoch = self.store.epochs().enter();
        let read = join_all(self.stretches(blocks).into_iter().map(|stretch| self.read_stretch(stretch)));
        let pieces = read.await.concat();
        if pieces.is_empty() {
            return false;
        }
        let moved = self.stripes.write_stripe(class, &pieces, Purpose::Leisure).await.is_ok();
        if moved {
            self.store.counters().blocks_reclassed.add(pieces.len() as u64);
        }
        moved
    }

    /// The blocks of a stretch that can be read.
    async fn read_stretch(&self, stretch: Stretch) -> Vec<Piece> {
        if let Some(pieces) = self.stripes.read_stretch(stretch).await {
            return pieces;
        }
        let single = (0..stretch.count).map(|i| Stretch {
            block: ShardBlock(stretch.block.0 + i),
            slot: stretch.slot.map(|slot| SlotNo(slot.0 + i)),
            count: 1,
            ..stretch
        });
        let read = join_all(single.map(|stretch| self.stripes.read_stretch(stretch))).await;
        read.into_iter().flatten().flatten().collect()
    }

    /// The blocks that are still where they were, as stretches of consecutive ones.
    fn stretches(&self, blocks: &[(ShardBlock, SlotNo)]) -> Vec<Stretch> {
        let tables = self.store.tables();
        let mut stretches: Vec<Stretch> = Vec::new();
        for &(block, slot) in blocks.iter().filter(|&&(block, slot)| tables.lookup(block) == Some(slot)) {
            let follows = |last: &&mut Stretch| {
                let first = last.slot.expect("it is stored");
                let (blocks, slots) = (last.block.0 + last.count, first.0 + last.count);
                blocks == block.0 && slots == slot.0 && !slot.0.is_multiple_of(CHUNK_BLOCKS)
            };
            match stretches.last_mut().filter(follows) {
                Some(last) => last.count += 1,
                None => stretches.push(Stretch { block, slot: Some(slot), count: 1, is_known: true }),
            }
        }
        stretches
    }
}
