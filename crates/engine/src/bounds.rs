//! What pages and journal records can say in a pool of this shape.
//!
//! A checksum proves that bytes are as they were written, not that they make sense. Whatever comes from a member is held
//! against these bounds before it reaches the tables, so that nothing indexes or allocates by a number that nobody
//! checked. What only the tables as a whole can show is checked when they are complete: `Tables::complete`.

use crate::addr::{Home, ShardBlock, SlotNo, StripeId};
use crate::disk::codec::DecodeError;
use crate::disk::journal::Record;
use crate::disk::page::PageId;
use crate::disk::superblock::Config;
use crate::geometry::Geometry;
use crate::run_map::PAGE_INDICES;

/// Whether something can be, and if not, what it is.
pub(crate) type Check = Result<(), DecodeError>;

fn check(holds: bool, what: &'static str) -> Check {
    if holds { Ok(()) } else { Err(DecodeError::Invalid(what)) }
}

/// The numbers that exist in a shard.
pub(crate) struct Bounds {
    geometry: Geometry,
    /// Chunks of each member.
    chunks: Vec<u32>,
    stripes: u64,
    map_pages: u64,
    /// Parts of the largest volume there can be.
    parts: u64,
}

impl Bounds {
    /// Members that are out count as well: what is on them has its place in the tables.
    pub(crate) fn new(config: &Config) -> Bounds {
        let geometry = config.geometry;
        let chunks: Vec<u32> = config.members.iter().map(|m| m.layout.chunks).collect();
        let all = chunks.iter().map(|&c| u64::from(c)).sum();
        Bounds {
            stripes: geometry.stripes_max(all),
            map_pages: geometry.map_pages_max(all),
            parts: geometry.volume_parts_max(all),
            geometry,
            chunks,
        }
    }

    /// A page by its name.
    pub(crate) fn page(&self, page: PageId) -> Check {
        match page {
            PageId::Shard => Ok(()),
            PageId::Stripes(number) => {
                let per = self.geometry.stripes_per_page() as u64;
                check(u64::from(number) < self.stripes.div_ceil(per), "number of a stripe page")
            }
            PageId::Map(number) => check(u64::from(number) < self.map_pages, "number of a map page"),
        }
    }

    /// A part of a volume.
    pub(crate) fn part(&self, index: u32) -> Check {
        check(u64::from(index) < self.parts, "part of a volume")
    }

    /// A stripe.
    pub(crate) fn stripe(&self, stripe: StripeId) -> Check {
        check(u64::from(stripe.0) < self.stripes, "stripe")
    }

    /// The shape of a stripe that is not free: its form, columns, and homes.
    pub(crate) fn shape<'a>(
        &self,
        parity: bool,
        columns: u8,
        homes: impl ExactSizeIterator<Item = &'a Option<Home>>,
    ) -> Check {
        let g = &self.geometry;
        check(!parity || g.parity_columns() > 0, "parity stripe in a pool of mirrors")?;
        check((1..=g.data_columns).contains(&usize::from(columns)), "columns of a stripe")?;
        check(homes.len() == g.homes_per_stripe(), "number of homes")?;
        homes.flatten().try_for_each(|&home| self.home(home))
    }

    fn home(&self, home: Home) -> Check {
        let chunks = self.chunks.get(usize::from(home.member.0)).copied().unwrap_or(0);
        check(home.chunk < chunks, "home of a chunk")
    }

    fn home_index(&self, index: u8) -> Check {
        check(usize::from(index) < self.geometry.homes_per_stripe(), "index of a home")
    }

    /// Consecutive slots of one stripe.
    pub(crate) fn slots(&self, slot: SlotNo, count: usize) -> Check {
        let per = self.geometry.slots_per_stripe();
        self.stripe(StripeId(slot.0 / per))?;
        check((1..=(per - slot.0 % per) as usize).contains(&count), "slots")
    }

    /// Consecutive blocks of one map page.
    fn blocks(&self, block: ShardBlock, count: u32) -> Check {
        self.page(PageId::Map(block.0 / PAGE_INDICES))?;
        check((1..=PAGE_INDICES - block.0 % PAGE_INDICES).contains(&count), "blocks")
    }

    /// A record of the journal.
    pub(crate) fn record(&self, record: &Record) -> Check {
        match record {
            Record::Write { block, slot, crcs } => {
                self.blocks(*block, crcs.len() as u32)?;
                self.slots(*slot, crcs.len())
            }
            Record::Move { block, slot, .. } => {
                self.blocks(*block, 1)?;
                self.slots(*slot, 1)
            }
            Record::Unmap { block, count } => self.blocks(*block, *count),
            Record::Open { stripe, parity, columns, homes } => {
                self.stripe(*stripe)?;
                self.shape(*parity, *columns, homes.iter())
            }
            Record::Converted { stripe } => {
                check(self.geometry.parity_columns() > 0, "conversion in a pool of mirrors")?;
                self.stripe(*stripe)
            }
            Record::Free { stripe } => self.stripe(*stripe),
            Record::Rehome { stripe, index, home } => {
                self.stripe(*stripe)?;
                self.home_index(*index)?;
                self.home(*home)
            }
            Record::Stale { stripe, index } => {
                self.stripe(*stripe)?;
                self.home_index(*index)
            }
            Record::StaleMember { member } => check(usize::from(member.0) < self.chunks.len(), "member"),
            Record::PageOwner { page, index, .. } => {
                self.page(PageId::Map(*page))?;
                self.part(*index)
            }
            Record::PageDrop { page } => self.page(PageId::Map(*page)),
            Record::Scrub { .. } => Ok(()),
        }
    }
}
