//! Taking in table pages.

use crate::store::tables::map_table::{map_entries, map_groups};
use crate::store::tables::{Stripe, StripeState, Tables, slot_table};
use sinew_core::ids::{ChunkAddr, MemberId, ShardBlock, SlotNo, StripeId, VolumeId};
use sinew_core::mutation::{self, Mutation};
use sinew_format::codec::{DecodeError, Reader};
use sinew_format::model::mapped_geometry::{PAGE_HEADER_BYTES, PAGE_INDICES};
use sinew_format::model::stripe_form::StripeForm;
use sinew_format::record_check::{Check, RecordCheck};
use sinew_format::table_page::{FIELDS_BYTES, PageId};

impl Tables {
    /// Takes in a page read from a member; its header has been checked. Its slots, or its entries, stay absent ([`Tables::fill`])
    /// if those of other pages take `cache_max` bytes already; blocks are counted all the same.
    ///
    /// # Errors
    /// When the content is impossible in this pool.
    pub(crate) fn load_page(
        &mut self,
        page: PageId,
        bytes: &[u8],
        bounds: &RecordCheck,
        cache_max: u64,
    ) -> Check {
        bounds.page(page)?;
        let is_kept = self.cached_bytes() < cache_max;
        match page {
            PageId::Shard => {
                let next = Reader(&bytes[PAGE_HEADER_BYTES..]).u32()?;
                self.scrub_next = (next != u32::MAX).then_some(StripeId(next));
            }
            PageId::Stripes(number) => {
                let per = self.geometry.stripes_per_page() as u32;
                let size = self.geometry.stripe_record_bytes();
                for (i, record) in
                    bytes[PAGE_HEADER_BYTES..].chunks_exact(size).take(per as usize).enumerate()
                {
                    self.load_stripe(StripeId(number * per + i as u32), record, bounds)?;
                }
                if is_kept {
                    self.fill_slots(number, bytes);
                }
            }
            PageId::Map(number) => {
                let mut r = Reader(&bytes[FIELDS_BYTES..]);
                let (owned, volume, index) = (r.u32()? != 0, VolumeId(r.u32()?), r.u32()?);
                if !owned {
                    return Ok(());
                }
                bounds.part(index)?;
                self.give_page(number, volume, index);
                let is_counted = is_kept || !mutation::on(Mutation::LeaveOutUncounted);
                for (block, slot) in map_entries(number, bytes).filter(|_| is_counted) {
                    bounds.slots(SlotNo(slot), 1)?;
                    self.count_stored(ShardBlock(block), SlotNo(slot), 1);
                }
                match is_kept {
                    true => self.map.fill(number, map_groups(bytes)),
                    false => self.map.leave_out(number),
                }
            }
        }
        Ok(())
    }

    fn load_stripe(&mut self, id: StripeId, record: &[u8], bounds: &RecordCheck) -> Check {
        let mut r = Reader(record);
        let form = match r.u8()?.checked_sub(1) {
            None => return Ok(()),
            Some(form) => StripeForm::ALL.get(usize::from(form)).copied(),
        };
        let form = form.ok_or(DecodeError::Invalid("form of a stripe"))?;
        bounds.stripe(id)?;
        let columns = r.u8()?;
        r.u16()?;
        let stale = u128::from(r.u64()?) | u128::from(r.u64()?) << 64;
        if stale >> self.geometry.homes_per_stripe() != 0 {
            return Err(DecodeError::Invalid("stale marks of a stripe"));
        }
        self.grow_stripes(id);
        // Map pages that were taken in before may have blocks in it.
        let live = self.stripe(id).live;
        self.stripes.set(id, Stripe { state: StripeState::of(form), columns, live, stale });
        for index in 0..self.geometry.homes_per_stripe() {
            let (member, chunk) = (r.u8()?, r.u32()?);
            self.stripes.homes_mut(id)[index] =
                (member != 0xff).then_some(ChunkAddr { member: MemberId(member), chunk });
        }
        bounds.shape(form, columns, self.homes(id).iter())?;
        for owner in slot_table::entries(r.0).filter_map(|(owner, _)| owner) {
            bounds.page(PageId::Map(owner / PAGE_INDICES))?;
        }
        self.slots.leave_out(id);
        Ok(())
    }
}
