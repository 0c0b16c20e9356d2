//! Defragmentation: blocks that are consecutive in a volume but were written apart, and so are stored apart, move together
//! into one stripe when a client reads them in sequence. Only blocks that are read in sequence move, and only once.
//!
//! Every move is conditional: when a client overwrites a block meanwhile, the client's write wins.

use std::rc::Rc;

use crate::background::io_priority::IoPriority;
use crate::marks::Mark;
use crate::store::Store;
use crate::store::chunk_allocator::Purpose;
use crate::store::map_pins::MapPins;
use crate::store::volumes::Stretch;
use crate::stripe::Stripes;
use crate::stripe::piece::Piece;
use crate::stripe::scatter_hints::is_scattered;
use sinew_core::ids::VolumeId;
use sinew_core::io::Io;
use sinew_core::sync::join_all;
use sinew_format::model::mapped_geometry::CHUNK_BYTES;
use sinew_members::io_priority::BackgroundWork;

/// Defragmentation of what clients read in sequence.
pub(crate) struct Defragmenter<I> {
    store: Rc<Store<I>>,
    stripes: Rc<Stripes<I>>,
    priority: Rc<IoPriority<I>>,
}

impl<I: Io> Defragmenter<I> {
    pub(crate) fn new(stripes: Rc<Stripes<I>>, priority: Rc<IoPriority<I>>) -> Defragmenter<I> {
        Defragmenter { store: Rc::clone(stripes.store()), stripes, priority }
    }

    /// The task that defragments what clients read in sequence. It never ends.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.store.wakeups().defragment.kicked().await;
            while let Some((volume, first)) = self.stripes.next_scattered() {
                self.defragment(volume, first).await;
            }
        }
    }

    /// Moves the blocks of a stripe's length of a volume together.
    pub(crate) async fn defragment(&self, volume: VolumeId, first: u64) {
        if self.store.is_deleted(volume) {
            return;
        }
        // Not from the room that clients wait for: until conversion and compaction are done, defragmentation takes
        // more than it gives.
        if self.store.room().waiting() > 0
            || self.store.allocator().free_chunks() < 2 * self.store.low_water()
        {
            self.store.mark(Mark::GatherNoRoom);
            return;
        }
        let Some((stored, maps)) = self.stored(volume, first).await else { return };
        let slots = stored.into_iter().filter_map(|stretch| stretch.slot);
        let members = self.store.tables().members_of(slots.map(|slot| self.store.geometry().place(slot).0));
        drop(maps);
        self.priority.yield_to_clients(&members, CHUNK_BYTES).await;
        self.store
            .throttle()
            .pay(self.store.io(), self.store.geometry().data_columns as u64 * CHUNK_BYTES)
            .await;
        let _volume = self.store.enter_volume(volume);
        // As a client's write, it may store blocks in stripes of the class that the volume has now.
        let _claim = self.store.claim_nothing();
        // Inside the epoch the slots read from are not reused, so they can stand for their content.
        let _epoch = self.store.epochs().enter();
        let Some((stored, _maps)) = self.stored(volume, first).await else { return };
        if !is_scattered(&stored) {
            return;
        }
        let read = join_all(stored.iter().map(|stretch| self.stripes.read_stretch(*stretch))).await;
        let pieces: Option<Vec<Vec<Piece>>> = read.into_iter().collect();
        let Some(pieces) = pieces.map(|pieces| pieces.concat()) else {
            self.store.mark(Mark::GatherUnreadable);
            return;
        };
        if self.stripes.write_stripe(self.store.class_of(volume), &pieces, Purpose::Leisure).await.is_ok() {
            self.store.mark(Mark::Gathered);
            self.store.counters().blocks_gathered.add(pieces.len() as u64);
        } else {
            self.store.mark(Mark::GatherFailed);
        }
    }

    /// The stored stretches of a stripe's length of a volume, and pins on their map pages; `None` when those cannot be read.
    async fn stored(&self, volume: VolumeId, first: u64) -> Option<(Vec<Stretch>, MapPins)> {
        let slots = self.store.geometry().slots_per_stripe();
        let Ok(maps) = self.store.pin_maps(volume, first, slots).await else {
            self.store.mark(Mark::GatherUnreadable);
            return None;
        };
        let mut stored = Vec::new();
        let tell = |stretch: Stretch| stored.extend(stretch.slot.map(|_| stretch));
        self.store.stretches(volume, first, slots, tell);
        Some((stored, maps))
    }
}
