//! The end of loading when tables may be missing, or may be older than what they are about: a pool is opened as a last
//! resort, with more members missing than it survives.
//!
//! A page may have no copy left, or only copies of an older version. What is kept is what tables of both kinds agree on: the
//! map says where a block is, and the stripe says that it is there, with which checksum. All other blocks are unknown, and
//! reading them fails. A block may still have an older content than the last one; never that of another block, and never
//! zeros where a stripe has content of it.

use std::collections::BTreeSet;

use crate::store::live_counts::LiveCounts;
use crate::store::tables::{FREE, StripeState, Tables};
use sinew_core::ids::{ShardBlock, SlotNo, StripeId};
use sinew_core::mutation::{self, Mutation};
use sinew_format::model::mapped_geometry::map_page;
use sinew_format::table_page::PageId;

impl Tables {
    /// As [`Tables::complete`]; leaves out what contradicts something else.
    pub(crate) fn complete_as_far_as_known(&mut self) {
        self.drop_impossible_stripes();
        self.keep_newest_pages();
        let mut unknown = self.take_contradictions();
        unknown.extend(self.stored_without_place());
        self.unknown = Some(unknown);
        self.count_pinned();
        self.is_complete = true;
    }

    /// Whether what the tables do not have is nowhere.
    pub(crate) fn knows_all(&self) -> bool {
        self.unknown.is_none()
    }

    /// Whether blocks that the map does not have, from this one on, are known to be nowhere, and of how many that is so.
    pub(crate) fn known_run(&self, first: ShardBlock, count: u32) -> (bool, u32) {
        let Some(unknown) = &self.unknown else { return (true, count) };
        let is_known = !unknown.contains(&first);
        let same = |i: &u32| unknown.contains(&ShardBlock(first.0 + i)) != is_known;
        (is_known, (1..count).take_while(same).count() as u32 + 1)
    }

    /// Blocks in pages that were found whose place is not known.
    pub(crate) fn unknown_blocks(&self) -> u64 {
        self.unknown.as_ref().map_or(0, |unknown| unknown.len() as u64)
    }

    fn drop_impossible_stripes(&mut self) {
        for id in (0..self.stripe_count()).map(StripeId) {
            let stripe = self.stripe(id);
            if stripe.state == StripeState::Free || stripe.columns == 0 {
                self.stripes.set(id, FREE);
                self.stripes.homes_mut(id).fill(None);
            }
        }
    }

    /// Where two pages claim one part of a volume, the newer one has it.
    fn keep_newest_pages(&mut self) {
        self.volume_pages.clear();
        for page in 0..self.map_pages.len() as u32 {
            let Some((volume, index)) = self.map_pages[page as usize] else { continue };
            if let Some(other) = self.volume_page(volume, index) {
                let lsn = |page| self.pages.lsn(PageId::Map(page));
                let (newer, older) = if lsn(other) > lsn(page) { (other, page) } else { (page, other) };
                self.map_pages[older as usize] = None;
                self.give_page(newer, volume, index);
            } else {
                self.give_page(page, volume, index);
            }
        }
    }

    /// Removes entries of the map that no stripe confirms, and counts the others as live.
    fn take_contradictions(&mut self) -> BTreeSet<ShardBlock> {
        self.live = LiveCounts::default();
        (0..self.stripe_count()).for_each(|id| *self.stripes.live_mut(StripeId(id)).0 = 0);
        let mut unknown = BTreeSet::new();
        for page in 0..self.map.pages_end() {
            let is_owned = self.map_pages.get(page as usize).is_some_and(Option::is_some);
            let entries: Vec<(u32, u32)> = self.map.page_entries(page).collect();
            for (block, slot) in entries {
                let (block, slot) = (ShardBlock(block), SlotNo(slot));
                let is_its = self.owner(slot) == Some(block) || mutation::on(Mutation::TrustOldMap);
                if is_owned && self.is_stored(slot) && is_its {
                    self.count_stored(block, slot, 1);
                } else {
                    self.map.set(block.0, None);
                    unknown.insert(block);
                }
            }
        }
        unknown
    }

    /// Blocks that a stripe has content of and that the map has nowhere: they were discarded, or the map is older.
    fn stored_without_place(&self) -> Vec<ShardBlock> {
        let slots = self.geometry.slots_per_stripe();
        let all = (0..self.stripe_count() * slots).map(SlotNo).filter(|&slot| self.is_stored(slot));
        let owners = all.filter_map(|slot| self.owner(slot));
        let is_owned =
            |block: &ShardBlock| self.map_pages.get(map_page(*block) as usize).is_some_and(Option::is_some);
        owners.filter(|block| is_owned(block) && self.lookup(*block).is_none()).collect()
    }
}
