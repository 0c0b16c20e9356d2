//! Taking in table pages.

use crate::store::tables::{Stripe, StripeState, Tables, slot_table};
use sinew_core::ids::{ChunkAddr, MemberId, SlotNo, StripeId, VolumeId};
use sinew_format::codec::{DecodeError, Reader};
use sinew_format::model::mapped_geometry::{PAGE_HEADER_BYTES, PAGE_INDICES};
use sinew_format::model::stripe_form::StripeForm;
use sinew_format::record_check::{Check, RecordCheck};
use sinew_format::table_page::{FIELDS_BYTES, PageId};

impl Tables {
    /// Takes in a page read from a member; its header has been checked. The slots of its stripes stay absent
    /// ([`Tables::fill_slots`]) if `slots_max` stripes have theirs in memory already.
    ///
    /// # Errors
    /// When the content is impossible in this pool.
    pub(crate) fn load_page(
        &mut self,
        page: PageId,
        bytes: &[u8],
        bounds: &RecordCheck,
        slots_max: usize,
    ) -> Check {
        bounds.page(page)?;
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
                if self.slots_present() < slots_max {
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
                let mut r = Reader(&bytes[PAGE_HEADER_BYTES..]);
                for block in number * PAGE_INDICES..(number + 1) * PAGE_INDICES {
                    if let Some(slot) = r.u32()?.checked_sub(1) {
                        bounds.slots(SlotNo(slot), 1)?;
                        self.map.set(block, Some(slot));
                    }
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
        self.stripes[id.0 as usize] = Stripe { state: StripeState::of(form), columns, live: 0, stale };
        for index in 0..self.geometry.homes_per_stripe() {
            let (member, chunk) = (r.u8()?, r.u32()?);
            self.homes_mut(id)[index] =
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
