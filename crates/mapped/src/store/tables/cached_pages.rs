//! Which parts of table pages are in memory: the slots of pages of the stripe table, and the entries of map pages.

use crate::store::tables::slot_table::stripe_bytes;
use crate::store::tables::{StripeState, Tables, map_table};
use sinew_core::ids::{ShardBlock, SlotNo, StripeId};
use sinew_format::model::mapped_geometry::{PAGE_HEADER_BYTES, map_page};
use sinew_format::table_page::PageId;

impl Tables {
    /// Bytes of memory of what may be absent.
    pub(crate) fn cached_bytes(&self) -> u64 {
        self.slots.present() as u64 * stripe_bytes(&self.geometry) + self.map.entry_bytes() as u64
    }

    /// Whether the slots of a stripe have to be filled in before they are looked at.
    pub(crate) fn slots_are_absent(&self, stripe: StripeId) -> bool {
        self.slots.is_absent(stripe)
    }

    /// The number of pages in memory.
    pub(in crate::store) fn cached_pages(&self) -> usize {
        self.slots.page_count() + self.map.page_count()
    }

    /// The next page in memory from this one on, around the end.
    pub(in crate::store) fn next_cached_page(&self, page: PageId) -> Option<PageId> {
        let stripes = |from| self.slots.next_page(from).map(PageId::Stripes);
        let map = |from| self.map.next_page(from).map(PageId::Map);
        let from = match page {
            PageId::Shard => None,
            PageId::Stripes(number) => stripes(number).or(map(0)),
            PageId::Map(number) => map(number),
        };
        from.or_else(|| stripes(0)).or_else(|| map(0))
    }

    /// Whether anything of a page is absent.
    pub(crate) fn is_absent(&self, page: PageId) -> bool {
        match page {
            PageId::Shard => false,
            PageId::Stripes(number) => {
                self.stripes_of_page(number).any(|stripe| self.slots.is_absent(stripe))
            }
            PageId::Map(number) => self.map.is_absent(number),
        }
    }

    /// Whether a stripe of a page was freed, and reads of it may be under way, which are yet to be verified. Its slots are not on
    /// the members any more.
    pub(in crate::store) fn has_freed_slots(&self, page: PageId) -> bool {
        let PageId::Stripes(number) = page else { return false };
        let is_freed = |stripe| self.stripe(stripe).state == StripeState::Free;
        self.stripes_of_page(number).any(|stripe| is_freed(stripe) && self.slots.is_present(stripe))
    }

    /// Takes a page out of memory. The members have it.
    pub(in crate::store) fn evict(&mut self, page: PageId) {
        match page {
            PageId::Shard => {}
            PageId::Stripes(number) => {
                self.stripes_of_page(number).for_each(|stripe| self.slots.evict(stripe));
                self.slots.forget_page(number);
            }
            PageId::Map(number) => self.map.evict(number),
        }
    }

    /// Forgets the slots of a stripe that was freed, and that no request reads any more.
    pub(crate) fn release_slots(&mut self, stripe: StripeId) {
        self.slots.release(stripe);
    }

    /// Fills in what is absent of a page from the page as a member has it; false if it lacks some, or contradicts other tables.
    pub(crate) fn fill(&mut self, page: PageId, bytes: &[u8]) -> bool {
        match page {
            PageId::Shard => {}
            PageId::Stripes(number) => self.fill_slots(number, bytes),
            PageId::Map(number) => self.fill_map(number, bytes),
        }
        !self.is_absent(page)
    }

    pub(super) fn fill_slots(&mut self, page: u32, bytes: &[u8]) {
        let records = bytes[PAGE_HEADER_BYTES..].chunks_exact(self.geometry.stripe_record_bytes());
        let head = self.geometry.stripe_head_bytes();
        for (stripe, record) in self.stripes_of_page(page).zip(records) {
            let is_there = record[0] != StripeState::Free as u8;
            if is_there && self.agrees_with_map(stripe, &record[head..]) {
                self.slots.fill(stripe, &record[head..]);
            }
        }
    }

    /// Whether all blocks that the map has in a stripe are those that its slots were written for. An opening looks at slots only if
    /// there is memory for them, so this is found when others are read first. Map pages that are absent then are compared when they
    /// are read.
    fn agrees_with_map(&self, stripe: StripeId, record: &[u8]) -> bool {
        if !self.is_complete || !self.slots.is_unchecked(stripe) {
            return true;
        }
        let (mut live, mut all_known) = (0, true);
        for (slot, owner) in self.slots.all_owners(stripe, record) {
            match self.is_known(ShardBlock(owner)) {
                true => live += u32::from(self.lookup(ShardBlock(owner)) == Some(slot)),
                false => all_known = false,
            }
        }
        live == self.stripe(stripe).live || !all_known && live < self.stripe(stripe).live
    }

    fn fill_map(&mut self, page: u32, bytes: &[u8]) {
        if self.map.is_absent(page) && self.agrees_with_stripes(page, bytes) {
            self.map.fill(page, map_table::map_groups(bytes));
        }
    }

    /// Whether the stripes, as far as they are in memory, have the blocks of a page where this one says. While the journal is
    /// replayed, pages are of different age.
    fn agrees_with_stripes(&self, page: u32, bytes: &[u8]) -> bool {
        let agrees = |(block, slot)| self.can_be_in(ShardBlock(block), SlotNo(slot));
        !self.is_complete || !self.map.is_unchecked(page) || map_table::map_entries(page, bytes).all(agrees)
    }

    /// Whether the entry of a block is in memory.
    pub(crate) fn is_known(&self, block: ShardBlock) -> bool {
        !self.map.is_absent(map_page(block))
    }

    fn stripes_of_page(&self, page: u32) -> impl Iterator<Item = StripeId> + use<> {
        let per = self.geometry.stripes_per_page() as u32;
        (page * per..((page + 1) * per).min(self.stripe_count())).map(StripeId)
    }
}
