//! Which slots are in memory, by stripe and by table page.

use crate::store::tables::{StripeState, Tables};
use sinew_core::ids::{ShardBlock, SlotNo, StripeId};
use sinew_format::model::mapped_geometry::PAGE_HEADER_BYTES;

impl Tables {
    /// Stripes whose slots are in memory.
    pub(crate) fn slots_present(&self) -> usize {
        self.slots.present()
    }

    /// Whether the slots of a stripe have to be filled in before they are looked at.
    pub(crate) fn slots_are_absent(&self, stripe: StripeId) -> bool {
        self.slots.is_absent(stripe)
    }

    /// The number of pages with slots in memory.
    pub(in crate::store) fn slot_pages(&self) -> usize {
        self.slots.page_count()
    }

    /// The next page with slots in memory from this one on, around the end.
    pub(in crate::store) fn next_slot_page(&self, page: u32) -> Option<u32> {
        self.slots.next_page(page)
    }

    /// Whether any stripe of a page lacks its slots.
    pub(crate) fn page_has_absent_slots(&self, page: u32) -> bool {
        self.stripes_of_page(page).any(|stripe| self.slots.is_absent(stripe))
    }

    /// Whether a stripe of a page was freed, and reads of it may be under way, which are yet to be verified. Its slots are not on
    /// the members any more.
    pub(in crate::store) fn page_has_freed_slots(&self, page: u32) -> bool {
        let is_freed = |stripe| self.stripe(stripe).state == StripeState::Free;
        self.stripes_of_page(page).any(|stripe| is_freed(stripe) && self.slots.is_present(stripe))
    }

    /// Takes the slots of a page out of memory. The members have them.
    pub(in crate::store) fn evict_slots(&mut self, page: u32) {
        self.stripes_of_page(page).for_each(|stripe| self.slots.evict(stripe));
        self.slots.forget_page(page);
    }

    /// Forgets the slots of a stripe that was freed, and that no request reads any more.
    pub(crate) fn release_slots(&mut self, stripe: StripeId) {
        self.slots.release(stripe);
    }

    /// Fills in the absent slots of a page from the page as a member has it; false if it lacks some, or contradicts the map.
    pub(crate) fn fill_slots(&mut self, page: u32, bytes: &[u8]) -> bool {
        let records = bytes[PAGE_HEADER_BYTES..].chunks_exact(self.geometry.stripe_record_bytes());
        let head = self.geometry.stripe_head_bytes();
        for (stripe, record) in self.stripes_of_page(page).zip(records) {
            let is_there = record[0] != StripeState::Free as u8;
            if is_there && self.agrees_with_map(stripe, &record[head..]) {
                self.slots.fill(stripe, &record[head..]);
            }
        }
        !self.page_has_absent_slots(page)
    }

    /// Whether all blocks that the map has in a stripe are those that its slots were written for. An opening looks at slots only if
    /// there is memory for them, so this is found when others are read first.
    fn agrees_with_map(&self, stripe: StripeId, record: &[u8]) -> bool {
        if !self.counting || !self.slots.is_unchecked(stripe) {
            return true;
        }
        let is_live = |&(slot, owner): &(SlotNo, u32)| self.lookup(ShardBlock(owner)) == Some(slot);
        let live = self.slots.all_owners(stripe, record).filter(is_live).count();
        live == usize::from(self.stripe(stripe).live)
    }

    fn stripes_of_page(&self, page: u32) -> impl Iterator<Item = StripeId> + use<> {
        let per = self.geometry.stripes_per_page() as u32;
        (page * per..((page + 1) * per).min(self.stripe_count())).map(StripeId)
    }
}
