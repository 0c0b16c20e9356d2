//! The slots of all stripes: the block that each is for, and the checksum of its content.
//!
//! The slots of a stripe may be *absent*: then they are as the stripe's table page has them on the members, but for slots
//! that were written since, which are here. They have to be filled in before they are looked at.

use std::collections::BTreeSet;

use crate::store::run_map::{GROUP_INDICES, NO_VALUE, RunMap};
use crate::store::tables::residence::Residence;
use sinew_core::ids::{SlotNo, StripeId};
use sinew_core::mutation::{self, Mutation};
use sinew_format::model::mapped_geometry::MappedGeometry;

/// Bytes of a slot in a table page: its owner and its checksum.
const SLOT_BYTES: usize = 8;

/// Bytes of memory that the slots of a stripe take at most.
pub(in crate::store) fn stripe_bytes(geometry: &MappedGeometry) -> u64 {
    let of_slot = if geometry.checksums { SLOT_BYTES } else { SLOT_BYTES / 2 };
    u64::from(geometry.slots_per_stripe()) * of_slot as u64
}

/// The slots of all stripes.
pub(super) struct SlotTable {
    geometry: MappedGeometry,
    owners: RunMap,
    stripes: Vec<StripeSlots>,
    /// Stripes whose slots are in memory.
    present: usize,
    /// Pages that may have such stripes.
    pages: BTreeSet<u32>,
    /// Stripes that have memory for checksums.
    allocated: usize,
}

/// What is in memory of the slots of one stripe.
#[derive(Default)]
struct StripeSlots {
    residence: Residence,
    /// One for each slot, zero where none was set. Each stripe has memory of its own: the table of a large pool grows without
    /// being copied.
    checksums: Box<[u32]>,
}

impl SlotTable {
    pub(super) fn new(geometry: &MappedGeometry) -> SlotTable {
        SlotTable {
            geometry: *geometry,
            owners: RunMap::new(),
            stripes: Vec::new(),
            present: 0,
            pages: BTreeSet::new(),
            allocated: 0,
        }
    }

    /// Makes room for this many stripes.
    pub(super) fn grow(&mut self, stripes: usize) {
        self.stripes.resize_with(stripes, StripeSlots::default);
    }

    /// Stripes whose slots are in memory.
    pub(super) fn present(&self) -> usize {
        self.present
    }

    /// The number of pages that may have stripes whose slots are in memory.
    pub(super) fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// Of these pages, the first from this one on.
    pub(super) fn next_page(&self, page: u32) -> Option<u32> {
        self.pages.range(page..).next().copied()
    }

    /// Forgets a page whose stripes have no slots in memory any more.
    pub(super) fn forget_page(&mut self, page: u32) {
        self.pages.remove(&page);
    }

    pub(super) fn is_absent(&self, stripe: StripeId) -> bool {
        self.stripes.get(stripe.0 as usize).is_some_and(|slots| slots.residence.is_absent())
    }

    /// Whether slots of a stripe have been absent since the shard was opened.
    pub(super) fn is_unchecked(&self, stripe: StripeId) -> bool {
        self.residence(stripe) == Residence::Unchecked
    }

    pub(super) fn is_present(&self, stripe: StripeId) -> bool {
        self.residence(stripe) == Residence::Present
    }

    /// Begins a stripe, which has no owners yet.
    pub(super) fn open(&mut self, stripe: StripeId) {
        self.owners.clear_run(self.first(stripe), self.geometry.slots_per_stripe(), |_, _, _| ());
        self.set_residence(stripe, Residence::Present);
        self.allocate(stripe);
    }

    /// A stripe, of which nothing is known yet, has slots on the members.
    pub(super) fn leave_out(&mut self, stripe: StripeId) {
        self.set_residence(stripe, Residence::Unchecked);
    }

    /// Forgets the slots of a stripe that is not used any more.
    pub(super) fn release(&mut self, stripe: StripeId) {
        self.empty(stripe, Residence::Unused);
    }

    /// Takes the slots of a stripe out of memory; its page has them.
    pub(super) fn evict(&mut self, stripe: StripeId) {
        if self.residence(stripe) == Residence::Present {
            self.empty(stripe, Residence::Absent);
        }
    }

    /// Gives consecutive slots of a stripe to consecutive blocks, with these checksums of their content.
    pub(super) fn own(&mut self, first: SlotNo, first_block: u32, checksums: &[u32]) {
        let (stripe, slot) = self.split(first);
        if self.residence(stripe) == Residence::Unused {
            self.set_residence(stripe, Residence::Present);
        }
        self.owners.set_run(first.0, checksums.len() as u32, first_block);
        self.allocate(stripe);
        if self.geometry.checksums {
            self.stripes[stripe.0 as usize].checksums[slot..][..checksums.len()].copy_from_slice(checksums);
        }
    }

    /// The block that a slot was written for.
    ///
    /// # Panics
    /// When the slots of the stripe are absent.
    pub(super) fn owner(&self, slot: SlotNo) -> Option<u32> {
        let (stripe, _) = self.split(slot);
        assert!(!self.is_absent(stripe), "slots of stripe {} are not in memory", stripe.0);
        self.owners.get(slot.0)
    }

