//! Recovery: from what is on the members to a running shard, reading a bounded amount.
//!
//! It reads the journal rings and page areas of the active members, takes the newest intact copy of every page, replays
//! the journal from its tail, and verifies the data of the records that were not known durable: after power loss such a
//! record may have survived while its data did not. A record without a good copy is dropped; since it was never flushed,
//! the previous state of its blocks is a legal one, and that state's space has not been reused.

mod aborted_records;
pub(crate) mod complete;
mod verify;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::marks::Mark;
use crate::recovery::aborted_records::AbortedRecords;
use crate::store::chunk_allocator::ChunkAllocator;
use crate::store::dirty_pages::PageCopy;
use crate::store::journal::Journal;
use crate::store::tables::{Effects, Tables};
use crate::store::{Store, StoreParts};
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::{ChunkAddr, Lsn, MemberId, SlotNo, StripeId};
use sinew_core::io::{Io, IoError};
use sinew_core::sync::join_all;
use sinew_format::journal_block::{JournalHeader, Record, decode_header, decode_records, encode_block};
use sinew_format::model::config::Config;
use sinew_format::model::mapped_geometry::PAGE_BYTES;
use sinew_format::record_check::RecordCheck;
use sinew_format::table_page::{PageHeader, PageId};
use sinew_members::members::Members;
use sinew_members::open_error::RecoverError;
use sinew_members::open_mode::OpenMode;
use sinew_members::pool_shard::OpenShard;
use sinew_members::recovery_report::RecoveryReport;
use sinew_members::ring::copies::write_copies;
use sinew_members::ring::reader::{Region, RegionMarks, Unit, read_regions};

const READ_MARKS: RegionMarks =
    RegionMarks { unit_by_unit: Mark::RecoverPiecewise.name(), unit_lost: Mark::RecoverPieceLost.name() };

/// Waits for space of one recovery, a second in all.
const SPACE_ATTEMPTS: u32 = 50;

/// Pages read at the same time.
const PAGES_AT_ONCE: usize = 64;

struct RingBlock {
    header: JournalHeader,
    data: Buf,
}

/// The newest intact version of a page, and where copies of it are; at least one.
struct FoundPage {
    lsn: Lsn,
    copies: Vec<PageCopy>,
}

struct Recovery<I> {
    io: I,
    index: usize,
    config: Rc<Config>,
    bounds: RecordCheck,
    members: Members<I>,
    mode: OpenMode,
    tables: Tables,
    report: RecoveryReport,
    /// Parity stripes whose writing was not known durable.
    resync: BTreeSet<StripeId>,
    /// Slots of records not known durable whose data proved good, with its checksum.
    verified: BTreeMap<SlotNo, u32>,
    /// What those hold of which some copy is bad: the good one may go bad before the others are mended.
    rescued: BTreeMap<SlotNo, Buf>,
    /// Slots verified good that went bad before parity was made of them. Their records count as unsound in the next attempt.
    lost: BTreeSet<SlotNo>,
    /// Stripes with data that was not known durable.
    touched: BTreeSet<StripeId>,
    /// Chunks that a member had no space to mend: they are not what they should be.
    unmended: BTreeSet<(StripeId, u8)>,
    /// Waits for space that are left.
    space_attempts: Cell<u32>,
    /// The last journal block known durable.
    flushed: Lsn,
    /// The blocks after it, with the records that proved sound.
    unflushed: Vec<(JournalHeader, Vec<Record>)>,
}

/// The ends of the journal after replay.
#[derive(Clone, Copy)]
struct JournalEnds {
    /// The last block.
    last: Lsn,
    /// The first block that replay needs.
    tail: Lsn,
}

/// A recovered shard, before its tasks run.
pub(crate) struct Recovered<I> {
    pub(crate) store: Rc<Store<I>>,
    pub(crate) report: RecoveryReport,
    /// Stripes with data that was not known durable.
    pub(crate) touched: BTreeSet<StripeId>,
    /// Chunks that are to be marked as stale.
    pub(crate) unmended: BTreeSet<(StripeId, u8)>,
}

