//! Updating a stripe: computing the parity of new blocks, and writing both in place.
//!
//! `prepare` reads and computes, `write_in_place` writes. Between the two the caller makes sure that a crash in the middle of
//! the write does no harm: by dirty marks, or by an after-image in the journal.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::io::{Gather, Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::model::form::Form;
use sinew_layout::parity;
use sinew_members::stripe_columns::StripeColumns;
use sinew_members::update_latency::ChangeParts;

use crate::journal::group::concat;
use crate::stripe::Stripes;
use crate::stripe::parity_plan::{Health, ParityMethod, ParityPlan, plan_parity};
use crate::stripe::part::UnitRun;

/// Old content of a stripe that was read for a plan.
struct OldContent(Vec<(UnitRun, Buf)>);

impl OldContent {
    /// One block.
    fn block(&self, unit: usize, offset: u32) -> &[u8] {
        let holds =
            |run: &UnitRun| run.unit == unit && (run.offset..run.offset + run.blocks).contains(&offset);
        let (run, buf) =
            self.0.iter().find(|(run, _)| holds(run)).expect("the plan reads every block that it needs");
        let from = (offset - run.offset) as usize * BLOCK_BYTES;
        &buf.bytes()[from..from + BLOCK_BYTES]
    }
}

/// A stripe's new blocks and their parity.
pub(crate) struct PreparedStripe {
    pub(crate) stripe: u64,
    /// Slots and their new content, in order.
    pub(crate) blocks: Vec<(u32, Buf)>,
    /// Offsets that get new parity, in order.
    pub(crate) offsets: Vec<u32>,
    /// The blocks of each parity column at these offsets; `None` for a column that cannot be written.
    pub(crate) parity: Vec<Option<Buf>>,
}

/// The blocks of a stripe whose parity cannot be computed.
pub(crate) struct Unprepared(pub(crate) Vec<(u32, Buf)>);

impl From<Unprepared> for VolumeError {
    fn from(_: Unprepared) -> VolumeError {
        VolumeError::Failed
    }
}

/// New parity: its offsets in order, and the blocks of each parity column there.
type NewParity = (Vec<u32>, Vec<Option<Buf>>);

/// One contiguous write to a unit.
struct UnitWrite {
    unit: usize,
    offset: u32,
    data: Gather,
}

/// Groups ascending numbers into runs: first, count.
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

/// How an update of a stripe in an array without a journal ended.
pub(crate) enum Updated {
    /// All members have the new content.
    Written,
    /// A member had no space, so the old content counts again. These places still have the new one.
    RolledBack(Vec<(MemberId, u64)>),
}

/// The content of a block before a write that a member had no space for.
struct OldBlock {
    slot: u32,
    content: Buf,
    member: MemberId,
    at: u64,
    /// The place has it.
    is_placed: bool,
}

impl<I: Io> Stripes<I> {
    /// Computes the parity of new blocks of a stripe, reading the old content that this needs. The caller holds the stripe's
    /// lock.
    ///
    /// # Errors
    /// The blocks, when more blocks of an offset are lost than parity covers.
    pub(crate) async fn prepare(
        &self,
        stripe: u64,
        blocks: Vec<(u32, Buf)>,
    ) -> Result<PreparedStripe, Unprepared> {
        if self.form(stripe) == Form::Mirrored {
            return Ok(PreparedStripe { stripe, blocks, offsets: Vec::new(), parity: Vec::new() });
        }
        let mut parity = self.compute_parity(stripe, &blocks).await;
        if parity.is_none() {
            // Different units may have lost blocks at different offsets.
            parity = self.compute_parity_by_offset(stripe, &blocks).await;
        }
        match parity {
            Some((offsets, parity)) => Ok(PreparedStripe { stripe, blocks, offsets, parity }),
            None => {
                self.losses.suspect(stripe);
                Err(Unprepared(blocks))
            }
        }
    }

