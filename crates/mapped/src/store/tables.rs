//! The shard's tables in memory: the block map, the stripes and their homes, the slots' owners and checksums.
//!
//! Everything changes through [`Tables::apply`], one [`Record`] at a time, in journal order: at run time after the
//! record is in the journal, and again at replay. A page that already contains a record (its LSN says so) is not touched
//! by it, which makes replay over pages written at different times exact.
//!
//! The map alone decides which slot of a block is live. Owners only say where to look; dead slots keep theirs.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::dirty_pages::Pages;
use crate::store::live_counts::LiveCounts;
use crate::store::misplaced_counts::{MisplacedCount, MisplacedCounts};
use crate::store::run_map::GROUP_INDICES;
use crate::store::tables::map_table::MapTable;
use crate::store::tables::slot_table::SlotTable;
use crate::store::tables::stripe_heads::{FREE, StripeHeads};
pub(crate) use crate::store::tables::stripe_heads::{Stripe, StripeState};
use sinew_core::ids::{ChunkAddr, Lsn, MemberId, ShardBlock, SlotNo, StripeId, VolumeId};
use sinew_format::codec::DecodeError;
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::{
    CHUNK_BLOCKS, MappedGeometry, PAGE_HEADER_BYTES, PAGE_INDICES, map_page,
};
use sinew_format::model::stripe_form::StripeClass;
use sinew_format::record_check::Check;
use sinew_format::table_page::{FIELDS_BYTES, PageId};

/// What applying records did besides changing the tables.
#[derive(Default, Debug)]
pub(crate) struct Effects {
    /// Chunks that nothing refers to any more.
    pub(super) released: Vec<ChunkAddr>,
    /// Stripes whose last live slot died.
    pub(crate) emptied: Vec<StripeId>,
    /// Stripe numbers that became unused.
    pub(crate) freed: Vec<StripeId>,
    /// Map pages that became unused.
    dropped: Vec<u32>,
}

/// All tables of one shard.
pub(crate) struct Tables {
    pub(crate) geometry: MappedGeometry,
    pub(crate) map: MapTable,
    slots: SlotTable,
    stripes: StripeHeads,
    map_pages: Vec<Option<(VolumeId, u32)>>,
    volume_pages: BTreeMap<VolumeId, Vec<Option<u32>>>,
    pub(crate) pages: Pages,
    /// Blocks the map holds.
    pub(crate) live: LiveCounts,
    /// Of each volume that moves to stripes of a class, its blocks in stripes of another.
    pub(crate) misplaced: MisplacedCounts,
    /// The next stripe of a scrub under way.
    pub(crate) scrub_next: Option<StripeId>,
    /// Loading and replay have ended, so the tables fit together.
    is_complete: bool,
    /// The blocks that contradict something, if the pool was opened as a last resort.
    unknown: Option<BTreeSet<ShardBlock>>,
}

impl Tables {
    pub(crate) fn new(geometry: MappedGeometry) -> Tables {
        Tables {
            geometry,
            map: MapTable::default(),
            slots: SlotTable::new(&geometry),
            stripes: StripeHeads::new(&geometry),
            map_pages: Vec::new(),
            volume_pages: BTreeMap::new(),
            pages: Pages::default(),
            live: LiveCounts::default(),
            misplaced: MisplacedCounts::default(),
            scrub_next: None,
            is_complete: false,
            unknown: None,
        }
    }

    /// Number of stripe numbers ever used.
    pub(crate) fn stripe_count(&self) -> u32 {
        self.stripes.count()
    }

    pub(crate) fn stripe(&self, id: StripeId) -> Stripe {
        self.stripes.get(id)
    }

    /// Whether a stripe is in use for blocks of another class than this.
    pub(crate) fn is_of_another_class(&self, id: StripeId, class: StripeClass) -> bool {
        self.stripe(id).state.form().is_some_and(|form| form.class() != class)
    }

    /// All homes of a stripe, in the order of `MappedGeometry::homes_per_stripe`.
    pub(crate) fn homes(&self, id: StripeId) -> &[Option<ChunkAddr>] {
        self.stripes.homes(id)
    }

    /// A home whose content is up to date.
    pub(crate) fn good_home(&self, id: StripeId, index: usize) -> Option<ChunkAddr> {
        if self.stripe(id).stale >> index & 1 == 1 { None } else { self.homes(id)[index] }
    }

