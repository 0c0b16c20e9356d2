//! Reconstruction: part of a unit from the other units of its stripe, from another copy or from parity. A stripe that is empty
//! has zeros.

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_format::model::form::Form;
use sinew_members::stripe_columns::StripeColumns;

use crate::stripe::Stripes;
use crate::stripe::part::UnitRun;

impl<I: Io> Stripes<I> {
    /// Part of a unit, from units of the stripe that are not in `bad`. The caller holds the stripe's lock.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when too few units can be read.
    pub(crate) async fn reconstruct(
        &self,
        stripe: u64,
        part: UnitRun,
        bad: &[usize],
    ) -> Result<Buf, VolumeError> {
        let mut bad = bad.to_vec();
        loop {
            let result = match self.form(stripe) {
                Form::Empty => return Ok(Buf::zeroed(part.blocks as usize * BLOCK_BYTES)),
                Form::Mirrored => self.read_another_copy(stripe, part, &bad).await,
                Form::Parity => self.reconstruct_from_parity(stripe, part, &bad).await,
            };
            match result {
                Ok(buf) => return Ok(buf),
                Err(Some(unit)) => bad.push(unit),
                Err(None) => {
                    self.losses.suspect(stripe);
                    return Err(VolumeError::Failed);
                }
            }
        }
    }

    async fn read_another_copy(
        &self,
        stripe: u64,
        part: UnitRun,
        bad: &[usize],
    ) -> Result<Buf, Option<usize>> {
        let column =
            self.state.layout().column_of(stripe, part.unit).expect("a mirrored stripe has no parity");
        let unit = self.least_loaded_copy(stripe, column, bad).ok_or(None)?;
        self.read_unit(stripe, UnitRun { unit, ..part }).await.map_err(|_| Some(unit))
    }

    /// Part of a unit of a stripe with parity. Fails with the unit that could not be read, or with `None` for good.
    async fn reconstruct_from_parity(
        &self,
        stripe: u64,
        part: UnitRun,
        bad: &[usize],
    ) -> Result<Buf, Option<usize>> {
        let health = self.health(stripe, bad);
        let (k, m) = (health.k, self.state.layout().m);
        // The unit may have become readable while this task waited for the lock.
        if health.readable[part.unit] {
            return self.read_unit(stripe, part).await.map_err(|_| Some(part.unit));
        }
        let lost = (0..k).filter(|&c| !health.readable[c]).count();
        let parity = health.parity_for(lost).map_err(|_| None)?;
        let units = (0..k).filter(|&c| health.readable[c]).chain(parity);
        let runs: Vec<UnitRun> = units.map(|unit| UnitRun { unit, ..part }).collect();
        let read = self.read_runs(stripe, &runs).await.map_err(Some)?;
        let mut columns = StripeColumns::new(k, m);
        read.iter().for_each(|(run, buf)| columns.set(run.unit, buf.bytes()));
        columns.recover_one(part.unit, part.blocks as usize * BLOCK_BYTES).map_err(|_| None)
    }
}
