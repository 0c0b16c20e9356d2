//! Places: which map pages a volume has, where in its volume a block is, and which members stripes are on.

use std::collections::BTreeSet;

use crate::store::tables::Tables;
use sinew_core::ids::{MemberId, ShardBlock, StripeId, VolumeId};
use sinew_format::model::mapped_geometry::{PAGE_INDICES, map_page};

impl Tables {
    /// Map pages of a volume, with the part each holds.
    pub(crate) fn volume_pages(&self, volume: VolumeId) -> Vec<(u32, u32)> {
        let Some(pages) = self.volume_pages.get(&volume) else { return Vec::new() };
        pages.iter().enumerate().filter_map(|(i, page)| page.map(|p| (i as u32, p))).collect()
    }

    /// The members that stripes have chunks on, each once.
    pub(crate) fn members_of(&self, stripes: impl Iterator<Item = StripeId>) -> Vec<MemberId> {
        let homes = stripes.flat_map(|stripe| self.homes(stripe).iter().flatten());
        let members: BTreeSet<MemberId> = homes.map(|home| home.member).collect();
        members.into_iter().collect()
    }

    /// The volume that a block belongs to, and the number of the block among those of the volume in this shard.
    pub(crate) fn place_in_volume(&self, block: ShardBlock) -> Option<(VolumeId, u64)> {
        let (volume, index) = (*self.map_pages.get(map_page(block) as usize)?)?;
        Some((volume, u64::from(index) * u64::from(PAGE_INDICES) + u64::from(block.0 % PAGE_INDICES)))
    }
}
