//! The page slots of one member: which of them are free, and how far pages reach.
//!
//! An opening has to find the pages of a shard on each member. In pools whose members state the reach of their page areas, pages are
//! placed below it only, and it is raised, durably, before they need more slots. So an opening reads what was in use at some time,
//! and not all that the member has room for.

use crate::store::free_set::FreeSet;
use sinew_format::page_reach::REACH_SLOTS;

/// Slots by which a reach grows at least. Otherwise it grows by a quarter.
const GROWTH_MIN: u32 = 16;

/// The page slots of one member.
pub(super) struct PageSlots {
    free: FreeSet,
    /// Slots for pages.
    count: u32,
    /// Pages are placed in slots below this one only.
    reach: u32,
    /// The end of the area.
    end: u32,
    /// Members of this pool state the reach.
    states_reach: bool,
    /// The member states it. Nothing is placed on it before.
    is_stated: bool,
}

impl PageSlots {
    /// The slots of a member without pages, of which no reach is known.
    pub(super) fn new(slots: u32, states_reach: bool) -> PageSlots {
        let mut free = FreeSet::all(slots);
        let first = if states_reach { REACH_SLOTS.min(slots) } else { 0 };
        for slot in 0..first {
            free.remove(slot);
        }
        let reach = if states_reach { first } else { slots };
        PageSlots { free, count: slots - first, reach, end: slots, states_reach, is_stated: !states_reach }
    }

    /// Slots of the area, whether they are for pages or not.
    pub(super) fn end(&self) -> u32 {
        self.end
    }

    /// Slots for pages.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Slots with pages.
    pub(super) fn taken(&self) -> u32 {
        self.count - self.free.count()
    }

    /// Free slots that may be taken now.
    pub(super) fn room(&self) -> u32 {
        // All slots beyond the reach are free.
        if self.is_stated { self.free.count() - (self.end - self.reach) } else { 0 }
    }

    /// Whether there is no room although there are free slots.
    pub(super) fn awaits_reach(&self) -> bool {
        self.room() == 0 && self.free.count() > 0
    }

    /// The reach that the member is to state before this number of pages is placed on it; none if it states enough, or if all slots are
    /// within it.
    pub(super) fn reach_wanted(&self, pages: u32) -> Option<u32> {
        let free = self.free.count() - (self.end - self.reach);
        let missing = pages.saturating_sub(free);
        if missing == 0 || self.reach == self.end {
            return (!self.is_stated).then_some(self.reach);
        }
        let growth = missing.max(self.reach / 4).max(GROWTH_MIN);
        Some(self.reach.saturating_add(growth).min(self.end))
    }

    /// The member states this reach, durably.
    pub(super) fn set_reach(&mut self, reach: u32) {
        self.reach = self.reach.max(reach.min(self.end));
        self.is_stated = true;
    }

    /// The member takes no part for a while: what it states is not known after that.
    pub(super) fn forget_reach(&mut self) {
        self.is_stated = !self.states_reach;
    }

    /// Marks a slot found in use at recovery.
    pub(super) fn claim(&mut self, slot: u32) {
        self.free.remove(slot);
        self.reach = self.reach.max(slot + 1);
    }

    /// Takes a free slot, if there is room.
    pub(super) fn take(&mut self) -> Option<u32> {
        (self.room() > 0).then(|| self.free.take_below(self.reach)).flatten()
    }

    /// Frees a slot.
    pub(super) fn free(&mut self, slot: u32) {
        self.free.insert(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_placed_below_what_the_member_states() {
        let mut slots = PageSlots::new(100, true);
        assert_eq!((slots.count(), slots.room(), slots.take()), (99, 0, None));
        assert_eq!(slots.reach_wanted(0), Some(REACH_SLOTS), "it states nothing yet");
        slots.set_reach(slots.reach_wanted(3).unwrap());
        let taken: Vec<u32> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(taken, (1..17).collect::<Vec<_>>());
        assert!(slots.awaits_reach());
        slots.free(4);
        assert_eq!((slots.reach_wanted(1), slots.take()), (None, Some(4)));
        slots.set_reach(slots.reach_wanted(200).unwrap());
        assert_eq!((slots.room(), slots.reach_wanted(200)), (83, None), "all of it");
        assert_eq!(std::iter::from_fn(|| slots.take()).count(), 83);
        assert!(!slots.awaits_reach());
        slots.free(99);
        slots.forget_reach();
        assert_eq!((slots.take(), slots.reach_wanted(1)), (None, Some(100)));
    }

    #[test]
    fn what_an_opening_finds_is_within_the_reach() {
        let mut slots = PageSlots::new(1000, true);
        slots.claim(40);
        assert_eq!((slots.taken(), slots.reach_wanted(10)), (1, Some(41)));
        slots.set_reach(41);
        assert_eq!((slots.room(), slots.reach_wanted(60)), (39, Some(62)));
    }

    #[test]
    fn members_of_earlier_versions_state_no_reach() {
        let mut slots = PageSlots::new(70, false);
        slots.forget_reach();
        assert_eq!((slots.count(), slots.room(), slots.reach_wanted(100)), (70, 70, None));
        assert_eq!(slots.take(), Some(0));
    }
}
