//! The cache of slots: how many stripes have the owners and checksums of their slots in memory, and which pages leave next.
//!
//! The slots of a table page may leave memory once as many members as should have the page as it is here. Which ones leave is decided by
//! the clock algorithm: a hand passes over the pages, and takes those that were not used since it passed last.
//!
//! The bound is soft. Slots that are pinned, or that the members do not have yet, stay in memory.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::store::tables::Tables;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::Signal;
use sinew_format::table_page::PageId;

/// The state of the cache.
pub(super) struct SlotCache {
    /// Stripes whose slots may be in memory.
    stripes_max: Cell<usize>,
    pages: RefCell<Vec<PageUse>>,
    hand: Cell<u32>,
    /// Pages that are being read.
    reading: RefCell<BTreeSet<u32>>,
    read: Signal,
    /// Pages of which no copy could be read last.
    lost: RefCell<BTreeSet<u32>>,
}

#[derive(Clone, Copy, Default)]
struct PageUse {
    pins: u32,
    /// It was used since the hand passed.
    is_recent: bool,
}

impl Default for SlotCache {
    fn default() -> SlotCache {
        SlotCache {
            stripes_max: Cell::new(usize::MAX),
            pages: RefCell::default(),
            hand: Cell::default(),
            reading: RefCell::default(),
            read: Signal::default(),
            lost: RefCell::default(),
        }
    }
}

impl SlotCache {
    /// Bounds the number of stripes whose slots are in memory.
    pub(super) fn set_stripes_max(&self, stripes: usize) {
        self.stripes_max.set(stripes);
    }

    /// Whether no more slots than these may be in memory.
    pub(super) fn is_full(&self, stripes: usize) -> bool {
        stripes >= self.stripes_max.get()
    }

    /// A page was used.
    pub(super) fn note_use(&self, page: u32) {
        self.with_use(page, |used| used.is_recent = true);
    }

    /// Keeps a page in memory until as many calls of [`SlotCache::unpin`].
    pub(super) fn pin(&self, page: u32) {
        self.with_use(page, |used| {
            used.pins += 1;
            used.is_recent = true;
        });
    }

    fn with_use(&self, page: u32, change: impl FnOnce(&mut PageUse)) {
        let mut pages = self.pages.borrow_mut();
        if pages.len() <= page as usize {
            pages.resize(page as usize + 1, PageUse::default());
        }
        change(&mut pages[page as usize]);
    }

    pub(super) fn unpin(&self, page: u32) {
        self.pages.borrow_mut()[page as usize].pins -= 1;
    }

    /// Pins in force.
    pub(super) fn pins(&self) -> usize {
        self.pages.borrow().iter().map(|page| page.pins as usize).sum()
    }

    /// Waits until no other task reads a page, which this one may then read; calls `waiting` each time that one does.
    pub(super) async fn begin_read(&self, page: u32, waiting: impl Fn()) {
        let begin = || {
            let is_alone = self.reading.borrow_mut().insert(page);
            if !is_alone {
                waiting();
            }
            is_alone.then_some(())
        };
        self.read.wait(begin).await;
    }

    pub(super) fn end_read(&self, page: u32) {
        self.reading.borrow_mut().remove(&page);
        self.read.notify();
    }

    /// Notes whether a copy of a page could be read.
    pub(super) fn note_read(&self, page: u32, is_lost: bool) {
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

    /// Takes slots of stored pages out of memory until there are no more than there may be; gives the number of pages.
    pub(super) fn evict(&self, tables: &mut Tables, is_stored: impl Fn(&Tables, PageId) -> bool) -> usize {
        let mut uses = self.pages.borrow_mut();
        let mut evicted = 0;
        // Twice around: the first time, pages may have been used since the last.
        for _ in 0..2 * tables.slot_pages() {
            if tables.slots_present() <= self.stripes_max.get() {
                break;
            }
            let Some(page) = tables.next_slot_page(self.hand.get()) else { break };
            self.hand.set(page + 1);
            // A page that was never pinned has no entry.
            let used =
                uses.get_mut(page as usize).map(|used| (used.pins, std::mem::take(&mut used.is_recent)));
            let is_in_use = used.is_some_and(|(pins, is_recent)| pins > 0 || is_recent)
                || tables.page_has_freed_slots(page);
            let is_stored =
                is_stored(tables, PageId::Stripes(page)) || mutation::on(Mutation::EvictUnwritten);
            if !is_in_use && is_stored {
                tables.evict_slots(page);
                evicted += 1;
            }
        }
        evicted
    }
}