    /// The checksum of a slot that has an owner, in a pool with checksums.
    pub(super) fn checksum(&self, slot: SlotNo) -> Option<u32> {
        let (stripe, slot) = self.split(slot);
        self.stripes.get(stripe.0 as usize)?.checksums.get(slot).copied()
    }

    /// The owners of the slots of a stripe: those in memory, and those in its record in the table page.
    pub(super) fn all_owners(&self, stripe: StripeId, record: &[u8]) -> impl Iterator<Item = (SlotNo, u32)> {
        let slots = (self.first(stripe)..).map(SlotNo).zip(entries(record));
        slots.filter_map(|(slot, (owner, _))| Some((slot, self.owners.get(slot.0).or(owner)?)))
    }

    /// Fills in the absent slots of a stripe from its record in the table page. A slot is written once in the life of a stripe:
    /// one that was written since has no owner there.
    pub(super) fn fill(&mut self, stripe: StripeId, record: &[u8]) {
        if !self.is_absent(stripe) {
            return;
        }
        self.allocate(stripe);
        let first = self.first(stripe);
        let checksums = &mut self.stripes[stripe.0 as usize].checksums;
        let groups = record.as_chunks::<{ GROUP_INDICES as usize * SLOT_BYTES }>().0;
        for (at, group) in (0..).step_by(GROUP_INDICES as usize).zip(groups) {
            let mut owners = self.owners.group(first + at);
            for (i, (owner, checksum)) in entries(group).enumerate() {
                let Some(owner) = owner else { continue };
                owners[i] = owner;
                if let Some(place) = checksums.get_mut(at as usize + i) {
                    *place = checksum;
                }
            }
            self.owners.set_group(first + at, owners);
        }
        self.set_residence(stripe, Residence::Present);
    }

    /// Writes the slots of a stripe into its record of a table page.
    pub(super) fn encode(&self, stripe: StripeId, record: &mut [u8]) {
        assert!(
            !self.is_absent(stripe) || mutation::on(Mutation::EncodeAbsent),
            "absent slots to be written"
        );
        let checksums = self.stripes.get(stripe.0 as usize).map_or(&[][..], |slots| &slots.checksums);
        let mut checksums = checksums.iter().copied().chain(std::iter::repeat(0));
        let groups = record.chunks_exact_mut(GROUP_INDICES as usize * SLOT_BYTES);
        for (group, first) in groups.zip((self.first(stripe)..).step_by(GROUP_INDICES as usize)) {
            let entries = group.as_chunks_mut::<SLOT_BYTES>().0.iter_mut();
            for ((entry, owner), checksum) in entries.zip(self.owners.group(first)).zip(&mut checksums) {
                let checksum = if owner == NO_VALUE { 0 } else { checksum };
                *entry = (u64::from(checksum) << 32 | u64::from(owner)).to_le_bytes();
            }
        }
    }

    /// Brings the slots of stripes into the processor's cache.
    pub(super) fn warm(&self, first: StripeId, stripes: u32) {
        self.owners.warm(self.first(first), stripes * self.geometry.slots_per_stripe());
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.owners.memory_bytes()
            + self.stripes.capacity() * size_of::<StripeSlots>()
            + self.allocated * self.geometry.slots_per_stripe() as usize * size_of::<u32>()
    }

    fn residence(&self, stripe: StripeId) -> Residence {
        self.stripes[stripe.0 as usize].residence
    }

    fn set_residence(&mut self, stripe: StripeId, residence: Residence) {
        let before = std::mem::replace(&mut self.stripes[stripe.0 as usize].residence, residence);
        self.present -= usize::from(before == Residence::Present);
        if residence == Residence::Present {
            self.present += 1;
            self.pages.insert(self.geometry.stripe_page(stripe));
        }
    }

    fn empty(&mut self, stripe: StripeId, residence: Residence) {
        self.owners.clear_run(self.first(stripe), self.geometry.slots_per_stripe(), |_, _, _| ());
        self.set_residence(stripe, residence);
        let checksums = std::mem::take(&mut self.stripes[stripe.0 as usize].checksums);
        self.allocated -= usize::from(!checksums.is_empty());
    }

    fn allocate(&mut self, stripe: StripeId) {
        let checksums = &mut self.stripes[stripe.0 as usize].checksums;
        if self.geometry.checksums && checksums.is_empty() {
            *checksums = vec![0; self.geometry.slots_per_stripe() as usize].into_boxed_slice();
            self.allocated += 1;
        }
    }

    fn first(&self, stripe: StripeId) -> u32 {
        stripe.0 * self.geometry.slots_per_stripe()
    }

    fn split(&self, slot: SlotNo) -> (StripeId, usize) {
        (
            StripeId(slot.0 / self.geometry.slots_per_stripe()),
            (slot.0 % self.geometry.slots_per_stripe()) as usize,
        )
    }
}

/// The owners and checksums of the slots of a stripe in its record of a table page, which begins with them.
pub(super) fn entries(record: &[u8]) -> impl Iterator<Item = (Option<u32>, u32)> {
    record.as_chunks::<SLOT_BYTES>().0.iter().map(|entry| {
        let entry = u64::from_le_bytes(*entry);
        let owner = entry as u32;
        ((owner != NO_VALUE).then_some(owner), (entry >> 32) as u32)
    })
}

#[cfg(test)]
mod tests;
