//! Capacity: when a request is refused for lack of room, and below how many free chunks room is made.

use crate::marks::Mark;
use crate::store::Store;
use crate::store::room::Claim;
use sinew_core::ids::{MemberId, VolumeId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_capacity::pinned_cost;
use sinew_format::model::stripe_form::StripeClass;

/// A pool with chunks for as many stripes is large: some more open ones take hardly any of its room.
const STRIPES_OF_LARGE_POOL: u64 = 64;

impl<I: Io> Store<I> {
    /// Claims room for blocks of a class of volumes that are not stored yet, until the request ends.
    ///
    /// # Errors
    /// When the capacity does not allow it, or the journal waits for space on its members.
    pub(crate) fn claim_blocks(&self, class: StripeClass, new: u64) -> Result<Claim<'_>, VolumeError> {
        if self.members.full.is_awaited() {
            self.io.mark(Mark::WriteAwaitsSpace);
            return Err(VolumeError::NoSpace);
        }
        let new = self.capacity_taken_by(class, new);
        if new > 0 && self.capacity_taken() + self.room.reserved() + new > self.capacity() {
            self.io.mark(Mark::WriteNoSpace);
            return Err(self.no_room());
        }
        Ok(self.room.claim(new))
    }

    /// A claim of no blocks, for a write that stores again what is stored already.
    pub(crate) fn claim_nothing(&self) -> Claim<'_> {
        self.room.claim(0)
    }

    /// Blocks that clients may store if all are under the pool's protection.
    fn capacity(&self) -> u64 {
        self.allocator.borrow().capacity_blocks().saturating_sub(self.capacity_kept())
    }

    /// Whether what is kept has room beside what is taken.
    fn fits_kept(&self) -> bool {
        let taken = self.capacity_taken() + self.room.reserved();
        taken + self.capacity_kept() <= self.allocator.borrow().capacity_blocks()
    }

    /// Keeps room for the move of a volume's blocks to stripes of a class; false when there is too little.
    pub(crate) fn reserve_move(&self, volume: VolumeId, class: StripeClass) -> bool {
        // No earlier move is left unfinished, so all its blocks are in stripes of the other class.
        let blocks = self.tables.borrow().live_blocks(volume);
        self.prepare_move(volume, class, blocks);
        let fits = class == StripeClass::Pool || self.fits_kept();
        if !fits {
            self.end_move(volume);
        }
        fits
    }

    /// Blocks of the capacity that are taken. A block under parity takes one, one that stays mirrored more.
    fn capacity_taken(&self) -> u64 {
        let (all, pinned) = (self.tables.borrow().live.total(), self.tables.borrow().live.pinned());
        all - pinned + self.capacity_taken_by(StripeClass::Pinned, pinned)
    }

    /// Blocks of the capacity that blocks of a class of volumes take.
    pub(super) fn capacity_taken_by(&self, class: StripeClass, blocks: u64) -> u64 {
        match class {
            StripeClass::Pool => blocks,
            StripeClass::Pinned if mutation::on(Mutation::CountMirrorsAsParity) => blocks,
            StripeClass::Pinned => pinned_cost(&self.geometry, blocks),
        }
    }

    /// Blocks that clients may store in all: those that they store, and for the rest of the capacity as many as it has room
    /// for under the pool's protection.
    pub(crate) fn blocks_storable(&self) -> u64 {
        let extra = self.capacity_taken() - self.tables.borrow().live.total();
        let capacity = self.allocator.borrow().capacity_blocks();
        capacity.saturating_sub(self.capacity_kept_for_stored() + extra)
    }

    /// The error for a request when reclaim has given up. Up to the capacity that should not happen while all members
    /// are there, and have space for what they have addresses for.
    pub(crate) fn refuse_for_room(&self) -> VolumeError {
        let all_there = self
            .members
            .ids()
            .all(|m| matches!(self.members.get(m).state, MemberState::Active | MemberState::Removed));
        let is_thin = self.members.full.refusals() > 0;
        if all_there && !is_thin && self.capacity_taken() <= self.capacity() {
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
        let blocks = self.capacity_taken() + self.room.reserved() + self.capacity_kept();
        self.allocator.borrow().fits_without(member, blocks, pages)
    }

    /// Whether there is so much room, and physical space, that some more stripes may be open, whose chunks are of no use to large
    /// writes.
    pub(crate) fn has_plenty_of_room(&self) -> bool {
        let allocator = self.allocator.borrow();
        let is_large =
            allocator.all_chunks() >= STRIPES_OF_LARGE_POOL * self.geometry.homes_per_stripe() as u64;
        is_large && allocator.free_chunks_unspared() >= self.low_water() && !self.is_low_on_space()
    }

    /// Free chunks below which room is made.
    pub(crate) fn low_water(&self) -> u64 {
        let (allocator, per) = (self.allocator.borrow(), self.geometry.homes_per_stripe() as u64);
        allocator.reserve_chunks() + (3 * per).max(allocator.all_chunks() / 16)
    }
}
