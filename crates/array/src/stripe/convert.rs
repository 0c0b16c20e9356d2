//! Conversion: stripes of an elastic array change between parity and mirrors (Elastic RAID, 2022, section 3.1).
//!
//! The order makes a crash at any moment harmless. The units of the new form are written where the present form has nothing;
//! then they are made durable, then the record of the new form is; then the form changes here, and only then the units that it
//! does not use are discarded. Before the record is durable the former form is whole, after it the new one is. Regions are
//! marked untidy first, so that no crash leaves physical space in use for good.
//!
//! The stripes are locked all the while: no block of them is brought to its place. Clients' writes go to the journal and
//! their reads to the present form, so they do not wait.

use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::Buf;
use sinew_core::io::{Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::model::form::Form;

use crate::stripe::Stripes;
use crate::stripe::compressibility::Estimate;
use crate::stripe::part::UnitRun;

/// Bytes of each member that are converted at once, so that a member has several requests to choose from.
const BYTES_AT_ONCE: u64 = 512 << 10;

impl<I: Io> Stripes<I> {
    /// Changes stripes with parity into mirrored ones, or mirrored ones into stripes with parity; returns how many. Stripes of
    /// another form are passed over, and so are those of which too much is lost for the new form. If `judged`, so are those that
    /// would take no less space with parity, as estimated from the content. `stripes` ascend.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when the array has failed, and as for [`Journal::wait_for_state_room`]. The forms that were not
    /// recorded are as before.
    ///
    /// [`Journal::wait_for_state_room`]: crate::journal::Journal::wait_for_state_room
    pub(crate) async fn convert(
        &self,
        stripes: &[u64],
        to: Form,
        judged: bool,
    ) -> Result<usize, VolumeError> {
        self.journal.wait_for_state_room().await?;
        let from = to.counterpart();
        let change = self.forms.begin_change(stripes.to_vec());
        let _uses: Vec<_> = change.regions().iter().map(|&region| self.bitmap.use_region(region)).collect();
        self.mark_changing(change.regions()).await?;
        let version = self.state.members().version();
        let mut locks = Vec::with_capacity(stripes.len());
        for &stripe in stripes {
            locks.push(match mutation::on(Mutation::PromoteUnlocked) {
                true => None,
                false => Some(self.locks.exclusive(stripe).await),
            });
        }
        let convertible = |&stripe: &u64| {
            // A growth changes rows that have parity.
            let is_held = to == Form::Mirrored && self.barrier.holds(stripe);
            self.form(stripe) == from
                && !is_held
                && self.may_have_form(stripe, to)
                && self.has_data_placed(stripe)
        };
        let chosen: Vec<u64> = stripes.iter().copied().filter(convertible).collect();
        let mut written = Vec::with_capacity(chosen.len());
        let at_once = (BYTES_AT_ONCE / self.state.layout().chunk_bytes()).max(1);
        for some in chosen.chunks(at_once as usize) {
            let done = join_all(some.iter().map(|&stripe| self.write_new_units(stripe, to, judged))).await;
            let is_written = |done: &Result<bool, VolumeError>| *done == Ok(true);
            written.extend(
                some.iter().zip(done).filter(|(_, done)| is_written(done)).map(|(&stripe, _)| stripe),
            );
        }
        let recorded = self.finish_conversion(&written, to, version).await;
        drop(locks);
        recorded
    }

    async fn finish_conversion(&self, stripes: &[u64], to: Form, version: u64) -> Result<usize, VolumeError> {
        if !mutation::on(Mutation::FormBeforeCopies) {
            self.journal.flush().await?;
        }
        if stripes.is_empty() || self.state.members().version() != version {
            self.state.mark(Mark::ArrayConvertVoid);
            return Ok(0);
        }
        if mutation::on(Mutation::TrimBeforeForm) {
            self.discard_unused(stripes.iter().map(|&stripe| (stripe, to))).await;
        }
        self.record_form(to, stripes).await?;
        self.state.mark(if to == Form::Mirrored { Mark::ArrayPromoted } else { Mark::ArrayDemoted });
        let counters = self.state.counters();
        let converted =
            if to == Form::Mirrored { &counters.stripes_promoted } else { &counters.stripes_demoted };
        converted.add(stripes.len() as u64);
        Ok(stripes.len())
    }

    /// Writes the units that a stripe's new form has and its present form has not; false if it is to keep that.
    async fn write_new_units(&self, stripe: u64, to: Form, judged: bool) -> Result<bool, VolumeError> {
        let layout = self.state.layout();
        let columns =
            join_all((0..layout.columns(stripe)).map(|column| self.read_column(stripe, column))).await;
        let columns: Vec<Buf> = columns.into_iter().collect::<Result<_, _>>()?;
        let units = self.redundancy(stripe, &columns, to);
        if judged && !self.is_worthwhile(&columns, &units, to) {
            self.state.mark(Mark::ArrayDemotionWouldGrow);
            return Ok(false);
        }
        self.write_units(stripe, units).await.map(|()| true)
    }

    /// Notes how well the content of a stripe compresses. Parity in place of copies has to free space: under pressure for space
    /// it would otherwise make things worse.
    fn is_worthwhile(&self, columns: &[Buf], units: &[(usize, Buf)], to: Form) -> bool {
        let parity: Vec<Buf> = match to {
            Form::Parity => units.iter().map(|(_, buf)| buf.clone()).collect(),
            _ => Vec::new(),
        };
        let estimate = Estimate::of(columns, &parity);
        self.compressibility.add(estimate);
        to != Form::Parity
            || mutation::on(Mutation::DemoteGrows)
            || estimate.parity_frees_space(self.state.layout().m)
    }

    /// The content of a column, from the unit that every form has, if that is there.
    async fn read_column(&self, stripe: u64, column: usize) -> Result<Buf, VolumeError> {
        let whole = UnitRun { unit: column, offset: 0, blocks: self.state.layout().chunk_blocks };
        let is_blind = mutation::on(Mutation::DemoteFromStale) && self.is_writable(stripe, column);
        if (self.is_readable(stripe, column) || is_blind)
            && let Ok(buf) = self.read_unit(stripe, whole).await
        {
            return Ok(buf);
        }
        self.state.mark(Mark::ArrayConvertReconstructed);
        self.reconstruct(stripe, whole, &[column]).await
    }

    /// Writes whole units to the members that are active.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when a member fails, which goes out; [`VolumeError::NoSpace`] when one is full.
    pub(crate) async fn write_units(&self, stripe: u64, units: Vec<(usize, Buf)>) -> Result<(), VolumeError> {
        let there = units.into_iter().filter(|(unit, _)| self.is_writable(stripe, *unit));
        let writes = there.map(|(unit, content)| async move {
            let (member, at) = self.place(stripe, unit, 0);
            match self.write_place(member, at, Rc::new([content])).await {
                Ok(()) => Ok(()),
                Err(IoError::NoSpace) => {
                    self.state.mark(Mark::ArrayConvertNoSpace);
                    Err(VolumeError::NoSpace)
                }
                Err(error) => {
                    self.state.mark(Mark::ArrayConvertMemberLost);
                    self.state.members().report_failure(member, error).await;
                    Err(VolumeError::Failed)
                }
            }
        });
        join_all(writes).await.into_iter().collect()
    }
}
