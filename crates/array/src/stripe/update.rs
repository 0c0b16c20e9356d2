//! Changing a stripe: new blocks get their parity, then both go to their places.
//!
//! `prepare` reads and computes, `put` writes. Between the two the caller makes sure that a crash in the middle of `put`
//! does no harm: by marks, or by an after-image in the journal.

use std::cell::RefCell;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::{Gather, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_layout::parity::{self, Column};
use sinew_members::update_latency::ChangeParts;

use crate::ArrayShard;
use crate::bitmap::regions::Regions;
use crate::stripe::parity_plan::{Health, Method, Plan, UnitRun, plan};

/// Old content of a stripe, as read for a plan.
struct Old(Vec<(UnitRun, Buf)>);

impl Old {
    /// A block of it.
    fn block(&self, unit: usize, offset: u32) -> &[u8] {
        let holds =
            |run: &UnitRun| run.unit == unit && (run.offset..run.offset + run.blocks).contains(&offset);
        let (run, buf) = self.0.iter().find(|(run, _)| holds(run)).expect("the plan reads what it needs");
        let from = (offset - run.offset) as usize * BLOCK_BYTES;
        &buf.bytes()[from..from + BLOCK_BYTES]
    }
}

/// A stripe's new blocks, and the parity that goes with them.
pub(crate) struct Prepared {
    pub(crate) stripe: u64,
    /// Slots and their new content, in order.
    pub(crate) blocks: Vec<(u32, Buf)>,
    /// Offsets that get new parity, in order.
    pub(crate) offsets: Vec<u32>,
    /// Of each parity column, if it can be written, the blocks at these offsets.
    pub(crate) parity: Vec<Option<Buf>>,
}

/// One contiguous write to a unit.
struct Put {
    unit: usize,
    offset: u32,
    data: Gather,
}

/// A region with a write under way.
pub(crate) struct RegionUse<'a> {
    regions: &'a RefCell<Regions>,
    region: usize,
}

impl Drop for RegionUse<'_> {
    fn drop(&mut self) {
        self.regions.borrow_mut().end(self.region);
    }
}

/// The runs that ascending numbers make: first, count.
pub(crate) fn runs_of(numbers: impl IntoIterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => runs.push((number, 1)),
        }
    }
    runs
}

impl<I: Io> ArrayShard<I> {
    /// What there is of a stripe's units, apart from those that just proved unreadable.
    pub(crate) fn health(&self, stripe: u64, bad: &[usize]) -> Health {
        let (slice, regions) = (self.slice(), self.regions.borrow());
        let region = slice.region(stripe);
        let members = (0..slice.width(stripe)).map(|unit| slice.member(stripe, unit));
        let writable: Vec<bool> = members.clone().map(|m| self.members.is_active(m)).collect();
        let readable = members
            .enumerate()
            .map(|(unit, m)| {
                let stale = regions.is_stale(usize::from(m.0), region) && !mutation::on(Mutation::ReadStale);
                writable[unit] && !stale && !bad.contains(&unit)
            })
            .collect();
        Health { k: slice.columns(stripe), readable, writable, even: !regions.uneven().get(region) }
    }

    /// Reads and computes what new blocks of a stripe need. The caller holds the stripe.
    pub(crate) async fn prepare(
        &self,
        stripe: u64,
        blocks: Vec<(u32, Buf)>,
    ) -> Result<Prepared, VolumeError> {
        let mut bad = Vec::new();
        loop {
            if self.slice().is_mirror() {
                return Ok(Prepared { stripe, blocks, offsets: Vec::new(), parity: Vec::new() });
            }
            let health = self.health(stripe, &bad);
            let slots: Vec<u32> = blocks.iter().map(|(slot, _)| *slot).collect();
            let plan = plan(&slots, self.slice().chunk_blocks, &health).map_err(|_| VolumeError::Failed)?;
            match self.read_runs(stripe, &plan.reads).await {
                Ok(old) => {
                    let parity = self.new_parity(&plan, &health, &blocks, &Old(old));
                    let offsets = plan.offsets.iter().map(|(offset, _)| *offset).collect();
                    return Ok(Prepared { stripe, blocks, offsets, parity });
                }
                Err(unit) => {
                    self.io.mark(Mark::ArrayOldUnreadable);
                    bad.push(unit);
                }
            }
        }
    }

