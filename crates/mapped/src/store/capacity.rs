//! Capacity: when a request is refused for lack of room, and below how many free chunks room is made.

use std::cell::Cell;

use crate::marks::Mark;
use crate::store::Store;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_core::sync::Signal;
use sinew_core::volume::VolumeError;
use sinew_format::model::config::MemberState;

/// Requests and jobs that wait for free chunks, and what was refused to them.
#[derive(Default)]
pub(crate) struct Room {
    /// Clients' stripes that wait for room.
    waiting: Cell<u32>,
    /// A chunk to be rebuilt found no member with room.
    rebuild_starved: Cell<bool>,
    /// Free space has grown, or reclaim has given up.
    changed: Signal,
    /// Times reclaim found nothing that would make room although clients waited.
    given_up: Cell<u64>,
    /// Times clients were refused for that although no more than the capacity was stored.
    refused_early: Cell<u64>,
    /// Blocks that requests under way have claimed.
    reserved: Cell<u64>,
}

impl Room {
    /// Clients' stripes that wait for room.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.get()
    }

    pub(crate) fn begin_wait(&self) {
        self.waiting.set(self.waiting.get() + 1);
    }

    pub(crate) fn end_wait(&self) {
        self.waiting.set(self.waiting.get() - 1);
    }

    /// Notified when free space has grown, or when reclaim gives up.
    pub(crate) fn changed(&self) -> &Signal {
        &self.changed
    }

    /// Times reclaim has given up.
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up.get()
    }

    /// Reclaim can make no more room: requests that wait are refused.
    pub(crate) fn give_up(&self) {
        self.given_up.set(self.given_up.get() + 1);
        self.changed.notify();
    }

    pub(crate) fn refused_early(&self) -> u64 {
        self.refused_early.get()
    }

    fn note_early_refusal(&self) {
        self.refused_early.set(self.refused_early.get() + 1);
    }

    pub(crate) fn set_rebuild_starved(&self) {
        self.rebuild_starved.set(true);
    }

    pub(crate) fn take_rebuild_starved(&self) -> bool {
        self.rebuild_starved.take()
    }

    /// Blocks that requests under way have claimed.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.get()
    }
}

/// Room that a request has claimed for blocks that were not stored before.
pub(crate) struct Claim<'a> {
    reserved: &'a Cell<u64>,
    blocks: u64,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.reserved.set(self.reserved.get() - self.blocks);
    }
}

impl<I: Io> Store<I> {
    /// Claims room for blocks that are not stored yet, until the request ends.
    ///
    /// # Errors
    /// When the capacity does not allow it, or the journal waits for space on its members.
    pub(crate) fn claim_blocks(&self, new: u64) -> Result<Claim<'_>, VolumeError> {
        if self.members.full.is_awaited() {
            self.io.mark(Mark::WriteAwaitsSpace);
            return Err(VolumeError::NoSpace);
        }
        let reserved = self.room.reserved.get() + new;
        if new > 0 && self.tables.borrow().live.total() + reserved > self.allocator.borrow().capacity_blocks()
        {
            self.io.mark(Mark::WriteNoSpace);
            return Err(self.no_room());
        }
        self.room.reserved.set(reserved);
        Ok(Claim { reserved: &self.room.reserved, blocks: new })
    }

    /// The error for a request when reclaim has given up. Up to the capacity that should not happen while all members
    /// are there, and have space for what they have addresses for.
    pub(crate) fn refuse_for_room(&self) -> VolumeError {
        let all_there = self
            .members
            .ids()
            .all(|m| matches!(self.members.get(m).state, MemberState::Active | MemberState::Removed));
        let is_thin = self.members.full.refusals() > 0;
        if all_there
            && !is_thin
            && self.tables.borrow().live.total() <= self.allocator.borrow().capacity_blocks()
        {
            self.room.note_early_refusal();
        }
        self.no_room()
    }

    /// The error for a request when there is no room.
    fn no_room(&self) -> VolumeError {
        if self.members.any_active() { VolumeError::NoSpace } else { VolumeError::Failed }
    }

    /// Whether the members that take something new have room without this one: for what is stored, and for the pages
    /// of as many stripes and parts of volumes as there may be by then.
    pub(crate) fn fits_without(&self, member: MemberId) -> bool {
        let g = &self.geometry;
        let tables = self.tables.borrow();
        let pages = |chunks: u64| {
            let stripes = g.stripes_max(chunks).max(u64::from(self.next_id.get()));
            let maps = g.map_pages_max(chunks).max(u64::from(tables.map.pages_end()));
            1 + stripes.div_ceil(g.stripes_per_page() as u64) + maps
        };
        self.allocator.borrow().fits_without(member, tables.live.total(), pages)
    }

    /// Free chunks below which room is made.
    pub(crate) fn low_water(&self) -> u64 {
        let (allocator, per) = (self.allocator.borrow(), self.geometry.homes_per_stripe() as u64);
        allocator.reserve_chunks() + (3 * per).max(allocator.all_chunks() / 16)
    }
}
