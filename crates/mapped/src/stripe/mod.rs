//! Stripes: allocating, writing, appending to, reading, reconstructing and repairing them.
//!
//! The fields of [`Stripes`] are private to this room. It knows the store, and neither requests nor background jobs; hints
//! for background jobs (convertible stripes, second chance, scatter) are data here.

pub(crate) mod allocate;
pub(crate) mod append;
pub(crate) mod appender;
pub(crate) mod checksums;
mod coalesced_write;
mod copies;
pub(crate) mod full_stripe_write;
pub(crate) mod health;
pub(crate) mod hedged;
pub(crate) mod lost_blocks;
pub(crate) mod open_stripe;
pub(crate) mod open_stripes;
pub(crate) mod parity;
pub(crate) mod part;
pub(crate) mod piece;
pub(crate) mod read;
pub(crate) mod read_cache;
pub(crate) mod reconstruct;
pub(crate) mod repair;
pub(crate) mod repair_chunk;
pub(crate) mod row;
pub(crate) mod scatter_hints;
pub(crate) mod second_chance;

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use sinew_core::ids::{ChunkAddr, StripeId, VolumeId};
use sinew_core::io::Io;
use sinew_format::model::mapped_geometry::map_page;
use sinew_format::model::policy::Policy;
use sinew_format::model::stripe_form::StripeClass;
use sinew_format::table_page::PageId;
use sinew_members::hedged_read::ReadSlots;

use self::appender::Appender;
use self::lost_blocks::LostBlocks;
use self::part::ChunkPart;
use self::read_cache::ReadCache;
use self::scatter_hints::ScatterHints;
use self::second_chance::SecondChance;
use crate::store::Store;
use crate::store::volumes::Stretch;

/// The stripes of a shard.
pub(crate) struct Stripes<I> {
    store: Rc<Store<I>>,
    policy: Cell<Policy>,
    /// By class.
    appenders: [Appender; StripeClass::ALL.len()],
    read_slots: ReadSlots<Stripes<I>, ChunkPart, (usize, ChunkAddr)>,
    read_cache: ReadCache,
    /// Mirrored stripes that are not appended to any more, the one closed first in front.
    convertible: RefCell<VecDeque<StripeId>>,
    second_chance: SecondChance,
    scatter_hints: ScatterHints,
    lost_blocks: LostBlocks,
}

impl<I: Io> Stripes<I> {
    pub(crate) fn new(store: Rc<Store<I>>) -> Rc<Stripes<I>> {
        Rc::new(Stripes {
            store,
            policy: Cell::default(),
            appenders: StripeClass::ALL.map(Appender::new),
            read_slots: ReadSlots::default(),
            read_cache: ReadCache::default(),
            convertible: RefCell::default(),
            second_chance: SecondChance::default(),
            scatter_hints: ScatterHints::default(),
            lost_blocks: LostBlocks::default(),
        })
    }

    pub(crate) fn store(&self) -> &Rc<Store<I>> {
        &self.store
    }

    /// How small writes are laid out, and when stripes are converted.
    pub(crate) fn policy(&self) -> Policy {
        self.policy.get()
    }

    pub(crate) fn set_policy(&self, policy: Policy) {
        self.policy.set(policy);
    }

    /// The queue of small writes of a class of volumes.
    pub(crate) fn appender(&self, class: StripeClass) -> &Appender {
        &self.appenders[class as usize]
    }

    /// The queues of small writes.
    pub(crate) fn appenders(&self) -> impl Iterator<Item = &Appender> {
        self.appenders.iter()
    }

    /// Whether small writes are appended to a stripe.
    pub(crate) fn is_open(&self, stripe: StripeId) -> bool {
        self.appenders().any(|appender| appender.is_open(stripe))
    }

    /// Columns that requests in flight have read already.
    pub(crate) fn read_cache(&self) -> &ReadCache {
        &self.read_cache
    }

    /// Mirrored stripes that conversion may take, the one closed first in front.
    pub(crate) fn convertible(&self) -> RefMut<'_, VecDeque<StripeId>> {
        self.convertible.borrow_mut()
    }

    /// Which stripes clients have used since conversion last looked at them.
    pub(crate) fn second_chance(&self) -> &SecondChance {
        &self.second_chance
    }

    /// Notes that a client reads these blocks of a volume, which consist of these stretches.
    pub(crate) fn note_scatter(&self, volume: VolumeId, blocks: Range<u64>, stretches: &[Stretch]) {
        let unit = u64::from(self.store.geometry().slots_per_stripe());
        if self.policy.get().gather && self.scatter_hints.note(volume, blocks, stretches, unit) {
            self.store.wakeups().defragment.kick();
        }
    }

    /// A place to be defragmented: a volume, and the first block there.
    pub(crate) fn next_scattered(&self) -> Option<(VolumeId, u64)> {
        self.scatter_hints.next()
    }

    /// Notes that a part has no good copy. Of several blocks most may be good, and one that is not live is no loss: only a
    /// single live block counts.
    pub(crate) async fn note_lost(&self, part: ChunkPart) {
        let slot = self.store.geometry().slot(part.stripe, part.column, part.offset);
        let Some(block) = self.store.tables().owner(slot).filter(|_| part.count == 1) else { return };
        let Ok(map) = self.store.pin_page(PageId::Map(map_page(block))).await else { return };
        if self.store.tables().lookup(block) == Some(slot) {
            self.store.counters().failed_reads.add(1);
            self.lost_blocks.add(block, slot, map);
        }
    }

    /// Pins on map pages of lost blocks.
    pub(crate) fn lost_pins(&self) -> usize {
        self.lost_blocks.pins()
    }

    /// Blocks of volumes, as the shard numbers them, that could not be read and have not been written since.
    pub(crate) fn lost_blocks(&self) -> Vec<(VolumeId, u64)> {
        let tables = self.store.tables();
        let lost = self.lost_blocks.retain(|block, slot| tables.lookup(block) == Some(slot));
        lost.into_iter().filter_map(|block| tables.place_in_volume(block)).collect()
    }
}
