//! Scrub: reads every chunk of every stripe, checks checksums, copies and parity against each other, and mends; then
//! every copy of every table page.
//!
//! It keeps its place in the journal, so it goes on after a restart.

use std::rc::Rc;

use crate::shard::MappedShard;
use crate::store::dirty_pages::PageCopy;
use crate::store::tables::StripeState;
use crate::stripe::read::ChunkPart;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::Mark;
use sinew_core::ids::{Home, Lsn, MemberId, StripeId};
use sinew_core::io::{Io, IoError};
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::{CHUNK_BLOCKS, CHUNK_BYTES, PAGE_BYTES};
use sinew_format::table_page::{PageHeader, PageId};

/// Stripes between records of how far it has come.
const STRIPES_PER_RECORD: u32 = 64;
/// Pause before a stripe in use is looked at again.
const RETRY_NS: u64 = 1_000_000;
/// How often a stripe in use is looked at again before the scrub goes on without it; it will have been written anew.
const RETRIES_MAX: usize = 1000;

impl<I: Io> MappedShard<I> {
    /// Scrubs whenever told to, or where the last opening of the pool left off, for ever.
    pub(crate) async fn run_scrubber(self: Rc<Self>) {
        loop {
            self.scrub_to_end().await;
            self.scrubber.kicked().await;
        }
    }

    /// Starts a scrub from the first stripe, or stops the one under way.
    pub(crate) async fn set_scrub(&self, run: bool) -> Result<(), sinew_core::volume::VolumeError> {
        let next = run.then_some(StripeId(0));
        // First, so that the scrub under way does not record its place after this.
        self.scrub_orders.set(self.scrub_orders.get() + 1);
        self.journal.commit(vec![Record::Scrub { next }]).await?;
        self.scrubber.kick();
        Ok(())
    }

    async fn scrub_to_end(self: &Rc<Self>) {
        let started = self.tables.borrow().scrub_next;
        let Some(mut stripe) = started else { return };
        if stripe.0 > 0 {
            self.io.mark(Mark::ScrubResumed);
        }
        let order = self.scrub_orders.get();
        while stripe.0 < self.tables.borrow().stripe_count() {
            self.scrub_when_free(stripe).await;
            if self.scrub_orders.get() != order || self.closing.get() {
                self.io.mark(Mark::ScrubStopped);
                return;
            }
            stripe.0 += 1;
            if stripe.0 % STRIPES_PER_RECORD == 0
                && self.journal.commit(vec![Record::Scrub { next: Some(stripe) }]).await.is_err()
            {
                return;
            }
        }
        self.scrub_pages().await;
        self.counters.scrubs_done.add(1);
        let _ = self.journal.commit(vec![Record::Scrub { next: None }]).await;
    }

    async fn scrub_when_free(self: &Rc<Self>, stripe: StripeId) {
        for _ in 0..RETRIES_MAX {
            if self.tables.borrow().stripe(stripe).state == StripeState::Free {
                return;
            }
            if self.appender.is_open(stripe) {
                // Nobody knows when it will be full.
                self.io.mark(Mark::ScrubbedOpen);
                self.appender.close(self, stripe);
            }
            if let Some(_lock) = self.lock_stripe(stripe) {
                self.scrub_stripe(stripe).await;
                return;
            }
            self.io.mark(Mark::ScrubBusy);
            self.io.sleep(RETRY_NS).await;
        }
    }

    async fn scrub_stripe(self: &Rc<Self>, stripe: StripeId) {
        let found = self.tables.borrow().stripe(stripe);
        let mut chunks = Vec::new();
        for column in 0..usize::from(found.columns) {
            self.throttle.pay(&self.io, CHUNK_BYTES).await;
            self.step_back(stripe, CHUNK_BYTES / found.columns.max(1) as u64).await;
            chunks.push(self.scrub_column(stripe, column).await);
        }
        if found.state == StripeState::Parity
            && let Some(chunks) = chunks.into_iter().map(|c| c.map(|c| vec![c])).collect::<Option<Vec<_>>>()
        {
            self.scrub_parity(stripe, chunks).await;
        }
        self.counters.stripes_scrubbed.add(1);
    }

