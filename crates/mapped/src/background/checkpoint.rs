//! The page cleaner: writes changed table pages so that the journal's tail can advance.
//!
//! A round takes the pages that changed first, as they are at that moment, makes the journal durable up to there,
//! writes the pages to fresh slots on f + 1 members, flushes, and only then frees the slots of the versions before and
//! moves the tail. A crash at any point finds either version.

use std::rc::Rc;

use crate::shard::MappedShard;
use crate::store::dirty_pages::PageCopy;
use sinew_core::buf::Buf;
use sinew_core::coverage::Mark;
use sinew_core::ids::Lsn;
use sinew_core::io::{Gather, Io, yield_now};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_format::model::mapped_geometry::PAGE_BYTES;
use sinew_format::table_page::{PageHeader, PageId};

/// Pages written by one round at most: 1 MiB of memory.
const ROUND_PAGES: usize = 64;
/// Of those, written at the same time.
const PAGES_AT_ONCE: usize = 16;
/// Pause after a round that came to nothing.
const RETRY_NS: u64 = 10_000_000;

/// A page as it was when the round took it.
struct Snapshot {
    page: PageId,
    since: Lsn,
    data: Gather,
}

impl<I: Io> MappedShard<I> {
    /// Cleans whenever the journal is half full or a page lacks a copy, for ever.
    pub(crate) async fn run_cleaner(self: Rc<Self>) {
        loop {
            self.cleaner.kicked().await;
            while self.needs_cleaning() {
                if !self.clean_round().await {
                    // No member takes pages at the moment, or something still holds the tail: look again later.
                    self.io.mark(Mark::CleanRetried);
                    self.io.sleep(RETRY_NS).await;
                }
            }
            self.cleaned.notify();
        }
    }

    fn needs_cleaning(&self) -> bool {
        let half = u64::from(self.geometry.journal_blocks) / 2;
        let alive = self.members.any_active();
        alive
            && (self.journal.used() > half
                || self.needs_redundancy()
                || self.closing.get() && !self.is_clean())
    }

    /// Whether pages, or journal blocks that replay needs, may be on fewer members than they should.
    pub(crate) fn needs_redundancy(&self) -> bool {
        self.recopy.get() || self.journal.tail_durable() < self.tail_wanted.get()
    }

    /// Whether nothing but the last journal block would be replayed.
    pub(crate) fn is_clean(&self) -> bool {
        self.tables.borrow().pages.dirty_count() == 0
    }

    /// One round; false when it came to nothing.
    async fn clean_round(self: &Rc<Self>) -> bool {
        let snapshots = self.take_snapshots().await;
        let taken = snapshots.len();
        if !mutation::on(Mutation::PagesBeforeJournal) && self.flush().await.is_err() {
            self.io.mark(Mark::CleanUnflushed);
            self.put_back(snapshots);
            return false;
        }
        let version = self.members.version();
        let mut written = Vec::with_capacity(taken);
        let mut unwritten = Vec::new();
        let mut rest = snapshots.into_iter();
        while !rest.as_slice().is_empty() {
            let some: Vec<Snapshot> = rest.by_ref().take(PAGES_AT_ONCE).collect();
            let copies = join_all(some.iter().map(|snapshot| self.write_page(snapshot))).await;
            for (snapshot, copies) in some.into_iter().zip(copies) {
                if copies.is_empty() {
                    self.io.mark(Mark::PageUnwritten);
                    unwritten.push(snapshot);
                } else {
                    written.push((snapshot, copies));
                }
            }
        }
        // The pages need no journal record to be found, but they must be durable before the old ones go.
        let durable = self.flush_pages().await && self.members.version() == version;
        if !durable {
            self.io.mark(Mark::CleanVoid);
        }
        for (snapshot, copies) in written {
            if durable {
                self.adopt_copies(&snapshot, copies);
            } else {
                self.space.borrow_mut().free_page_slots(copies);
                unwritten.push(snapshot);
            }
        }
        unwritten.sort_by_key(|s| s.since);
        self.put_back(unwritten);
        let short =
            self.tables.borrow().pages.any_short(self.copies_possible(), |m| self.members.takes_new(m));
        self.recopy.set(self.recopy.get() && short);
        durable && (self.advance_tail().await || !short)
    }

