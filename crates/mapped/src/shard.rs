//! One shard of a mapped pool: a slice of the pool with its own tables, journal and free space, run by one thread.
//!
//! This file holds the shard together: what it is made of, how members and volumes come and go, who may touch which
//! stripe. What it does with requests is in `plan`, `read`, `append`, `stripes` and `unmap`, what it does by itself in `clean`,
//! `convert`, `compact`, `rebuild` and `scrub`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use async_channel::Sender;

use crate::background::convert::Recent;
use crate::background::defragment::Gatherer;
use crate::background::io_priority::Load;
use crate::store::chunk_allocator::Space;
use crate::store::epoch_reclaim::Eras;
use crate::store::journal::Journal;
use crate::store::tables::{Effects, StripeState, Tables};
use crate::stripe::append::Appender;
use crate::stripe::read::ChunkPart;
use crate::stripe::read_cache::InHand;
use sinew_core::coverage::Mark;
use sinew_core::ids::Uuid;
use sinew_core::ids::{Home, Lsn, MemberId, ShardBlock, StripeId, VolumeId};
use sinew_core::io::{DeviceId, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Kick, Signal};
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::Record;
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_geometry::PAGE_INDICES;
use sinew_format::model::mapped_geometry::{Geometry, MemberLayout};
use sinew_format::model::policy::Policy;
use sinew_members::hedged_read::ReadSlots;
use sinew_members::members::Members;
use sinew_members::message::ShardEvent;
use sinew_members::status::Counters;
use sinew_members::throttle::Throttle;

