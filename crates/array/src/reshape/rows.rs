//! Growth with parity: rows are changed to their new form, in the order of their keys, a batch at a time.
//!
//! A row is read wholly in its old form or wholly in its new one, and one number, `moved`, says which. Places that the old
//! form does not use are written at any time. In an array with a journal, the units that are then changed in place (parity,
//! and data that takes the former place of parity) go to the log together with the new `moved`, and are durable there before
//! the places are changed; so replay completes a row that a crash cut short, whatever member is missing. In an array without
//! a journal `moved` is recorded once every unit is in its place. Until then a crash leaves the row in its old form, and the
//! dirty marks have its parity computed again from data that the change has not touched; if a member is missing as well,
//! this is the usual write hole. No log would have data that is in memory only, because its member has no space for it:
//! then the rows stay as they were, and their old parity is written again.
//!
//! Rows that were taken apart are filled with zeros, and hold no block of a client until the growth has ended. After a crash
//! they are filled again. `row_forms` is what elastic arrays do instead, and before.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::io::{Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::log_group::{GroupRecord, IMAGE_OF_P};
use sinew_format::model::array_shard_layout::ShardLayout;
use sinew_layout::parity;
use sinew_layout::rows::{Cell, Change, Rows};

use crate::reshape::Reshape;
use crate::state::RETRY_NS;
use crate::stripe::part::UnitRun;
use crate::stripe::update::runs_of;

/// Bytes of new content that are in memory at one time.
const BATCH_BYTES: u64 = 4 << 20;

/// New content of one unit of a row.
struct UnitWrite {
    row: u64,
    /// As an image in the log numbers units.
    unit: u16,
    member: MemberId,
    offset: u64,
    data: Buf,
    /// The old form of the row uses the place.
    in_place: bool,
    /// The parity that the old form of a row which keeps its columns has in this place.
    former: Option<Buf>,
}

impl UnitWrite {
    /// The write that undoes this one.
    fn former(&self) -> Option<UnitWrite> {
        Some(UnitWrite { data: self.former.clone()?, former: None, ..*self })
    }
}

/// Rows that are changed together.
struct RowBatch {
    upto: u64,
    changes: Vec<Change>,
    /// The rows are only filled with zeros.
    clears: bool,
    /// Changes in place go through the log.
    logs: bool,
}

/// Units of a row that may be changed in place.
fn units_in_place(layout: &ShardLayout, change: &Change) -> u64 {
    (if change.keeps { layout.m } else { layout.w }) as u64
}

impl<I: Io> Reshape<I> {
    /// Changes row after row until the growth has ended.
    pub(super) async fn change_rows(&self) {
        if self.journal.progress().recorded() > 0 {
            self.state.mark(Mark::ArrayMoveResumed);
        }
        self.journal.report_moved().await;
        loop {
            let layout = self.state.layout();
            let Some(rows) = layout.changing() else { return };
            if self.state.is_closing() {
                return;
            }
            let ends = layout.moved() >= rows.end();
            let changed = if self.state.has_failed() {
                Err(VolumeError::Failed)
            } else if ends {
                self.end_changes(&layout, rows).await
            } else {
                self.change_batch(&layout, rows).await
            };
            self.stuck.set(changed.is_err());
            match changed {
                Ok(()) if ends => return,
                Ok(()) => {}
                Err(_) => {
                    self.state.mark(Mark::ArrayMoveRetried);
                    self.state.io().sleep(RETRY_NS).await;
                }
            }
        }
    }

    /// Records that all rows have changed, and tells the control.
    async fn end_changes(&self, layout: &ShardLayout, rows: &Rows) -> Result<(), VolumeError> {
        self.tidy_rows_from(layout, rows.end()).await?;
        self.journal.flush().await?;
        self.commit(layout, rows, rows.end(), &[]).await?;
        self.journal.report_moved().await;
        Ok(())
    }

    /// The next rows to be changed together.
    fn next_batch(&self, layout: &ShardLayout, rows: &Rows) -> RowBatch {
        let from = layout.moved();
        let first = rows.change(from);
        let clears = !first.keeps && first.gains.is_empty();
        let needed = rows.is_needed(from, from);
        let logs = needed && (layout.geometry.journal || !first.keeps);
        let chunk_blocks = u64::from(layout.chunk_blocks);
        let width = layout.w as u64;
        let mut most = (BATCH_BYTES / (width * chunk_blocks * BLOCK_BYTES as u64)).max(1);
        if logs {
            // A third, so that the images of two batches fit.
            let blocks = units_in_place(layout, &first) * chunk_blocks;
            most = most.min(layout.geometry.image_blocks() / 3 / blocks).max(1);
        }
        let mut changes = vec![first];
        let end = rows.stop(from).min(from + most);
        for key in from + 1..end {
            let change = rows.change(key);
            if (!change.keeps && change.gains.is_empty()) != clears {
                break;
            }
            changes.push(change);
        }
        RowBatch { upto: from + changes.len() as u64, changes, clears, logs }
    }