    /// As `compute_parity`, for each offset alone.
    async fn compute_parity_by_offset(&self, stripe: u64, blocks: &[(u32, Buf)]) -> Option<NewParity> {
        let chunk_blocks = self.state.layout().chunk_blocks;
        let mut by_offset: BTreeMap<u32, Vec<(u32, Buf)>> = BTreeMap::new();
        for (slot, data) in blocks {
            by_offset.entry(slot % chunk_blocks).or_default().push((*slot, data.clone()));
        }
        if by_offset.len() == 1 {
            return None;
        }
        let mut all: Option<NewParity> = None;
        for blocks in by_offset.values() {
            let (offsets, parity) = self.compute_parity(stripe, blocks).await?;
            match &mut all {
                None => all = Some((offsets, parity)),
                Some((all_offsets, all_parity)) => {
                    all_offsets.extend(offsets);
                    for (whole, part) in all_parity.iter_mut().zip(parity) {
                        *whole = whole
                            .take()
                            .zip(part)
                            .map(|(whole, part)| Buf::copy_of(&[whole.bytes(), part.bytes()].concat()));
                    }
                }
            }
        }
        all
    }

    /// The parity of new blocks of a stripe with parity; `None` when more units are lost than it covers.
    async fn compute_parity(&self, stripe: u64, blocks: &[(u32, Buf)]) -> Option<NewParity> {
        let mut bad = Vec::new();
        loop {
            let health = self.health(stripe, &bad);
            let slots: Vec<u32> = blocks.iter().map(|(slot, _)| *slot).collect();
            let plan = plan_parity(&slots, self.state.layout().chunk_blocks, &health).ok()?;
            match self.read_runs(stripe, &plan.reads).await {
                Ok(old) => {
                    let parity = self.new_parity(&plan, &health, blocks, &OldContent(old));
                    let offsets = plan.offsets.iter().map(|(offset, _)| *offset).collect();
                    return Some((offsets, parity));
                }
                Err(unit) => {
                    self.state.mark(Mark::ArrayOldUnreadable);
                    bad.push(unit);
                }
            }
        }
    }

