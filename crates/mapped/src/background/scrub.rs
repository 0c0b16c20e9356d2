//! Scrub: reads every chunk of every stripe, checks checksums, copies and parity against each other, and repairs; then
//! every copy of every table page.
//!
//! Its position is kept in the journal, so it continues after a restart.

use std::cell::Cell;
use std::rc::Rc;

use crate::background::io_priority::IoPriority;
use crate::marks::Mark;
use crate::store::Store;
use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use crate::stripe::part::ChunkPart;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::{ChunkAddr, MemberId, StripeId};
use sinew_core::io::{Io, IoError};
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::{CHUNK_BLOCKS, CHUNK_BYTES, PAGE_BYTES};
use sinew_format::table_page::PageId;

/// Stripes between records of how far it has come.
const STRIPES_PER_RECORD: u32 = 64;

/// Pause before a stripe in use is looked at again.
const RETRY_NS: u64 = 1_000_000;

/// How often a stripe in use is looked at again before the scrub goes on without it; it will have been written anew.
const RETRIES_MAX: usize = 1000;

/// The scrub of a shard.
pub(crate) struct Scrubber<I> {
    store: Rc<Store<I>>,
    stripes: Rc<Stripes<I>>,
    priority: Rc<IoPriority<I>>,
    /// Counts the scrubs begun and stopped.
    scrub_orders: Cell<u64>,
}

impl<I: Io> Scrubber<I> {
    pub(crate) fn new(stripes: Rc<Stripes<I>>, priority: Rc<IoPriority<I>>) -> Scrubber<I> {
        Scrubber { store: Rc::clone(stripes.store()), stripes, priority, scrub_orders: Cell::default() }
    }

