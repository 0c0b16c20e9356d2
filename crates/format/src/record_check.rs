//! Validation of pages and journal records against the geometry of the pool.
//!
//! A checksum proves that bytes are as they were written, not that they make sense. All numbers from a member are checked
//! here before they reach the tables, so that no unchecked number is used as an index or a size. Contradictions that only
//! the tables as a whole can show are found when they are complete, by `Tables::complete`.

use crate::codec::DecodeError;
use crate::journal_block::Record;
use crate::model::config::Config;
use crate::model::mapped_geometry::{MappedGeometry, PAGE_INDICES, map_page};
use crate::model::stripe_form::StripeForm;
use crate::table_page::PageId;
use sinew_core::ids::{ChunkAddr, ShardBlock, SlotNo, StripeId};

/// The result of a check: the error names the impossible field.
pub type Check = Result<(), DecodeError>;

fn check(holds: bool, what: &'static str) -> Check {
    if holds { Ok(()) } else { Err(DecodeError::Invalid(what)) }
}

/// The limits of the numbers in a shard.
pub struct RecordCheck {
    geometry: MappedGeometry,
    /// Chunks of each member.
    chunks: Vec<u32>,
    stripes: u64,
    map_pages: u64,
    /// Map pages of the largest possible volume.
    parts: u64,
}

impl RecordCheck {
    /// The limits of a shard. Members that are out count as well: the tables refer to their chunks.
    pub fn new(config: &Config) -> RecordCheck {
        let geometry = config.mapped();
        let chunks: Vec<u32> = config.members.iter().map(|m| m.layout.chunks).collect();
        let all = chunks.iter().map(|&c| u64::from(c)).sum();
        RecordCheck {
            stripes: geometry.stripes_max(all),
            map_pages: geometry.map_pages_max(all),
            parts: geometry.volume_parts_max(all),
            geometry,
            chunks,
        }
    }

    /// Checks the name of a page.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when it is impossible in this pool.
    pub fn page(&self, page: PageId) -> Check {
        match page {
            PageId::Shard => Ok(()),
            PageId::Stripes(number) => {
                let per = self.geometry.stripes_per_page() as u64;
                check(u64::from(number) < self.stripes.div_ceil(per), "number of a stripe page")
            }
            PageId::Map(number) => check(u64::from(number) < self.map_pages, "number of a map page"),
        }
    }

    /// Checks the index of a map page within a volume.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when it is impossible in this pool.
    pub fn part(&self, index: u32) -> Check {
        check(u64::from(index) < self.parts, "part of a volume")
    }

    /// Checks the number of a stripe.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when it is impossible in this pool.
    pub fn stripe(&self, stripe: StripeId) -> Check {
        check(u64::from(stripe.0) < self.stripes, "stripe")
    }

    /// Checks a stripe that is not free: its form, columns, and chunk locations.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when it is impossible in this pool.
    pub fn shape<'a>(
        &self,
        form: StripeForm,
        columns: u8,
        homes: impl ExactSizeIterator<Item = &'a Option<ChunkAddr>>,
    ) -> Check {
        let g = &self.geometry;
        check(
            form == StripeForm::Mirrored || g.parity_columns() > 0,
            "form of a stripe in a pool of mirrors",
        )?;
        check((1..=g.data_columns).contains(&usize::from(columns)), "columns of a stripe")?;
        check(homes.len() == g.homes_per_stripe(), "number of homes")?;
        homes.flatten().try_for_each(|&home| self.home(home))
    }

    fn home(&self, home: ChunkAddr) -> Check {
        let chunks = self.chunks.get(usize::from(home.member.0)).copied().unwrap_or(0);
        check(home.chunk < chunks, "home of a chunk")
    }

    fn home_index(&self, index: u8) -> Check {
        check(usize::from(index) < self.geometry.homes_per_stripe(), "index of a home")
    }

    /// Checks a range of slots, which has to lie in one stripe.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when it is impossible in this pool.
    pub fn slots(&self, slot: SlotNo, count: usize) -> Check {
        let per = self.geometry.slots_per_stripe();
        self.stripe(StripeId(slot.0 / per))?;
        check((1..=(per - slot.0 % per) as usize).contains(&count), "slots")
    }

    /// Checks a range of blocks, which has to lie in one map page.
    fn blocks(&self, block: ShardBlock, count: u32) -> Check {
        self.page(PageId::Map(map_page(block)))?;
        check((1..=PAGE_INDICES - block.0 % PAGE_INDICES).contains(&count), "blocks")
    }

    /// Checks a record of the journal.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when it is impossible in this pool.
    pub fn record(&self, record: &Record) -> Check {
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
            Record::Open { stripe, form, columns, homes } => {
                self.stripe(*stripe)?;
                self.shape(*form, *columns, homes.iter())
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
            Record::Void { slot, count, .. } => self.slots(*slot, usize::from(*count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal_block::Checksums;
    use crate::superblock::tests::sample;
    use sinew_core::ids::{MemberId, VolumeId};

    const HOME: Option<ChunkAddr> = Some(ChunkAddr { member: MemberId(0), chunk: 0 });

    fn open(homes: Vec<Option<ChunkAddr>>) -> Record {
        Record::Open { stripe: StripeId(0), form: StripeForm::Parity, columns: 1, homes }
    }

    #[test]
    fn records_with_numbers_that_do_not_exist_are_refused() {
        let config = sample();
        let bounds = RecordCheck::new(&config);
        let homes = config.mapped().homes_per_stripe();
        let far = StripeId(1 << 30);
        let nowhere = Some(ChunkAddr { member: MemberId(9), chunk: 0 });
        let (block, slot) = (ShardBlock(0), SlotNo(0));
        let wrong = [
            Record::Write { block: ShardBlock(PAGE_INDICES - 1), slot, crcs: Checksums::from_elem(0, 2) },
            Record::Write { block, slot: SlotNo(31), crcs: Checksums::from_elem(0, 2) },
            Record::Write { block, slot, crcs: Checksums::new() },
            Record::Move { block, from: None, slot: SlotNo(u32::MAX), crc: 0 },
            Record::Move { block: ShardBlock(u32::MAX), from: None, slot, crc: 0 },
            Record::Unmap { block, count: PAGE_INDICES + 1 },
            Record::Void { slot: SlotNo(31), count: 2, since: 0 },
            open(vec![HOME; homes - 1]),
            open(vec![nowhere; homes]),
            Record::Open { stripe: far, form: StripeForm::Mirrored, columns: 1, homes: vec![HOME; homes] },
            Record::Open {
                stripe: StripeId(0),
                form: StripeForm::Mirrored,
                columns: 3,
                homes: vec![HOME; homes],
            },
            Record::Converted { stripe: far },
            Record::Free { stripe: far },
            Record::Stale { stripe: StripeId(0), index: homes as u8 },
            Record::StaleMember { member: MemberId(4) },
            Record::PageOwner { page: 0, volume: VolumeId(0), index: u32::MAX },
            Record::PageDrop { page: 1 << 20 },
        ];
        for record in wrong {
            assert!(bounds.record(&record).is_err(), "{record:?}");
        }
        assert_eq!(bounds.record(&open(vec![HOME; homes])), Ok(()));
        assert_eq!(bounds.record(&Record::Write { block, slot, crcs: Checksums::from_elem(0, 32) }), Ok(()));
    }
}
