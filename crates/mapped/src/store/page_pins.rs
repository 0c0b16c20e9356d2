//! Pins on table pages: a task that looks at slots or at entries of the map keeps them in memory meanwhile, and has them read from
//! the members if they are absent. That costs a read of one page.

use std::rc::Rc;

use crate::marks::Mark;
use crate::store::Store;
use crate::store::dirty_pages::PageCopy;
use crate::store::page_copy;
use crate::store::table_cache::PagePin;
use crate::store::tables::Tables;
use sinew_core::buf::Buf;
use sinew_core::ids::{Lsn, StripeId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::table_page::PageId;

impl<I: Io> Store<I> {
    /// Bounds the memory for slots and for entries of the map; `None` is no bound.
    pub(crate) fn set_table_cache(&self, bytes: Option<u64>) {
        self.table_cache.set_bytes_max(bytes.unwrap_or(u64::MAX));
        self.evict_pages();
    }

    /// Keeps the slots of a stripe in memory; reads them if they are absent.
    ///
    /// # Errors
    /// When no copy of the table page can be read.
    pub(crate) async fn pin_slots(self: &Rc<Self>, stripe: StripeId) -> Result<PagePin, VolumeError> {
        let page = PageId::Stripes(self.geometry.stripe_page(stripe));
        if self.tables().slots_are_absent(stripe) {
            return Box::pin(self.pin_page(page)).await;
        }
        Ok(self.table_cache.pin(page))
    }

    /// A page, which is in memory, is looked at now, and not later.
    pub(crate) fn note_page_use(&self, page: PageId) {
        if self.table_cache.is_full(self.tables().cached_bytes()) {
            self.table_cache.note_use(page);
        }
    }

    /// Keeps all of a page in memory, but for that of the shard, which always is.
    ///
    /// # Errors
    /// As for [`Store::pin_slots`].
    pub(crate) async fn pin_page(self: &Rc<Self>, page: PageId) -> Result<PagePin, VolumeError> {
        if self.tables().is_absent(page) {
            self.await_cache_room().await;
        }
        self.pin_page_at_once(page).await
    }

    /// As [`Store::pin_page`], whatever is in memory: for the checkpoint, which makes room.
    ///
    /// # Errors
    /// As for [`Store::pin_slots`].
    pub(crate) async fn pin_page_at_once(self: &Rc<Self>, page: PageId) -> Result<PagePin, VolumeError> {
        let pin = self.table_cache.pin(page);
        if self.tables().is_absent(page) {
            self.read_page(page).await?;
        }
        Ok(pin)
    }

    /// Waits for a round of the checkpoint if much is in memory only because it has changed.
    async fn await_cache_room(&self) {
        if self.is_cache_crowded() && !self.members.are_read_only() {
            self.mark(Mark::CacheAwaited);
            self.wakeups.checkpoint.kick();
            self.wakeups.checkpoint_round.wait_once().await;
        }
    }

    /// Whether the cache exceeds its bound, and pages that have changed are among the reasons.
    pub(crate) fn is_cache_crowded(&self) -> bool {
        let tables = self.tables();
        let is_crowded = self.table_cache.is_crowded(tables.cached_bytes());
        is_crowded && tables.pages.dirty_count() > 0 && !mutation::on(Mutation::CrowdCache)
    }

    /// Reads what is absent of a page, once for all that wait for it. The page is pinned.
    async fn read_page(self: &Rc<Self>, page: PageId) -> Result<(), VolumeError> {
        self.table_cache.begin_read(page, || self.mark(Mark::PageAwaited)).await;
        let result = if self.tables().is_absent(page) { self.read_page_alone(page).await } else { Ok(()) };
        self.table_cache.end_read(page);
        self.evict_pages();
        result
    }

    async fn read_page_alone(self: &Rc<Self>, page: PageId) -> Result<(), VolumeError> {
        loop {
            let stored = self.tables().pages.stored(page);
            let all = self.tables().pages.copies(page).to_vec();
            let mut copies = all.clone();
            copies.retain(|copy| self.members.is_active(copy.member));
            copies.sort_by_key(|copy| self.members.burden(copy.member));
            let mut bad: Vec<PageCopy> = Vec::new();
            for copy in copies {
                let read = self.read_page_copy(copy, page).await.filter(|(lsn, _)| *lsn == stored);
                if read.is_some_and(|(_, data)| self.tables.borrow_mut().fill(page, data.bytes())) {
                    self.count_read(page);
                    self.table_cache.note_read(page, false);
                    // The page is written anew: with one good copy, the others can go.
                    for copy in bad.into_iter().filter(|copy| self.members.is_active(copy.member)) {
                        self.mark(Mark::PageCopyBad);
                        self.give_up_page(page, copy);
                    }
                    return Ok(());
                }
                bad.push(copy);
            }
            if self.tables().pages.copies(page) == all {
                self.mark(Mark::PageLost);
                self.table_cache.note_read(page, true);
                self.counters.failed_reads.add(1);
                return Err(VolumeError::Failed);
            }
            // It was written elsewhere meanwhile.
            self.mark(Mark::PageReadAgain);
        }
    }

    fn count_read(&self, page: PageId) {
        match page {
            PageId::Shard => {}
            PageId::Stripes(_) => {
                self.mark(Mark::SlotsRead);
                self.counters.slot_pages_read.add(1);
            }
            PageId::Map(_) => {
                self.mark(Mark::MapRead);
                self.counters.map_pages_read.add(1);
            }
        }
    }

    /// A copy of a table page with the last journal block that it contains, if it is an intact copy of that page.
    pub(crate) async fn read_page_copy(&self, copy: PageCopy, page: PageId) -> Option<(Lsn, Buf)> {
        let (header, data) = page_copy::read(&self.members, self.index, copy).await?;
        (header.pool == self.pool && header.page == page).then_some((header.lsn, data))
    }

    /// Whether no copy of some absent page can be read. Such a page cannot be written either.
    pub(crate) fn has_lost_pages(&self) -> bool {
        self.table_cache.has_lost()
    }

    /// Users of pages.
    pub(crate) fn page_pins(&self) -> usize {
        self.table_cache.pins()
    }

    /// Takes pages out of memory until there is no more in it than there may be.
    pub(crate) fn evict_pages(&self) {
        let copies = if mutation::on(Mutation::EvictShort) { 1 } else { self.copies_possible() };
        let is_stored =
            |tables: &Tables, page| tables.pages.is_stored(page, copies, |m| self.members.takes_new(m));
        let evicted = |page| {
            self.mark(if matches!(page, PageId::Map(_)) { Mark::MapEvicted } else { Mark::SlotsEvicted });
        };
        self.table_cache.evict(&mut self.tables.borrow_mut(), is_stored, evicted);
    }
}