/// Recovers shard `index` of a mapped pool on the present thread.
///
/// # Errors
/// When the content of the active members is not enough, or impossible.
pub(crate) async fn recover<I: Io>(open: OpenShard<'_, I>) -> Result<Recovered<I>, RecoverError> {
    let OpenShard { io, index, config, devices, control, mode } = open;
    let members = Members::new(io.clone(), index, control, &config.members, devices, mode);
    let mut recovery = Recovery::new(io, index, config, members, mode, BTreeSet::new());
    let ends = loop {
        recovery.load_pages().await?;
        let ends = recovery.replay().await?;
        recovery.repair_verified().await?;
        let lost_before = recovery.lost.len();
        recovery.resync_parity().await?;
        if recovery.lost.len() == lost_before {
            break ends;
        }
        recovery.io.mark(Mark::RecoverAgain);
        let Recovery { io, config, members, lost, .. } = recovery;
        recovery = Recovery::new(io, index, config, members, mode, lost);
    };
    recovery.rewrite_unflushed(ends.tail).await?;
    recovery.flush().await?;
    if mode.is_read_only() {
        recovery.apply_missed(ends);
    }
    let mut report = recovery.report;
    let (touched, unmended) = (std::mem::take(&mut recovery.touched), std::mem::take(&mut recovery.unmended));
    let store = recovery.finish(ends)?;
    report.blocks_unknown = store.tables().unknown_blocks();
    Ok(Recovered { store, report, touched, unmended })
}

impl<I: Io> Recovery<I> {
    fn new(
        io: I,
        index: usize,
        config: Rc<Config>,
        members: Members<I>,
        mode: OpenMode,
        lost: BTreeSet<SlotNo>,
    ) -> Recovery<I> {
        Recovery {
            io,
            index,
            members,
            mode,
            tables: Tables::new(config.mapped()),
            bounds: RecordCheck::new(&config),
            report: RecoveryReport::default(),
            resync: BTreeSet::new(),
            verified: BTreeMap::new(),
            rescued: BTreeMap::new(),
            lost,
            touched: BTreeSet::new(),
            unmended: BTreeSet::new(),
            space_attempts: Cell::new(SPACE_ATTEMPTS),
            flushed: 0,
            unflushed: Vec::new(),
            config,
        }
    }