/// One shard of an open mapped pool. All methods run on the thread it was opened on.
pub struct MappedShard<I> {
    pub(crate) io: I,
    pub(crate) index: usize,
    pub(crate) pool: Uuid,
    pub(crate) geometry: Geometry,
    pub(crate) members: Members<I>,
    pub(crate) tables: RefCell<Tables>,
    pub(crate) space: RefCell<Space>,
    pub(crate) journal: Journal,
    pub(crate) appender: Appender,
    pub(crate) eras: Eras,
    pub(crate) counters: Counters,
    pub(crate) throttle: Throttle,
    pub(crate) policy: Cell<Policy>,
    /// How much clients ask for.
    pub(crate) load: Load,
    pub(crate) read_slots: ReadSlots<MappedShard<I>, ChunkPart, (usize, Home)>,
    pub(crate) in_hand: InHand,
    pub(crate) control: Sender<ShardEvent>,
    /// Stripes written since the last flush began, and those that the flush under way covers.
    pub(crate) unflushed_stripes: RefCell<BTreeSet<StripeId>>,
    pub(crate) flushing_stripes: RefCell<BTreeSet<StripeId>>,
    /// Commits of stale marks that a flush must not overtake.
    pub(crate) marks_pending: Cell<u32>,
    pub(crate) flush_running: Cell<bool>,
    pub(crate) flushed: Signal,
    /// Stripes planned whose opening is not applied yet, with the members' version when they were.
    pub(crate) opening: RefCell<BTreeMap<StripeId, u64>>,
    pub(crate) free_ids: RefCell<BTreeSet<StripeId>>,
    pub(crate) next_id: Cell<u32>,
    /// Who uses a stripe: a number of requests, or background work alone.
    users: RefCell<BTreeMap<StripeId, StripeUse>>,
    pub(crate) emptied: RefCell<BTreeSet<StripeId>>,
    /// Map pages given out by commits not yet applied.
    pages_pending: RefCell<BTreeMap<(VolumeId, u32), u32>>,
    /// Requests under way on each volume.
    volume_users: RefCell<BTreeMap<VolumeId, u32>>,
    pub(crate) volume_idle: Signal,
    pub(crate) blocks_reserved: Cell<u64>,
    /// Wakes the page cleaner.
    pub(crate) cleaner: Kick,
    /// The cleaner has come to an end of its work.
    pub(crate) cleaned: Signal,
    /// Pages may have too few copies.
    pub(crate) recopy: Cell<bool>,
    /// Journal blocks before this one may have too few copies.
    pub(crate) tail_wanted: Cell<Lsn>,
    /// Volumes that are being deleted.
    pub(crate) deleted: RefCell<BTreeSet<VolumeId>>,
    /// Wakes the keeper of free space.
    pub(crate) keeper: Rc<Kick>,
    /// Clients' stripes that wait for room.
    pub(crate) waiting_for_room: Cell<u32>,
    /// A chunk to be rebuilt found no member with room.
    pub(crate) rebuild_starved: Cell<bool>,
    /// Mirrored stripes that nobody appends to any more, the one closed first in front.
    pub(crate) convertible: RefCell<VecDeque<StripeId>>,
    pub(crate) recent: Recent,
    pub(crate) gatherer: Gatherer,
    /// Wakes the trimmer.
    pub(crate) trimmer: Kick,
    /// Mirrored stripes with so few live blocks that they are not converted but drained.
    pub(crate) sparse: RefCell<Vec<StripeId>>,
    /// Stripes being compacted, one after the other; drained together they give room.
    pub(crate) victims: RefCell<VecDeque<StripeId>>,
    /// Stripes that cannot be compacted since a live block cannot be read from any member that is there.
    pub(crate) unreadable: RefCell<BTreeSet<StripeId>>,
    /// Free space has grown, or the keeper has given up.
    pub(crate) space_changed: Signal,
    /// Times the keeper found nothing that would make room although clients waited.
    pub(crate) given_up: Cell<u64>,
    /// Times clients were refused for that although no more than the capacity was stored.
    pub(crate) refused_early: Cell<u64>,
    /// Wakes the rebuilder.
    pub(crate) rebuilder: Kick,
    pub(crate) rebuild_left: Cell<u64>,
    /// Wakes the balancer.
    pub(crate) balancer: Kick,
    pub(crate) balance_left: Cell<u64>,
    /// `moves_made` when the balancer last found nothing to do.
    pub(crate) balanced_at: Cell<u64>,
    pub(crate) scrubber: Kick,
    /// Counts the scrubs begun and stopped.
    pub(crate) scrub_orders: Cell<u64>,
    pub(crate) closing: Cell<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StripeUse {
    Shared(u32),
    Alone,
}

/// What `Shard::assemble` puts together.
pub(crate) struct ShardParts<I> {
    pub(crate) io: I,
    pub(crate) index: usize,
    pub(crate) pool: Uuid,
    pub(crate) members: Members<I>,
    pub(crate) tables: Tables,
    pub(crate) space: Space,
    pub(crate) journal: Journal,
    pub(crate) control: Sender<ShardEvent>,
}

impl<I: Io> MappedShard<I> {
    pub(crate) fn assemble(parts: ShardParts<I>) -> Rc<MappedShard<I>> {
        let geometry = parts.tables.geometry;
        let count = parts.tables.stripe_count();
        let unused = |id: &StripeId| parts.tables.stripe(*id).state == StripeState::Free;
        let free_ids = (0..count).map(StripeId).filter(unused).collect();
        Rc::new(MappedShard {
            index: parts.index,
            pool: parts.pool,
            geometry,
            members: parts.members,
            free_ids: RefCell::new(free_ids),
            next_id: Cell::new(count),
            tables: RefCell::new(parts.tables),
            space: RefCell::new(parts.space),
            journal: parts.journal,
            appender: Appender::default(),
            eras: Eras::new(),
            counters: Counters::default(),
            throttle: Throttle::default(),
            policy: Cell::default(),
            load: Load::default(),
            read_slots: ReadSlots::default(),
            in_hand: InHand::default(),
            control: parts.control,
            unflushed_stripes: RefCell::default(),
            flushing_stripes: RefCell::default(),
            marks_pending: Cell::new(0),
            flush_running: Cell::new(false),
            flushed: Signal::default(),
            opening: RefCell::default(),
            users: RefCell::default(),
            emptied: RefCell::default(),
            pages_pending: RefCell::default(),
            volume_users: RefCell::default(),
            volume_idle: Signal::default(),
            blocks_reserved: Cell::new(0),
            cleaner: Kick::default(),
            cleaned: Signal::default(),
            recopy: Cell::new(true),
            tail_wanted: Cell::new(0),
            deleted: RefCell::default(),
            keeper: Rc::default(),
            waiting_for_room: Cell::new(0),
            rebuild_starved: Cell::new(false),
            convertible: RefCell::default(),
            recent: Recent::default(),
            gatherer: Gatherer::default(),
            trimmer: Kick::default(),
            sparse: RefCell::default(),
            victims: RefCell::default(),
            unreadable: RefCell::default(),
            space_changed: Signal::default(),
            given_up: Cell::new(0),
            refused_early: Cell::new(0),
            rebuilder: Kick::default(),
            rebuild_left: Cell::new(0),
            balancer: Kick::default(),
            balance_left: Cell::new(0),
            balanced_at: Cell::new(0),
            scrubber: Kick::default(),
            scrub_orders: Cell::new(0),
            closing: Cell::new(false),
            io: parts.io,
        })
    }

