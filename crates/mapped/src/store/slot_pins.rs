//! Pins on slots: a task that looks at owners and checksums keeps them in memory meanwhile, and has them read from the members
//! if they are absent. That costs a read of one page.

use std::rc::Rc;

use crate::marks::Mark;
use crate::store::Store;
use crate::store::dirty_pages::PageCopy;
use crate::store::page_copy;
use crate::store::tables::Tables;
use crate::store::tables::slot_table;
use sinew_core::buf::Buf;
use sinew_core::ids::{Lsn, StripeId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::model::mapped_geometry::MappedGeometry;
use sinew_format::table_page::PageId;

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

/// Stripes whose slots may be in memory, so that they take no more than this; `None` is no bound.
pub(crate) fn stripes_with_slots(geometry: &MappedGeometry, bytes: Option<u64>) -> usize {
    bytes.map_or(usize::MAX, |bytes| (bytes / slot_table::stripe_bytes(geometry)) as usize)
}

impl<I: Io> Store<I> {
    /// Bounds the memory for slots; `None` is no bound.
    pub(crate) fn set_slot_cache(&self, bytes: Option<u64>) {
        self.slot_cache.set_stripes_max(stripes_with_slots(&self.geometry, bytes));
        self.evict_slots();
    }

    /// Keeps the slots of a stripe in memory; reads them if they are absent.
    ///
    /// # Errors
    /// When no copy of the table page can be read.
    pub(crate) async fn pin_slots(self: &Rc<Self>, stripe: StripeId) -> Result<SlotPin<I>, VolumeError> {
        let page = self.geometry.stripe_page(stripe);
        if self.tables().slots_are_absent(stripe) {
            return Box::pin(self.pin_page_slots(page)).await;
        }
        Ok(self.hold_slots(page))
    }

    /// The slots of a stripe, which are in memory, are looked at now, and not later.
    pub(crate) fn note_slot_use(&self, stripe: StripeId) {
        if self.slot_cache.is_full(self.tables().slots_present()) {
            self.slot_cache.note_use(self.geometry.stripe_page(stripe));
        }
    }

    /// Keeps all of a table page in memory. Only pages of the stripe table have slots, which may be absent.
    ///
    /// # Errors
    /// As for [`Store::pin_slots`].
    pub(crate) async fn pin_page(self: &Rc<Self>, page: PageId) -> Result<Option<SlotPin<I>>, VolumeError> {
        match page {
            PageId::Stripes(number) => self.pin_page_slots(number).await.map(Some),
            PageId::Shard | PageId::Map(_) => Ok(None),
        }
    }

    async fn pin_page_slots(self: &Rc<Self>, page: u32) -> Result<SlotPin<I>, VolumeError> {
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
        let (header, data) = page_copy::read(&self.members, self.index, copy).await?;
        (header.pool == self.pool && header.page == page).then_some((header.lsn, data))
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
        let copies = if mutation::on(Mutation::EvictShort) { 1 } else { self.copies_possible() };
        let is_stored =
            |tables: &Tables, page| tables.pages.is_stored(page, copies, |m| self.members.takes_new(m));
        if self.slot_cache.evict(&mut self.tables.borrow_mut(), is_stored) > 0 {
            self.mark(Mark::SlotsEvicted);
        }
    }
}
