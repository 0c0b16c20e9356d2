//! The table cache: how much of the tables is in memory of what the members have as well, and which pages leave next.
//!
//! The slots of a page of the stripe table and the entries of a map page may leave memory once as many members as should have the
//! page as it is here. Which ones leave is decided by the clock algorithm: a hand passes over the pages, and takes those that were
//! not used since it passed last.
//!
//! The bound is soft. Pages that are pinned, or that the members do not have yet, stay in memory.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::store::per_page::PerPage;
use crate::store::tables::Tables;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::Signal;
use sinew_format::model::mapped_geometry::PAGE_BYTES;
use sinew_format::table_page::PageId;

/// Pages that the hand passes at most to make room for one.
const STEPS_MAX: usize = 1024;

/// The state of the cache.
pub(super) struct TableCache {
    bytes_max: Cell<u64>,
    uses: RefCell<PerPage<PageUse>>,
    hand: Cell<PageId>,
    /// Pages that are being read.
    reading: RefCell<BTreeSet<PageId>>,
    read: Signal,
    /// Pages of which no copy could be read last.
    lost: RefCell<BTreeSet<PageId>>,
}

/// Keeps a table page in memory.
pub(crate) struct PagePin {
    cache: Rc<TableCache>,
    page: PageId,
}

impl PagePin {
    /// The page.
    pub(super) fn page(&self) -> PageId {
        self.page
    }
}

impl Drop for PagePin {
    fn drop(&mut self) {
        self.cache.uses.borrow_mut().get_mut(self.page).pins -= 1;
    }
}

#[derive(Clone, Copy, Default)]
struct PageUse {
    pins: u32,
    /// It was used since the hand passed.
    is_recent: bool,
}

impl Default for TableCache {
    fn default() -> TableCache {
        TableCache {
            bytes_max: Cell::new(u64::MAX),
            uses: RefCell::default(),
            hand: Cell::new(PageId::Shard),
            reading: RefCell::default(),
            read: Signal::default(),
            lost: RefCell::default(),
        }
    }
}

impl TableCache {
    /// Bounds the memory.
    pub(super) fn set_bytes_max(&self, bytes: u64) {
        self.bytes_max.set(bytes);
    }

    /// Whether no more than these bytes may be in memory.
    pub(super) fn is_full(&self, bytes: u64) -> bool {
        bytes >= self.bytes_max.get()
    }

    /// Whether these bytes exceed the bound by more than what tasks use at the moment.
    pub(super) fn is_crowded(&self, bytes: u64) -> bool {
        let max = self.bytes_max.get();
        bytes > max.saturating_add(max / 8 + PAGE_BYTES as u64)
    }

    /// A page was used.
    pub(super) fn note_use(&self, page: PageId) {
        self.uses.borrow_mut().get_mut(page).is_recent = true;
    }

    /// Keeps what is in memory of a page there.
    pub(super) fn pin(self: &Rc<Self>, page: PageId) -> PagePin {
        let mut uses = self.uses.borrow_mut();
        let used = uses.get_mut(page);
        used.pins += 1;
        used.is_recent = true;
        PagePin { cache: Rc::clone(self), page }
    }

    /// Pins in force.
    pub(super) fn pins(&self) -> usize {
        self.uses.borrow().iter().map(|(_, used)| used.pins as usize).sum()
    }

    /// Waits until no other task reads a page, which this one may then read; calls `waiting` each time that one does.
    pub(super) async fn begin_read(&self, page: PageId, waiting: impl Fn()) {
        let begin = || {
            let is_alone = self.reading.borrow_mut().insert(page);
            if !is_alone {
                waiting();
            }
            is_alone.then_some(())
        };
        self.read.wait(begin).await;
    }

    pub(super) fn end_read(&self, page: PageId) {
        self.reading.borrow_mut().remove(&page);
        self.read.notify();
    }

    /// Notes whether a copy of a page could be read.
    pub(super) fn note_read(&self, page: PageId, is_lost: bool) {
        let mut lost = self.lost.borrow_mut();
        if is_lost {
            lost.insert(page);
        } else {
            lost.remove(&page);
        }
    }

    /// Whether there is a page of which no copy could be read last.
    pub(super) fn has_lost(&self) -> bool {
        !self.lost.borrow().is_empty()
    }

    /// Takes stored pages out of memory until there is no more than there may be, or the hand has passed many; calls `evicted`
    /// for each.
    pub(super) fn evict(
        &self,
        tables: &mut Tables,
        is_stored: impl Fn(&Tables, PageId) -> bool,
        evicted: impl Fn(PageId),
    ) {
        let mut uses = self.uses.borrow_mut();
        // Twice around: the first time, pages may have been used since the last.
        for _ in 0..STEPS_MAX.min(2 * tables.cached_pages()) {
            if tables.cached_bytes() <= self.bytes_max.get() {
                break;
            }
            let Some(page) = tables.next_cached_page(self.hand.get()) else { break };
            self.hand.set(after(page));
            let used = uses.get_mut(page);
            let is_in_use = std::mem::take(&mut used.is_recent) || used.pins > 0;
            let is_stored = is_stored(tables, page) || mutation::on(Mutation::EvictUnwritten);
            if !is_in_use && !tables.has_freed_slots(page) && is_stored {
                tables.evict(page);
                evicted(page);
            }
        }
    }
}

/// The page after this one, if there is any.
fn after(page: PageId) -> PageId {
    match page {
        PageId::Shard => PageId::Stripes(0),
        PageId::Stripes(number) => PageId::Stripes(number + 1),
        PageId::Map(number) => PageId::Map(number + 1),
    }
}
