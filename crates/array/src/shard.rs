//! Arrays: one volume at computed places, as md's RAID levels have it, on the same members as mapped pools.
//!
//! This file holds a shard of an array together. [`geometry`] says where everything lies; `write` takes requests to the
//! journal (`log`, `pending`), from which `drain` brings them to their stripes, or to the stripes at once where there is
//! none; `plan` and `update` are the one way to change a stripe, `read` the one way to read it, `around` without a member that is late. `regions` knows what may
//! differ from what it should be, `rebuild` and `scrub` put it right, `sweep` says what is right again. [`growth`] says how an
//! array has grown, `mover` grows: chunks without parity, and with parity `widen` changes rows, while `gate` keeps requests
//! from them.
//!
//! Whoever changes a stripe, or computes with more than one of its units, holds its lock (`locks`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use sinew_core::coverage::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::{DeviceId, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Kick, Signal};
use sinew_core::volume::VolumeError;
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_geometry::MemberLayout;
use sinew_members::hedged_read::ReadSlots;
use sinew_members::members::Members;
use sinew_members::message::{Reply, Request};
use sinew_members::status::Counters;
use sinew_members::throttle::Throttle;
use sinew_members::update_latency::UpdateLatency;

use crate::bitmap::regions::Regions;
use crate::journal::dirty_blocks::Pending;
use crate::journal::flush::Flushing;
use crate::journal::log::Log;
use crate::md_dirty::Writing;
use crate::request::barrier::Gate;
use crate::request::write::Queued;
use crate::reshape::chunks::Mover;
use crate::stripe::hedged::StripePart;
use crate::stripe::locks::Locks;
use sinew_format::model::array_shard_layout::ShardLayout;

/// Pause before background work that could not be done is tried again.
pub(crate) const RETRY_NS: u64 = 50_000_000;

/// One shard of an open array. All methods run on the thread it was opened on.
pub struct ArrayShard<I> {
    pub(crate) io: I,
    pub(crate) slice: RefCell<Rc<ShardLayout>>,
    pub(crate) members: Members<I>,
    pub(crate) counters: Counters,
    pub(crate) update_latency: RefCell<UpdateLatency>,
    pub(crate) throttle: Throttle,
    pub(crate) locks: Locks,
    pub(crate) read_slots: ReadSlots<ArrayShard<I>, StripePart, usize>,
    /// Writes that wait for their stripe, where there is no journal; the stripe is in here while somebody sees to it.
    pub(crate) queued: RefCell<BTreeMap<u64, Vec<Queued>>>,
    pub(crate) regions: RefCell<Regions>,
    pub(crate) log: Log,
    pub(crate) writing: Writing,
    pub(crate) pending: RefCell<Pending>,
    /// The oldest group that after-images of a round are made of, until they are in their places.
    pub(crate) draining: Cell<Option<u64>>,
    /// The oldest group of which something is in its place but not durable there: since the last flush began, and as
    /// covered by the flush under way.
    pub(crate) unsettled: Cell<Option<u64>>,
    pub(crate) settling: Cell<Option<u64>>,
    pub(crate) flushing: Flushing,
    /// Wakes whoever brings the journal's content to its place.
    pub(crate) drainer: Kick,
    pub(crate) drained: Signal,
    /// The tail is to move past this group: those before may be on too few members.
    pub(crate) tail_wanted: Cell<u64>,
    /// Everything is to go to its place.
    pub(crate) drain_all: Cell<bool>,
    /// Wakes rebuild and first resync.
    pub(crate) rebuilder: Kick,
    pub(crate) scrubber: Kick,
    /// Wakes whoever marks regions as clean.
    pub(crate) sweeper: Kick,
    pub(crate) mover: Mover,
    pub(crate) gate: Gate,
    /// The first group with images of rows that a growth is changing in place, until they are there.
    pub(crate) changing_images: Cell<Option<u64>>,
    /// The next stripe of the scrub under way.
    pub(crate) scrub_next: Cell<Option<u64>>,
    /// Counts the scrubs begun and stopped.
    pub(crate) scrub_orders: Cell<u64>,
    pub(crate) closing: Cell<bool>,
    /// More members are out than the array survives.
    pub(crate) failed: Cell<bool>,
}

impl<I: Io> ArrayShard<I> {
    /// Starts what recovery needs.
    pub(crate) fn start(self: &Rc<Self>) {
        let shard = Rc::clone(self);
        self.io.spawn(async move { shard.members.run_deadlines().await });
        if self.has_log() {
            self.io.spawn(Rc::clone(self).run_log());
            self.io.spawn(Rc::clone(self).run_drainer());
            self.io.spawn(Rc::clone(self).run_sweeper());
        }
    }

