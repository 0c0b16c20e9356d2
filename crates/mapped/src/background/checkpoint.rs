//! The checkpoint: writes changed table pages so that the journal's tail can advance.
//!
//! A round takes the pages that changed first, as they are at that moment, makes the journal durable up to there, has the
//! members state that their pages reach as far as they will, writes the pages to fresh slots on f + 1 members, flushes, and only
//! then frees the slots of the old versions and moves the tail. A crash at any point finds either version.

use sinew_core::volume::VolumeError;
use std::rc::Rc;

use crate::marks::Mark;
use crate::store::Store;
use crate::store::dirty_pages::PageCopy;
use crate::store::page_snapshot::Snapshot;
use sinew_core::io::{Io, IoError, yield_now};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;

/// Pages written by one round at most: 1 MiB of memory.
const ROUND_PAGES: usize = 64;

/// Of those, written at the same time.
const PAGES_AT_ONCE: usize = 16;

/// Pause after a round that came to nothing.
const RETRY_NS: u64 = 10_000_000;

/// The checkpoint of a shard.
pub(crate) struct Checkpointer<I> {
    store: Rc<Store<I>>,
}

impl<I: Io> Checkpointer<I> {
    pub(crate) fn new(store: Rc<Store<I>>) -> Checkpointer<I> {
        Checkpointer { store }
    }

    /// The task that writes a checkpoint whenever the journal is half full, a page lacks a copy, or changed pages take more memory than
    /// they may. It never ends.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.store.wakeups().checkpoint.kicked().await;
            while self.is_due() {
                let came_to_something = self.round().await;
                self.store.wakeups().checkpoint_round.notify();
                if !came_to_something {
                    if self.store.is_closing() && self.is_blocked() {
                        break;
                    }
                    // No member takes pages at the moment, or a page still holds the tail: try again later.
                    self.store.mark(Mark::CleanRetried);
                    self.store.io().sleep(RETRY_NS).await;
                }
            }
            self.store.wakeups().checkpoint_round.notify();
            self.store.wakeups().checkpointed.notify();
        }
    }

    fn is_due(&self) -> bool {
        let half = u64::from(self.store.geometry().journal_blocks) / 2;
        let alive = self.store.members().any_active();
        alive
            && (self.store.journal().used() > half
                || self.store.needs_redundancy()
                || self.store.is_cache_crowded()
                || self.store.is_closing() && !self.store.is_clean())
    }

    /// One round; false when it came to nothing.
    async fn round(&self) -> bool {
        let snapshots = self.take_snapshots().await;
        let taken = snapshots.len();
        if !mutation::on(Mutation::PagesBeforeJournal) && self.store.flush().await.is_err() {
            self.store.mark(Mark::CleanUnflushed);
            self.store.put_back(snapshots);
            return false;
        }
        self.store.make_page_room(taken as u32).await;
        let version = self.store.members().version();
        let mut written = Vec::with_capacity(taken);
        let mut unwritten = Vec::new();
        let mut rest = snapshots.into_iter();
        while !rest.as_slice().is_empty() {
            let some: Vec<Snapshot> = rest.by_ref().take(PAGES_AT_ONCE).collect();
            let copies = join_all(some.iter().map(|snapshot| self.write_page(snapshot))).await;
            for (snapshot, copies) in some.into_iter().zip(copies) {
                if copies.is_empty() {
                    self.store.mark(Mark::PageUnwritten);
                    unwritten.push(snapshot);
                } else {
                    written.push((snapshot, copies));
                }
            }
        }
        // The pages need no journal record to be found, but they must be durable before the old ones go.
        let durable = self.store.flush_pages().await && self.store.members().version() == version;
        if !durable {
            self.store.mark(Mark::CleanVoid);
        }
        for (snapshot, copies) in written {
            if durable {
                self.store.adopt_copies(&snapshot, copies);
            } else {
                self.store.allocator_mut().free_page_slots(copies);
                unwritten.push(snapshot);
            }
        }
        unwritten.sort_by_key(|s| s.since);
        self.store.put_back(unwritten);
        self.store.evict_pages();
        let short = self.store.note_short_pages();
        durable && (self.advance_tail().await || !short) && !self.store.has_lost_pages()
    }

    /// Takes the pages that changed first, up to one that is absent and cannot be read. Clients run between any two.
    async fn take_snapshots(&self) -> Vec<Snapshot> {
        let mut snapshots = Vec::with_capacity(ROUND_PAGES);
        while snapshots.len() < ROUND_PAGES
            && let Ok(Some(snapshot)) = self.store.take_snapshot().await
        {
            snapshots.push(snapshot);
            yield_now().await;
        }
        snapshots
    }

    /// Writes a page to fresh slots; gives those that took it.
    async fn write_page(&self, snapshot: &Snapshot) -> Vec<PageCopy> {
        let slots = self.store.allocator_mut().take_page_slots(self.store.geometry().copies(), |m| {
            self.store.members().responds(m) && self.store.members().has_space(m)
        });
        let writes = slots.iter().map(|copy| {
            let offset =
                self.store.members().get(copy.member).layout.page_offset(self.store.index(), copy.slot);
            self.store.members().write_at(copy.member, offset, Rc::clone(&snapshot.data))
        });
        let results = join_all(writes).await;
        if results.contains(&Err(IoError::NoSpace)) {
            // Fewer copies than due are not enough as long as the members are there.
            self.store.mark(Mark::PageNoSpace);
            self.store.allocator_mut().free_page_slots(slots);
            return Vec::new();
        }
        let mut good = Vec::with_capacity(slots.len());
        for (copy, result) in slots.into_iter().zip(results) {
            match result {
                Ok(()) => good.push(copy),
                Err(error) => {
                    self.store.mark(Mark::PageMemberLost);
                    self.store.allocator_mut().free_page_slots([copy]);
                    self.store.members().report_failure(copy.member, error).await;
                }
            }
        }
        good
    }

    /// Lets replay start later, and has the journal say so; false when a page still holds the tail. Replay starts at a block
    /// that is durable: by its epoch it knows the blocks after it that an earlier opening left in the ring. If there is none
    /// after the present tail, the block written here will be one.
    async fn advance_tail(&self) -> bool {
        let journal = self.store.journal();
        let mut tail = self.store.tables().pages.oldest_dirty().unwrap_or(journal.applied() + 1);
        if tail <= journal.tail() {
            return false;
        }
        if !mutation::on(Mutation::TailPastFlushed) {
            tail = tail.min(journal.flushed()).max(journal.tail());
        }
        journal.set_tail(tail);
        journal.mark().await.is_ok() && self.store.flush().await.is_ok()
    }

    /// Writes all changed pages, for the pool to be closed.
    ///
    /// # Errors
    /// When no member is left.
    pub(crate) async fn finish(&self) -> Result<(), VolumeError> {
        let (store, wakeups) = (&self.store, self.store.wakeups());
        while !store.is_clean() {
            wakeups.checkpoint.kick();
            wakeups.checkpointed.wait_once().await;
            if !store.members().any_active() {
                return Err(VolumeError::Failed);
            }
            if self.is_blocked() {
                // The journal has what the pages lack.
                store.mark(Mark::CloseNoSpace);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether pages cannot be written, as members have no space for them, or the rest of their content is lost.
    fn is_blocked(&self) -> bool {
        self.store.members().is_any_full() || self.store.has_lost_pages()
    }
}