    async fn load_pages(&mut self) -> Result<(), RecoverError> {
        let (index, io, pool) = (self.index, self.io.clone(), self.config.pool);
        let mut found: BTreeMap<PageId, FoundPage> = BTreeMap::new();
        let regions = self.members.active().into_iter().map(|m| {
            let layout = self.members.get(m).layout;
            let bytes = u64::from(layout.page_slots) * PAGE_BYTES as u64;
            (m, Region { offset: layout.page_offset(index, 0), bytes })
        });
        let pages = |Unit { member, at, data }: Unit| {
            let Ok(header) = PageHeader::open(&mut data.bytes().to_vec()) else { return };
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
                let loaded = self.tables.load_page(id, content?.bytes(), &self.bounds);
                loaded.map_err(|error| self.damaged(format!("page {id:?}: {error}")))?;
                // The same version may have been written twice; copies beyond those due are free space.
                page.copies.sort_by_key(|c| c.member);
                page.copies.dedup_by_key(|c| c.member);
                page.copies.truncate(self.config.mapped().copies());
                self.tables.pages.loaded(id, page.lsn, page.copies);
                self.report.pages += 1;
                self.report.bytes_read += PAGE_BYTES as u64;
            }
        }
    }

    /// Reads a page from any of its copies.
    async fn read_page(&self, id: PageId, page: &FoundPage) -> Result<Buf, RecoverError> {
        for copy in &page.copies {
            let offset = self.members.get(copy.member).layout.page_offset(self.index, copy.slot);
            if let Ok(buf) = self.members.read_at(copy.member, offset, PAGE_BYTES).await
                && PageHeader::open(&mut buf.bytes().to_vec())
                    .is_ok_and(|h| h.page == id && h.lsn == page.lsn)
            {
                return Ok(buf);
            }
        }
        // It was there a moment ago.
        Err(RecoverError::MemberFailed { shard: self.index, member: page.copies[0].member })
    }

    fn gap(&self, lsn: Lsn) -> RecoverError {
        RecoverError::JournalGap { shard: self.index, lsn }
    }

    fn lost(&self, member: MemberId) -> RecoverError {
        self.io.mark(Mark::RecoverMemberLost);
        RecoverError::MemberFailed { shard: self.index, member }
    }

    fn damaged(&self, what: String) -> RecoverError {
        RecoverError::Damaged { shard: self.index, what }
    }

    /// Replays the journal.
    async fn replay(&mut self) -> Result<JournalEnds, RecoverError> {
        let mut blocks = self.read_ring().await;
        // A page is written when the blocks that are in it are durable; so they are there, up to the newest page's.
        let newest_page = self.tables.pages.newest();
        let newest = blocks.values().max_by_key(|b| (b.header.epoch, b.header.lsn));
        let Some(tail) = newest.map(|b| b.header.tail) else {
            let empty = JournalEnds { last: 0, tail: 1 };
            return if newest_page == 0 { Ok(empty) } else { Err(self.gap(newest_page)) };
        };
        if newest.is_some_and(|b| b.header.epoch > self.config.epoch) {
            return Err(
                self.damaged("the journal is of a later opening than the superblocks know".to_owned())
            );
        }
        self.flushed = blocks.values().map(|b| b.header.flushed).max().unwrap_or(0);
        let needed = self.flushed.max(newest_page);
        let mut epoch = 0;
        let mut lsn = tail;
        let mut chain = Vec::new();
        loop {
            let Some(block) = blocks.remove(&lsn).filter(|b| b.header.epoch >= epoch) else {
                if self.mode == OpenMode::LastResort && lsn <= needed {
                    // What it changed is as it was before, or as a later block has it.
                    self.io.mark(Mark::LastResortGap);
                    self.report.blocks_missing += 1;
                    lsn += 1;
                    continue;
                }
                break;
            };
            epoch = block.header.epoch;
            let wrong = |error| self.damaged(format!("journal block {lsn}: {error}"));
            let records = decode_records(block.data.bytes()).map_err(wrong)?;
            records.iter().try_for_each(|record| self.bounds.record(record)).map_err(wrong)?;
            chain.push((block.header, records));
            lsn += 1;
        }
        let aborted = AbortedRecords::of(&chain);
        for (header, records) in chain {
            let mut sound = Vec::new();
            for record in records {
                if aborted.are_about(header.lsn, &record, self.config.mapped()) {
                    let is_opening = matches!(record, Record::Open { .. });
                    self.io.mark(if is_opening { Mark::RecoverStripeVoided } else { Mark::RecoverVoided });
                } else if header.lsn <= self.flushed || self.is_sound(&record).await? {
                    self.tables.apply(header.lsn, &record, &mut Effects::default());
                    sound.push(record);
                }
            }
            if header.lsn > self.flushed {
                self.unflushed.push((header, sound));
            }
            self.report.blocks_replayed += 1;
        }
        if lsn <= needed {
            return Err(self.gap(lsn));
        }
        Ok(JournalEnds { last: lsn - 1, tail })
    }

    async fn read_ring(&mut self) -> BTreeMap<Lsn, RingBlock> {
        let (index, ring) = (self.index, u64::from(self.config.mapped().journal_blocks));
        let (pool, shard) = (self.config.pool, self.index as u16);
        let mut blocks: BTreeMap<Lsn, RingBlock> = BTreeMap::new();
        let regions = self.members.active().into_iter().map(|m| {
            let offset = self.members.get(m).layout.journal_offset(index, 0);
            (m, Region { offset, bytes: ring * BLOCK_BYTES as u64 })
        });
        let journal_blocks = |Unit { at, data, .. }: Unit| {
            let Ok(header) = decode_header(&mut data.bytes().to_vec()) else { return };
            let here = header.lsn % ring == at / BLOCK_BYTES as u64;
            if header.pool != pool || header.shard != shard || !here {
                return;
            }
            let age = |h: &JournalHeader| (h.epoch, h.rewritten);
            if blocks.get(&header.lsn).is_none_or(|b| age(&b.header) < age(&header)) {
                blocks.insert(header.lsn, RingBlock { header, data: Buf::copy_of(data.bytes()) });
            }
        };
        let read = read_regions(&self.members, regions, BLOCK_BYTES, READ_MARKS, journal_blocks).await;
        self.report.bytes_read += read;
        blocks
    }

    /// Writes the blocks that were not known durable again, without the records that were dropped: what has been replayed
    /// once must be on f + 1 members, and what has been dropped once must stay so. They keep their epoch, so that a crash
    /// that leaves some of them as they were breaks nothing.
    async fn rewrite_unflushed(&mut self, tail: Lsn) -> Result<(), RecoverError> {
        let ring = u64::from(self.config.mapped().journal_blocks);
        let active = self.members.active();
        for (original, records) in std::mem::take(&mut self.unflushed) {
            self.io.mark(Mark::RecoverRewritten);
            let lsn = original.lsn;
            let header =
                JournalHeader { rewritten: self.config.epoch, tail, flushed: self.flushed, ..original };
            let mut data = Buf::zeroed(BLOCK_BYTES);
            encode_block(&header, &records, data.bytes_mut());
            let place = |i: usize| {
                let member = active[(lsn as usize + i) % active.len()];
                let position = (lsn % ring) as u32;
                (member, self.members.get(member).layout.journal_offset(self.index, position))
            };
            let places = (0..active.len()).map(place).collect();
            let copies = self.config.mapped().copies().min(active.len());
            match write_copies(&self.members, places, copies, &data).await {
                Ok(0) => return Err(RecoverError::NoSpace { shard: self.index, member: active[0] }),
                Ok(_) => {}
                Err(member) => return Err(self.lost(member)),
            }
        }
        Ok(())
    }

    /// Writes what a chunk should hold; false when its member has no space, so that the chunk is stale. Until then the stripe
    /// has less redundancy, so recovery waits for space at first, for a second in all.
    async fn mend(&self, home: ChunkAddr, offset: u32, data: Buf) -> Result<bool, RecoverError> {
        loop {
            match self.members.write(home, offset, Rc::new([data.clone()])).await {
                Ok(()) => return Ok(true),
                Err(IoError::NoSpace) => self.io.mark(Mark::RecoverNoSpace),
                Err(_) => return Err(self.lost(home.member)),
            }
            let Some(left) = self.space_attempts.get().checked_sub(1) else { return Ok(false) };
            self.space_attempts.set(left);
            self.members.wait_for_space().await;
        }
    }

    async fn flush(&self) -> Result<(), RecoverError> {
        for member in self.members.take_unflushed() {
            if self.members.flush(member).await.is_err() {
                return Err(self.lost(member));
            }
        }
        Ok(())
    }

    /// Derives free space and counts from the tables and makes the store.
    fn finish(mut self, ends: JournalEnds) -> Result<Rc<Store<I>>, RecoverError> {
        let config = Rc::clone(&self.config);
        let seed = u64::from_le_bytes(config.pool[..8].try_into().expect("eight bytes")) ^ self.index as u64;
        let mut allocator = ChunkAllocator::new(config.mapped(), config.members.len(), seed);
        for member in &config.members {
            allocator.push_member(member.layout.chunks, member.layout.page_slots, member.state);
        }
        for stripe in (0..self.tables.stripe_count()).map(StripeId) {
            for &home in self.tables.homes(stripe).iter().flatten() {
                // Tables of different age may disagree; checksums tell whose content a chunk has.
                if !allocator.claim(home) && self.mode != OpenMode::LastResort {
                    let (chunk, member) = (home.chunk, home.member.0);
                    return Err(
                        self.damaged(format!("chunk {chunk} of member {member} belongs to two stripes"))
                    );
                }
            }
        }
        for (_, copies) in self.tables.pages.written() {
            copies.iter().for_each(|&copy| allocator.claim_page(copy));
        }
        let complete = match self.mode {
            OpenMode::LastResort => {
                self.tables.complete_as_far_as_known();
                Ok(())
            }
            _ => self.tables.complete(),
        };
        complete.map_err(|error| self.damaged(error.to_string()))?;
        let journal = Journal::new(config.epoch, ends.last, ends.tail, self.flushed);
        Ok(Store::new(StoreParts {
            io: self.io,
            index: self.index,
            pool: config.pool,
            members: self.members,
            tables: self.tables,
            allocator,
            journal,
        }))
    }
}
