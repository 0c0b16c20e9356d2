//! Reading: the least burdened good copy, and when there is none, the rest of the stripe.
//!
//! Every block with a known checksum is checked. One that does not match, or cannot be read, is fetched from redundancy,
//! rewritten where it was bad, and counted.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use crate::shard::{MappedShard, split_local};
use crate::store::tables::StripeState;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::checksum::crc32c;
use sinew_core::coverage::Mark;
use sinew_core::ids::{Home, ShardBlock, SlotNo, StripeId, VolumeId};
use sinew_core::io::{Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{end_all, join_all, next_of};
use sinew_core::volume::{Extent, VolumeError};
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;
use sinew_format::model::mapped_geometry::PAGE_INDICES;
use sinew_layout::parity::{self, Column};

/// A stretch of consecutive blocks as the map has it: stored in consecutive slots of one chunk, or not at all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) block: ShardBlock,
    pub(crate) slot: Option<SlotNo>,
    pub(crate) count: u32,
}

/// Part of a data column of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPart {
    pub(crate) stripe: StripeId,
    pub(crate) column: usize,
    pub(crate) offset: u32,
    pub(crate) count: u32,
}

impl<I: Io> MappedShard<I> {
    /// Reads consecutive blocks of a volume; the parts, in order, add up to them.
    pub(crate) async fn read(
        self: &Rc<Self>,
        volume: VolumeId,
        local: u64,
        count: u32,
    ) -> Result<Vec<Buf>, VolumeError> {
        let _volume = self.enter_volume(volume);
        self.counters.reads.add(1);
        self.counters.read_bytes.add(u64::from(count) * BLOCK_BYTES as u64);
        let _era = self.eras.enter();
        let mut stretches = Vec::with_capacity(1);
        self.stretches(volume, local, count, |stretch| stretches.push(stretch));
        self.note_scatter(volume, local, count, &stretches);
        if let [one] = stretches[..] {
            return Ok(vec![self.read_stretch(one).await?]);
        }
        let holding = self.members.may_hedge().then(|| self.in_hand.hold());
        let read = async |stretch| {
            let buf = self.read_stretch(stretch).await?;
            if let (Some(holding), Some(slot)) = (&holding, stretch.slot) {
                holding.add(self.part_at(slot, stretch.count), &buf);
            }
            Ok(buf)
        };
        join_all(stretches.into_iter().map(read)).await.into_iter().collect()
    }

    /// The part of a column that consecutive slots of one chunk are.
    fn part_at(&self, slot: SlotNo, count: u32) -> ChunkPart {
        let (stripe, column, offset) = self.geometry.place(slot);
        ChunkPart { stripe, column, offset, count }
    }

    /// Which of consecutive blocks are stored.
    pub(crate) fn extents(&self, volume: VolumeId, local: u64, count: u32) -> Vec<Extent> {
        let mut extents = Vec::new();
        self.stretches(volume, local, count, |s| {
            let bytes = u64::from(s.count) * BLOCK_BYTES as u64;
            extents.push(Extent { bytes, allocated: s.slot.is_some() });
        });
        extents
    }

    /// Tells the stretches that consecutive blocks of a volume consist of, in order.
    pub(crate) fn stretches(&self, volume: VolumeId, local: u64, count: u32, mut tell: impl FnMut(Stretch)) {
        let tables = self.tables.borrow();
        let (mut local, mut left) = (local, count);
        while left > 0 {
            let (index, within) = split_local(local);
            let in_page = left.min(PAGE_INDICES - within);
            let stretch = match tables.volume_page(volume, index) {
                None => Stretch { block: ShardBlock(0), slot: None, count: in_page },
                Some(page) => {
                    let block = ShardBlock(page * PAGE_INDICES + within);
                    let (slot, run) = tables.map.get_run(block.0, in_page);
                    let run = slot.map_or(run, |s| run.min(CHUNK_BLOCKS - s % CHUNK_BLOCKS));
                    Stretch { block, slot: slot.map(SlotNo), count: run }
                }
            };
            tell(stretch);
            local += u64::from(stretch.count);
            left -= stretch.count;
        }
    }

