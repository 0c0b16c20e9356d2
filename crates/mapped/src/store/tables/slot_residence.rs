//! Which slots are in memory, by stripe and by table page.

use crate::store::tables::{StripeState, Tables};
use sinew_core::ids::StripeId;
use sinew_format::model::mapped_geometry::PAGE_HEADER_BYTES;

impl Tables {
    /// Bytes of memory that the slots of a stripe take at most.
    pub(crate) fn slot_bytes_of_stripe(&self) -> u64 {
        self.slots.stripe_bytes()
    }

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

    /// Takes the slots of a page out of memory. The members have them.
    pub(in crate::store) fn evict_slots(&mut self, page: u32) {
        for stripe in self.stripes_of_page(page) {
            match self.stripe(stripe).state {
                StripeState::Free => self.slots.release(stripe),
                _ => self.slots.evict(stripe),
            }
        }
        self.slots.forget_page(page);
    }

    /// Fills in the absent slots of a page from the page as a member has it; false if it lacks some.
    pub(in crate::store) fn fill_slots(&mut self, page: u32, bytes: &[u8]) -> bool {
        let records = bytes[PAGE_HEADER_BYTES..].chunks_exact(self.geometry.stripe_record_bytes());
        let head = self.geometry.stripe_head_bytes();
        for (stripe, record) in self.stripes_of_page(page).zip(records) {
            if record[0] != StripeState::Free as u8 {
                self.slots.fill(stripe, &record[head..]);
            }
        }
        !self.page_has_absent_slots(page)
    }

    fn stripes_of_page(&self, page: u32) -> impl Iterator<Item = StripeId> + use<> {
        let per = self.geometry.stripes_per_page() as u32;
        (page * per..((page + 1) * per).min(self.stripe_count())).map(StripeId)
    }
}
