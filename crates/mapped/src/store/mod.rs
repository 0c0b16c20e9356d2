//! The store of a shard: its tables, journal, free chunks, volumes and locks, and the members they are kept on.
//!
//! The fields of [`Store`] are private to this room. Higher rooms read the tables through [`Store::tables`] and change them
//! only by records that they commit to the journal.

pub(crate) mod apply;
pub(crate) mod capacity;
pub(crate) mod chunk_allocator;
mod classes;
pub(crate) mod data_status;
pub(crate) mod dirty_pages;
pub(crate) mod epoch_reclaim;
pub(crate) mod flush;
pub(crate) mod free_set;
pub(crate) mod group_commit;
pub(crate) mod journal;
pub(crate) mod live_counts;
pub(crate) mod map_pins;
pub(crate) mod membership;
pub(crate) mod metadata_redundancy;
pub(crate) mod misplaced_counts;
pub(crate) mod overlapped_commit;
pub(crate) mod page_copy;
pub(crate) mod page_pins;
mod page_reach;
mod page_slots;
pub(crate) mod page_snapshot;
mod per_page;
pub(crate) mod release;
pub(crate) mod room;
pub(crate) mod run_map;
mod space;
pub(crate) mod stale_marks;
pub(crate) mod stripe_ids;
pub(crate) mod stripe_locks;
mod stripe_use;
pub(crate) mod table_cache;
pub(crate) mod tables;
pub(crate) mod volume_class;
pub(crate) mod volumes;
pub(crate) mod wakeups;

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::ids::{Lsn, StripeId, Uuid, VolumeId};
use sinew_core::io::Io;
use sinew_core::sync::Signal;
use sinew_format::model::mapped_geometry::MappedGeometry;
use sinew_members::group_flush::GroupFlush;
use sinew_members::members::Members;
use sinew_members::status::Counters;
use sinew_members::throttle::Throttle;

use self::chunk_allocator::ChunkAllocator;
use self::classes::Classes;
use self::epoch_reclaim::Epochs;
use self::journal::Journal;
use self::room::Room;
use self::stripe_use::StripeUse;
use self::table_cache::TableCache;
use self::tables::{StripeState, Tables};
use self::wakeups::Wakeups;

/// What a shard stores and how it keeps it durable.
pub(crate) struct Store<I> {
    io: I,
    index: usize,
    pool: Uuid,
    geometry: MappedGeometry,
    members: Members<I>,
    tables: RefCell<Tables>,
    table_cache: Rc<TableCache>,
    allocator: RefCell<ChunkAllocator>,
    journal: Journal,
    epochs: Epochs,
    counters: Counters,
    throttle: Throttle,
    room: Room,
    wakeups: Wakeups,
    /// Stripes written since the last flush began, and those that the flush under way covers.
    unflushed_stripes: RefCell<BTreeSet<StripeId>>,
    flushing_stripes: RefCell<BTreeSet<StripeId>>,
    /// Commits of stale marks that a flush must not overtake.
    marks_pending: Cell<u32>,
    group_flush: GroupFlush,
    /// Stripes allocated whose opening is not applied yet, with the members' version at the allocation.
    opening: RefCell<BTreeMap<StripeId, u64>>,
    free_ids: RefCell<BTreeSet<StripeId>>,
    next_id: Cell<u32>,
    /// The users of each stripe: a number of requests, or one background job alone.
    users: RefCell<BTreeMap<StripeId, StripeUse>>,
    /// Stripes that may have no live block any more.
    emptied: RefCell<BTreeSet<StripeId>>,
    /// Map pages given out by commits not yet applied.
    pages_pending: RefCell<BTreeMap<(VolumeId, u32), u32>>,
    /// Requests under way on each volume.
    volume_users: RefCell<BTreeMap<VolumeId, u32>>,
    volume_idle: Signal,
    /// Volumes that are being deleted.
    deleted: RefCell<BTreeSet<VolumeId>>,
    classes: RefCell<Classes>,
    /// The copies are written again only because the shard was opened.
    is_precaution: Cell<bool>,
    /// Pages may have too few copies.
    recopy: Cell<bool>,
    /// Journal blocks before this one may have too few copies.
    tail_wanted: Cell<Lsn>,
    closing: Cell<bool>,
}

/// What recovery makes a [`Store`] of.
pub(crate) struct StoreParts<I> {
    pub(crate) io: I,
    pub(crate) index: usize,
    pub(crate) pool: Uuid,
    pub(crate) members: Members<I>,
    pub(crate) tables: Tables,
    pub(crate) allocator: ChunkAllocator,
    pub(crate) journal: Journal,
}

impl<I: Io> Store<I> {
    pub(crate) fn new(parts: StoreParts<I>) -> Rc<Store<I>> {
        let geometry = parts.tables.geometry;
        let count = parts.tables.stripe_count();
        let unused = |id: &StripeId| parts.tables.stripe(*id).state == StripeState::Free;
        let free_ids = (0..count).map(StripeId).filter(unused).collect();
        Rc::new(Store {
            index: parts.index,
            pool: parts.pool,
            geometry,
            members: parts.members,
            free_ids: RefCell::new(free_ids),
            next_id: Cell::new(count),
            tables: RefCell::new(parts.tables),
            table_cache: Rc::default(),
            allocator: RefCell::new(parts.allocator),
            journal: parts.journal,
            epochs: Epochs::default(),
            counters: Counters::default(),
            throttle: Throttle::default(),
            room: Room::default(),
            wakeups: Wakeups::default(),
            unflushed_stripes: RefCell::default(),
            flushing_stripes: RefCell::default(),
            marks_pending: Cell::new(0),
            group_flush: GroupFlush::default(),
            opening: RefCell::default(),
            users: RefCell::default(),
            emptied: RefCell::default(),
            pages_pending: RefCell::default(),
            volume_users: RefCell::default(),
            volume_idle: Signal::default(),
            deleted: RefCell::default(),
            classes: RefCell::default(),
            is_precaution: Cell::new(true),
            recopy: Cell::new(true),
            tail_wanted: Cell::new(0),
            closing: Cell::new(false),
            io: parts.io,
        })
    }

    /// The world.
    pub(crate) fn io(&self) -> &I {
        &self.io
    }

    /// Marks a place as covered, for tests.
    pub(crate) fn mark(&self, mark: Mark) {
        self.io.mark(mark);
    }

    /// The shard's number in the pool.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn geometry(&self) -> &MappedGeometry {
        &self.geometry
    }

    pub(crate) fn members(&self) -> &Members<I> {
        &self.members
    }

    /// The tables, to be read. They change by records alone.
    pub(crate) fn tables(&self) -> Ref<'_, Tables> {
        self.tables.borrow()
    }

    pub(crate) fn allocator(&self) -> Ref<'_, ChunkAllocator> {
        self.allocator.borrow()
    }

    pub(crate) fn allocator_mut(&self) -> RefMut<'_, ChunkAllocator> {
        self.allocator.borrow_mut()
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The bounds of background work.
    pub(crate) fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// Requests and jobs that wait for room.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    pub(crate) fn wakeups(&self) -> &Wakeups {
        &self.wakeups
    }

    /// Whether the pool is being closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get()
    }

    pub(crate) fn begin_closing(&self) {
        self.closing.set(true);
    }
}