    /// Reads runs of a stripe's units; fails with a unit that cannot be read.
    pub(crate) async fn read_runs(
        &self,
        stripe: u64,
        runs: &[UnitRun],
    ) -> Result<Vec<(UnitRun, Buf)>, usize> {
        let results = join_all(runs.iter().map(|run| self.read_unit(stripe, *run))).await;
        runs.iter().zip(results).map(|(run, result)| Ok((*run, result.map_err(|_| run.unit)?))).collect()
    }

    fn new_parity(&self, plan: &Plan, health: &Health, blocks: &[(u32, Buf)], old: &Old) -> Vec<Option<Buf>> {
        let (k, m, chunk) = (health.k, self.slice().m, self.slice().chunk_blocks);
        let bytes = plan.offsets.len() * BLOCK_BYTES;
        let mut parity: Vec<Buf> = (0..m).map(|_| Buf::stale(bytes)).collect();
        let mut places: Vec<_> =
            parity.iter_mut().map(|buf| buf.bytes_mut().chunks_exact_mut(BLOCK_BYTES)).collect();
        let mut columns: Vec<Option<&[u8]>> = vec![None; k];
        for &(offset, method) in &plan.offsets {
            let mut out: Vec<&mut [u8]> =
                places.iter_mut().map(|place| place.next().expect("a block for each offset")).collect();
            columns.fill(None);
            for (column, entry) in columns.iter_mut().enumerate() {
                let slot = column as u32 * chunk + offset;
                let new = blocks.binary_search_by_key(&slot, |(slot, _)| *slot);
                *entry = new.ok().map(|i| blocks[i].1.bytes());
            }
            match method {
                Method::Compute => {
                    for (column, entry) in columns.iter_mut().enumerate() {
                        entry.get_or_insert_with(|| old.block(column, offset));
                    }
                    parity::compute(&columns, &mut out);
                }
                Method::Modify => modify(&columns, offset, health, old, &mut out),
                Method::Recover => {
                    self.io.mark(Mark::ArrayOldRecovered);
                    let lost = recover(&columns, offset, health, old);
                    let all: Vec<Option<&[u8]>> = (0..k)
                        .map(|column| match (columns[column], &lost[column]) {
                            (Some(new), _) => Some(new),
                            (None, Some(recovered)) => Some(recovered.as_slice()),
                            (None, None) => Some(old.block(column, offset)),
                        })
                        .collect();
                    parity::compute(&all, &mut out);
                }
            }
        }
        drop(places);
        parity.into_iter().enumerate().map(|(p, buf)| health.writable[k + p].then_some(buf)).collect()
    }

    /// Marks regions, so that they may be written: durably, before this returns.
    pub(crate) async fn mark(&self, regions: &[usize]) -> Result<(), VolumeError> {
        if !self.is_redundant() || mutation::on(Mutation::ForgetDirty) {
            return Ok(());
        }
        if !self.has_log() {
            return self.declare_write().await;
        }
        while !regions.iter().all(|&region| self.regions.borrow().is_marked(region)) {
            let version = self.members.version();
            self.mark_on_flush(regions);
            self.flush().await?;
            if self.members.version() == version {
                self.set_marked(regions);
            } else {
                self.io.mark(Mark::ArrayMarkVoid);
            }
        }
        Ok(())
    }

    /// Marks regions that are not yet; the marks count once a flush has made them durable for the members there are now.
    pub(crate) fn mark_on_flush(&self, regions: &[usize]) {
        let mut marks = self.regions.borrow_mut();
        for &region in regions {
            if !marks.is_marked(region) {
                marks.mark(region, self.out());
                self.sweeper.kick();
            }
        }
    }