    async fn change_batch(&self, layout: &Rc<ShardLayout>, rows: &Rows) -> Result<(), VolumeError> {
        let batch = self.next_batch(layout, rows);
        let changed: BTreeSet<u64> = batch.changes.iter().map(|change| change.row).collect();
        let sources = batch.changes.iter().flat_map(|change| change.gains.iter().map(|(_, from)| from.row));
        let involved: BTreeSet<u64> = sources.chain(changed.iter().copied()).collect();
        let moves: usize = batch.changes.iter().map(|change| change.gains.len() + layout.m).sum();
        let bytes = moves as u64 * layout.chunk_bytes();
        self.state.throttle().pay(self.state.io(), bytes).await;
        self.yield_to_clients(bytes).await;
        if batch.logs {
            self.make_room(&batch).await?;
        }
        let result = match self.stripes.raise_barrier(involved.clone()).await {
            Some(_closed) => match self.settle_rows(&batch.changes, batch.clears).await {
                Ok(()) => self.change_behind_barrier(layout, rows, &batch, &changed, &involved).await,
                Err(error) => Err(error),
            },
            None => Err(VolumeError::Failed),
        };
        self.journal.log().reserve(0);
        result
    }

    async fn change_behind_barrier(
        &self,
        layout: &Rc<ShardLayout>,
        rows: &Rows,
        batch: &RowBatch,
        changed: &BTreeSet<u64>,
        involved: &BTreeSet<u64>,
    ) -> Result<(), VolumeError> {
        let mut locks = Vec::with_capacity(involved.len());
        for &row in involved {
            locks.push(self.stripes.lock_exclusive(row).await);
        }
        if self.state.is_closing() {
            return Ok(());
        }
        if !self.stripes.is_all_placed() {
            self.state.mark(Mark::ArrayMoveNoSpace);
            return Err(VolumeError::NoSpace);
        }
        let _uses: Vec<_> = changed.iter().map(|&row| self.bitmap.use_region_of(row)).collect();
        let regions: BTreeSet<usize> = changed.iter().map(|&row| layout.region(row)).collect();
        let regions: Vec<usize> = regions.into_iter().collect();
        let version = self.state.members().version();
        if layout.is_elastic() && batch.clears {
            self.state.mark(Mark::ArrayRowsCleared);
            layout.set_moved(batch.upto);
            return Ok(());
        }
        for change in batch.changes.iter().filter(|change| self.fills(change)) {
            self.require_rebuilt(layout, change.row, layout.member_ids())?;
        }
        self.require_parity(&batch.changes)?;
        // Once wider, the rows do not use all places that they did, nor all that the new members have.
        let _widening = match layout.is_elastic() {
            true => Some(self.stripes.begin_widening(changed.iter().copied().collect()).await?),
            false => None,
        };
        self.stripes.mark_regions(&regions).await?;
        let contents =
            join_all(batch.changes.iter().map(|change| self.new_content(layout, rows, change))).await;
        let writes: Vec<UnitWrite> =
            contents.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        let (in_place, free): (Vec<_>, Vec<_>) = writes.into_iter().partition(|write| write.in_place);
        if !self.write_units(&free).await.is_empty() {
            self.state.mark(Mark::ArrayMoveNoSpace);
            return Err(VolumeError::NoSpace);
        }
        if !batch.clears && !mutation::on(Mutation::ChangeUnflushed) {
            self.journal.flush().await?;
        }
        if self.state.members().version() != version {
            self.state.mark(Mark::ArrayMoveVoid);
            return Ok(());
        }
        if batch.clears {
            self.state.mark(Mark::ArrayRowsCleared);
            layout.set_moved(batch.upto);
            return Ok(());
        }
        if batch.logs {
            self.commit(layout, rows, batch.upto, &in_place).await?;
        }
        // From here on the rows have their new form: a write that fails now is left to rebuild.
        let from = layout.moved();
        layout.set_moved(batch.upto);
        self.stripes.mark_regions(&regions).await?;
        let refused = self.write_units(&in_place).await;
        let lacks_data = refused.iter().any(|write| write.unit < IMAGE_OF_P);
        if lacks_data && !batch.logs && !mutation::on(Mutation::RecordUnplaced) {
            layout.set_moved(from);
            return self.roll_back(&in_place).await;
        }
        self.keep_unplaced(&refused);
        self.journal.pinned().end_changing();
        if !batch.logs {
            self.record_in_place(layout, rows, batch.upto).await?;
        }
        let moved: usize = batch.changes.iter().map(|change| change.gains.len()).sum();
        self.state.counters().chunks_moved.add(moved as u64);
        Ok(())
    }