    pub(crate) fn owner(&self, slot: SlotNo) -> Option<ShardBlock> {
        self.slots.owner(slot).map(ShardBlock)
    }

    /// The checksum of a slot that has an owner, in a pool with checksums.
    pub(crate) fn crc(&self, slot: SlotNo) -> Option<u32> {
        self.slots.checksum(slot)
    }

    pub(crate) fn lookup(&self, block: ShardBlock) -> Option<SlotNo> {
        self.map.get(block.0).map(SlotNo)
    }

    pub(crate) fn is_live(&self, slot: SlotNo) -> Option<ShardBlock> {
        self.owner(slot).filter(|&block| self.lookup(block) == Some(slot))
    }

    /// Whether a slot is one of a column that a stripe has.
    fn is_stored(&self, slot: SlotNo) -> bool {
        let (id, column, _) = self.geometry.place(slot);
        let stripe = self.stripe(id);
        stripe.state != StripeState::Free && column < usize::from(stripe.columns)
    }

    /// Whether a block can be in a slot, as far as the slot is in memory.
    fn can_be_in(&self, block: ShardBlock, slot: SlotNo) -> bool {
        let (id, ..) = self.geometry.place(slot);
        self.is_stored(slot) && (self.slots.is_absent(id) || self.owner(slot) == Some(block))
    }

    /// The map page of part `index` of a volume.
    pub(super) fn volume_page(&self, volume: VolumeId, index: u32) -> Option<u32> {
        *self.volume_pages.get(&volume)?.get(index as usize)?
    }

    /// Live blocks of a volume.
    pub(crate) fn live_blocks(&self, volume: VolumeId) -> u64 {
        let pages = self.volume_pages.get(&volume).into_iter().flatten().flatten();
        pages.map(|&page| self.live.of_page(page)).sum()
    }

    /// Live blocks of each volume.
    pub(crate) fn volume_blocks(&self) -> BTreeMap<VolumeId, u64> {
        self.volume_pages.keys().map(|&volume| (volume, self.live_blocks(volume))).collect()
    }

    /// The lowest unused map page not in `taken`.
    pub(super) fn free_map_page(&self, taken: impl Fn(u32) -> bool) -> u32 {
        let unused = |p: &u32| self.map_pages.get(*p as usize).is_none_or(Option::is_none) && !taken(*p);
        (0..).find(unused).expect("there is always a next number")
    }