    /// The task that scrubs whenever told to, or from where the last opening of the pool stopped. It never ends.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.scrub_to_end().await;
            self.store.wakeups().scrub.kicked().await;
        }
    }

    /// Starts a scrub from the first stripe, or stops the one under way.
    pub(crate) async fn set_scrub(&self, run: bool) -> Result<(), sinew_core::volume::VolumeError> {
        let next = run.then_some(StripeId(0));
        // First, so that the scrub under way does not record its place after this.
        self.scrub_orders.set(self.scrub_orders.get() + 1);
        self.store.journal().commit(vec![Record::Scrub { next }]).await?;
        self.store.wakeups().scrub.kick();
        Ok(())
    }

    async fn scrub_to_end(&self) {
        let started = self.store.tables().scrub_next;
        let Some(mut stripe) = started else { return };
        if stripe.0 > 0 {
            self.store.mark(Mark::ScrubResumed);
        }
        let order = self.scrub_orders.get();
        while stripe.0 < self.store.tables().stripe_count() {
            self.scrub_when_free(stripe).await;
            if self.is_stopped(order) {
                return;
            }
            stripe.0 += 1;
            if stripe.0 % STRIPES_PER_RECORD == 0
                && self.store.journal().commit(vec![Record::Scrub { next: Some(stripe) }]).await.is_err()
            {
                return;
            }
        }
        self.scrub_pages().await;
        // The end of this scrub would be taken for that of one ordered meanwhile.
        if !self.is_stopped(order) {
            self.store.counters().scrubs_done.add(1);
            let _ = self.store.journal().commit(vec![Record::Scrub { next: None }]).await;
        }
    }

    /// Whether the scrub that began after this order is to stop, since there is a newer one or the pool is being closed.
    fn is_stopped(&self, order: u64) -> bool {
        let is_stopped = self.scrub_orders.get() != order || self.store.is_closing();
        if is_stopped {
            self.store.mark(Mark::ScrubStopped);
        }
        is_stopped
    }

    async fn scrub_when_free(&self, stripe: StripeId) {
        for _ in 0..RETRIES_MAX {
            if self.store.tables().stripe(stripe).state == StripeState::Free {
                return;
            }
            if self.stripes.is_open(stripe) {
                // It is not known when it will be full.
                self.store.mark(Mark::ScrubbedOpen);
                self.stripes.close_open(stripe);
            }
            if let Some(_lock) = self.store.lock_stripe(stripe) {
                self.scrub_stripe(stripe).await;
                return;
            }
            self.store.mark(Mark::ScrubBusy);
            self.store.io().sleep(RETRY_NS).await;
        }
    }

    async fn scrub_stripe(&self, stripe: StripeId) {
        let Ok(_slots) = self.store.pin_slots(stripe).await else {
            self.store.counters().scrub_unrepaired.add(1);
            return;
        };
        let found = self.store.tables().stripe(stripe);
        let mut chunks = Vec::new();
        for column in 0..usize::from(found.columns) {
            self.store.throttle().pay(self.store.io(), CHUNK_BYTES).await;
            self.priority.yield_stripe_to_clients(stripe, CHUNK_BYTES / found.columns.max(1) as u64).await;
            chunks.push(self.scrub_column(stripe, column).await);
        }
        if found.state == StripeState::Parity
            && let Some(chunks) = chunks.into_iter().map(|c| c.map(|c| vec![c])).collect::<Option<Vec<_>>>()
        {
            self.scrub_parity(stripe, chunks).await;
        }
        self.store.counters().stripes_scrubbed.add(1);
    }

    /// Checks and mends every copy of a column; gives the chunk at its own home, if that is good.
    async fn scrub_column(&self, stripe: StripeId, column: usize) -> Option<Buf> {
        let g = *self.store.geometry();
        let part = ChunkPart { stripe, column, offset: 0, count: CHUNK_BLOCKS };
        let mut first: Option<Buf> = None;
        for index in g.copies_of(column) {
            let Some(home) = self.stripes.live_home(stripe, index) else { continue };
            let read = match self.stripes.read_home(home, 0, CHUNK_BLOCKS).await {
                Ok(buf) if self.stripes.mismatches(part, &buf) == 0 => Some(buf),
                _ if self.stripes.live_home(stripe, index) != Some(home) => None,
                Ok(buf) => {
                    self.store
                        .members()
                        .note_checksum_error(home.member, self.stripes.mismatches(part, &buf));
                    self.repair_counted(part, index, home).await
                }
                Err(_) => self.repair_counted(part, index, home).await,
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

    async fn repair_counted(&self, part: ChunkPart, index: usize, home: ChunkAddr) -> Option<Buf> {
        self.store.counters().scrub_errors.add(1);
        let mended = self.stripes.repair_chunk(part.stripe, part.column, index, home).await;
        if mended.is_some() {
            self.store.mark(Mark::ScrubMended);
        } else if self.stripes.live_home(part.stripe, index) == Some(home) {
            self.store.mark(Mark::ScrubUnmended);
            self.store.counters().scrub_unrepaired.add(1);
        }
        mended
    }

    /// Without checksums it is not known which of two copies is right; the first is taken.
    async fn scrub_mirror(&self, part: ChunkPart, home: ChunkAddr, first: &Buf, mirror: &Buf) {
        for offset in 0..part.count {
            let slot = self.store.geometry().slot(part.stripe, part.column, offset);
            let range = offset as usize * BLOCK_BYTES..(offset as usize + 1) * BLOCK_BYTES;
            let owned = self.store.tables().owner(slot).is_some();
            if !owned || first.bytes()[range.clone()] == mirror.bytes()[range.clone()] {
                continue;
            }
            self.store.counters().scrub_errors.add(1);
            let good = first.slice(range.start, BLOCK_BYTES);
            let written = self.store.members().write(home, offset, Rc::new([good])).await;
            self.store.note_unflushed(part.stripe);
            match written {
                Ok(()) => self.store.members().note_repair(home.member, 1),
                Err(error) => {
                    self.store.mark(Mark::RepairFailed);
                    self.store.members().report_failure(home.member, error).await;
                }
            }
        }
    }

    async fn scrub_parity(&self, stripe: StripeId, mut chunks: Vec<Vec<Buf>>) {
        let (mut wrong, mut right, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut parity = self.stripes.compute_parity(&chunks);
        for (p, parity) in parity.iter().enumerate() {
            let Some(home) = self.stripes.live_home(stripe, self.store.geometry().parity_index(p)) else {
                continue;
            };
            let found = self.stripes.read_home(home, 0, CHUNK_BLOCKS).await;
            if found.as_ref().is_ok_and(|found| found.bytes() == parity.bytes()) {
                right.push((p, home));
                continue;
            }
            wrong.push((p, home));
            let differs =
                |row: &u32| found.as_ref().is_ok_and(|found| block(found, *row) != block(parity, *row));
            rows.extend((0..CHUNK_BLOCKS).filter(differs));
        }
        let is_active = |(_, home): &&(usize, ChunkAddr)| self.store.members().is_active(home.member);
        let errors = wrong.iter().filter(is_active).count() as u64;
        match self.zero_discarded(stripe, &rows, &mut chunks).await {
            Ok(false) => {}
            Ok(true) => {
                // The zeros change every parity, also one that was right for what they replace.
                parity = self.stripes.compute_parity(&chunks);
                wrong.append(&mut right);
            }
            Err((member, error)) => self.store.members().report_failure(member, error).await,
        }
        self.store.counters().scrub_errors.add(errors);
        for (p, home) in wrong.into_iter().filter(|(_, home)| self.store.members().is_active(home.member)) {
            let written = self.store.members().write(home, 0, Rc::new([parity[p].clone()])).await;
            self.store.note_unflushed(stripe);
            match written {
                Ok(()) => {
                    self.store.mark(Mark::ScrubParityMended);
                    self.store.members().note_repair(home.member, u64::from(CHUNK_BLOCKS));
                }
                Err(error) => {
                    self.store.mark(Mark::RepairFailed);
                    self.store.members().report_failure(home.member, error).await;
                }
            }
        }
    }

    /// Writes zeros, in rows where parity is wrong, to blocks without an owner that may never have been written since
    /// they were discarded: such blocks may read as something else each time, so no parity would be right. Returns
    /// whether there were any.
    pub(crate) async fn zero_discarded(
        &self,
        stripe: StripeId,
        rows: &[u32],
        chunks: &mut [Vec<Buf>],
    ) -> Result<bool, (MemberId, IoError)> {
        let mut any = false;
        for (column, chunk) in chunks.iter_mut().enumerate() {
            let Some(home) = self.stripes.live_home(stripe, column) else { continue };
            let is_owned =
                |row| self.store.tables().owner(self.store.geometry().slot(stripe, column, row)).is_some();
            if !self.store.members().takes_discards(home.member) || rows.iter().all(|&row| is_owned(row)) {
                continue;
            }
            let mut filled = Buf::copy_of(chunk[0].bytes());
            for &row in rows.iter().filter(|&&row| !is_owned(row)) {
                self.store.mark(Mark::ScrubFilled);
                let zeros = Buf::zeroed(BLOCK_BYTES);
                filled.bytes_mut()[row as usize * BLOCK_BYTES..][..BLOCK_BYTES]
                    .copy_from_slice(zeros.bytes());
                let written = self.store.members().write(home, row, Rc::new([zeros])).await;
                written.map_err(|error| (home.member, error))?;
            }
            *chunk = vec![filled];
            any = true;
        }
        Ok(any)
    }

    /// Checks every copy of every table page; one that is not what it should be is given up, and the page written anew.
    async fn scrub_pages(&self) {
        let pages: Vec<PageId> = self.store.tables().pages.written().map(|(page, _)| page).collect();
        for page in pages {
            let copies = self.store.tables().pages.copies(page).to_vec();
            let mut found = Vec::with_capacity(copies.len());
            for &copy in copies.iter().filter(|copy| self.store.members().is_active(copy.member)) {
                self.store.throttle().pay(self.store.io(), PAGE_BYTES as u64).await;
                let read = self.store.read_page_copy(copy, page).await;
                found.push((copy, read.map(|(lsn, _)| lsn)));
            }
            // One that is older than another was not written when it should have been.
            let newest = found.iter().filter_map(|(_, lsn)| *lsn).max();
            found.retain(|(_, lsn)| lsn.is_none() || *lsn < newest);
            if found.is_empty() {
                continue;
            }
            // The page is written anew from memory: all of it has to be there before a copy is given up.
            let Ok(_page) = self.store.pin_page(page).await else {
                self.store.counters().scrub_unrepaired.add(1);
                continue;
            };
            for (copy, _) in found {
                self.store.give_up_page(page, copy);
            }
        }
    }
}

/// One block of a chunk.
fn block(chunk: &Buf, row: u32) -> &[u8] {
    &chunk.bytes()[row as usize * BLOCK_BYTES..][..BLOCK_BYTES]
}
