//! Growing with parity: rows are changed to what the growth makes of them, in the order of their keys, some at a time.
//!
//! A row is read wholly as it was or wholly as it will be, and one number, `moved`, says which. What is written to places
//! that the row has no use for as it was can be written at any time. Then, with a journal, what is to be changed in place
//! (parity, and data that takes the former place of parity) goes to the log together with the new `moved`, and is durable
//! there before the places are changed; so a crash leaves a row that replay makes whole, whatever member is missing.
//! Without a journal `moved` is recorded once everything is in its place, and until then the dirty marks have parity made
//! again from data that nothing has touched; with a member missing as well there is the usual write hole.
//!
//! Rows that were taken apart are made zeros, in which no block of a client is until the growth has ended. A crash
//! in between has them made zeros again.

use std::collections::BTreeSet;
use std::rc::Rc;

use sinew_layout::rows::{Cell, Change, Rows};

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::completion::Completion;
use sinew_core::coverage::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::log_group::{GroupRecord, IMAGE_OF_P};
use sinew_layout::parity;

use crate::journal::log::Entry;
use crate::stripe::parity_plan::UnitRun;
use crate::stripe::update::runs_of;
use crate::{ArrayShard, RETRY_NS};
use sinew_format::model::array_shard_layout::ShardLayout;

/// Bytes of new content that are in memory at one time.
const BATCH_BYTES: u64 = 4 << 20;

/// New content of one unit of a row.
struct Write {
    row: u64,
    /// As an image in the log has it.
    unit: u16,
    member: MemberId,
    offset: u64,
    data: Buf,
    /// The place is still needed as it was.
    in_place: bool,
}

/// Rows that are changed together.
struct Batch {
    upto: u64,
    changes: Vec<Change>,
    /// They only become zeros.
    clears: bool,
    /// What is changed in place goes through the log.
    logs: bool,
}

/// Units of a row that may be changed in place.
fn units_in_place(slice: &ShardLayout, change: &Change) -> u64 {
    (if change.keeps { slice.m } else { slice.w }) as u64
}

impl<I: Io> ArrayShard<I> {
    /// Changes row after row until the growth has ended.
    pub(crate) async fn change_rows(&self) {
        if self.mover.recorded() > 0 {
            self.io.mark(Mark::ArrayMoveResumed);
        }
        self.report_moved().await;
        loop {
            let slice = self.slice();
            let Some(rows) = slice.changing() else { return };
            if self.closing.get() {
                return;
            }
            let ends = slice.moved() >= rows.end();
            let changed = if self.failed.get() {
                Err(VolumeError::Failed)
            } else if ends {
                self.end_changes(&slice, rows).await
            } else {
                self.change_batch(&slice, rows).await
            };
            self.mover.stuck.set(changed.is_err());
            match changed {
                Ok(()) if ends => return,
                Ok(()) => {}
                Err(_) => {
                    self.io.mark(Mark::ArrayMoveRetried);
                    self.io.sleep(RETRY_NS).await;
                }
            }
        }
    }

    /// Records that all rows have changed, and says so.
    async fn end_changes(&self, slice: &ShardLayout, rows: &Rows) -> Result<(), VolumeError> {
        self.flush().await?;
        self.commit(slice, rows, rows.end(), &[]).await?;
        self.report_moved().await;
        Ok(())
    }