    /// Heap bytes of the tables.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.map.memory_bytes() + self.slots.memory_bytes() + self.stripes.memory_bytes()) as u64
    }

    /// Applies one record of journal block `lsn`. The record is within the bounds of the pool.
    pub(crate) fn apply(&mut self, lsn: Lsn, record: &Record, effects: &mut Effects) {
        match record {
            Record::Write { block, slot, crcs } => self.apply_write(lsn, *block, *slot, crcs, effects),
            Record::Move { block, from, slot, crc } => {
                self.own_slots(lsn, *block, *slot, &[*crc]);
                if self.admits_map(lsn, *block) && self.lookup(*block) == *from {
                    self.remap(*block, *slot, effects);
                }
            }
            Record::Unmap { block, count } => {
                if self.admits_map(lsn, *block) {
                    self.unmap(*block, *count, effects);
                }
            }
            Record::Open { stripe, form, columns, homes } => {
                if self.admits_stripe(lsn, *stripe) {
                    self.grow_stripes(*stripe);
                    let (state, live) = (StripeState::of(*form), self.stripe(*stripe).live);
                    self.stripes.set(*stripe, Stripe { state, columns: *columns, live, stale: 0 });
                    self.stripes.homes_mut(*stripe).copy_from_slice(homes);
                    self.slots.open(*stripe);
                }
            }
            Record::Converted { stripe } => {
                if self.admits_stripe(lsn, *stripe) {
                    self.grow_stripes(*stripe);
                    self.drop_mirrors(*stripe, effects);
                }
            }
            Record::Free { stripe } => {
                if self.admits_stripe(lsn, *stripe) {
                    self.grow_stripes(*stripe);
                    effects.released.extend(self.homes(*stripe).iter().flatten());
                    self.stripes.homes_mut(*stripe).fill(None);
                    // At replay, a map page may be of a later time, when blocks are in it again.
                    self.stripes.set(*stripe, Stripe { live: self.stripe(*stripe).live, ..FREE });
                    // Its slots stay until its number may be used again: reads under way are yet to be verified.
                    effects.freed.push(*stripe);
                }
            }
            Record::Rehome { stripe, index, home } => {
                if self.admits_stripe(lsn, *stripe) {
                    self.grow_stripes(*stripe);
                    let old = self.stripes.homes_mut(*stripe)[usize::from(*index)].replace(*home);
                    effects.released.extend(old.filter(|old| old != home));
                    self.stripes.update(*stripe, |stripe| stripe.stale &= !(1 << *index));
                }
            }
            Record::Stale { stripe, index } => {
                if self.admits_stripe(lsn, *stripe) {
                    self.grow_stripes(*stripe);
                    self.stripes.update(*stripe, |stripe| stripe.stale |= 1 << *index);
                }
            }
            Record::StaleMember { member } => self.apply_stale_member(lsn, *member),
            Record::PageOwner { page, volume, index } => {
                if self.pages.admits(PageId::Map(*page), lsn) {
                    self.give_page(*page, *volume, *index);
                }
            }
            Record::PageDrop { page } => {
                if self.pages.admits(PageId::Map(*page), lsn) {
                    self.unmap(ShardBlock(*page * PAGE_INDICES), PAGE_INDICES, effects);
                    self.map.drop_page(*page);
                    self.take_page(*page);
                    effects.dropped.push(*page);
                }
            }
            Record::Void { .. } => {} // The records that it cancels were not applied.
            Record::Scrub { next } => {
                if self.pages.admits(PageId::Shard, lsn) {
                    self.scrub_next = *next;
                }
            }
        }
    }

    fn apply_write(
        &mut self,
        lsn: Lsn,
        block: ShardBlock,
        slot: SlotNo,
        crcs: &[u32],
        effects: &mut Effects,
    ) {
        self.own_slots(lsn, block, slot, crcs);
        if !self.admits_map(lsn, block) {
            return;
        }
        let count = crcs.len() as u32;
        if count == 1 {
            return self.remap(block, slot, effects);
        }
        self.unmap(block, count, effects);
        self.map.set_run(block.0, count, slot.0);
        self.count_stored(block, slot, count);
    }

    fn apply_stale_member(&mut self, lsn: Lsn, member: MemberId) {
        for stripe in (0..self.stripe_count()).map(StripeId) {
            if self.stripe(stripe).state == StripeState::Free
                || !self.homes(stripe).iter().flatten().any(|h| h.member == member)
            {
                continue;
            }
            if self.admits_stripe(lsn, stripe) {
                let on_member = |(i, home): (usize, &Option<ChunkAddr>)| {
                    home.filter(|h| h.member == member).map(|_| 1u128 << i)
                };
                let mask: u128 = self.homes(stripe).iter().enumerate().filter_map(on_member).sum();
                self.stripes.update(stripe, |stripe| stripe.stale |= mask);
            }
        }
    }

    fn own_slots(&mut self, lsn: Lsn, block: ShardBlock, slot: SlotNo, crcs: &[u32]) {
        let (stripe, ..) = self.geometry.place(slot);
        if self.admits_stripe(lsn, stripe) {
            self.grow_stripes(stripe);
            self.slots.own(slot, block.0, crcs);
        }
    }

    fn admits_stripe(&mut self, lsn: Lsn, stripe: StripeId) -> bool {
        self.pages.admits(PageId::Stripes(self.geometry.stripe_page(stripe)), lsn)
    }

    fn admits_map(&mut self, lsn: Lsn, block: ShardBlock) -> bool {
        self.pages.admits(PageId::Map(map_page(block)), lsn)
    }

    fn remap(&mut self, block: ShardBlock, slot: SlotNo, effects: &mut Effects) {
        let old = self.map.set(block.0, Some(slot.0)).map(SlotNo);
        self.count_stored(block, slot, 1);
        if let Some(old) = old {
            self.bury(block, old, effects);
        }
    }

    fn unmap(&mut self, block: ShardBlock, count: u32, effects: &mut Effects) {
        let mut dead = Vec::new();
        self.map.clear_run(block.0, count, |_, n, first| dead.extend((first..first + n).map(SlotNo)));
        for slot in dead {
            self.bury(block, slot, effects);
        }
    }

    /// Counts that consecutive blocks of a map page are in consecutive slots of a stripe. Before the tables are complete, the stripe
    /// may be unknown yet.
    fn count_stored(&mut self, first: ShardBlock, slot: SlotNo, count: u32) {
        let (id, ..) = self.geometry.place(slot);
        self.grow_stripes(id);
        let (live, state) = self.stripes.live_mut(id);
        *live += count;
        let is_pinned = state == StripeState::Pinned;
        self.live.add(first, count);
        if self.is_complete {
            self.live.add_pinned(u64::from(is_pinned) * u64::from(count));
            if let Some(moving) = self.moving_count(first) {
                moving.add(is_pinned, u64::from(count));
            }
        }
    }

    /// The count of misplaced blocks of the volume of a block, if the volume moves.
    fn moving_count(&mut self, block: ShardBlock) -> Option<&mut MisplacedCount> {
        if self.misplaced.is_empty() {
            return None;
        }
        let (volume, _) = (*self.map_pages.get(map_page(block) as usize)?)?;
        self.misplaced.of(volume)
    }

    /// Counts that a block, of the same map page as `block`, is not in a slot any more.
    fn bury(&mut self, block: ShardBlock, slot: SlotNo, effects: &mut Effects) {
        let (id, ..) = self.geometry.place(slot);
        let (live, state) = self.stripes.live_mut(id);
        *live -= 1;
        let is_pinned = state == StripeState::Pinned;
        if *live == 0 {
            effects.emptied.push(id);
        }
        self.live.remove(block);
        if self.is_complete {
            self.live.remove_pinned(u64::from(is_pinned));
            if let Some(moving) = self.moving_count(block) {
                moving.remove(is_pinned);
            }
        }
    }

    fn drop_mirrors(&mut self, stripe: StripeId, effects: &mut Effects) {
        let first_mirror = self.geometry.mirror_index(0, 0);
        self.stripes.update(stripe, |stripe| {
            stripe.state = StripeState::Parity;
            stripe.stale &= (1 << first_mirror) - 1;
        });
        let mirrors = &mut self.stripes.homes_mut(stripe)[first_mirror..];
        effects.released.extend(mirrors.iter_mut().filter_map(Option::take));
    }

    fn grow_stripes(&mut self, id: StripeId) {
        let count = id.0 as usize + 1;
        if count > self.stripes.count() as usize {
            self.stripes.grow(count);
            self.slots.grow(count);
        }
    }

    fn give_page(&mut self, page: u32, volume: VolumeId, index: u32) {
        if self.map_pages.len() <= page as usize {
            self.map_pages.resize(page as usize + 1, None);
        }
        self.map_pages[page as usize] = Some((volume, index));
        if !self.map.is_absent(page) {
            self.map.own(page);
        }
        let pages = self.volume_pages.entry(volume).or_default();
        if pages.len() <= index as usize {
            pages.resize(index as usize + 1, None);
        }
        pages[index as usize] = Some(page);
    }

    fn take_page(&mut self, page: u32) {
        let Some((volume, index)) = self.map_pages.get_mut(page as usize).and_then(Option::take) else {
            return;
        };
        if let Some(pages) = self.volume_pages.get_mut(&volume) {
            pages[index as usize] = None;
            if pages.iter().all(Option::is_none) {
                self.volume_pages.remove(&volume);
            }
        }
    }

    /// Ends loading and replay: checks that the tables fit together, as far as they are in memory, and finds the pages of every
    /// volume.
    ///
    /// # Errors
    /// When the tables contradict each other.
    pub(crate) fn complete(&mut self) -> Check {
        self.check_stripes()?;
        self.index_volumes()?;
        self.check_map()?;
        self.count_pinned();
        self.is_complete = true;
        Ok(())
    }

    fn check_stripes(&self) -> Check {
        for id in (0..self.stripe_count()).map(StripeId) {
            let stripe = self.stripe(id);
            let right = match stripe.state {
                StripeState::Free => stripe.live == 0 && self.homes(id).iter().all(Option::is_none),
                _ => stripe.columns > 0 && stripe.live <= u32::from(stripe.columns) * CHUNK_BLOCKS,
            };
            if !right {
                return Err(DecodeError::Invalid(
                    "stripe table: a stripe is not what its chunks and blocks say",
                ));
            }
        }
        Ok(())
    }

    /// While pages of different age are loaded, two may claim one part of a volume; the last one given it has it.
    fn index_volumes(&mut self) -> Check {
        self.volume_pages.clear();
        for page in 0..self.map_pages.len() as u32 {
            let Some((volume, index)) = self.map_pages[page as usize] else { continue };
            if self.volume_page(volume, index).is_some() {
                return Err(DecodeError::Invalid("part of a volume in two map pages"));
            }
            self.give_page(page, volume, index);
        }
        Ok(())
    }

    fn check_map(&self) -> Check {
        for page in self.map.pages_in_memory() {
            let owned = self.map_pages.get(page as usize).is_some_and(Option::is_some);
            for (block, slot) in self.map.page_entries(page) {
                if !owned || !self.can_be_in(ShardBlock(block), SlotNo(slot)) {
                    return Err(DecodeError::Invalid("block map: a block is where nothing is stored for it"));
                }
            }
        }
        Ok(())
    }

    /// Counts the blocks in stripes that stay mirrored; from here on every change keeps the count.
    fn count_pinned(&mut self) {
        let stripes = (0..self.stripe_count()).map(|id| self.stripe(StripeId(id)));
        let pinned = stripes.filter(|stripe| stripe.state == StripeState::Pinned);
        self.live.add_pinned(pinned.map(|stripe| u64::from(stripe.live)).sum());
    }

    /// The content of a page, ready to be sealed.
    pub(crate) fn encode_page(&self, page: PageId, bytes: &mut [u8]) {
        let (header, content) = bytes.split_at_mut(PAGE_HEADER_BYTES);
        // The rest of the header belongs to the kind of page.
        let header = &mut header[FIELDS_BYTES..];
        header.fill(0);
        match page {
            PageId::Shard => {
                content.fill(0);
                content[..4].copy_from_slice(&self.scrub_next.map_or(u32::MAX, |s| s.0).to_le_bytes());
            }
            PageId::Stripes(number) => {
                let in_page = self.geometry.stripes_per_page() as u32;
                let first = number * in_page;
                self.slots.warm(StripeId(first), in_page);
                let mut records = content.chunks_exact_mut(self.geometry.stripe_record_bytes());
                for (id, record) in (first..).map(StripeId).zip(&mut records) {
                    self.encode_stripe(id, record);
                }
                records.into_remainder().fill(0);
            }
            PageId::Map(number) => {
                if let Some((volume, index)) = self.map_pages.get(number as usize).copied().flatten() {
                    header[..4].copy_from_slice(&1u32.to_le_bytes());
                    header[4..8].copy_from_slice(&volume.0.to_le_bytes());
                    header[8..12].copy_from_slice(&index.to_le_bytes());
                }
                let groups = content.chunks_exact_mut(GROUP_INDICES as usize * 4);
                for (group, values) in groups.zip(self.map.page_groups(number)) {
                    for (word, value) in group.as_chunks_mut().0.iter_mut().zip(values) {
                        // What is not there becomes 0.
                        *word = value.wrapping_add(1).to_le_bytes();
                    }
                }
            }
        }
    }

    fn encode_stripe(&self, id: StripeId, record: &mut [u8]) {
        let stripe = self.stripe(id);
        let (head, slots) = record.split_at_mut(self.geometry.stripe_head_bytes());
        head.fill(0);
        if stripe.state == StripeState::Free {
            return slots.fill(0);
        }
        head[0] = stripe.state as u8;
        head[1] = stripe.columns;
        head[4..20].copy_from_slice(&stripe.stale.to_le_bytes());
        for (bytes, home) in head[20..].chunks_exact_mut(5).zip(self.homes(id)) {
            bytes[0] = home.map_or(0xff, |h| h.member.0);
            bytes[1..].copy_from_slice(&home.map_or(0, |h| h.chunk).to_le_bytes());
        }
        self.slots.encode(id, slots);
    }
}

mod cached_pages;
mod last_resort;
mod load;
mod map_table;
mod places;
mod residence;
pub(in crate::store) mod slot_table;
mod stripe_heads;
#[cfg(test)]
mod tests;
