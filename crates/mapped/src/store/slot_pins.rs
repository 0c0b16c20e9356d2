//! Pins on slots: a task that looks at owners and checksums keeps them in memory meanwhile, and has them read from the members
//! if they are absent. That costs a read of one page.

use std::rc::Rc;

use crate::marks::Mark;
use crate::store::Store;
use crate::store::dirty_pages::PageCopy;
use sinew_core::buf::Buf;
use sinew_core::ids::{Lsn, StripeId};
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_format::model::mapped_geometry::PAGE_BYTES;
use sinew_format::table_page::{PageHeader, PageId};

/// Keeps the slots of a stripe in memory.
pub(crate) struct SlotPin<I: Io> {
    store: Rc<Store<I>>,
    page: u32,
}

impl<I: Io> Drop for SlotPin<I> {
    fn drop(&mut self) {
        self.store.slot_cache.unpin(self.page);
    }
}

impl<I: Io> Store<I> {
    /// Bounds the memory for slots; `None` is no bound.
    pub(crate) fn set_slot_cache(&self, bytes: Option<u64>) {
        let stripes = bytes.map(|bytes| (bytes / self.tables().slot_bytes_of_stripe()) as usize);
        self.slot_cache.set_stripes_max(stripes);
        self.evict_slots();
    }

    /// Keeps the slots of a stripe in memory; reads them if they are absent.
    ///
    /// # Errors
    /// When no copy of the table page can be read.
    pub(crate) async fn pin_slots(self: &Rc<Self>, stripe: StripeId) -> Result<SlotPin<I>, VolumeError> {
        let page = stripe.0 / self.geometry.stripes_per_page() as u32;
        if self.tables().slots_are_absent(stripe) {
            return Box::pin(self.pin_page_slots(page)).await;
        }
        Ok(self.hold_slots(page))
    }

    /// As [`Store::pin_slots`], for all stripes of a table page.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn pin_page_slots(self: &Rc<Self>, page: u32) -> Result<SlotPin<I>, VolumeError> {
        let pin = self.hold_slots(page);
        if self.tables().page_has_absent_slots(page) {
            self.read_slots(page).await?;
        }
        Ok(pin)
    }

    /// Keeps the slots of a table page that are in memory there.
    fn hold_slots(self: &Rc<Self>, page: u32) -> SlotPin<I> {
        self.slot_cache.pin(page);
        SlotPin { store: Rc::clone(self), page }
    }

    /// Reads the absent slots of a page, once for all that wait for them. The page is pinned.
    async fn read_slots(self: &Rc<Self>, page: u32) -> Result<(), VolumeError> {
        self.slot_cache.begin_read(page, || self.mark(Mark::SlotsAwaited)).await;
        let result = if self.tables().page_has_absent_slots(page) {
            self.read_slots_alone(page).await
        } else {
            Ok(())
        };
        self.slot_cache.end_read(page);
        self.evict_slots();
        result
    }

    async fn read_slots_alone(self: &Rc<Self>, number: u32) -> Result<(), VolumeError> {
        let page = PageId::Stripes(number);
        loop {
            let stored = self.tables().pages.stored(page);
            let all = self.tables().pages.copies(page).to_vec();
            let mut copies = all.clone();
            copies.retain(|copy| self.members.is_active(copy.member));
            copies.sort_by_key(|copy| self.members.burden(copy.member));
            let mut bad: Vec<PageCopy> = Vec::new();
            for copy in copies {
                let read = self.read_page_copy(copy, page).await.filter(|(lsn, _)| *lsn == stored);
                if read.is_some_and(|(_, data)| self.tables.borrow_mut().fill_slots(number, data.bytes())) {
                    self.mark(Mark::SlotsRead);
                    self.slot_cache.note_read(number, false);
                    self.counters.slot_pages_read.add(1);
                    // The page is written anew: with one good copy, the others can go.
                    for copy in bad.into_iter().filter(|copy| self.members.is_active(copy.member)) {
                        self.mark(Mark::SlotsCopyBad);
                        self.give_up_page(page, copy);
                    }
                    return Ok(());
                }
                bad.push(copy);
            }
            if self.tables().pages.copies(page) == all {
                self.mark(Mark::SlotsLost);
                self.slot_cache.note_read(number, true);
                self.counters.failed_reads.add(1);
                return Err(VolumeError::Failed);
            }
            // It was written elsewhere meanwhile.
            self.mark(Mark::SlotsReadAgain);
        }
    }

    /// A copy of a table page with the last journal block that it contains, if it is an intact copy of that page.
    pub(crate) async fn read_page_copy(&self, copy: PageCopy, page: PageId) -> Option<(Lsn, Buf)> {
        let offset = self.members.get(copy.member).layout.page_offset(self.index, copy.slot);
        let mut data = self.members.read_at(copy.member, offset, PAGE_BYTES).await.ok()?;
        let header = PageHeader::open(data.bytes_mut()).ok()?;
        let is_it =
            header.pool == self.pool && usize::from(header.shard) == self.index && header.page == page;
        is_it.then_some((header.lsn, data))
    }

    /// Whether no copy of some page with absent slots can be read. Such a page cannot be written either.
    pub(crate) fn slots_are_lost(&self) -> bool {
        self.slot_cache.has_lost()
    }

    /// Users of slots.
    pub(crate) fn slot_pins(&self) -> usize {
        self.slot_cache.pins()
    }

    /// Takes slots out of memory until there are no more than there may be.
    pub(crate) fn evict_slots(&self) {
        if self.slot_cache.evict(&mut self.tables.borrow_mut()) > 0 {
            self.mark(Mark::SlotsEvicted);
        }
    }
}