    /// The marks that `mark_on_flush` made are durable.
    pub(crate) fn set_marked(&self, regions: &[usize]) {
        regions.iter().for_each(|&region| self.regions.borrow_mut().set_marked(region));
    }

    /// Counts a write to the stripe's region as under way.
    pub(crate) fn use_region(&self, stripe: u64) -> RegionUse<'_> {
        let region = self.slice().region(stripe);
        self.regions.borrow_mut().begin(region);
        RegionUse { regions: &self.regions, region }
    }

    fn note_change(&self, parts: ChangeParts) {
        self.counters.stripe_read_ns.add(parts.read_ns);
        self.counters.stripe_mark_ns.add(parts.mark_ns);
        self.counters.stripe_write_ns.add(parts.write_ns);
        self.update_latency.borrow_mut().note(parts);
    }

    /// Changes a stripe where there is no journal, for changes that have had it since `began`. The caller holds it.
    pub(crate) async fn update(
        &self,
        stripe: u64,
        mut blocks: Vec<(u32, Buf)>,
        began: u64,
        mut parts: ChangeParts,
    ) -> Result<(), VolumeError> {
        let _use = self.use_region(stripe);
        self.settle_move(stripe).await?;
        loop {
            let version = self.members.version();
            let prepared = self.prepare(stripe, blocks).await?;
            let read = self.io.now_coarse();
            self.mark(&[self.slice().region(stripe)]).await?;
            if self.members.version() == version {
                let marked = self.io.now_coarse();
                let done = self.put(&prepared).await;
                parts.read_ns = (read - began) * parts.changes;
                parts.mark_ns = (marked - read) * parts.changes;
                parts.write_ns = (self.io.now_coarse() - marked) * parts.changes;
                self.note_change(parts);
                return done;
            }
            self.io.mark(Mark::ArrayUpdateVoid);
            blocks = prepared.blocks;
        }
    }

    /// Writes a stripe's new content to every member that is there. The caller holds the stripe, and its region is
    /// marked.
    ///
    /// # Errors
    /// When it is not on enough members to be had again.
    pub(crate) async fn put(&self, prepared: &Prepared) -> Result<(), VolumeError> {
        let stripe = prepared.stripe;
        if !self.slice().is_mirror() && prepared.parity.iter().all(Option::is_none) {
            self.io.mark(Mark::ArrayWithoutParity);
        }
        let puts = self.puts(prepared);
        self.counters.stripes_updated.add(1);
        self.members.latency.earn();
        let writes = puts.iter().map(|put| {
            let (member, at) = self.place(stripe, put.unit, put.offset);
            self.members.write_at(member, at, Rc::clone(&put.data))
        });
        let results = join_all(writes).await;
        let mut bad = Vec::new();
        for (put, result) in puts.iter().zip(results) {
            if let Err(error) = result {
                self.io.mark(Mark::ArrayPutMemberLost);
                self.members.report_failure(self.slice().member(stripe, put.unit), error).await;
                bad.push(put.unit);
            }
        }
        let lost = self.health(stripe, &bad).readable.iter().filter(|&&readable| !readable).count();
        if lost <= self.slice().tolerates() { Ok(()) } else { Err(VolumeError::Failed) }
    }

    fn puts(&self, prepared: &Prepared) -> Vec<Put> {
        let (slice, stripe) = (self.slice(), prepared.stripe);
        let k = slice.columns(stripe);
        let there = |unit: usize| self.members.is_active(slice.member(stripe, unit));
        let mut puts = Vec::new();
        let same_chunk = |a: &(u32, Buf), b: &(u32, Buf)| {
            a.0 + 1 == b.0 && a.0 / slice.chunk_blocks == b.0 / slice.chunk_blocks
        };
        for run in prepared.blocks.chunk_by(same_chunk) {
            let data = gather(run.iter().map(|(_, buf)| buf));
            let (column, offset) = (run[0].0 / slice.chunk_blocks, run[0].0 % slice.chunk_blocks);
            let units = if slice.is_mirror() { 0..slice.w } else { column as usize..column as usize + 1 };
            for unit in units.filter(|&unit| there(unit)) {
                if unit > 0 && slice.is_mirror() && mutation::on(Mutation::OneDataCopy) {
                    continue;
                }
                puts.push(Put { unit, offset, data: Rc::clone(&data) });
            }
        }
        for (p, buf) in prepared.parity.iter().enumerate() {
            let Some(buf) = buf.as_ref().filter(|_| there(k + p)) else { continue };
            if mutation::on(Mutation::SkipParity) {
                continue;
            }
            let mut from = 0;
            for (offset, count) in runs_of(prepared.offsets.iter().copied()) {
                let bytes = count as usize * BLOCK_BYTES;
                let data: Gather = Rc::new([buf.slice(from, bytes)]);
                from += bytes;
                puts.push(Put { unit: k + p, offset, data });
            }
        }
        puts
    }

    /// The member of a unit, and where a block of it lies there.
    pub(crate) fn place(&self, stripe: u64, unit: usize, offset: u32) -> (MemberId, u64) {
        let (member, chunk) = self.slice().home(stripe, unit);
        (member, chunk + u64::from(offset) * BLOCK_BYTES as u64)
    }
}