    /// Gives rows that keep their columns their former parity again: a member has no space for their new data.
    async fn roll_back(&self, in_place: &[UnitWrite]) -> Result<(), VolumeError> {
        self.state.mark(Mark::ArrayMoveRolledBack);
        let former: Vec<UnitWrite> = in_place.iter().filter_map(UnitWrite::former).collect();
        self.keep_unplaced(&self.write_units(&former).await);
        Err(VolumeError::NoSpace)
    }

    fn keep_unplaced(&self, refused: &[&UnitWrite]) {
        for write in refused {
            let data = std::slice::from_ref(&write.data);
            self.stripes.keep_unplaced(write.row, (write.member, write.offset), data);
        }
    }

    /// Records rows that were not changed through the log, before clients may write to them.
    async fn record_in_place(&self, layout: &ShardLayout, rows: &Rows, upto: u64) -> Result<(), VolumeError> {
        loop {
            let recorded = match self.journal.flush().await {
                Ok(()) => self.commit(layout, rows, upto, &[]).await,
                Err(error) => Err(error),
            };
            if recorded.is_ok() || self.state.has_failed() {
                return recorded;
            }
            self.state.io().sleep(RETRY_NS).await;
        }
    }

    /// Logs the units that are about to be changed in place, and that every row below `upto` has its new form; durable on
    /// return.
    async fn commit(
        &self,
        layout: &ShardLayout,
        rows: &Rows,
        upto: u64,
        writes: &[UnitWrite],
    ) -> Result<(), VolumeError> {
        let per_part = self.journal.log().group_blocks();
        let mut entries: Vec<(GroupRecord, Vec<Buf>)> = Vec::new();
        for write in writes {
            for offset in (0..layout.chunk_blocks).step_by(per_part as usize) {
                let blocks = per_part.min(layout.chunk_blocks - offset);
                let record = GroupRecord::Image { stripe: write.row, unit: write.unit, offset, blocks };
                let data = write.data.slice(offset as usize * BLOCK_BYTES, blocks as usize * BLOCK_BYTES);
                entries.push((record, vec![data]));
            }
        }
        if mutation::on(Mutation::ChangeUnlogged) {
            entries.clear();
        }
        let changed: BTreeSet<u32> =
            (self.journal.progress().recorded()..upto).map(|key| rows.change(key).row as u32).collect();
        let to = layout.geometry.members() as u8;
        entries.push((GroupRecord::Changed { to, upto, rows: runs_of(changed) }, Vec::new()));
        if !writes.is_empty() {
            self.journal.pinned().pin_changing(self.journal.log().next());
        }
        let appended = self.journal.append_images(entries).await;
        self.journal.note_images(writes.iter().map(|write| write.row));
        appended?;
        self.journal.flush().await?;
        self.journal.progress().set_recorded(upto);
        self.state.mark(Mark::ArrayMoveRecorded);
        Ok(())
    }

    /// Waits until the log has room for the units that the batch changes in place, apart from the blocks that clients may fill meanwhile.
    async fn make_room(&self, batch: &RowBatch) -> Result<(), VolumeError> {
        let layout = self.state.layout();
        let units = batch.changes.len() as u64 * units_in_place(&layout, &batch.changes[0]);
        let blocks = units * u64::from(layout.chunk_blocks);
        // A group's head takes at least a block.
        let need = blocks + blocks.div_ceil(u64::from(self.journal.log().group_blocks()));
        self.journal.log().reserve(need);
        while self.journal.log().used() + need > self.journal.log().client_blocks().max(need + 8) {
            self.state.mark(Mark::ArrayMoveRoom);
            self.journal.want_tail_past_now();
            if !self.journal.wait_for_destager().await {
                self.journal.log().reserve(0);
                return Err(VolumeError::Failed);
            }
        }
        Ok(())
    }