    /// The next rows to be changed together.
    fn next_batch(&self, slice: &ShardLayout, rows: &Rows) -> Batch {
        let from = slice.moved();
        let first = rows.change(from);
        let clears = !first.keeps && first.gains.is_empty();
        let needed = rows.is_needed(from, from);
        let logs = needed && (slice.geometry.journal || !first.keeps);
        let chunk_blocks = u64::from(slice.chunk_blocks);
        let width = slice.w as u64;
        let mut most = (BATCH_BYTES / (width * chunk_blocks * BLOCK_BYTES as u64)).max(1);
        if logs {
            // A third, so that the images of one batch can still be there while those of the next come.
            let blocks = units_in_place(slice, &first) * chunk_blocks;
            most = most.min(slice.geometry.image_blocks() / 3 / blocks).max(1);
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
        Batch { upto: from + changes.len() as u64, changes, clears, logs }
    }

    async fn change_batch(&self, slice: &Rc<ShardLayout>, rows: &Rows) -> Result<(), VolumeError> {
        let batch = self.next_batch(slice, rows);
        let changed: BTreeSet<u64> = batch.changes.iter().map(|change| change.row).collect();
        let sources = batch.changes.iter().flat_map(|change| change.gains.iter().map(|(_, from)| from.row));
        let involved: BTreeSet<u64> = sources.chain(changed.iter().copied()).collect();
        let moves: usize = batch.changes.iter().map(|change| change.gains.len() + slice.m).sum();
        self.throttle.pay(&self.io, moves as u64 * u64::from(slice.chunk_blocks) * BLOCK_BYTES as u64).await;
        if batch.logs {
            self.make_room(&batch).await?;
        }
        let result = match self.close_gate(involved.clone()).await {
            Some(_closed) => self.change_behind_gate(slice, rows, &batch, &changed, &involved).await,
            None => Err(VolumeError::Failed),
        };
        self.log.reserve(0);
        result
    }

    async fn change_behind_gate(
        &self,
        slice: &Rc<ShardLayout>,
        rows: &Rows,
        batch: &Batch,
        changed: &BTreeSet<u64>,
        involved: &BTreeSet<u64>,
    ) -> Result<(), VolumeError> {
        let mut held = Vec::with_capacity(involved.len());
        for &row in involved {
            held.push(self.locks.alone(row).await);
        }
        if self.closing.get() {
            return Ok(());
        }
        let _uses: Vec<_> = changed.iter().map(|&row| self.use_region(row)).collect();
        let regions: BTreeSet<usize> = changed.iter().map(|&row| slice.region(row)).collect();
        let regions: Vec<usize> = regions.into_iter().collect();
        let version = self.members.version();
        self.mark(&regions).await?;
        let contents =
            join_all(batch.changes.iter().map(|change| self.new_content(slice, rows, change))).await;
        let writes: Vec<Write> =
            contents.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        let (in_place, free): (Vec<_>, Vec<_>) = writes.into_iter().partition(|write| write.in_place);
        self.write_units(&free).await;
        if !batch.clears && !mutation::on(Mutation::ChangeUnflushed) {
            self.flush().await?;
        }
        if self.members.version() != version {
            self.io.mark(Mark::ArrayMoveVoid);
            return Ok(());
        }
        if batch.clears {
            self.io.mark(Mark::ArrayRowsCleared);
            slice.set_moved(batch.upto);
            return Ok(());
        }
        if batch.logs {
            self.commit(slice, rows, batch.upto, &in_place).await?;
        }
        // From here on the rows are as they will be: whatever fails now is left to rebuild.
        slice.set_moved(batch.upto);
        self.mark(&regions).await?;
        self.write_units(&in_place).await;
        let oldest = [self.changing_images.take(), self.unsettled.get()].into_iter().flatten().min();
        self.unsettled.set(oldest);
        if !batch.logs {
            self.record_in_place(slice, rows, batch.upto).await?;
        }
        let moved: usize = batch.changes.iter().map(|change| change.gains.len()).sum();
        self.counters.chunks_moved.add(moved as u64);
        Ok(())
    }

    /// Rows that were not changed through the log are in their places: says so before anybody may write to them.
    async fn record_in_place(&self, slice: &ShardLayout, rows: &Rows, upto: u64) -> Result<(), VolumeError> {
        loop {
            let recorded = match self.flush().await {
                Ok(()) => self.commit(slice, rows, upto, &[]).await,
                Err(error) => Err(error),
            };
            if recorded.is_ok() || self.failed.get() {
                return recorded;
            }
            self.io.sleep(RETRY_NS).await;
        }
    }

    /// Has the log take what is about to be changed in place, and that everything below `upto` is changed; durable when
    /// this returns.
    async fn commit(
        &self,
        slice: &ShardLayout,
        rows: &Rows,
        upto: u64,
        writes: &[Write],
    ) -> Result<(), VolumeError> {
        let per_part = self.log.group_blocks();
        let mut entries: Vec<(GroupRecord, Vec<Buf>)> = Vec::new();
        for write in writes {
            for offset in (0..slice.chunk_blocks).step_by(per_part as usize) {
                let blocks = per_part.min(slice.chunk_blocks - offset);
                let record = GroupRecord::Image { stripe: write.row, unit: write.unit, offset, blocks };
                let data = write.data.slice(offset as usize * BLOCK_BYTES, blocks as usize * BLOCK_BYTES);
                entries.push((record, vec![data]));
            }
        }
        if mutation::on(Mutation::ChangeUnlogged) {
            entries.clear();
        }
        let changed: BTreeSet<u32> =
            (self.mover.recorded()..upto).map(|key| rows.change(key).row as u32).collect();
        let to = slice.geometry.members() as u8;
        entries.push((GroupRecord::Changed { to, upto, rows: runs_of(changed) }, Vec::new()));
        if !writes.is_empty() {
            self.changing_images.set(Some(self.log.next()));
        }
        let (ticket, promise) = Completion::new(entries.len() as u32);
        let entry = |(record, data)| Entry::Drain { record, data, ticket: Rc::clone(&ticket) };
        self.log.append_drains(entries.into_iter().map(entry));
        promise.await?;
        self.flush().await?;
        self.mover.set_recorded(upto);
        self.io.mark(Mark::ArrayMoveRecorded);
        Ok(())
    }

    /// Waits until the log has room for what the batch changes in place, beside what clients may fill meanwhile.
    async fn make_room(&self, batch: &Batch) -> Result<(), VolumeError> {
        let slice = self.slice();
        let units = batch.changes.len() as u64 * units_in_place(&slice, &batch.changes[0]);
        let blocks = units * u64::from(slice.chunk_blocks);
        // A group's head takes at least a block.
        let need = blocks + blocks.div_ceil(u64::from(self.log.group_blocks()));
        self.log.reserve(need);
        while self.log.used() + need > self.log.client_blocks().max(need + 8) {
            self.io.mark(Mark::ArrayMoveRoom);
            self.tail_wanted.set(self.log.next());
            if !self.wait_drained().await {
                self.log.reserve(0);
                return Err(VolumeError::Failed);
            }
        }
        Ok(())
    }

    /// What a row becomes. The caller holds it, and those that something comes from.
    async fn new_content(
        &self,
        slice: &ShardLayout,
        rows: &Rows,
        change: &Change,
    ) -> Result<Vec<Write>, VolumeError> {
        let whole = |unit| UnitRun { unit, offset: 0, blocks: slice.chunk_blocks };
        let bytes = slice.chunk_blocks as usize * BLOCK_BYTES;
        let (row, end) = (change.row, rows.end());
        let reads =
            change.gains.iter().map(|(_, from)| self.reconstruct(from.row, whole(from.column as usize), &[]));
        let gained: Vec<Buf> = join_all(reads).await.into_iter().collect::<Result<_, _>>()?;
        let mut columns: Vec<Option<Buf>> = vec![None; rows.columns(row, end) as usize];
        for ((column, _), buf) in change.gains.iter().zip(gained) {
            columns[*column as usize] = Some(buf);
        }
        let parity = self.new_parity_of(slice, change, &columns).await?;
        let zeros = || Buf::zeroed(bytes);
        let needed = rows.is_needed(rows.key(row), slice.moved());
        let write = |unit: u16, member: u32, data: Buf| {
            let home = sinew_layout::Home { member, chunk: slice.whole(row) };
            Write {
                row,
                unit,
                member: MemberId(member as u8),
                offset: slice.chunk_offset(home),
                data,
                in_place: needed && member < rows.members_before(),
            }
        };
        let mut writes = Vec::with_capacity(columns.len() + slice.m);
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

    /// The parity of a row as it becomes, with these new columns: of one that keeps the others, what it was and what the
    /// new ones add, or the sum of all where that cannot be read or does not match yet.
    async fn new_parity_of(
        &self,
        slice: &ShardLayout,
        change: &Change,
        gained: &[Option<Buf>],
    ) -> Result<Vec<Buf>, VolumeError> {
        let bytes = slice.chunk_blocks as usize * BLOCK_BYTES;
        let whole = |unit| UnitRun { unit, offset: 0, blocks: slice.chunk_blocks };
        let mut parity: Vec<Buf> = (0..slice.m).map(|_| Buf::zeroed(bytes)).collect();
        let mut columns: Vec<Option<Buf>> = gained.to_vec();
        let mut old = Vec::new();
        if change.keeps {
            let health = self.health(change.row, &[]);
            let units: Vec<UnitRun> = (health.k..health.k + slice.m).map(whole).collect();
            let whole_parity = health.even && units.iter().all(|run| health.readable[run.unit]);
            let read = if whole_parity { self.read_runs(change.row, &units).await.ok() } else { None };
            match read {
                Some(read) => old = read,
                None => {
                    self.io.mark(Mark::ArrayMoveWithoutParity);
                    let reads = (0..health.k).map(|unit| self.reconstruct(change.row, whole(unit), &[]));
                    for (unit, read) in join_all(reads).await.into_iter().enumerate() {
                        columns[unit] = Some(read?);
                    }
                }
            }
        }
        if columns.iter().any(Option::is_some) {
            let columns: Vec<Option<&[u8]>> =
                columns.iter().map(|buf| buf.as_ref().map(Buf::bytes)).collect();
            let mut places: Vec<&mut [u8]> = parity.iter_mut().map(Buf::bytes_mut).collect();
            parity::compute(&columns, &mut places);
        }
        for (new, (_, old)) in parity.iter_mut().zip(&old) {
            parity::xor_into(new.bytes_mut(), old.bytes());
        }
        Ok(parity)
    }

    /// Writes units to the members that are there; what fails is left to rebuild.
    async fn write_units(&self, writes: &[Write]) {
        let there = writes.iter().filter(|write| self.members.is_active(write.member));
        let results = join_all(there.map(|write| async {
            let written =
                self.members.write_at(write.member, write.offset, Rc::new([write.data.clone()])).await;
            written.map_err(|error| (write.member, error))
        }));
        for (member, error) in results.await.into_iter().filter_map(Result::err) {
            self.io.mark(Mark::ArrayMoveMemberLost);
            self.members.report_failure(member, error).await;
        }
    }
}