    /// Checks and mends every copy of a column; gives the chunk at its own home, if that is good.
    async fn scrub_column(self: &Rc<Self>, stripe: StripeId, column: usize) -> Option<Buf> {
        let g = self.geometry;
        let part = ChunkPart { stripe, column, offset: 0, count: CHUNK_BLOCKS };
        let mut first: Option<Buf> = None;
        let indices =
            std::iter::once(column).chain((0..g.failures()).map(|copy| g.mirror_index(copy, column)));
        for index in indices {
            let Some(home) = self.live_home(stripe, index) else { continue };
            let read = match self.read_home(home, 0, CHUNK_BLOCKS).await {
                Ok(buf) if self.mismatches(part, &buf) == 0 => Some(buf),
                _ if self.live_home(stripe, index) != Some(home) => None,
                Ok(buf) => {
                    self.members.note_checksum_error(home.member, self.mismatches(part, &buf));
                    self.mend_counted(part, index, home).await
                }
                Err(_) => self.mend_counted(part, index, home).await,
            };
            let Some(buf) = read else { continue };
            match &first {
                None if index == column => first = Some(buf),
                Some(first) if !g.checksums => self.scrub_mirror(part, home, first, &buf).await,
                _ => {}
            }
        }
        first
    }

    async fn mend_counted(self: &Rc<Self>, part: ChunkPart, index: usize, home: Home) -> Option<Buf> {
        self.counters.scrub_errors.add(1);
        let mended = self.mend_chunk(part.stripe, part.column, index, home).await;
        if mended.is_some() {
            self.io.mark(Mark::ScrubMended);
        } else if self.live_home(part.stripe, index) == Some(home) {
            self.io.mark(Mark::ScrubUnmended);
            self.counters.scrub_unrepaired.add(1);
        }
        mended
    }

    /// Without checksums nobody knows which of two copies is right; the first is taken.
    async fn scrub_mirror(self: &Rc<Self>, part: ChunkPart, home: Home, first: &Buf, mirror: &Buf) {
        for offset in 0..part.count {
            let slot = self.geometry.slot(part.stripe, part.column, offset);
            let range = offset as usize * BLOCK_BYTES..(offset as usize + 1) * BLOCK_BYTES;
            let owned = self.tables.borrow().owner(slot).is_some();
            if !owned || first.bytes()[range.clone()] == mirror.bytes()[range.clone()] {
                continue;
            }
            self.counters.scrub_errors.add(1);
            let good = first.slice(range.start, BLOCK_BYTES);
            let written = self.members.write(home, offset, Rc::new([good])).await;
            self.unflushed_stripes.borrow_mut().insert(part.stripe);
            match written {
                Ok(()) => self.members.note_repair(home.member, 1),
                Err(error) => {
                    self.io.mark(Mark::RepairFailed);
                    self.members.report_failure(home.member, error).await;
                }
            }
        }
    }

    async fn scrub_parity(self: &Rc<Self>, stripe: StripeId, mut chunks: Vec<Vec<Buf>>) {
        let (mut wrong, mut rows) = (Vec::new(), Vec::new());
        let mut parity = self.compute_parity(&chunks);
        for (p, parity) in parity.iter().enumerate() {
            let Some(home) = self.live_home(stripe, self.geometry.parity_index(p)) else { continue };
            let found = self.read_home(home, 0, CHUNK_BLOCKS).await;
            if found.as_ref().is_ok_and(|found| found.bytes() == parity.bytes()) {
                continue;
            }
            wrong.push((p, home));
            let differs =
                |row: &u32| found.as_ref().is_ok_and(|found| block(found, *row) != block(parity, *row));
            rows.extend((0..CHUNK_BLOCKS).filter(differs));
        }
        match self.fill_discarded(stripe, &rows, &mut chunks).await {
            Ok(false) => {}
            Ok(true) => parity = self.compute_parity(&chunks),
            Err((member, error)) => self.members.report_failure(member, error).await,
        }
        for (p, home) in wrong.into_iter().filter(|(_, home)| self.members.is_active(home.member)) {
            self.counters.scrub_errors.add(1);
            let written = self.members.write(home, 0, Rc::new([parity[p].clone()])).await;
            self.unflushed_stripes.borrow_mut().insert(stripe);
            match written {
                Ok(()) => {
                    self.io.mark(Mark::ScrubParityMended);
                    self.members.note_repair(home.member, u64::from(CHUNK_BLOCKS));
                }
                Err(error) => {
                    self.io.mark(Mark::RepairFailed);
                    self.members.report_failure(home.member, error).await;
                }
            }
        }
    }

