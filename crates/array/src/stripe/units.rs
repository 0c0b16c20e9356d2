//! The units of a stripe: the place of each, whether it can be read, reading one and repairing one.

use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::io::{Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;

use crate::stripe::Stripes;
use crate::stripe::parity_plan::Health;
use crate::stripe::part::UnitRun;

impl<I: Io> Stripes<I> {
    /// Which units of a stripe with parity can be read and written. Units in `bad` have just proved unreadable.
    pub(crate) fn health(&self, stripe: u64, bad: &[usize]) -> Health {
        let layout = self.state.layout();
        let units = 0..layout.width(stripe);
        let readable = |unit| !bad.contains(&unit) && self.is_readable(stripe, unit);
        Health {
            k: layout.columns(stripe),
            readable: units.clone().map(readable).collect(),
            writable: units.map(|unit| self.is_writable(stripe, unit)).collect(),
            in_sync: self.is_in_sync(stripe),
        }
    }

    /// The member of a unit, and where a block of it lies there.
    pub(crate) fn place(&self, stripe: u64, unit: usize, offset: u32) -> (MemberId, u64) {
        let (member, chunk) = self.state.layout().home(stripe, unit);
        (member, chunk + u64::from(offset) * BLOCK_BYTES as u64)
    }

    /// Whether a unit's member is active.
    pub(crate) fn is_writable(&self, stripe: u64, unit: usize) -> bool {
        self.state.members().is_active(self.state.layout().member(stripe, unit))
    }

    /// Whether a unit's member is active and up to date.
    pub(crate) fn is_readable(&self, stripe: u64, unit: usize) -> bool {
        let layout = self.state.layout();
        let member = layout.member(stripe, unit);
        let stale = self.bitmap.regions().is_stale(usize::from(member.0), layout.region(stripe));
        self.state.members().is_active(member) && (!stale || mutation::on(Mutation::ReadStale))
    }

    /// Whether copies, or data and parity, agree. Before the first resync they need not, nor after a crash before that of the
    /// region.
    pub(crate) fn is_in_sync(&self, stripe: u64) -> bool {
        self.bitmap.regions().is_in_sync(self.state.layout().region(stripe))
    }

    /// The readable copies of a column of a mirrored stripe.
    pub(crate) fn readable_copies(
        &self,
        stripe: u64,
        column: usize,
        bad: &[usize],
    ) -> impl Iterator<Item = usize> {
        let copies = self.state.layout().column_units(stripe, column);
        copies.filter(move |unit| !bad.contains(unit) && self.is_readable(stripe, *unit))
    }

    /// Whether each column of a mirrored stripe has a readable copy.
    pub(crate) fn has_copy_of_each(&self, stripe: u64, bad: &[usize]) -> bool {
        (0..self.state.layout().columns(stripe))
            .all(|column| self.readable_copies(stripe, column, bad).next().is_some())
    }

    /// The readable copy of a column whose member has the fewest requests; before a resync always the first, which the resync
    /// will take to be right.
    pub(crate) fn least_loaded_copy(&self, stripe: u64, column: usize, bad: &[usize]) -> Option<usize> {
        let mut copies = self.readable_copies(stripe, column, bad);
        if !self.is_in_sync(stripe) {
            return copies.next();
        }
        let layout = self.state.layout();
        copies.min_by_key(|&unit| self.state.members().burden(layout.member(stripe, unit)))
    }

    /// Reads part of a unit from its place. A fatal error is reported, so that the member goes out.
    ///
    /// # Errors
    /// The member's.
    pub(crate) async fn read_unit(&self, stripe: u64, run: UnitRun) -> Result<Buf, IoError> {
        let (member, offset) = self.place(stripe, run.unit, run.offset);
        let result = self.read_place(member, offset, run.blocks as usize * BLOCK_BYTES).await;
        if let Err(error) = result
            && self.state.members().report_read_error(member, error).await
        {
            self.state.mark(Mark::ArrayReadMemberLost);
        }
        result
    }

    /// Reads runs of a stripe's units.
    ///
    /// # Errors
    /// The first unit that cannot be read.
    pub(crate) async fn read_runs(
        &self,
        stripe: u64,
        runs: &[UnitRun],
    ) -> Result<Vec<(UnitRun, Buf)>, usize> {
        let results = join_all(runs.iter().map(|run| self.read_unit(stripe, *run))).await;
        runs.iter().zip(results).map(|(run, result)| Ok((*run, result.map_err(|_| run.unit)?))).collect()
    }

    /// Writes the right content of a unit whose content was wrong or unreadable; returns whether it could. The caller holds the
    /// stripe's lock, exclusively.
    pub(crate) async fn repair(&self, stripe: u64, run: UnitRun, right: &Buf) -> bool {
        let (member, offset) = self.place(stripe, run.unit, run.offset);
        if !self.state.members().is_active(member) || self.state.is_read_only() {
            return false;
        }
        match self.write_place(member, offset, Rc::new([right.clone()])).await {
            Err(IoError::NoSpace) => {
                self.keep_unplaced(stripe, (member, offset), std::slice::from_ref(right));
                true
            }
            Ok(()) => {
                self.state.mark(Mark::ArrayMended);
                self.state.members().note_repair(member, u64::from(run.blocks));
                true
            }
            Err(error) => {
                self.state.mark(Mark::ArrayMendFailed);
                self.state.members().report_failure(member, error).await;
                false
            }
        }
    }
}
