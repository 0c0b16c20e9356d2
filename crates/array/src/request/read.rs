//! Reading: from the journal where it has something newer, else from the stripe; the least burdened copy, and when there
//! is none, or its member is late, the rest of the stripe.
//!
//! There are no checksums: what a member returns is believed. What it cannot return is computed and written again.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::Mark;
use sinew_core::io::{Io, IoError};
use sinew_core::sync::join_all;
use sinew_core::volume::{Extent, VolumeError};
use sinew_layout::parity::{self, Column};
use sinew_members::hedged_read::{self, ReadOutcome};

use crate::ArrayShard;
use crate::stripe::hedged::StripePart;
use crate::stripe::parity_plan::{Health, UnitRun};
use sinew_format::model::array_shard_layout::{Run, ShardLayout};

impl<I: Io> ArrayShard<I> {
    /// Reads consecutive blocks; the parts, in order, add up to them.
    pub(crate) async fn read(self: &Rc<Self>, local: u64, count: u32) -> Result<Vec<Buf>, VolumeError> {
        self.counters.reads.add(1);
        self.counters.read_bytes.add(u64::from(count) * BLOCK_BYTES as u64);
        let _inside = self.enter_reading(local, u64::from(count)).await;
        let mut parts = Vec::with_capacity(1);
        for run in self.slice().runs(local, u64::from(count)) {
            self.split_by_journal(run, &mut parts);
        }
        if let [Part::Place(run)] = parts[..] {
            return Ok(vec![self.read_run(run).await?]);
        }
        let reads = parts.into_iter().map(|part| async {
            match part {
                Part::Journal(buf) => Ok(buf),
                Part::Place(run) => self.read_run(run).await,
            }
        });
        join_all(reads).await.into_iter().collect()
    }

    /// An array stores everything.
    pub(crate) fn extents(&self, count: u32) -> Vec<Extent> {
        vec![Extent { bytes: u64::from(count) * BLOCK_BYTES as u64, allocated: true }]
    }

    /// Which parts of a run the journal has, in order.
    fn split_by_journal(&self, run: Run, parts: &mut Vec<Part>) {
        let pending = self.pending.borrow();
        let (mut slot, end) = (run.slot, run.slot + run.blocks);
        for (found, pended) in pending.range(run.stripe, run.slot, run.blocks) {
            if slot < found {
                parts.push(Part::Place(Run { slot, blocks: found - slot, ..run }));
            }
            let joined = match parts.last_mut() {
                Some(Part::Journal(buf)) => buf.join(&pended.data),
                _ => false,
            };
            if !joined {
                parts.push(Part::Journal(pended.data.clone()));
            }
            slot = found + 1;
        }
        if slot < end {
            parts.push(Part::Place(Run { slot, blocks: end - slot, ..run }));
        }
    }

    /// Reads slots of one chunk from their place.
    pub(crate) async fn read_run(self: &Rc<Self>, run: Run) -> Result<Buf, VolumeError> {
        let slice = self.slice();
        let (column, offset) = (run.slot / slice.chunk_blocks, run.slot % slice.chunk_blocks);
        let part = UnitRun { unit: column as usize, offset, blocks: run.blocks };
        match self.read_unlocked(&slice, run.stripe, part).await {
            Some((_, Ok(buf))) => Ok(buf),
            Some((unit, Err(_))) => self.read_and_mend(run.stripe, UnitRun { unit, ..part }).await,
            None => {
                let _held = self.locks.shared(run.stripe).await;
                self.count_reconstruction(self.reconstruct(run.stripe, part, &[]).await)
            }
        }
    }

    /// Reads part of a unit, or of any copy of it, if that can be read; with which one it was.
    async fn read_unlocked(
        self: &Rc<Self>,
        slice: &ShardLayout,
        stripe: u64,
        part: UnitRun,
    ) -> Option<(usize, Result<Buf, IoError>)> {
        let held = match slice.manner() {
            Some(manner) if manner.blocks_reads => Some(self.locks.shared(stripe).await),
            _ => None,
        };
        let _reading = self.mover.reading();
        let health = self.health(stripe, &[]);
        let wanted = if slice.is_mirror() { self.idle_copy(stripe, &health) } else { Some(part.unit) };
        let unit = wanted.filter(|&unit| health.readable[unit])?;
        if !self.members.may_be_late() || slice.tolerates() == 0 || held.is_some() {
            return Some((unit, self.read_unit(stripe, UnitRun { unit, ..part }).await));
        }
        match hedged_read::read(self, StripePart { stripe, run: part }, unit).await {
            ReadOutcome::Primary(result) => Some((unit, result)),
            ReadOutcome::Alternate(buf) => Some((unit, Ok(buf))),
        }
    }

    /// As `read_run`, for a caller that holds the stripe.
    pub(crate) async fn read_locked(&self, run: Run) -> Result<Buf, VolumeError> {
        let (column, offset) = (run.slot / self.slice().chunk_blocks, run.slot % self.slice().chunk_blocks);
        let part = UnitRun { unit: column as usize, offset, blocks: run.blocks };
        self.reconstruct(run.stripe, part, &[]).await
    }

