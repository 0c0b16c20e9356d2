//! Comparing a stripe's redundancy with its data, and correcting it: for resync and scrub.

use crate::marks::Mark;
use sinew_core::buf::Buf;
use sinew_core::io::Io;
use sinew_format::model::form::Form;
use sinew_members::stripe_columns::StripeColumns;

use crate::stripe::Stripes;
use crate::stripe::form::parity_of;
use crate::stripe::parity_plan::Health;
use crate::stripe::part::UnitRun;

impl<I: Io> Stripes<I> {
    /// Compares a stripe's redundancy with its data. Rewrites every unit that differs or cannot be read, and calls `wrong`
    /// with it. Returns false when too few units can be read. Units that are out or stale are left to rebuild, which needs
    /// the other units to agree: the content of lost data is what parity, P first, says. The caller holds the stripe's lock,
    /// exclusively.
    pub(crate) async fn compare(&self, stripe: u64, mut wrong: impl FnMut(usize)) -> bool {
        match self.form(stripe) {
            Form::Empty => true,
            Form::Parity => self.compare_parity(stripe, &mut wrong).await,
            Form::Mirrored => {
                let mut whole = true;
                for column in 0..self.state.layout().columns(stripe) {
                    whole &= self.compare_copies(stripe, column, &mut wrong).await;
                }
                whole
            }
        }
    }

    fn whole_unit(&self, unit: usize) -> UnitRun {
        UnitRun { unit, offset: 0, blocks: self.state.layout().chunk_blocks }
    }

    /// Compares the copies of a column. The first that can be read is right.
    async fn compare_copies(&self, stripe: u64, column: usize, wrong: &mut impl FnMut(usize)) -> bool {
        let mut bad = Vec::new();
        let read = loop {
            let copies = self.readable_copies(stripe, column, &bad);
            let runs: Vec<UnitRun> = copies.map(|unit| self.whole_unit(unit)).collect();
            if runs.is_empty() {
                self.state.mark(Mark::ArrayCompareVoid);
                self.losses.suspect(stripe);
                return false;
            }
            match self.read_runs(stripe, &runs).await {
                Ok(read) => break read,
                Err(unit) => bad.push(unit),
            }
        };
        let right = &read[0].1;
        let differing = read.iter().filter(|(_, buf)| buf.bytes() != right.bytes()).map(|(run, _)| run.unit);
        for unit in differing.chain(bad) {
            self.state.mark(Mark::ArrayDiffered);
            wrong(unit);
            self.repair(stripe, self.whole_unit(unit), right).await;
        }
        true
    }

    async fn compare_parity(&self, stripe: u64, wrong: &mut impl FnMut(usize)) -> bool {
        let mut bad = Vec::new();
        let (health, read) = loop {
            let health = self.health(stripe, &bad);
            let readable = |unit: &usize| health.readable[*unit];
            let there: Vec<UnitRun> =
                (0..self.state.layout().width(stripe)).filter(readable).map(|u| self.whole_unit(u)).collect();
            if health.parity_for(health.lost_data()).is_err() {
                self.state.mark(Mark::ArrayCompareVoid);
                self.losses.suspect(stripe);
                return false;
            }
            match self.read_runs(stripe, &there).await {
                Ok(read) => break (health, read),
                Err(unit) => bad.push(unit),
            }
        };
        let right = self.right_units(&health, &read);
        let differs = |(run, buf): &&(UnitRun, Buf)| buf.bytes() != right[run.unit].bytes();
        let differing: Vec<usize> = read.iter().filter(differs).map(|(run, _)| run.unit).collect();
        for unit in differing.into_iter().chain(bad) {
            self.state.mark(Mark::ArrayDiffered);
            wrong(unit);
            self.repair(stripe, self.whole_unit(unit), &right[unit]).await;
        }
        true
    }

    /// The right content of each unit, given the units that were read: the data, where lost data comes from parity, and the
    /// parity of all data.
    fn right_units(&self, health: &Health, read: &[(UnitRun, Buf)]) -> Vec<Buf> {
        let (k, m, bytes) = (health.k, self.state.layout().m, read[0].1.len());
        let lost: Vec<usize> = (0..k).filter(|&column| !health.readable[column]).collect();
        let mut known = StripeColumns::new(k, m);
        read.iter().for_each(|(run, buf)| known.set(run.unit, buf.bytes()));
        if !lost.is_empty() {
            self.state.mark(Mark::ArrayComparedWithout);
        }
        let recovered = known.recover(&lost, bytes).expect("no more are lost than there is parity");
        let mut units: Vec<Option<Buf>> = vec![None; k];
        read.iter()
            .filter(|(run, _)| run.unit < k)
            .for_each(|(run, buf)| units[run.unit] = Some(buf.clone()));
        lost.into_iter().zip(recovered).for_each(|(column, buf)| units[column] = Some(buf));
        let mut units: Vec<Buf> = units.into_iter().map(|unit| unit.expect("read or recovered")).collect();
        units.append(&mut parity_of(&units, m));
        units
    }
}
