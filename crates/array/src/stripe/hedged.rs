//! Hedged reads of an array: when a member is late, the data comes from another copy, or from the other units and parity, as
//! in ToleRAID and in FusionRAID's pools (FAST '21, sections 4.3 and 5.1).
//!
//! A reconstruction is right only if the stripe does not change meanwhile, so it holds the stripe's lock. It never waits for
//! a task that changes the stripe: that task may itself wait for the late member.

use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::Buf;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_format::model::form::Form;
use sinew_members::hedged_read::{Alternate, HedgeMarks, HedgedSource, ReadResult, ReadSlots};
use sinew_members::members::Members;

use crate::stripe::Stripes;
use crate::stripe::part::{StripePart, UnitRun};

impl<I: Io> Stripes<I> {
    fn unit_responds(&self, stripe: u64, unit: usize) -> bool {
        self.state.members().responds(self.state.layout().member(stripe, unit))
    }

    /// The part, from the units that respond. The caller has found that they are enough.
    async fn reconstruct_from_responsive(&self, part: StripePart) -> Option<Buf> {
        let StripePart { stripe, run } = part;
        // A growth waits for this read, even when the request that began it has been answered.
        let _read = self.journal.progress().begin_read();
        let _held = match mutation::on(Mutation::AroundUnlocked) {
            true => None,
            false => Some(self.locks.shared(stripe).await),
        };
        let late = |&unit: &usize| unit == run.unit || !self.unit_responds(stripe, unit);
        let bad: Vec<usize> = (0..self.state.layout().width(stripe)).filter(late).collect();
        self.reconstruct(stripe, run, &bad).await.ok()
    }
}

impl<I: Io> HedgedSource<I> for Stripes<I> {
    type Part = StripePart;
    /// A unit.
    type Copy = usize;
    /// The result of a late read is dropped, so its place on the member may be reused.
    type ReadGuard = ();
    const MARKS: HedgeMarks = HedgeMarks {
        around: Mark::ArrayReadAround.name(),
        hedged: Mark::ArrayReadHedged.name(),
        won: Mark::ArrayReadHedgeWon.name(),
        lost: Mark::ArrayReadHedgeLost.name(),
        too_dear: Mark::ArrayAroundTooDear.name(),
    };

    fn io(&self) -> &I {
        self.state.io()
    }

    fn members(&self) -> &Members<I> {
        self.state.members()
    }

    fn read_slots(&self) -> &ReadSlots<Self, StripePart, usize> {
        &self.read_slots
    }

    fn member(&self, part: StripePart, unit: usize) -> MemberId {
        self.state.layout().member(part.stripe, unit)
    }

    fn alternate(&self, part: StripePart, unit: usize) -> Option<Alternate<usize>> {
        let stripe = part.stripe;
        if !self.is_in_sync(stripe) {
            return None;
        }
        match self.form(stripe) {
            Form::Empty => return None,
            Form::Mirrored => {
                let other = self.least_loaded_copy(stripe, part.run.unit, &[unit])?;
                return self.unit_responds(stripe, other).then_some(Alternate::Mirror(other));
            }
            Form::Parity => {}
        }
        let health = self.health(stripe, &[unit]);
        if !self.locks.may_share(stripe) && !mutation::on(Mutation::AroundUnlocked) {
            return None;
        }
        let usable = |&unit: &usize| health.readable[unit] && self.unit_responds(stripe, unit);
        // Data before parity, in the order in which they will be read.
        let units: Vec<usize> = (0..health.readable.len()).filter(usable).take(health.k).collect();
        let in_flight = units
            .iter()
            .map(|&unit| self.state.members().in_flight(self.state.layout().member(stripe, unit)))
            .sum();
        (units.len() == health.k).then_some(Alternate::Reconstruct { reads: health.k, in_flight })
    }

    async fn read_copy(self: Rc<Self>, part: StripePart, unit: usize) -> ReadResult {
        self.read_unit(part.stripe, UnitRun { unit, ..part.run }).await
    }

    async fn read_alternate(self: Rc<Self>, part: StripePart, way: Alternate<usize>) -> Option<Buf> {
        match way {
            Alternate::Mirror(unit) => self.read_copy(part, unit).await.ok(),
            Alternate::Reconstruct { .. } => self.reconstruct_from_responsive(part).await,
        }
    }

    /// `read_unit` has already acted on an error.
    async fn late_read_done(self: Rc<Self>, _part: StripePart, _unit: usize, _result: ReadResult) {}

    fn read_guard(&self) {}
}