    /// Writes zeros, in rows where parity is wrong, to blocks that nobody owns and that may never have been written since they
    /// were discarded: such read as something else each time, so no parity would be right. Whether there were any.
    async fn fill_discarded(
        &self,
        stripe: StripeId,
        rows: &[u32],
        chunks: &mut [Vec<Buf>],
    ) -> Result<bool, (MemberId, IoError)> {
        let mut any = false;
        for (column, chunk) in chunks.iter_mut().enumerate() {
            let Some(home) = self.live_home(stripe, column) else { continue };
            let is_owned =
                |row| self.tables.borrow().owner(self.geometry.slot(stripe, column, row)).is_some();
            if !self.members.takes_discards(home.member) || rows.iter().all(|&row| is_owned(row)) {
                continue;
            }
            let mut filled = Buf::copy_of(chunk[0].bytes());
            for &row in rows.iter().filter(|&&row| !is_owned(row)) {
                self.io.mark(Mark::ScrubFilled);
                let zeros = Buf::zeroed(BLOCK_BYTES);
                filled.bytes_mut()[row as usize * BLOCK_BYTES..][..BLOCK_BYTES]
                    .copy_from_slice(zeros.bytes());
                let written = self.members.write(home, row, Rc::new([zeros])).await;
                written.map_err(|error| (home.member, error))?;
            }
            *chunk = vec![filled];
            any = true;
        }
        Ok(any)
    }

    /// Checks every copy of every table page; one that is not what it should be is given up, and the page written anew.
    async fn scrub_pages(self: &Rc<Self>) {
        let pages: Vec<PageId> = self.tables.borrow().pages.written().map(|(page, _)| page).collect();
        for page in pages {
            let copies = self.tables.borrow().pages.copies(page).to_vec();
            let mut found = Vec::with_capacity(copies.len());
            for &copy in copies.iter().filter(|copy| self.members.is_active(copy.member)) {
                self.throttle.pay(&self.io, PAGE_BYTES as u64).await;
                found.push((copy, self.read_page(copy, page).await));
            }
            // One that is older than another was not written when it should have been.
            let newest = found.iter().filter_map(|(_, lsn)| *lsn).max();
            for (copy, _) in found.into_iter().filter(|(_, lsn)| lsn.is_none() || *lsn < newest) {
                self.give_up_page(page, copy);
            }
        }
    }

    /// The last journal block contained in a copy of a page, if it is an intact copy of that page.
    async fn read_page(&self, copy: PageCopy, page: PageId) -> Option<Lsn> {
        let offset = self.members.get(copy.member).layout.page_offset(self.index, copy.slot);
        let mut data = self.members.read_at(copy.member, offset, PAGE_BYTES).await.ok()?;
        let header = PageHeader::open(data.bytes_mut()).ok()?;
        let is_it =
            header.pool == self.pool && usize::from(header.shard) == self.index && header.page == page;
        is_it.then_some(header.lsn)
    }

    fn give_up_page(self: &Rc<Self>, page: PageId, copy: PageCopy) {
        // It may have been written elsewhere meanwhile, and its slot be another page's by now.
        if self.tables.borrow_mut().pages.forget_copy(page, copy) {
            self.io.mark(Mark::ScrubPageBad);
            self.space.borrow_mut().free_page_slots([copy]);
            self.counters.scrub_errors.add(1);
            self.members.note_checksum_error(copy.member, 1);
            self.restore_redundancy();
        }
    }
}

/// One block of a chunk.
fn block(chunk: &Buf, row: u32) -> &[u8] {
    &chunk.bytes()[row as usize * BLOCK_BYTES..][..BLOCK_BYTES]
}