    fn new_parity(
        &self,
        plan: &ParityPlan,
        health: &Health,
        blocks: &[(u32, Buf)],
        old: &OldContent,
    ) -> Vec<Option<Buf>> {
        let (k, m, chunk) = (health.k, self.state.layout().m, self.state.layout().chunk_blocks);
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
                ParityMethod::Compute => {
                    for (column, entry) in columns.iter_mut().enumerate() {
                        entry.get_or_insert_with(|| old.block(column, offset));
                    }
                    parity::compute(&columns, &mut out);
                }
                ParityMethod::Modify => modify(&columns, offset, health, old, &mut out),
                ParityMethod::Recover => {
                    self.state.mark(Mark::ArrayOldRecovered);
                    let lost = recover(&columns, offset, health, old);
                    let all: Vec<Option<&[u8]>> = (0..k)
                        .map(|column| match (columns[column], &lost[column]) {
                            (Some(new), _) => Some(new),
                            (None, Some(recovered)) => Some(recovered.bytes()),
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

    /// Marks regions as dirty, durably, so that they may be written.
    ///
    /// # Errors
    /// As for [`Journal::flush`](crate::journal::Journal::flush).
    pub(crate) async fn mark_regions(&self, regions: &[usize]) -> Result<(), VolumeError> {
        if !self.state.has_redundancy() || mutation::on(Mutation::ForgetDirty) {
            return Ok(());
        }
        if !self.state.has_log() {
            return self.md_dirty.declare_write().await;
        }
        while !regions.iter().all(|&region| self.bitmap.regions().is_marked(region)) {
            let version = self.state.members().version();
            self.bitmap.mark_with_next_flush(regions);
            self.journal.flush().await?;
            if self.state.members().version() == version {
                self.bitmap.set_marked(regions);
            } else {
                self.state.mark(Mark::ArrayMarkVoid);
            }
        }
        Ok(())
    }

    /// Updates a stripe in an array without a journal. `began` is the time at which the changes got the stripe's lock, which the
    /// caller holds.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when the array, or too much of the stripe, has failed; [`VolumeError::NoSpace`] when nothing was
    /// written, as for [`Journal::void_images_of`](crate::journal::Journal::void_images_of) and [`Journal::wait_for_state_room`].
    ///
    /// [`Journal::wait_for_state_room`]: crate::journal::Journal::wait_for_state_room
    pub(crate) async fn update(
        &self,
        stripe: u64,
        mut blocks: Vec<(u32, Buf)>,
        began: u64,
        mut parts: ChangeParts,
    ) -> Result<Updated, VolumeError> {
        // The destager of an array without a journal waits for no lock of a stripe.
        self.journal.wait_for_state_room().await?;
        let _use = self.bitmap.use_region_of(stripe);
        self.journal.record_move_of(stripe).await?;
        self.journal.void_images_of(stripe).await?;
        let slots: Vec<u32> = blocks.iter().map(|(slot, _)| *slot).collect();
        loop {
            let version = self.state.members().version();
            let prepared = match self.prepare(stripe, blocks).await {
                Ok(prepared) => prepared,
                Err(Unprepared(unprepared)) => {
                    let with_zeros = self.with_given_up(stripe, unprepared).await?;
                    self.prepare(stripe, with_zeros).await?
                }
            };
            let read = self.state.io().now_coarse();
            self.mark_regions(&[self.state.layout().region(stripe)]).await?;
            if self.state.members().version() == version {
                let marked = self.state.io().now_coarse();
                let mut done = self.write_or_roll_back(&prepared).await;
                if matches!(done, Ok(Updated::Written)) {
                    done = self.restore_written(stripe, &slots).await.map(|()| Updated::Written);
                }
                parts.read_ns = (read - began) * parts.changes;
                parts.mark_ns = (marked - read) * parts.changes;
                parts.write_ns = (self.state.io().now_coarse() - marked) * parts.changes;
                self.state.note_update(parts);
                return done;
            }
            self.state.mark(Mark::ArrayUpdateVoid);
            blocks = prepared.blocks;
        }
    }

    /// As [`Stripes::write_in_place`]. Where a member has no space for data, the old content of all copies counts: there is no
    /// journal that would have the new one after a crash.
    async fn write_or_roll_back(&self, prepared: &PreparedStripe) -> Result<Updated, VolumeError> {
        if self.form(prepared.stripe) == Form::Mirrored && self.lacks_space(prepared.stripe) {
            return self.write_first_copies_last(prepared).await;
        }
        let unplaced = self.unplaced.content_of(prepared.stripe);
        if self.write_in_place(prepared).await? {
            return Ok(Updated::Written);
        }
        let mut old = Vec::new();
        for (slot, _) in &prepared.blocks {
            old.extend(self.old_block(prepared.stripe, *slot, &unplaced).await);
        }
        if old.is_empty() {
            return Ok(Updated::RolledBack(Vec::new()));
        }
        let blocks = old.iter().map(|block| (block.slot, block.content.clone())).collect();
        let rolled_back = self.roll_back(prepared.stripe, blocks).await?;
        let placed = old.iter().filter(|block| block.is_placed);
        placed.for_each(|block| self.note_placed(block.member, block.at, BLOCK_BYTES));
        Ok(rolled_back)
    }

    /// Writes the old content of blocks whose new content members have refused.
    async fn roll_back(&self, stripe: u64, old: Vec<(u32, Buf)>) -> Result<Updated, VolumeError> {
        self.state.mark(Mark::ArrayRolledBack);
        let refused = self.unplaced.content_of(stripe);
        let old = self.prepare(stripe, old).await?;
        self.write_in_place(&old).await?;
        let unplaced = self.unplaced.content_of(stripe).into_keys();
        Ok(Updated::RolledBack(unplaced.filter(|place| !refused.contains_key(place)).collect()))
    }

    /// Waits until none of these places has content any more that was refused. The caller does not hold the stripe's lock.
    ///
    /// # Errors
    /// As for [`Journal::flush`](crate::journal::Journal::flush).
    pub(crate) async fn settle(&self, places: &[(MemberId, u64)]) -> Result<(), VolumeError> {
        if mutation::on(Mutation::RefuseUnsettled) {
            return Ok(());
        }
        let mut awaits_space = None;
        while places.iter().any(|&(member, offset)| self.is_unplaced(member, offset))
            && !self.state.has_failed()
        {
            self.state.mark(Mark::ArrayRollBackAwaitsSpace);
            awaits_space.get_or_insert_with(|| self.state.members().full.begin_wait());
            self.state.members().wait_for_space().await;
        }
        self.journal.flush().await
    }

    /// As [`Stripes::write_or_roll_back`], where a member has refused a write lately. After a crash the first copies count: as they
    /// are written once the others have found space, none of them has content that was refused, wherever old content finds space.
    async fn write_first_copies_last(&self, prepared: &PreparedStripe) -> Result<Updated, VolumeError> {
        let (layout, stripe) = (self.state.layout(), prepared.stripe);
        let mut old = Vec::with_capacity(prepared.blocks.len());
        for (slot, _) in &prepared.blocks {
            let (column, offset) = (slot / layout.chunk_blocks, slot % layout.chunk_blocks);
            let block = UnitRun { unit: column as usize, offset, blocks: 1 };
            old.push((*slot, self.reconstruct(stripe, block, &[]).await?));
        }
        let is_first = |write: &UnitWrite| {
            let column = layout.column_of(stripe, write.unit).expect("a mirrored stripe has no parity");
            let mut copies = layout.column_units(stripe, column);
            copies.find(|&copy| self.is_readable(stripe, copy)) == Some(write.unit)
        };
        let (first, others): (Vec<_>, Vec<_>) = self.unit_writes(prepared).into_iter().partition(is_first);
        self.state.counters().stripes_updated.add(1);
        self.state.members().latency.earn();
        let mut bad = Vec::new();
        let is_placed =
            self.put_units(stripe, &others, &mut bad).await && self.put_units(stripe, &first, &mut bad).await;
        if !is_placed {
            return self.roll_back(stripe, old).await;
        }
        if self.has_copy_of_each(stripe, &bad) { Ok(Updated::Written) } else { Err(VolumeError::Failed) }
    }

    /// Whether a member of a stripe has refused a write lately.
    fn lacks_space(&self, stripe: u64) -> bool {
        let members = self.state.members();
        members.full.refusals() > 0 && {
            let full = members.full_members();
            self.state.layout().stripe_members(stripe).any(|member| full[usize::from(member.0)])
        }
    }

    /// The old content of a block, from a place for which its member had no space, or from memory where it was not there either.
    async fn old_block(
        &self,
        stripe: u64,
        slot: u32,
        unplaced: &BTreeMap<(MemberId, u64), Buf>,
    ) -> Option<OldBlock> {
        let layout = self.state.layout();
        let (column, offset) = (slot / layout.chunk_blocks, slot % layout.chunk_blocks);
        let copies = match self.form(stripe) {
            Form::Mirrored => layout.tolerates() + 1,
            _ => 1,
        };
        for unit in layout.column_units(stripe, column as usize).take(copies) {
            let (member, at) = self.place(stripe, unit, offset);
            // What is in the place of a stale unit is not its old content.
            if !self.is_readable(stripe, unit) || !self.is_unplaced(member, at) {
                continue;
            }
            if let Some(content) = unplaced.get(&(member, at)) {
                return Some(OldBlock { slot, content: content.clone(), member, at, is_placed: false });
            }
            match self.state.members().read_at(member, at, BLOCK_BYTES).await {
                Ok(content) => return Some(OldBlock { slot, content, member, at, is_placed: true }),
                Err(error) => {
                    self.state.members().report_read_error(member, error).await;
                }
            }
        }
        None
    }

    /// Writes a stripe's new content to every active member. The caller holds the stripe's lock, and the region is marked.
    /// Returns whether all of it is in its place; what a member has no space for is kept, and placed later.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when too many writes fail for the content to be reconstructed.
    pub(crate) async fn write_in_place(&self, prepared: &PreparedStripe) -> Result<bool, VolumeError> {
        let stripe = prepared.stripe;
        let form = self.form(stripe);
        if form == Form::Parity && prepared.parity.iter().all(Option::is_none) {
            self.state.mark(Mark::ArrayWithoutParity);
        }
        let unit_writes = self.unit_writes(prepared);
        self.state.counters().stripes_updated.add(1);
        self.state.members().latency.earn();
        let mut bad = Vec::new();
        let is_placed = self.put_units(stripe, &unit_writes, &mut bad).await;
        let kept = match form {
            Form::Mirrored => self.has_copy_of_each(stripe, &bad),
            _ => {
                let lost = self.health(stripe, &bad).readable.iter().filter(|&&readable| !readable).count();
                lost <= self.state.layout().tolerates()
            }
        };
        if kept { Ok(is_placed) } else { Err(VolumeError::Failed) }
    }

    /// Writes units, and notes those in `bad` whose members fail; returns whether all others are in their places.
    async fn put_units(&self, stripe: u64, unit_writes: &[UnitWrite], bad: &mut Vec<usize>) -> bool {
        let writes = unit_writes.iter().map(|write| {
            let (member, at) = self.place(stripe, write.unit, write.offset);
            self.write_place(member, at, Rc::clone(&write.data))
        });
        let mut is_placed = true;
        for (write, result) in unit_writes.iter().zip(join_all(writes).await) {
            if result == Err(IoError::NoSpace) {
                self.keep_unplaced(stripe, self.place(stripe, write.unit, write.offset), &write.data);
                is_placed = false;
            } else if let Err(error) = result {
                self.state.mark(Mark::ArrayPutMemberLost);
                let member = self.state.layout().member(stripe, write.unit);
                self.state.members().report_failure(member, error).await;
                bad.push(write.unit);
            }
        }
        is_placed
    }

    fn unit_writes(&self, prepared: &PreparedStripe) -> Vec<UnitWrite> {
        let (layout, stripe) = (self.state.layout(), prepared.stripe);
        let (k, form) = (layout.columns(stripe), self.form(stripe));
        let there = |unit: usize| self.state.members().is_active(layout.member(stripe, unit));
        let mut unit_writes = Vec::new();
        let same_chunk = |a: &(u32, Buf), b: &(u32, Buf)| {
            a.0 + 1 == b.0 && a.0 / layout.chunk_blocks == b.0 / layout.chunk_blocks
        };
        for run in prepared.blocks.chunk_by(same_chunk) {
            let data = concat(run.iter().map(|(_, buf)| buf));
            let (column, offset) = (run[0].0 / layout.chunk_blocks, run[0].0 % layout.chunk_blocks);
            let copies = if form == Form::Mirrored { layout.tolerates() + 1 } else { 1 };
            let units = layout.column_units(stripe, column as usize).take(copies);
            for unit in units.filter(|&unit| there(unit)) {
                if unit != column as usize && mutation::on(Mutation::OneDataCopy) {
                    continue;
                }
                unit_writes.push(UnitWrite { unit, offset, data: Rc::clone(&data) });
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
                unit_writes.push(UnitWrite { unit: k + p, offset, data });
            }
        }
        unit_writes
    }
}

/// Adds the difference that new columns make to the old parity.
fn modify(columns: &[Option<&[u8]>], offset: u32, health: &Health, old: &OldContent, out: &mut [&mut [u8]]) {
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
fn recover(columns: &[Option<&[u8]>], offset: u32, health: &Health, old: &OldContent) -> Vec<Option<Buf>> {
    let (k, m) = (health.k, health.readable.len() - health.k);
    let lost: Vec<usize> = (0..k).filter(|&c| !health.readable[c]).collect();
    let parity = health.parity_for(lost.len()).expect("the plan found enough");
    let mut known = StripeColumns::new(k, m);
    let units = (0..k).filter(|&c| health.readable[c]).chain(parity);
    units.for_each(|unit| known.set(unit, old.block(unit, offset)));
    let found = known.recover(&lost, BLOCK_BYTES).expect("no more are lost than there is parity");
    let mut all: Vec<Option<Buf>> = vec![None; k];
    for (column, block) in lost.into_iter().zip(found) {
        all[column] = columns[column].is_none().then_some(block);
    }
    all
}
