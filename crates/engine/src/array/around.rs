//! Reading around members that are late, in an array: from another copy, or the rest of the stripe with parity, as ToleRAID
//! does and FusionRAID's pools do (FAST '21, sections 4.3 and 5.1).
//!
//! What is worked out is right only if nobody changes the stripe meanwhile, so its lock is held. Somebody who changes it is
//! not waited for: he may well wait for the member that is late.

use std::rc::Rc;

use crate::addr::MemberId;
use crate::around::{Around, AroundPaths, Elsewhere, ReadResult, Readings};
use crate::buf::Buf;
use crate::io::Io;
use crate::member::Members;
use crate::paths::Path;
use crate::sabotage::{self, Sabotage};

use super::ArrayShard;
use super::plan::UnitRun;

/// Part of a unit of a stripe; of a mirror, of any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StripePart {
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
        let _held = match sabotage::on(Sabotage::AroundUnlocked) {
            true => None,
            false => Some(self.locks.shared(stripe).await),
        };
        let late = |&unit: &usize| unit == run.unit || !self.unit_responds(stripe, unit);
        let bad: Vec<usize> = (0..self.slice().width(stripe)).filter(late).collect();
        self.reconstruct(stripe, run, &bad).await.ok()
    }
}

impl<I: Io> Around<I> for ArrayShard<I> {
    type Part = StripePart;
    /// A unit.
    type Copy = usize;
    /// What a late read gives is dropped, so its place may be used for something else.
    type Stay = ();
    const PATHS: AroundPaths = AroundPaths {
        around: Path::ArrayReadAround,
        hedged: Path::ArrayReadHedged,
        won: Path::ArrayReadHedgeWon,
        lost: Path::ArrayReadHedgeLost,
        too_dear: Path::ArrayAroundTooDear,
    };

    fn io(&self) -> &I {
        &self.io
    }

    fn members(&self) -> &Members<I> {
        &self.members
    }

    fn readings(&self) -> &Readings<Self, StripePart, usize> {
        &self.readings
    }

    fn member(&self, part: StripePart, unit: usize) -> MemberId {
        self.slice().member(part.stripe, unit)
    }

    fn elsewhere(&self, part: StripePart, unit: usize) -> Option<Elsewhere<usize>> {
        let stripe = part.stripe;
        let health = self.health(stripe, &[unit]);
        if !health.even {
            return None;
        }
        if self.slice().is_mirror() {
            let other = self.idle_copy(stripe, &health)?;
            return self.unit_responds(stripe, other).then_some(Elsewhere::Copy(other));
        }
        if !self.locks.may_share(stripe) && !sabotage::on(Sabotage::AroundUnlocked) {
            return None;
        }
        let usable = |&unit: &usize| health.readable[unit] && self.unit_responds(stripe, unit);
        // Data before parity, as they will be read.
        let units: Vec<usize> = (0..health.readable.len()).filter(usable).take(health.k).collect();
        let in_flight =
            units.iter().map(|&unit| self.members.in_flight(self.slice().member(stripe, unit))).sum();
        (units.len() == health.k).then_some(Elsewhere::Rest { reads: health.k, in_flight })
    }

    async fn read_copy(self: Rc<Self>, part: StripePart, unit: usize) -> ReadResult {
        self.read_unit(part.stripe, UnitRun { unit, ..part.run }).await
    }

    async fn read_elsewhere(self: Rc<Self>, part: StripePart, way: Elsewhere<usize>) -> Option<Buf> {
        match way {
            Elsewhere::Copy(unit) => self.read_copy(part, unit).await.ok(),
            Elsewhere::Rest { .. } => self.read_rest(part).await,
        }
    }

    /// What follows for its member has been done where it was read.
    async fn judge_late(self: Rc<Self>, _part: StripePart, _unit: usize, _result: ReadResult) {}

    fn stay(&self) {}
}
