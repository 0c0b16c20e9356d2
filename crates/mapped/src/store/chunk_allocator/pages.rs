//! The page slots of the members.

use std::cmp::Reverse;

use crate::store::chunk_allocator::ChunkAllocator;
use crate::store::dirty_pages::PageCopy;
use crate::store::page_slots::PageSlots;
use sinew_core::ids::MemberId;

impl ChunkAllocator {
    /// Marks a page slot found in use at recovery.
    pub(crate) fn claim_page(&mut self, copy: PageCopy) {
        self.members[usize::from(copy.member.0)].page_slots.claim(copy.slot);
    }

    /// Page slots of a member that are not free.
    pub(crate) fn page_slots_taken(&self, member: MemberId) -> u32 {
        self.members[usize::from(member.0)].page_slots.taken()
    }

    /// The reach that a member is to state before this number of pages is placed on it; none if it states enough, or takes no pages.
    pub(crate) fn reach_wanted(&self, member: MemberId, pages: u32) -> Option<u32> {
        let member = &self.members[usize::from(member.0)];
        member.page_slots.reach_wanted(pages).filter(|_| member.usable)
    }

    /// Members on which this number of pages can be placed, or as many as they have slots for.
    pub(crate) fn members_with_page_room(&self, pages: u32) -> usize {
        let has_room = |slots: &PageSlots| slots.room() > 0 && slots.reach_wanted(pages).is_none();
        self.members.iter().filter(|m| m.usable && has_room(&m.page_slots)).count()
    }

    /// A member states how far its pages reach, durably.
    pub(crate) fn set_reach(&mut self, member: MemberId, reach: u32) {
        self.members[usize::from(member.0)].page_slots.set_reach(reach);
    }

    /// Slots for the copies of one page, on distinct usable members, responsive ones and then those with most free slots
    /// first; as many as there can be, up to `copies`, but none if there could be more once members have stated a further reach.
    pub(crate) fn take_page_slots(
        &mut self,
        copies: usize,
        responsive: impl Fn(MemberId) -> bool,
    ) -> Vec<PageCopy> {
        let usable = (0..self.members.len()).filter(|&i| self.members[i].usable);
        let mut by_room: Vec<usize> =
            usable.clone().filter(|&i| self.members[i].page_slots.room() > 0).collect();
        if by_room.len() < copies && usable.clone().any(|i| self.members[i].page_slots.awaits_reach()) {
            return Vec::new();
        }
        let rank = |&i: &usize| (!responsive(MemberId(i as u8)), Reverse(self.members[i].page_slots.room()));
        by_room.sort_by_key(rank);
        by_room.truncate(copies);
        let copy = |i: usize| {
            let slot = self.members[i].page_slots.take().expect("there is room");
            PageCopy { member: MemberId(i as u8), slot }
        };
        by_room.into_iter().map(copy).collect()
    }

    /// Frees page slots whose page has been written elsewhere, durably.
    pub(crate) fn free_page_slots(&mut self, copies: impl IntoIterator<Item = PageCopy>) {
        for copy in copies {
            self.members[usize::from(copy.member.0)].page_slots.free(copy.slot);
        }
    }
}