    /// The new content of a row. The caller holds the locks of this row and of those that chunks come from.
    async fn new_content(
        &self,
        layout: &ShardLayout,
        rows: &Rows,
        change: &Change,
    ) -> Result<Vec<UnitWrite>, VolumeError> {
        if layout.is_elastic() && !self.fills(change) {
            self.state.mark(Mark::ArrayMoveKeptEmpty);
            return Ok(Vec::new());
        }
        let whole = |unit| UnitRun { unit, offset: 0, blocks: layout.chunk_blocks };
        let bytes = layout.chunk_blocks as usize * BLOCK_BYTES;
        let (row, end) = (change.row, rows.end());
        let reads = change
            .gains
            .iter()
            .map(|(_, from)| self.stripes.reconstruct(from.row, whole(from.column as usize), &[]));
        let gained: Vec<Buf> = join_all(reads).await.into_iter().collect::<Result<_, _>>()?;
        let mut columns: Vec<Option<Buf>> = vec![None; rows.columns(row, end) as usize];
        for ((column, _), buf) in change.gains.iter().zip(gained) {
            columns[*column as usize] = Some(buf);
        }
        let zeros = || Buf::zeroed(bytes);
        let old_parity = if change.keeps { self.old_parity_of(layout, row).await? } else { Vec::new() };
        let parity = new_parity_of(layout, &columns, &old_parity);
        let done = layout.moved();
        let needed = rows.is_needed(rows.key(row), done);
        let write = |unit: u16, member: u32, data: Buf| {
            let home = sinew_layout::Home { member, chunk: layout.whole(row) };
            let former = (0..old_parity.len()).find(|&p| rows.parity(row, p, done) == member);
            UnitWrite {
                former: former.map(|p| old_parity[p].clone()),
                row,
                unit,
                member: MemberId(member as u8),
                offset: layout.chunk_offset(home),
                data,
                in_place: needed && member < rows.members_before(),
            }
        };
        let mut writes = Vec::with_capacity(columns.len() + layout.m);
        for (column, buf) in columns.into_iter().enumerate() {
            let data = match buf {
                Some(buf) => buf,
                None if change.keeps => continue,
                None => zeros(),
            };
            let cell = Cell { row, column: column as u32 };
            writes.push(write(column as u16, rows.member(cell, end), data));
        }
        for (p, data) in parity.into_iter().enumerate() {
            writes.push(write(IMAGE_OF_P + p as u16, rows.parity(row, p, end), data));
        }
        Ok(writes)
    }

    /// The parity of a row in its old form; computed, where it cannot be read or does not match yet.
    async fn old_parity_of(&self, layout: &ShardLayout, row: u64) -> Result<Vec<Buf>, VolumeError> {
        let whole = |unit| UnitRun { unit, offset: 0, blocks: layout.chunk_blocks };
        let health = self.stripes.health(row, &[]);
        let units: Vec<UnitRun> = (health.k..health.k + layout.m).map(whole).collect();
        let is_whole = health.in_sync && units.iter().all(|run| health.readable[run.unit]);
        if is_whole && let Ok(read) = self.stripes.read_runs(row, &units).await {
            return Ok(read.into_iter().map(|(_, buf)| buf).collect());
        }
        self.state.mark(Mark::ArrayMoveWithoutParity);
        let reads = (0..health.k).map(|unit| self.stripes.reconstruct(row, whole(unit), &[]));
        let columns: Vec<Buf> = join_all(reads).await.into_iter().collect::<Result<_, _>>()?;
        Ok(parity_of(layout, &columns.iter().map(|buf| Some(buf.bytes())).collect::<Vec<_>>()))
    }

    /// Writes units to active members. A write that fails is left to rebuild. Returns those for which a member has no space.
    async fn write_units<'a>(&self, writes: &'a [UnitWrite]) -> Vec<&'a UnitWrite> {
        let there = writes.iter().filter(|write| self.state.members().is_active(write.member));
        let results = join_all(there.map(|write| async move {
            let data = Rc::new([write.data.clone()]);
            let written = self.stripes.write_place(write.member, write.offset, data).await;
            written.map_err(|error| (write, error))
        }));
        let mut refused = Vec::new();
        for (write, error) in results.await.into_iter().filter_map(Result::err) {
            if error == IoError::NoSpace {
                refused.push(write);
                continue;
            }
            self.state.mark(Mark::ArrayMoveMemberLost);
            self.state.members().report_failure(write.member, error).await;
        }
        refused
    }
}

/// The parity of these columns, the others being zeros.
fn parity_of(layout: &ShardLayout, columns: &[Option<&[u8]>]) -> Vec<Buf> {
    let bytes = layout.chunk_blocks as usize * BLOCK_BYTES;
    let mut parity: Vec<Buf> = (0..layout.m).map(|_| Buf::zeroed(bytes)).collect();
    if columns.iter().any(Option::is_some) {
        let mut places: Vec<&mut [u8]> = parity.iter_mut().map(Buf::bytes_mut).collect();
        parity::compute(columns, &mut places);
    }
    parity
}

/// The parity of a row in its new form, with these new columns. Where the row keeps its other columns, `old` is their parity.
fn new_parity_of(layout: &ShardLayout, gained: &[Option<Buf>], old: &[Buf]) -> Vec<Buf> {
    let gained: Vec<Option<&[u8]>> = gained.iter().map(|buf| buf.as_ref().map(Buf::bytes)).collect();
    let mut parity = parity_of(layout, &gained);
    for (new, old) in parity.iter_mut().zip(old) {
        parity::xor_into(new.bytes_mut(), old.bytes());
    }
    parity
}