/// The buffers as one write, those that follow one another in memory as one.
pub(crate) fn gather<'a>(bufs: impl Iterator<Item = &'a Buf>) -> Gather {
    let mut joined: Vec<Buf> = Vec::with_capacity(1);
    for buf in bufs {
        if !joined.last_mut().is_some_and(|last| last.join(buf)) {
            joined.push(buf.clone());
        }
    }
    joined.into()
}

/// Adds the difference that new columns make to the old parity.
fn modify(columns: &[Option<&[u8]>], offset: u32, health: &Health, old: &Old, out: &mut [&mut [u8]]) {
    let k = columns.len();
    let difference = |(column, new): (usize, &Option<&[u8]>)| {
        let mut bytes = (*new)?.to_vec();
        parity::xor_into(&mut bytes, old.block(column, offset));
        Some(bytes)
    };
    let mut differences: Vec<Option<Vec<u8>>> = columns.iter().enumerate().map(difference).collect();
    if mutation::on(Mutation::WrongCoefficient) {
        differences.rotate_right(1);
    }
    let differences: Vec<Option<&[u8]>> = differences.iter().map(Option::as_deref).collect();
    parity::compute(&differences, out);
    for (p, parity) in out.iter_mut().enumerate() {
        if health.writable[k + p] {
            parity::xor_into(parity, old.block(k + p, offset));
        }
    }
}

/// The old content of lost columns that do not get new content.
fn recover(columns: &[Option<&[u8]>], offset: u32, health: &Health, old: &Old) -> Vec<Option<Vec<u8>>> {
    let (k, m) = (health.k, health.readable.len() - health.k);
    let lost: Vec<usize> = (0..k).filter(|&c| !health.readable[c]).collect();
    let parity = health.parity_for(lost.len()).expect("the plan found enough");
    let known: Vec<Column<'_>> = (0..k + m)
        .map(|unit| match unit < k {
            true if health.readable[unit] => Column::Present(old.block(unit, offset)),
            false if parity.contains(&unit) => Column::Present(old.block(unit, offset)),
            _ => Column::Lost,
        })
        .collect();
    let mut found: Vec<Vec<u8>> = vec![vec![0; BLOCK_BYTES]; lost.len()];
    let mut places: Vec<&mut [u8]> = found.iter_mut().map(Vec::as_mut_slice).collect();
    parity::reconstruct(&known, k, m, &lost, &mut places).expect("no more are lost than there is parity");
    let mut all: Vec<Option<Vec<u8>>> = vec![None; k];
    for (column, bytes) in lost.into_iter().zip(found) {
        all[column] = columns[column].is_none().then_some(bytes);
    }
    all
}