    async fn read_stretch(self: &Rc<Self>, stretch: Stretch) -> Result<Buf, VolumeError> {
        let Some(slot) = stretch.slot else { return Ok(Buf::zeroed(stretch.count as usize * BLOCK_BYTES)) };
        self.recent.note(self.geometry.place(slot).0);
        match self.read_slots(slot, stretch.count).await {
            Err(VolumeError::Failed) => {
                self.io.mark(Mark::ReadBlockByBlock);
                self.read_block_by_block(stretch).await
            }
            result => result,
        }
    }

    /// The last resort: each block for itself, from wherever it is by now.
    async fn read_block_by_block(self: &Rc<Self>, stretch: Stretch) -> Result<Buf, VolumeError> {
        let mut whole = Buf::stale(stretch.count as usize * BLOCK_BYTES);
        for i in 0..stretch.count {
            let block = ShardBlock(stretch.block.0 + i);
            let one = self.read_moving(block).await?;
            whole.bytes_mut()[i as usize * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(one.bytes());
        }
        Ok(whole)
    }

    /// Reads one block, starting over while it moves.
    pub(crate) async fn read_moving(self: &Rc<Self>, block: ShardBlock) -> Result<Buf, VolumeError> {
        loop {
            let _era = self.eras.enter();
            let found = self.tables.borrow().lookup(block);
            let Some(slot) = found else { return Ok(Buf::zeroed(BLOCK_BYTES)) };
            match self.read_slots(slot, 1).await {
                Err(VolumeError::Failed) if self.tables.borrow().lookup(block) != Some(slot) => {}
                result => return result,
            }
        }
    }

    /// Reads consecutive slots of one chunk. The caller is inside an era.
    pub(crate) async fn read_slots(self: &Rc<Self>, slot: SlotNo, count: u32) -> Result<Buf, VolumeError> {
        self.read_part(self.part_at(slot, count)).await
    }

    /// Reads part of a data column from its copies or the rest of the stripe. The caller is inside an era.
    pub(crate) async fn read_part(self: &Rc<Self>, part: ChunkPart) -> Result<Buf, VolumeError> {
        if self.members.may_be_late() {
            return self.read_around(part).await;
        }
        self.read_part_without(part, Vec::new()).await
    }

    /// As `read_part`, with copies known to be `bad`, which are rewritten.
    pub(crate) async fn read_part_without(
        self: &Rc<Self>,
        part: ChunkPart,
        mut bad: Vec<(usize, Home)>,
    ) -> Result<Buf, VolumeError> {
        while let Some((index, home)) = self.next_copy(part, &bad) {
            let result = self.members.read(home, part.offset, part.count).await;
            if let Some(buf) = self.judge(part, home, result).await {
                if !bad.is_empty() {
                    self.repair(part, &bad, &buf).await;
                }
                return Ok(buf);
            }
            bad.push((index, home));
        }
        let buf = self.rebuild_part(part).await.ok_or(VolumeError::Failed);
        match &buf {
            Ok(buf) => {
                self.io.mark(Mark::ReadReconstructed);
                self.counters.reconstructed_reads.add(1);
                self.repair(part, &bad, buf).await;
            }
            Err(_) => {
                self.io.mark(Mark::ReadLost);
                self.counters.failed_reads.add(1);
            }
        }
        buf
    }

    /// What was read, if it is good; otherwise what follows from that for the member.
    pub(crate) async fn judge(
        &self,
        part: ChunkPart,
        home: Home,
        result: Result<Buf, IoError>,
    ) -> Option<Buf> {
        match result {
            Ok(buf) if self.matches(part, &buf, home) => return Some(buf),
            Ok(_) => self.io.mark(Mark::ReadChecksumBad),
            Err(error) if self.members.read_error_is_fatal(home.member, error) => {
                self.io.mark(Mark::ReadMemberLost);
                self.members.report_failure(home.member, error).await;
            }
            Err(_) => self.io.mark(Mark::ReadFailed),
        }
        None
    }

    /// The good copy, not yet tried, whose member has least to do.
    pub(crate) fn next_copy(&self, part: ChunkPart, tried: &[(usize, Home)]) -> Option<(usize, Home)> {
        let tables = self.tables.borrow();
        let g = &self.geometry;
        if tables.stripe(part.stripe).state == StripeState::Free {
            return None;
        }
        let mirrors = (0..g.failures()).map(|copy| g.mirror_index(copy, part.column));
        std::iter::once(part.column)
            .chain(mirrors)
            .filter_map(|index| Some((index, tables.good_home(part.stripe, index)?)))
            .filter(|copy| self.members.is_active(copy.1.member) && !tried.iter().any(|t| t.1 == copy.1))
            .min_by_key(|copy| self.members.burden(copy.1.member))
    }

    /// Whether each block with a known checksum matches it.
    fn matches(&self, part: ChunkPart, buf: &Buf, home: Home) -> bool {
        let wrong = self.mismatches(part, buf);
        if wrong > 0 {
            self.members.note_checksum_error(home.member, wrong);
        }
        wrong == 0
    }

    /// Number of blocks that do not have the checksum they should.
    pub(crate) fn mismatches(&self, part: ChunkPart, buf: &Buf) -> u64 {
        if mutation::on(Mutation::SkipChecksums) || !self.geometry.checksums {
            return 0;
        }
        let tables = self.tables.borrow();
        let first = self.geometry.slot(part.stripe, part.column, part.offset);
        let wrong = |(i, block): (usize, &[u8])| {
            let slot = SlotNo(first.0 + i as u32);
            tables.owner(slot).is_some() && tables.crc(slot) != Some(crc32c(block))
        };
        buf.bytes().chunks_exact(BLOCK_BYTES).enumerate().filter(|&b| wrong(b)).count() as u64
    }

    /// Where a chunk can be read as it should be: its home, if it is complete there, on an active member. To be asked again
    /// after every wait: the member may have gone, and come back empty.
    pub(crate) fn live_home(&self, stripe: StripeId, index: usize) -> Option<Home> {
        self.tables.borrow().good_home(stripe, index).filter(|home| self.members.is_active(home.member))
    }

    /// Rewrites good content where it was bad, unless the chunk has another home by now.
    async fn repair(self: &Rc<Self>, part: ChunkPart, bad: &[(usize, Home)], good: &Buf) {
        for &(index, home) in bad {
            if self.live_home(part.stripe, index) != Some(home) {
                self.io.mark(Mark::ReadRepairVoid);
                continue;
            }
            let written = self.members.write(home, part.offset, Rc::new([good.clone()])).await;
            self.unflushed_stripes.borrow_mut().insert(part.stripe);
            match written {
                Ok(()) => {
                    self.io.mark(Mark::ReadRepaired);
                    self.members.note_repair(home.member, u64::from(part.count));
                }
                Err(error) => {
                    self.io.mark(Mark::RepairFailed);
                    self.members.report_failure(home.member, error).await;
                }
            }
        }
    }

    /// Part of a data column from the other columns and parity, checked; `None` when it cannot be had.
    pub(crate) async fn rebuild_part(self: &Rc<Self>, part: ChunkPart) -> Option<Buf> {
        self.rebuild_part_from(part, |_| true).await
    }

    /// As `rebuild_part`, from homes of which that is true.
    pub(crate) async fn rebuild_part_from(
        self: &Rc<Self>,
        part: ChunkPart,
        usable: impl Fn(Home) -> bool,
    ) -> Option<Buf> {
        if self.tables.borrow().stripe(part.stripe).state != StripeState::Parity {
            return None;
        }
        let width = self.geometry.data_columns + self.geometry.parity_columns();
        let mut columns: Vec<Option<Buf>> = (0..width).map(|column| self.held(part, column)).collect();
        if columns.iter().any(Option::is_some) {
            self.io.mark(Mark::ReadInHand);
        }
        let mut reads = self.read_others(part, &|column, home| columns[column].is_none() && usable(home));
        let waits_for_all = !self.members.may_hedge();
        while let Some((column, buf)) = next_of(&mut reads).await {
            columns[column] = buf;
            if (reads.is_empty() || !waits_for_all)
                && let Some(buf) = self.combine(part, &columns, None)
            {
                self.let_end(reads);
                return Some(buf);
            }
        }
        // A block without a checksum may itself be silently wrong; the target's checksum tells when it is left out.
        let mut without = self.unchecked(part).into_iter();
        let found = without.find_map(|index| self.combine(part, &columns, Some(index)))?;
        self.io.mark(Mark::ReadReconstructedWithout);
        Some(found)
    }

    /// Columns of which some block of the part cannot be checked: parity, and data in slots never committed.
    fn unchecked(&self, part: ChunkPart) -> Vec<usize> {
        let tables = self.tables.borrow();
        let g = self.geometry;
        let owned = |column: usize| {
            let first = g.slot(part.stripe, column, part.offset).0;
            (first..first + part.count).all(|slot| tables.owner(SlotNo(slot)).is_some())
        };
        (0..g.data_columns + g.parity_columns()).filter(|&i| i >= g.data_columns || !owned(i)).collect()
    }

    /// The same part of another data column, if a request under way has it in hand.
    pub(crate) fn held(&self, part: ChunkPart, column: usize) -> Option<Buf> {
        if column == part.column || column >= self.geometry.data_columns {
            return None;
        }
        self.in_hand.find(ChunkPart { column, ..part })
    }

    /// Reads the same part of every other data column and of parity, where it can be; of data only what matches its checksums.
    fn read_others(
        self: &Rc<Self>,
        part: ChunkPart,
        wanted: &dyn Fn(usize, Home) -> bool,
    ) -> Vec<(usize, Pin<Box<impl Future<Output = Option<Buf>> + use<I>>>)> {
        let width = self.geometry.data_columns + self.geometry.parity_columns();
        let home = |i| self.live_home(part.stripe, i).filter(|&home| i != part.column && wanted(i, home));
        let homes = (0..width).filter_map(|i| Some((i, home(i)?)));
        let read = |(column, home): (usize, Home)| {
            let shard = Rc::clone(self);
            let read = async move {
                let buf = shard.members.read(home, part.offset, part.count).await.ok()?;
                let other = ChunkPart { column, ..part };
                (column >= shard.geometry.data_columns || shard.matches(other, &buf, home)).then_some(buf)
            };
            (column, Box::pin(read))
        };
        homes.map(read).collect()
    }

    /// Has reads end that nobody needs any more: with enough others there is no need to wait for one that is late.
    fn let_end<T: 'static>(
        self: &Rc<Self>,
        mut reads: Vec<(usize, Pin<Box<impl Future<Output = T> + 'static>>)>,
    ) {
        if reads.is_empty() {
            return;
        }
        self.io.mark(Mark::RebuiltFromEnough);
        let era = self.eras.enter_oldest();
        self.io.spawn(async move {
            end_all(&mut reads).await;
            drop(era);
        });
    }

    fn combine(&self, part: ChunkPart, others: &[Option<Buf>], leave_out: Option<usize>) -> Option<Buf> {
        let (k, m) = (self.geometry.data_columns, self.geometry.parity_columns());
        let stripe = self.tables.borrow().stripe(part.stripe);
        if stripe.state != StripeState::Parity {
            return None;
        }
        let used = usize::from(stripe.columns);
        let columns: Vec<Column<'_>> = others
            .iter()
            .enumerate()
            .map(|(i, buf)| match buf {
                _ if leave_out == Some(i) || i == part.column => Column::Lost,
                Some(buf) => Column::Present(buf.bytes()),
                None if i >= used && i < k => Column::Absent,
                None => Column::Lost,
            })
            .collect();
        let mut out = Buf::zeroed(part.count as usize * BLOCK_BYTES);
        parity::reconstruct(&columns, k, m, &[part.column], &mut [out.bytes_mut()]).ok()?;
        (self.mismatches(part, &out) == 0).then_some(out)
    }

    /// A whole data chunk, block by block where it must be.
    ///
    /// # Errors
    /// When a block of it cannot be had from anywhere.
    pub(crate) async fn read_chunk(
        self: &Rc<Self>,
        stripe: StripeId,
        column: usize,
    ) -> Result<Buf, VolumeError> {
        let whole = ChunkPart { stripe, column, offset: 0, count: CHUNK_BLOCKS };
        if let Ok(buf) = self.read_part(whole).await {
            return Ok(buf);
        }
        self.io.mark(Mark::ChunkBlockByBlock);
        let mut chunk = Buf::zeroed(CHUNK_BLOCKS as usize * BLOCK_BYTES);
        for offset in 0..CHUNK_BLOCKS {
            let block = self.read_part(ChunkPart { offset, count: 1, ..whole }).await?;
            chunk.bytes_mut()[offset as usize * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(block.bytes());
        }
        Ok(chunk)
    }

    /// Reads part of a chunk at one home as it is there, counting and acting on errors.
    pub(crate) async fn read_home(&self, home: Home, offset: u32, count: u32) -> Result<Buf, IoError> {
        let result = self.members.read(home, offset, count).await;
        if let Err(error) = result
            && self.members.read_error_is_fatal(home.member, error)
        {
            self.members.report_failure(home.member, error).await;
        }
        result
    }
}