    /// Takes the pages that changed first. Clients have their turn between any two.
    async fn take_snapshots(&self) -> Vec<Snapshot> {
        let mut snapshots = Vec::with_capacity(ROUND_PAGES);
        while snapshots.len() < ROUND_PAGES
            && let Some(snapshot) = self.take_snapshot()
        {
            snapshots.push(snapshot);
            yield_now().await;
        }
        snapshots
    }

    fn take_snapshot(&self) -> Option<Snapshot> {
        let mut tables = self.tables.borrow_mut();
        let (page, lsn, since) = tables.pages.take_oldest()?;
        let mut data = Buf::stale(PAGE_BYTES);
        tables.encode_page(page, data.bytes_mut());
        PageHeader { pool: self.pool, shard: self.index as u16, page, lsn }.seal(data.bytes_mut());
        Some(Snapshot { page, since, data: Rc::new([data]) })
    }

    fn put_back(&self, snapshots: Vec<Snapshot>) {
        let mut tables = self.tables.borrow_mut();
        // The oldest goes back last, to the very front.
        for snapshot in snapshots.into_iter().rev() {
            tables.pages.put_back(snapshot.page, snapshot.since);
        }
    }

    /// Writes a page to fresh slots; gives those that took it.
    async fn write_page(&self, snapshot: &Snapshot) -> Vec<PageCopy> {
        let slots =
            self.space.borrow_mut().take_page_slots(self.geometry.copies(), |m| self.members.responds(m));
        let writes = slots.iter().map(|copy| {
            let offset = self.members.get(copy.member).layout.page_offset(self.index, copy.slot);
            self.members.write_at(copy.member, offset, Rc::clone(&snapshot.data))
        });
        let results = join_all(writes).await;
        let mut good = Vec::with_capacity(slots.len());
        for (copy, result) in slots.into_iter().zip(results) {
            match result {
                Ok(()) => good.push(copy),
                Err(error) => {
                    self.io.mark(Mark::PageMemberLost);
                    self.space.borrow_mut().free_page_slots([copy]);
                    self.members.report_failure(copy.member, error).await;
                }
            }
        }
        good
    }

    fn adopt_copies(&self, snapshot: &Snapshot, copies: Vec<PageCopy>) {
        let old = self.tables.borrow_mut().pages.set_copies(snapshot.page, copies);
        self.space.borrow_mut().free_page_slots(old);
        self.counters.pages_written.add(1);
    }

    /// Lets replay start later, and has the journal say so; false when nothing has changed.
    async fn advance_tail(self: &Rc<Self>) -> bool {
        let oldest = self.tables.borrow().pages.oldest_dirty();
        let tail = oldest.unwrap_or(self.journal.applied() + 1);
        if tail <= self.journal.tail() {
            return false;
        }
        self.journal.set_tail(tail);
        self.journal.mark().await.is_ok() && self.flush().await.is_ok()
    }

    /// Copies a page can have with the members that are left.
    pub(crate) fn copies_possible(&self) -> usize {
        self.geometry.copies().min(self.members.taking_new())
    }

    /// After a change of members: has every page with too few copies written again, and the tail move past all journal
    /// blocks written so far, some of which may have too few.
    pub(crate) fn restore_redundancy(&self) {
        if mutation::on(Mutation::ForgetMetadataCopies) {
            return;
        }
        self.tail_wanted.set(self.journal.next());
        let (copies, applied) = (self.copies_possible(), self.journal.applied());
        self.tables.borrow_mut().pages.rewrite_short(copies, |m| self.members.takes_new(m), applied);
        self.recopy.set(true);
        self.cleaner.kick();
    }
}
