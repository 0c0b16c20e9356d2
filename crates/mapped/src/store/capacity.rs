//! Capacity: when a request is refused for lack of room, and below how many free chunks room is made.

use crate::marks::Mark;
use crate::store::Store;
use crate::store::room::Claim;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_format::model::config::MemberState;

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
        let reserved = self.room.reserved() + new;
        if new > 0 && self.tables.borrow().live.total() + reserved > self.allocator.borrow().capacity_blocks()
        {
            self.io.mark(Mark::WriteNoSpace);
            return Err(self.no_room());
        }
        Ok(self.room.claim(new))
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
        self.allocator.borrow().fits_without(member, tables.live.total() + self.room.reserved(), pages)
    }

    /// Free chunks below which room is made.
    pub(crate) fn low_water(&self) -> u64 {
        let (allocator, per) = (self.allocator.borrow(), self.geometry.homes_per_stripe() as u64);
        allocator.reserve_chunks() + (3 * per).max(allocator.all_chunks() / 16)
    }
}