    /// Starts the shard's own tasks.
    pub(crate) fn start(self: &Rc<Self>) {
        let stripes = (0..self.tables.borrow().stripe_count()).map(StripeId);
        self.emptied.borrow_mut().extend(stripes.clone());
        self.convertible.borrow_mut().extend(stripes);
        self.io.spawn(Rc::clone(self).run_journal());
        self.io.spawn(Rc::clone(self).run_appender());
        self.io.spawn(Rc::clone(self).run_cleaner());
        self.io.spawn(Rc::clone(self).run_keeper());
        let shard = Rc::clone(self);
        self.io.spawn(async move { shard.members.run_deadlines().await });
        self.io.spawn(Rc::clone(self).run_rebuilder());
        self.io.spawn(Rc::clone(self).run_balancer());
        self.io.spawn(Rc::clone(self).run_scrubber());
        self.io.spawn(Rc::clone(self).run_gatherer());
        self.io.spawn(Rc::clone(self).run_trimmer());
        self.trimmer.kick();
    }

    /// Ends recovery: marks what missing members missed of the stripes whose data was not known durable, and writes a
    /// block of this epoch, durably, so that no block that recovery did not reach can ever be reached again.
    pub(crate) async fn settle(self: &Rc<Self>, touched: BTreeSet<StripeId>) -> Result<(), VolumeError> {
        let mut marks = Vec::new();
        for stripe in touched {
            let tables = self.tables.borrow();
            if tables.stripe(stripe).state == StripeState::Free {
                continue;
            }
            for (index, home) in tables.homes(stripe).iter().enumerate() {
                if home.is_some_and(|h| !self.members.is_active(h.member)) {
                    marks.push(Record::Stale { stripe, index: index as u8 });
                }
            }
        }
        if !marks.is_empty() {
            self.io.mark(Mark::RecoverMarked);
        }
        self.commit_marks(marks);
        self.restore_redundancy();
        self.journal.mark().await?;
        self.flush().await
    }

    /// What follows from records of block `lsn` having been applied.
    pub(crate) fn take_effects(&self, lsn: Lsn, effects: Effects) {
        if mutation::on(Mutation::ReuseEarly) {
            self.space.borrow_mut().give_back(effects.released);
            self.take_free_ids(effects.freed);
        } else if !effects.released.is_empty() || !effects.freed.is_empty() {
            self.space.borrow_mut().release(lsn, self.eras.turn(), effects.released, effects.freed);
        }
        if !effects.emptied.is_empty() {
            self.emptied.borrow_mut().extend(effects.emptied);
            self.keeper.kick();
        }
    }

    /// Stripe numbers that may be used again.
    pub(crate) fn take_free_ids(&self, stripes: Vec<StripeId>) {
        self.free_ids.borrow_mut().extend(stripes);
    }

    /// Takes note of a member's new state, or of a new member. Everything that depends on it is queued before this returns.
    pub(crate) fn set_member(
        self: &Rc<Self>,
        member: MemberId,
        state: MemberState,
        device: Option<DeviceId>,
        layout: MemberLayout,
    ) {
        let is_new = usize::from(member.0) == self.members.count();
        let was_active = !is_new && self.members.is_active(member);
        self.members.set(member, state, device, layout);
        self.space.borrow_mut().set_member(member, layout.chunks, layout.page_slots, state);
        if was_active && !state.takes_part() {
            self.lose_member(member);
        }
        self.unreadable.borrow_mut().clear();
        self.restore_redundancy();
        if !mutation::on(Mutation::LoseWakeup) {
            self.rebuilder.kick();
        }
        self.look_for_balance();
        self.keeper.kick();
        self.journal.room.notify();
        self.space_changed.notify();
        self.flushed.notify();
    }

