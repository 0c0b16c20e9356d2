//! Reading the table pages: the newest intact copy of each.

use std::collections::{BTreeMap, BTreeSet};

use crate::marks::Mark;
use crate::recovery::{READ_MARKS, Recovery};
use crate::store::dirty_pages::PageCopy;
use crate::store::page_copy;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::{Lsn, MemberId, StripeId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_format::model::mapped_geometry::PAGE_BYTES;
use sinew_format::page_reach::PageReach;
use sinew_format::table_page::{PageHeader, PageId};
use sinew_members::open_error::RecoverError;
use sinew_members::open_mode::OpenMode;
use sinew_members::ring::reader::{Region, Unit, read_regions};

/// Pages read at the same time.
const PAGES_AT_ONCE: usize = 64;

/// The newest intact version of a page, and where copies of it are; at least one.
struct FoundPage {
    lsn: Lsn,
    copies: Vec<PageCopy>,
}

impl<I: Io> Recovery<I> {
    pub(super) async fn load_pages(&mut self) -> Result<(), RecoverError> {
        let (index, io, pool) = (self.index, self.io.clone(), self.config.pool);
        let copies = self.config.mapped().copies().min(self.members.active().len());
        let mut found: BTreeMap<PageId, FoundPage> = BTreeMap::new();
        self.read_reaches().await;
        let regions = self.members.active().into_iter().map(|m| {
            let layout = self.members.get(m).layout;
            // A last resort looks for older versions as well, wherever they are.
            let reach = self.reaches.get(&m).filter(|_| self.mode != OpenMode::LastResort);
            let slots = reach.copied().unwrap_or(layout.page_slots);
            let bytes = u64::from(slots) * PAGE_BYTES as u64;
            (m, Region { offset: layout.page_offset(index, 0), bytes })
        });
        let pages = |Unit { member, at, data }: Unit| {
            let Ok(header) = PageHeader::open(data.bytes()) else { return };
            if header.pool != pool || usize::from(header.shard) != index {
                return;
            }
            let copy = PageCopy { member, slot: (at / PAGE_BYTES as u64) as u32 };
            match found.get_mut(&header.page) {
                Some(page) if page.lsn == header.lsn => page.copies.push(copy),
                Some(page) if page.lsn > header.lsn => io.mark(Mark::RecoverPageOlder),
                _ => drop(found.insert(header.page, FoundPage { lsn: header.lsn, copies: vec![copy] })),
            }
        };
        self.report.bytes_read += read_regions(&self.members, regions, PAGE_BYTES, READ_MARKS, pages).await;
        // Their content is read again rather than kept: it is as large as the tables that are made of it.
        let mut found = found.into_iter();
        loop {
            let some: Vec<_> = found.by_ref().take(PAGES_AT_ONCE).collect();
            if some.is_empty() {
                return Ok(());
            }
            let contents = join_all(some.iter().map(|(id, page)| self.read_page(*id, page))).await;
            for ((id, mut page), content) in some.into_iter().zip(contents) {
                // Its blocks are unknown then, as those of pages without any copy.
                if content.is_err() && self.mode == OpenMode::LastResort {
                    continue;
                }
                let content = content?;
                // The same version may have been written twice; copies beyond those due are free space.
                page.copies.sort_by_key(|c| c.member);
                page.copies.dedup_by_key(|c| c.member);
                page.copies.truncate(copies);
                // What lacks copies is to be written again, not read again.
                let is_short = page.copies.len() < copies && !mutation::on(Mutation::EvictShort);
                let cache_max = match id {
                    _ if is_short => u64::MAX,
                    // Slots come first; they leave room for the map, which is looked at before them.
                    PageId::Shard | PageId::Stripes(_) => self.cache_max / 2,
                    PageId::Map(_) => self.cache_max,
                };
                let loaded = self.tables.load_page(id, content.bytes(), &self.bounds, cache_max);
                loaded.map_err(|error| self.damaged(format!("page {id:?}: {error}")))?;
                self.tables.pages.loaded(id, page.lsn, page.copies);
                self.report.pages += 1;
                self.report.bytes_read += PAGE_BYTES as u64;
            }
        }
    }

    /// Reads how far pages reach on each member. Where that is damaged, or was torn, they may be anywhere.
    async fn read_reaches(&mut self) {
        if !self.config.states_reach {
            return;
        }
        let active = self.members.active();
        let read = join_all(active.iter().map(|&member| self.read_reach(member))).await;
        let stated = active.into_iter().zip(read).filter_map(|(member, reach)| Some((member, reach?)));
        self.reaches = stated.collect();
    }

    async fn read_reach(&self, member: MemberId) -> Option<u32> {
        let layout = self.members.get(member).layout;
        let block = self.members.read_at(member, layout.page_offset(self.index, 0), BLOCK_BYTES).await;
        let found = block.ok().and_then(|block| PageReach::decode(block.bytes()).ok()).filter(|found| {
            found.pool == self.config.pool
                && usize::from(found.shard) == self.index
                && found.slots <= layout.page_slots
        });
        if found.is_none() {
            self.io.mark(Mark::RecoverReachUnknown);
        }
        found.map(|found| found.slots)
    }

    /// Takes the absent slots of stripes into memory.
    pub(super) async fn read_slots(&mut self, stripes: &BTreeSet<StripeId>) -> Result<(), RecoverError> {
        let absent = stripes.iter().filter(|&&stripe| self.tables.slots_are_absent(stripe));
        let page = |&stripe| PageId::Stripes(self.config.mapped().stripe_page(stripe));
        self.read_absent(absent.map(page).collect(), Mark::RecoverSlotsRead).await
    }

    /// Takes pages into memory that are absent.
    pub(super) async fn read_absent(
        &mut self,
        absent: BTreeSet<PageId>,
        mark: Mark,
    ) -> Result<(), RecoverError> {
        for some in absent.into_iter().collect::<Vec<_>>().chunks(PAGES_AT_ONCE) {
            let found: Vec<(PageId, FoundPage)> = some.iter().map(|&page| (page, self.found(page))).collect();
            let read = found.iter().map(|(page, found)| self.read_page(*page, found));
            for (page, content) in some.iter().zip(join_all(read).await) {
                self.io.mark(mark);
                self.tables.fill(*page, content?.bytes());
                self.report.bytes_read += PAGE_BYTES as u64;
            }
        }
        Ok(())
    }

    /// A page that was loaded.
    fn found(&self, page: PageId) -> FoundPage {
        let pages = &self.tables.pages;
        FoundPage { lsn: pages.stored(page), copies: pages.copies(page).to_vec() }
    }

    /// Reads a page from any of its copies.
    async fn read_page(&self, id: PageId, page: &FoundPage) -> Result<Buf, RecoverError> {
        for &copy in &page.copies {
            if let Some((header, data)) = page_copy::read(&self.members, self.index, copy).await
                && (header.page, header.lsn) == (id, page.lsn)
            {
                return Ok(data);
            }
        }
        // It was there a moment ago.
        Err(RecoverError::MemberFailed { shard: self.index, member: page.copies[0].member })
    }
}
