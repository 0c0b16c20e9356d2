//! Reading around members that are late, in an array: from another copy, or the rest of the stripe with parity, as ToleRAID
//! does and FusionRAID's pools do (FAST '21, sections 4.3 and 5.1).
//!
//! What is worked out is right only if nobody changes the stripe meanwhile, so its lock is held. Somebody who changes it is
//! not waited for: he may well wait for the member that is late.

use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::coverage::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_members::hedged_read::{Alternate, HedgeMarks, HedgedSource, ReadResult, ReadSlots};
use sinew_members::members::Members;

use crate::ArrayShard;
use crate::stripe::parity_plan::UnitRun;

/// Part of a unit of a stripe; of a mirror, of any.
#[derive(Clone, Copy, Debug)]
pub struct StripePart {
    pub(crate) stripe: u64,
    pub(crate) run: UnitRun,
}

impl<I: Io> ArrayShard<I> {
    fn unit_responds(&self, stripe: u64, unit: usize) -> bool {
        self.members.responds(self.slice().member(stripe, unit))
    }

    /// The part from the units that respond. The caller knows that they are enough.
    async fn read_rest(&self, part: StripePart) -> Option<Buf> {
        let StripePart { stripe, run } = part;
        // Growing waits for this, also when it goes on after its request.
        let _reading = self.mover.reading();
        let _held = match mutation::on(Mutation::AroundUnlocked) {
            true => None,
            false => Some(self.locks.shared(stripe).await),
        };
        let late = |&unit: &usize| unit == run.unit || !self.unit_responds(stripe, unit);
        let bad: Vec<usize> = (0..self.slice().width(stripe)).filter(late).collect();
        self.reconstruct(stripe, run, &bad).await.ok()
    }
}

impl<I: Io> HedgedSource<I> for ArrayShard<I> {
    type Part = StripePart;
    /// A unit.
    type Copy = usize;
    /// What a late read gives is dropped, so its place may be used for something else.
    type ReadGuard = ();
    const MARKS: HedgeMarks = HedgeMarks {
        around: Mark::ArrayReadAround,
        hedged: Mark::ArrayReadHedged,
        won: Mark::ArrayReadHedgeWon,
        lost: Mark::ArrayReadHedgeLost,
        too_dear: Mark::ArrayAroundTooDear,
    };

    fn io(&self) -> &I {
        &self.io
    }

    fn members(&self) -> &Members<I> {
        &self.members
    }

    fn read_slots(&self) -> &ReadSlots<Self, StripePart, usize> {
        &self.read_slots
    }

    fn member(&self, part: StripePart, unit: usize) -> MemberId {
        self.slice().member(part.stripe, unit)
    }

    fn alternate(&self, part: StripePart, unit: usize) -> Option<Alternate<usize>> {
        let stripe = part.stripe;
        let health = self.health(stripe, &[unit]);
        if !health.even {
            return None;
        }
        if self.slice().is_mirror() {
            let other = self.idle_copy(stripe, &health)?;
            return self.unit_responds(stripe, other).then_some(Alternate::Mirror(other));
        }
        if !self.locks.may_share(stripe) && !mutation::on(Mutation::AroundUnlocked) {
            return None;
        }
        let usable = |&unit: &usize| health.readable[unit] && self.unit_responds(stripe, unit);
        // Data before parity, as they will be read.
        let units: Vec<usize> = (0..health.readable.len()).filter(usable).take(health.k).collect();
        let in_flight =
            units.iter().map(|&unit| self.members.in_flight(self.slice().member(stripe, unit))).sum();
        (units.len() == health.k).then_some(Alternate::Reconstruct { reads: health.k, in_flight })
    }

    async fn read_copy(self: Rc<Self>, part: StripePart, unit: usize) -> ReadResult {
        self.read_unit(part.stripe, UnitRun { unit, ..part.run }).await
    }

    async fn read_alternate(self: Rc<Self>, part: StripePart, way: Alternate<usize>) -> Option<Buf> {
        match way {
            Alternate::Mirror(unit) => self.read_copy(part, unit).await.ok(),
            Alternate::Reconstruct { .. } => self.read_rest(part).await,
        }
    }

    /// What follows for its member has been done where it was read.
    async fn late_read_done(self: Rc<Self>, _part: StripePart, _unit: usize, _result: ReadResult) {}

    fn read_guard(&self) {}
}