    fn lose_member(self: &Rc<Self>, member: MemberId) {
        self.appender.abandon_member(self, member);
        let slots = self.tables.borrow_mut().pages.forget_member(member);
        self.space.borrow_mut().free_page_slots(slots);
        if mutation::on(Mutation::ForgetStale) {
            return;
        }
        let missed = self.stale_records(member);
        if !missed.is_empty() {
            self.io.mark(Mark::MembersMissed);
        }
        self.commit_marks(missed);
    }

    /// Queues marks. They are not awaited: the journal may be waiting for this very answer. A flush waits for them.
    pub(crate) fn commit_marks(self: &Rc<Self>, records: Vec<Record>) {
        if records.is_empty() {
            return;
        }
        self.marks_pending.set(self.marks_pending.get() + 1);
        let commit = self.journal.commit_urgent(records);
        let shard = Rc::clone(self);
        self.io.spawn(async move {
            let _ = commit.await;
            shard.marks_pending.set(shard.marks_pending.get() - 1);
            shard.flushed.notify();
        });
    }

    /// Marks the chunks of stripes that have just come into being on members lost since they were written.
    pub(crate) fn mark_opened<'a>(self: &Rc<Self>, records: impl Iterator<Item = &'a Record>) {
        let mut marks = Vec::new();
        for record in records {
            let Record::Open { stripe, homes, .. } = record else { continue };
            let planned = self.opening.borrow().get(stripe).copied().unwrap_or(0);
            for (index, home) in homes.iter().enumerate() {
                let lost = home.is_some_and(|h| self.members.lost_since(h.member, planned));
                if lost && !mutation::on(Mutation::ForgetStale) {
                    self.io.mark(Mark::OpenedStale);
                    marks.push(Record::Stale { stripe: *stripe, index: index as u8 });
                }
            }
        }
        self.commit_marks(marks);
    }

    /// Marks for every chunk on a member whose content was not flushed there.
    fn stale_records(&self, member: MemberId) -> Vec<Record> {
        let tables = self.tables.borrow();
        let stripes: BTreeSet<StripeId> =
            self.unflushed_stripes.borrow().union(&self.flushing_stripes.borrow()).copied().collect();
        let mut records = Vec::new();
        for stripe in stripes {
            if tables.stripe(stripe).state == StripeState::Free {
                continue;
            }
            for (index, home) in tables.homes(stripe).iter().enumerate() {
                if home.is_some_and(|h| h.member == member) {
                    records.push(Record::Stale { stripe, index: index as u8 });
                }
            }
        }
        records
    }

    /// Uses a stripe together with others; background work keeps off until `unshare`.
    pub(crate) fn share(&self, stripe: StripeId) {
        match self.users.borrow_mut().entry(stripe).or_insert(StripeUse::Shared(0)) {
            StripeUse::Shared(count) => *count += 1,
            StripeUse::Alone => unreachable!("nobody writes to a stripe that background work holds"),
        }
    }

    /// Ends a `share`.
    pub(crate) fn unshare(&self, stripe: StripeId) {
        let mut users = self.users.borrow_mut();
        match users.get_mut(&stripe) {
            Some(StripeUse::Shared(1)) => {
                users.remove(&stripe);
                drop(users);
                self.emptied.borrow_mut().insert(stripe);
                self.keeper.kick();
            }
            Some(StripeUse::Shared(count)) => *count -= 1,
            _ => unreachable!("not shared"),
        }
    }

    /// Whether requests or background work use the stripe, or it is being made.
    pub(crate) fn in_use(&self, stripe: StripeId) -> bool {
        self.users.borrow().contains_key(&stripe) || self.opening.borrow().contains_key(&stripe)
    }

    /// Stripes in use, but for those that small writes are appended to.
    pub(crate) fn busy_stripes(&self) -> usize {
        let users = self.users.borrow();
        let open = self.appender.open_stripes().iter().filter(|open| users.contains_key(open)).count();
        users.len() + self.opening.borrow().len() - open
    }

