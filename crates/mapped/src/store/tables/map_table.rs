//! The block map: the slot of each block of the shard.
//!
//! A map page may be *absent*: then its entries are as the page on the members has them. It has to be filled in before an entry of
//! it is looked at, or changed.

use std::collections::BTreeSet;

use crate::store::run_map::{GROUP_INDICES, NO_VALUE, RunMap};
use crate::store::tables::residence::Residence;
use sinew_format::model::mapped_geometry::{PAGE_HEADER_BYTES, PAGE_INDICES};

/// The map, from blocks to slots.
#[derive(Default)]
pub(crate) struct MapTable {
    entries: RunMap,
    /// By page.
    residence: Vec<Residence>,
    /// Pages of volumes that are in memory.
    present: BTreeSet<u32>,
}

impl MapTable {
    /// Whether the entries of a page have to be filled in first.
    pub(crate) fn is_absent(&self, page: u32) -> bool {
        self.residence(page).is_absent()
    }

    /// Whether a page has been absent since the shard was opened.
    pub(super) fn is_unchecked(&self, page: u32) -> bool {
        self.residence(page) == Residence::Unchecked
    }

    /// The slot of a block.
    ///
    /// # Panics
    /// When its page is absent, as all that look at entries or change them.
    pub(super) fn get(&self, block: u32) -> Option<u32> {
        let slot = self.entries.get(block);
        if slot.is_none() {
            self.assert_present(block / PAGE_INDICES);
        }
        slot
    }

    /// The longest stretch of at most `max` blocks of a page without slots, or with consecutive ones, the first of which it gives.
    pub(in crate::store) fn get_run(&self, block: u32, max: u32) -> (Option<u32>, u32) {
        self.assert_present(block / PAGE_INDICES);
        self.entries.get_run(block, max)
    }

    /// Puts a block into a slot, or into none; gives the slot where it was.
    pub(super) fn set(&mut self, block: u32, slot: Option<u32>) -> Option<u32> {
        self.assert_present(block / PAGE_INDICES);
        self.entries.set(block, slot)
    }

    /// Puts consecutive blocks of a page into consecutive slots.
    pub(super) fn set_run(&mut self, block: u32, count: u32, first_slot: u32) {
        self.assert_present(block / PAGE_INDICES);
        self.entries.set_run(block, count, first_slot);
    }

    /// Takes consecutive blocks of a page out of their slots; tells each stretch as [`RunMap::clear_run`].
    pub(super) fn clear_run(&mut self, block: u32, count: u32, removed: impl FnMut(u32, u32, u32)) {
        self.assert_present(block / PAGE_INDICES);
        self.entries.clear_run(block, count, removed);
    }

    /// The blocks of a page that have a slot, and their slots, in order.
    pub(crate) fn page_entries(&self, page: u32) -> impl Iterator<Item = (u32, u32)> {
        self.assert_present(page);
        self.entries.page_entries(page)
    }

    /// The slots of all blocks of a page, group by group.
    pub(super) fn page_groups(&self, page: u32) -> impl Iterator<Item = [u32; GROUP_INDICES as usize]> {
        self.assert_present(page);
        self.entries.warm(page * PAGE_INDICES, PAGE_INDICES);
        self.entries.page_groups(page)
    }

    /// The pages that may have entries are those before this one.
    pub(crate) fn pages_end(&self) -> u32 {
        self.entries.pages_end().max(self.residence.len() as u32)
    }

    /// The pages whose entries are in memory.
    pub(crate) fn pages_in_memory(&self) -> impl Iterator<Item = u32> {
        (0..self.pages_end()).filter(|&page| !self.is_absent(page))
    }

    /// A page, which is in memory, becomes that of a volume.
    pub(super) fn own(&mut self, page: u32) {
        self.assert_present(page);
        self.set_residence(page, Residence::Present);
    }

    /// Forgets a page that is no volume's any more.
    pub(super) fn drop_page(&mut self, page: u32) {
        self.entries.drop_page(page);
        self.set_residence(page, Residence::Unused);
    }

    /// The entries of a page of a volume, of which nothing is known yet, stay on the members.
    pub(super) fn leave_out(&mut self, page: u32) {
        self.set_residence(page, Residence::Unchecked);
    }

    /// Takes the entries of a page of a volume out of memory; the members have them.
    pub(super) fn evict(&mut self, page: u32) {
        self.entries.drop_page(page);
        self.set_residence(page, Residence::Absent);
    }

    /// Takes the entries of a page of a volume in, group by group; [`NO_VALUE`] is none.
    pub(super) fn fill(&mut self, page: u32, groups: impl Iterator<Item = [u32; GROUP_INDICES as usize]>) {
        self.entries.fill_page(page, groups);
        self.set_residence(page, Residence::Present);
    }

    /// The number of pages of volumes that are in memory.
    pub(super) fn page_count(&self) -> usize {
        self.present.len()
    }

    /// Of these, the first from this one on.
    pub(super) fn next_page(&self, page: u32) -> Option<u32> {
        self.present.range(page..).next().copied()
    }

    /// Bytes of memory that the entries take.
    pub(super) fn entry_bytes(&self) -> usize {
        self.entries.used_bytes()
    }

    /// Bytes of heap memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes() + self.residence.capacity()
    }

    fn residence(&self, page: u32) -> Residence {
        self.residence.get(page as usize).copied().unwrap_or_default()
    }

    fn set_residence(&mut self, page: u32, residence: Residence) {
        if self.residence.len() <= page as usize {
            self.residence.resize(page as usize + 1, Residence::default());
        }
        self.residence[page as usize] = residence;
        match residence {
            Residence::Present => self.present.insert(page),
            _ => self.present.remove(&page),
        };
    }

    fn assert_present(&self, page: u32) {
        assert!(!self.is_absent(page), "map page {page} is not in memory");
    }
}

/// The slots of the blocks of a map page, as a member has it, group by group; those without are [`NO_VALUE`].
pub(super) fn map_groups(bytes: &[u8]) -> impl Iterator<Item = [u32; GROUP_INDICES as usize]> {
    let words = bytes[PAGE_HEADER_BYTES..].as_chunks().0;
    let groups = words.as_chunks::<{ GROUP_INDICES as usize }>().0.iter();
    // On the members, 0 is no slot.
    groups.map(|group| group.map(|word| u32::from_le_bytes(word).wrapping_sub(1)))
}

/// The blocks of a map page, as a member has it, that have a slot, and their slots.
pub(super) fn map_entries(page: u32, bytes: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    let entries = (page * PAGE_INDICES..).zip(map_groups(bytes).flatten());
    entries.filter(|&(_, slot)| slot != NO_VALUE)
}
