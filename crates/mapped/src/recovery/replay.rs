//! Replay of the journal from its tail, and writing again what was not known durable.

use std::collections::BTreeMap;

use crate::marks::Mark;
use crate::recovery::aborted_records::AbortedRecords;
use crate::recovery::released_chunks::ReleasedChunks;
use crate::recovery::{JournalEnds, READ_MARKS, Recovery};
use crate::store::tables::Effects;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::Lsn;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_format::journal_block::{JournalHeader, Record, decode_header, decode_records, encode_block};
use sinew_format::table_page::PageId;
use sinew_members::open_error::RecoverError;
use sinew_members::open_mode::OpenMode;
use sinew_members::ring::copies::write_copies;
use sinew_members::ring::reader::{Region, Unit, read_regions};

struct RingBlock {
    header: JournalHeader,
    data: Buf,
}

impl<I: Io> Recovery<I> {
    /// Replays the journal.
    pub(super) async fn replay(&mut self) -> Result<JournalEnds, RecoverError> {
        let mut blocks = self.read_ring().await;
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
        let page_lsns = blocks.values().map(|b| b.header.page_lsns).max().unwrap_or(0);
        if self.tables.pages.lsns() < page_lsns
            && self.mode != OpenMode::LastResort
            && !mutation::on(Mutation::TrustFoundPages)
        {
            return Err(RecoverError::PagesLost { shard: self.index });
        }
        // A page is written when a flush has covered the blocks that are in it.
        self.flushed = blocks.values().map(|b| b.header.flushed).max().unwrap_or(0).max(newest_page);
        let mut epoch = 0;
        let mut lsn = tail;
        let mut chain = Vec::new();
        loop {
            let Some(block) = blocks.remove(&lsn).filter(|b| b.header.epoch >= epoch) else {
                if self.mode == OpenMode::LastResort && lsn <= self.flushed {
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
        self.read_changed_maps(&chain).await?;
        let (aborted, released) = (AbortedRecords::of(&chain), ReleasedChunks::of(&chain));
        for (header, records) in chain {
            let mut sound = Vec::new();
            for record in records {
                if aborted.are_about(header.lsn, &record, self.config.mapped()) {
                    let is_opening = matches!(record, Record::Open { .. });
                    self.io.mark(if is_opening { Mark::RecoverStripeVoided } else { Mark::RecoverVoided });
                } else if header.lsn <= self.flushed || self.is_sound(header.lsn, &record, &released).await {
                    self.tables.apply(header.lsn, &record, &mut Effects::default());
                    sound.push(record);
                }
            }
            if header.lsn > self.flushed {
                self.unflushed.push((header, sound));
            }
            self.report.blocks_replayed += 1;
        }
        if lsn <= self.flushed {
            return Err(self.gap(lsn));
        }
        Ok(JournalEnds { last: lsn - 1, tail })
    }

    /// Takes the map pages into memory that records change.
    async fn read_changed_maps(
        &mut self,
        chain: &[(JournalHeader, Vec<Record>)],
    ) -> Result<(), RecoverError> {
        let records =
            chain.iter().flat_map(|(header, records)| records.iter().map(|record| (header.lsn, record)));
        let pages = records.filter_map(|(lsn, record)| Some((lsn, PageId::Map(record.map_page()?))));
        let is_changed =
            |&(lsn, page): &(Lsn, PageId)| self.tables.is_absent(page) && self.tables.pages.lacks(page, lsn);
        let absent = pages.filter(is_changed).map(|(_, page)| page).collect();
        self.read_absent(absent, Mark::RecoverMapRead).await
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
            let Ok(header) = decode_header(data.bytes()) else { return };
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
    pub(super) async fn rewrite_unflushed(&mut self, tail: Lsn) -> Result<(), RecoverError> {
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
}