    /// Takes a stripe for background work alone, unless somebody uses it or it is not fully there.
    pub(crate) fn lock_stripe(self: &Rc<Self>, stripe: StripeId) -> Option<StripeLock<I>> {
        if self.in_use(stripe) {
            return None;
        }
        self.users.borrow_mut().insert(stripe, StripeUse::Alone);
        Some(StripeLock { shard: Rc::clone(self), stripe })
    }

    /// The block a volume's block is numbered as here, if any part of its page has been written.
    pub(crate) fn block(&self, volume: VolumeId, local: u64) -> Option<ShardBlock> {
        let (index, within) = split_local(local);
        let page = self.tables.borrow().volume_page(volume, index)?;
        Some(ShardBlock(page * PAGE_INDICES + within))
    }

    /// As `block`, giving the volume a map page where it has none yet.
    ///
    /// # Errors
    /// When the shard has no map page left.
    pub(crate) fn block_for_write(
        self: &Rc<Self>,
        volume: VolumeId,
        local: u64,
    ) -> Result<ShardBlock, VolumeError> {
        if let Some(block) = self.block(volume, local) {
            return Ok(block);
        }
        let (index, within) = split_local(local);
        let mut pending = self.pages_pending.borrow_mut();
        let page = match pending.get(&(volume, index)) {
            Some(&page) => page,
            None => {
                let page = self.tables.borrow().free_map_page(|p| pending.values().any(|&taken| taken == p));
                let limit = self.geometry.map_pages_max(self.space.borrow().all_chunks());
                if u64::from(page) >= limit {
                    return Err(VolumeError::NoSpace);
                }
                pending.insert((volume, index), page);
                // Queued before any record about a block in the page, so it is applied before them.
                let commit = self.journal.commit(vec![Record::PageOwner { page, volume, index }]);
                let shard = Rc::clone(self);
                self.io.spawn(async move {
                    let _ = commit.await;
                    shard.pages_pending.borrow_mut().remove(&(volume, index));
                });
                page
            }
        };
        Ok(ShardBlock(page * PAGE_INDICES + within))
    }

    /// Counts a request on a volume until the guard is dropped.
    pub(crate) fn enter_volume(self: &Rc<Self>, volume: VolumeId) -> VolumeUse<I> {
        *self.volume_users.borrow_mut().entry(volume).or_insert(0) += 1;
        VolumeUse { shard: Rc::clone(self), volume }
    }

    /// Volumes with requests under way.
    pub(crate) fn volumes_in_use(&self) -> usize {
        self.volume_users.borrow().len()
    }

    /// Waits until no request on the volume is under way.
    pub(crate) async fn wait_volume_idle(&self, volume: VolumeId) {
        self.volume_idle.wait(|| (!self.volume_users.borrow().contains_key(&volume)).then_some(())).await;
    }
}

/// The map page of a volume a local block is in, and where in it.
pub(crate) fn split_local(local: u64) -> (u32, u32) {
    ((local / u64::from(PAGE_INDICES)) as u32, (local % u64::from(PAGE_INDICES)) as u32)
}

/// A stripe held by background work alone.
pub(crate) struct StripeLock<I: Io> {
    shard: Rc<MappedShard<I>>,
    stripe: StripeId,
}

impl<I: Io> StripeLock<I> {
    /// The stripe.
    pub(crate) fn stripe(&self) -> StripeId {
        self.stripe
    }
}

impl<I: Io> Drop for StripeLock<I> {
    fn drop(&mut self) {
        self.shard.users.borrow_mut().remove(&self.stripe);
        if self.shard.tables.borrow().stripe(self.stripe).live == 0 {
            self.shard.emptied.borrow_mut().insert(self.stripe);
            self.shard.keeper.kick();
        }
    }
}

/// A request under way on a volume.
pub(crate) struct VolumeUse<I: Io> {
    shard: Rc<MappedShard<I>>,
    volume: VolumeId,
}

impl<I: Io> Drop for VolumeUse<I> {
    fn drop(&mut self) {
        let mut users = self.shard.volume_users.borrow_mut();
        let count = users.get_mut(&self.volume).expect("entered before");
        *count -= 1;
        if *count == 0 {
            users.remove(&self.volume);
            drop(users);
            self.shard.volume_idle.notify();
        }
    }
}