    /// Starts what works on a recovered shard: from copies that still disagree no member may be rebuilt.
    pub(crate) fn start_repair(self: &Rc<Self>) {
        if !self.slice().geometry.is_read_only() {
            self.io.spawn(Rc::clone(self).run_rebuilder());
        }
        self.io.spawn(Rc::clone(self).run_scrubber());
        if !self.slice().is_fixed() {
            self.io.spawn(Rc::clone(self).run_mover());
        }
    }

    /// Answers a client's request.
    pub(crate) async fn serve(self: &Rc<Self>, request: Request) -> Result<Reply, VolumeError> {
        let changes =
            matches!(request, Request::Write { .. } | Request::Merge { .. } | Request::Unmap { .. });
        if changes && self.slice().geometry.is_read_only() {
            return Err(VolumeError::ReadOnly);
        }
        self.throttle.note_request(&self.io);
        match request {
            Request::Read { local, count } => self.read(local, count).await.map(Reply::Data),
            Request::Write { local, data } => self.write(local, data).await.map(|()| Reply::Done),
            Request::Merge { local, at, bytes } => {
                self.merge(local, at, bytes.into()).await.map(|()| Reply::Done)
            }
            Request::Unmap { local, count } => self.write_zeros(local, count).await.map(|()| Reply::Done),
            Request::Extents { count, .. } => Ok(Reply::Extents(self.extents(count))),
            Request::Flush => self.flush().await.map(|()| Reply::Done),
        }
    }

    /// The shard's share, as it is now: growing changes it.
    pub(crate) fn slice(&self) -> Rc<ShardLayout> {
        Rc::clone(&self.slice.borrow())
    }

    /// Whether the array has redundancy, and with it something to keep in order.
    pub(crate) fn is_redundant(&self) -> bool {
        self.slice().tolerates() > 0
    }

    /// Whether the members have a log; those of md's arrays have none.
    pub(crate) fn has_log(&self) -> bool {
        self.slice().geometry.md.is_none()
    }

    /// Members of the layout that are out.
    pub(crate) fn out(&self) -> impl Iterator<Item = usize> {
        (0..self.slice().geometry.members()).filter(|&m| !self.members.is_active(MemberId(m as u8)))
    }

    /// Takes note of a member's new state. Everything that depends on it is known before this returns.
    pub(crate) fn set_member(
        self: &Rc<Self>,
        member: MemberId,
        state: MemberState,
        device: Option<DeviceId>,
        layout: MemberLayout,
    ) {
        let index = usize::from(member.0);
        // A member about to be grown onto that failed before the shards heard of it.
        if index >= self.members.count() {
            return;
        }
        let was_active = self.members.is_active(member);
        self.members.set(member, state, device, layout);
        if index >= self.slice().geometry.members() {
            return;
        }
        self.regions.borrow_mut().unmark();
        if was_active && state != MemberState::Active && !mutation::on(Mutation::ForgetStale) {
            self.io.mark(Mark::ArrayMemberMissed);
            self.regions.borrow_mut().lose(index);
        }
        self.judge();
        self.log.stuck.set(false);
        if !mutation::on(Mutation::ForgetMetadataCopies) {
            self.tail_wanted.set(self.log.next());
        }
        self.drainer.kick();
        self.rebuilder.kick();
        self.sweeper.kick();
        self.flushing.signal.notify();
        self.mover.notify();
        self.log.room.notify();
    }

    pub(crate) fn judge(&self) {
        let mut lost = vec![false; self.slice().geometry.members()];
        self.out().for_each(|member| lost[member] = true);
        let failed = !self.slice().geometry.survives(&lost);
        if failed {
            self.io.mark(Mark::ArrayFailed);
        }
        self.failed.set(failed);
    }

    /// Nothing on an out member will be up to date when it comes back.
    pub(crate) async fn stale_member(&self, member: MemberId) -> Result<(), VolumeError> {
        self.io.mark(Mark::ArrayMemberAllStale);
        // A spare has no place that anything could be lost from.
        if usize::from(member.0) < self.slice().geometry.members() {
            self.regions.borrow_mut().lose_all(usize::from(member.0));
        }
        self.flush().await
    }

    /// Brings everything to its place and says so, so that the next opening has nothing to replay.
    pub(crate) async fn close(self: &Rc<Self>) -> Result<(), VolumeError> {
        self.closing.set(true);
        self.mover.notify();
        self.rows_at_rest().await;
        if !self.has_log() {
            return self.flush().await;
        }
        self.settle_all().await
    }
}