    /// The copy, of those that can be read, whose member has least to do; before a resync always the first, which will then
    /// be taken to be right.
    pub(crate) fn idle_copy(&self, stripe: u64, health: &Health) -> Option<usize> {
        let mut copies = (0..self.slice().w).filter(|&unit| health.readable[unit]);
        if !health.even {
            return copies.next();
        }
        copies.min_by_key(|&unit| self.members.burden(self.slice().member(stripe, unit)))
    }

    /// Reads part of a unit as it is at its place, acting on errors.
    pub(crate) async fn read_unit(&self, stripe: u64, run: UnitRun) -> Result<Buf, IoError> {
        let (member, offset) = self.place(stripe, run.unit, run.offset);
        let result = self.members.read_at(member, offset, run.blocks as usize * BLOCK_BYTES).await;
        if let Err(error) = result
            && self.members.read_error_is_fatal(member, error)
        {
            self.io.mark(Mark::ArrayReadMemberLost);
            self.members.report_failure(member, error).await;
        }
        result
    }

    /// What a unit should hold, though its member failed to read it; written there again.
    async fn read_and_mend(&self, stripe: u64, run: UnitRun) -> Result<Buf, VolumeError> {
        let _held = self.locks.alone(stripe).await;
        let found = self.count_reconstruction(self.reconstruct(stripe, run, &[run.unit]).await)?;
        self.mend(stripe, run, &found).await;
        Ok(found)
    }

    fn count_reconstruction(&self, result: Result<Buf, VolumeError>) -> Result<Buf, VolumeError> {
        match &result {
            Ok(_) => {
                self.io.mark(Mark::ArrayReconstructed);
                self.counters.reconstructed_reads.add(1);
            }
            Err(_) => {
                self.io.mark(Mark::ArrayReadLost);
                self.counters.failed_reads.add(1);
            }
        }
        result
    }

    /// Writes right content where it could not be read, or was wrong. The caller holds the stripe alone.
    pub(crate) async fn mend(&self, stripe: u64, run: UnitRun, right: &Buf) -> bool {
        let (member, offset) = self.place(stripe, run.unit, run.offset);
        if !self.members.is_active(member) || self.slice().geometry.is_read_only() {
            return false;
        }
        match self.members.write_at(member, offset, Rc::new([right.clone()])).await {
            Ok(()) => {
                self.io.mark(Mark::ArrayMended);
                self.members.note_repair(member, u64::from(run.blocks));
                true
            }
            Err(error) => {
                self.io.mark(Mark::ArrayMendFailed);
                self.members.report_failure(member, error).await;
                false
            }
        }
    }

    /// Part of a unit from the other units, without those that are bad. The caller holds the stripe.
    pub(crate) async fn reconstruct(
        &self,
        stripe: u64,
        part: UnitRun,
        bad: &[usize],
    ) -> Result<Buf, VolumeError> {
        let mut bad = bad.to_vec();
        loop {
            let result = match self.slice().is_mirror() {
                true => self.read_other_copy(stripe, part, &bad).await,
                false => self.read_around(stripe, part, &bad).await,
            };
            match result {
                Ok(buf) => return Ok(buf),
                Err(Some(unit)) => bad.push(unit),
                Err(None) => return Err(VolumeError::Failed),
            }
        }
    }

    async fn read_other_copy(&self, stripe: u64, part: UnitRun, bad: &[usize]) -> Result<Buf, Option<usize>> {
        let unit = self.idle_copy(stripe, &self.health(stripe, bad)).ok_or(None)?;
        self.read_unit(stripe, UnitRun { unit, ..part }).await.map_err(|_| Some(unit))
    }

    /// Part of a unit of a stripe with parity; fails with a unit that cannot be read, or for good.
    async fn read_around(&self, stripe: u64, part: UnitRun, bad: &[usize]) -> Result<Buf, Option<usize>> {
        let health = self.health(stripe, bad);
        let (k, m) = (health.k, self.slice().m);
        // It may have become readable while the lock was waited for.
        if health.readable[part.unit] {
            return self.read_unit(stripe, part).await.map_err(|_| Some(part.unit));
        }
        let lost = (0..k).filter(|&c| !health.readable[c]).count();
        let parity = health.parity_for(lost).map_err(|_| None)?;
        let units = (0..k).filter(|&c| health.readable[c]).chain(parity);
        let runs: Vec<UnitRun> = units.map(|unit| UnitRun { unit, ..part }).collect();
        let read = self.read_runs(stripe, &runs).await.map_err(Some)?;
        let mut columns = vec![Column::Lost; k + m];
        read.iter().for_each(|(run, buf)| columns[run.unit] = Column::Present(buf.bytes()));
        let mut out = Buf::stale(part.blocks as usize * BLOCK_BYTES);
        parity::reconstruct(&columns, k, m, &[part.unit], &mut [out.bytes_mut()]).map_err(|_| None)?;
        Ok(out)
    }
}

/// Where part of what is read comes from.
enum Part {
    Journal(Buf),
    Place(Run),
}
