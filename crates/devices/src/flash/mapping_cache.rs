//! The part of the mapping table that is in memory, on a drive that keeps the table on flash.
//!
//! Pure bookkeeping: which pages of the table are in memory, which have changed there, which requests wait for a page. The
//! drive reads and programs the pages ([`super::ssd`]).

use std::collections::{BTreeMap, VecDeque};

use super::features::MappingCache;

/// No page.
const NO_PAGE: u32 = u32::MAX;

/// A page of the table.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// Neighbours in the order of use, of a page in memory.
    older: u32,
    newer: u32,
    in_memory: bool,
    /// It has changed since it was programmed, or will have once it is in memory.
    changed: bool,
    /// It was evicted and is still to be programmed.
    leaving: bool,
}

/// What a page needs before an entry of it can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// Nothing.
    Hit,
    /// It is being read.
    Wait,
    /// It has to be read.
    Miss,
}

/// The table of a drive.
#[derive(Clone, Debug)]
pub(super) struct TableCache {
    pages: Vec<Page>,
    /// Blocks whose entries a page has.
    entries: u32,
    in_memory: u32,
    in_memory_max: u32,
    oldest: u32,
    newest: u32,
    /// Requests that wait for a page that is being read.
    waiting: BTreeMap<u32, Vec<u32>>,
    /// Pages that were evicted and are to be programmed, in order.
    leaving: VecDeque<u32>,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl TableCache {
    /// The table of `blocks` blocks, none of it in memory.
    pub(super) fn new(parameters: MappingCache, blocks: u32) -> TableCache {
        let page = Page { older: NO_PAGE, newer: NO_PAGE, in_memory: false, changed: false, leaving: false };
        TableCache {
            pages: vec![page; parameters.table_pages(blocks) as usize],
            entries: parameters.entries,
            in_memory: 0,
            in_memory_max: parameters.pages.max(MappingCache::PAGES_MIN),
            oldest: NO_PAGE,
            newest: NO_PAGE,
            waiting: BTreeMap::new(),
            leaving: VecDeque::new(),
            hits: 0,
            misses: 0,
        }
    }

    /// The page with the entry of a block.
    pub(super) fn page_of(&self, lba: u32) -> u32 {
        lba / self.entries
    }

    /// Uses an entry of a page, and changes it if `changes`.
    pub(super) fn look_up(&mut self, page: u32, changes: bool) -> Lookup {
        let known = &mut self.pages[page as usize];
        known.changed |= changes;
        if known.in_memory {
            self.hits += 1;
            self.unlink(page);
            self.link(page);
            return Lookup::Hit;
        }
        if std::mem::take(&mut known.leaving) {
            // It is in memory as long as it is not programmed, and has changed.
            self.hits += 1;
            self.pages[page as usize].changed = true;
            self.bring_in(page);
            return Lookup::Hit;
        }
        self.misses += 1;
        if self.waiting.contains_key(&page) {
            return Lookup::Wait;
        }
        self.waiting.insert(page, Vec::new());
        Lookup::Miss
    }

    /// Has a request wait for a page that is being read.
    pub(super) fn wait(&mut self, page: u32, request: u32) {
        self.waiting.entry(page).or_default().push(request);
    }

    /// A page has been read; returns the requests that wait for it.
    pub(super) fn read(&mut self, page: u32) -> Vec<u32> {
        self.bring_in(page);
        self.waiting.remove(&page).unwrap_or_default()
    }

    /// The page to be programmed next, if any.
    pub(super) fn next_leaving(&mut self) -> Option<u32> {
        while let Some(&page) = self.leaving.front() {
            if self.pages[page as usize].leaving {
                return Some(page);
            }
            // It was used again meanwhile.
            self.leaving.pop_front();
        }
        None
    }

    /// The page of [`TableCache::next_leaving`] is on its way to flash.
    pub(super) fn left(&mut self) {
        if let Some(page) = self.leaving.pop_front() {
            self.pages[page as usize].leaving = false;
        }
    }

    fn bring_in(&mut self, page: u32) {
        self.pages[page as usize].in_memory = true;
        self.link(page);
        self.in_memory += 1;
        if self.in_memory > self.in_memory_max {
            self.evict(self.oldest);
        }
    }

    fn evict(&mut self, page: u32) {
        self.unlink(page);
        self.in_memory -= 1;
        let evicted = &mut self.pages[page as usize];
        evicted.in_memory = false;
        if std::mem::take(&mut evicted.changed) {
            evicted.leaving = true;
            self.leaving.push_back(page);
        }
    }

    /// Makes a page the one used last.
    fn link(&mut self, page: u32) {
        let older = std::mem::replace(&mut self.newest, page);
        (self.pages[page as usize].older, self.pages[page as usize].newer) = (older, NO_PAGE);
        match older {
            NO_PAGE => self.oldest = page,
            older => self.pages[older as usize].newer = page,
        }
    }

    fn unlink(&mut self, page: u32) {
        let Page { older, newer, .. } = self.pages[page as usize];
        match older {
            NO_PAGE => self.oldest = newer,
            older => self.pages[older as usize].newer = newer,
        }
        match newer {
            NO_PAGE => self.newest = older,
            newer => self.pages[newer as usize].older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> TableCache {
        let mut table = TableCache::new(MappingCache::of_pages(8), 1024 * 20);
        for page in 0..8 {
            assert_eq!(table.look_up(page, page == 1), Lookup::Miss);
            assert!(table.read(page).is_empty());
        }
        table
    }

    #[test]
    fn the_least_recently_used_page_leaves_and_is_programmed_if_it_has_changed() {
        let mut table = full();
        assert_eq!(table.look_up(0, false), Lookup::Hit);
        assert_eq!(table.look_up(9, false), Lookup::Miss);
        assert_eq!(table.look_up(9, false), Lookup::Wait);
        table.wait(9, 5);
        assert_eq!(table.read(9), [5]);
        // Page 1 was the oldest, and has changed.
        assert_eq!(table.next_leaving(), Some(1));
        assert_eq!(table.look_up(10, false), Lookup::Miss);
        table.read(10);
        assert_eq!(table.next_leaving(), Some(1), "page 2 has not changed");
        table.left();
        assert_eq!(table.next_leaving(), None);
        assert_eq!(table.look_up(1, false), Lookup::Miss);
        assert_eq!((table.hits, table.misses), (1, 8 + 4));
    }

    #[test]
    fn a_page_on_its_way_out_is_used_from_memory() {
        let mut table = full();
        table.look_up(9, false);
        table.read(9);
        assert_eq!(table.look_up(0, false), Lookup::Miss);
        assert_eq!(table.look_up(1, false), Lookup::Hit);
        assert_eq!(table.next_leaving(), None);
        // It is still changed, and leaves again when it is the oldest.
        for page in 10..18 {
            table.look_up(page, false);
            table.read(page);
        }
        assert_eq!(table.next_leaving(), Some(1));
    }
}
