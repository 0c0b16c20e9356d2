//! Importance sampling of the loss of a chain, by balanced failure biasing (Shahabuddin, 1994).
//!
//! A cycle begins in state 0 and ends with the return to it, or with the loss. In every other state a failure is made as
//! probable as a repair, and all failures of the state equally probable. The likelihood ratio of a cycle, whose logarithm is
//! summed, corrects for that. Mean times in states replace drawn ones. The mean length of a cycle comes from unbiased cycles of
//! their own; with it the loss is a rate, because cycles are independent.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::chain::{Chain, Kind, To, Transition};
use crate::confidence::{Interval, Sample, around};
use crate::error::{Error, Result};

/// Estimates from cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RareLoss {
    /// The probability that a cycle ends with the loss, with its interval of 95 %.
    pub per_cycle: Interval,
    /// The mean hours of a cycle, with its interval.
    pub cycle_hours: Interval,
    /// Losses per hour, with its interval.
    pub per_hour: Interval,
}

impl RareLoss {
    /// The probability of a loss within a number of hours, of many cycles: 1 - exp(-rate * hours).
    pub fn within(&self, hours: f64) -> Interval {
        self.per_hour.map(|rate| -(-rate * hours).exp_m1())
    }

    /// The mean hours to the loss.
    pub fn mean_hours_to_loss(&self) -> Interval {
        self.per_hour.map(|rate| 1.0 / rate)
    }
}

/// Transitions after which a cycle is given up: the chain does not return to its first state.
const TRANSITIONS_MAX: u32 = 1_000_000;

/// Samples cycles of a chain: `cycles` biased ones for the loss, and as many unbiased ones for the length.
///
/// # Errors
/// Fewer than two cycles, or a chain that neither returns to state 0 nor meets the loss.
pub fn sample(chain: &Chain, cycles: u64, seed: u64) -> Result<RareLoss> {
    if cycles < 2 {
        return Err(Error::new("cycles", "an interval needs two cycles or more"));
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let states: Vec<State<'_>> = (0..chain.states()).map(|state| State::of(chain, state)).collect();
    let (mut loss, mut hours) = (Sample::default(), Sample::default());
    for _ in 0..cycles {
        let biased = cycle(&states, true, &mut random)?;
        loss.add(if biased.is_lost { biased.ln_likelihood.exp() } else { 0.0 });
        hours.add(cycle(&states, false, &mut random)?.hours);
    }
    // The variance of a quotient of independent means, to first order.
    let rate = loss.mean() / hours.mean();
    let relative = |sample: &Sample| sample.variance_of_mean() / sample.mean().powi(2);
    let variance = if loss.mean() == 0.0 { 0.0 } else { rate.powi(2) * (relative(&loss) + relative(&hours)) };
    let mut per_hour = around(rate, variance, 0.95);
    per_hour.low = per_hour.low.max(0.0);
    Ok(RareLoss { per_cycle: loss.interval(0.95), cycle_hours: hours.interval(0.95), per_hour })
}

/// A state with what leaves it.
struct State<'a> {
    leaving: Vec<&'a Transition>,
    exit: f64,
    failures: usize,
    repair_rate: f64,
}

impl<'a> State<'a> {
    fn of(chain: &'a Chain, state: usize) -> State<'a> {
        let leaving: Vec<_> = chain.leaving(state).filter(|transition| transition.per_hour > 0.0).collect();
        let of = |kind: Kind| leaving.iter().filter(move |transition| transition.kind == kind);
        State {
            exit: leaving.iter().map(|transition| transition.per_hour).sum(),
            failures: of(Kind::Failure).count(),
            repair_rate: of(Kind::Repair).map(|transition| transition.per_hour).sum(),
            leaving,
        }
    }

    /// The probability with which the biased chain takes a transition: failures share one half, or all if nothing is repaired.
    fn biased(&self, transition: &Transition) -> f64 {
        match transition.kind {
            Kind::Failure if self.repair_rate == 0.0 => 1.0 / self.failures as f64,
            Kind::Failure => 0.5 / self.failures as f64,
            Kind::Repair if self.failures == 0 => transition.per_hour / self.repair_rate,
            Kind::Repair => 0.5 * transition.per_hour / self.repair_rate,
        }
    }
}

struct Cycle {
    is_lost: bool,
    hours: f64,
    ln_likelihood: f64,
}

fn cycle(states: &[State<'_>], is_biased: bool, random: &mut Xoshiro256PlusPlus) -> Result<Cycle> {
    let mut cycle = Cycle { is_lost: false, hours: 0.0, ln_likelihood: 0.0 };
    let mut at = 0;
    for _ in 0..TRANSITIONS_MAX {
        let state = &states[at];
        let Some(last) = state.leaving.last() else {
            return Err(Error::new("chain", format!("nothing leaves state {at}")));
        };
        cycle.hours += 1.0 / state.exit;
        let chance = |transition: &Transition| {
            if is_biased { state.biased(transition) } else { transition.per_hour / state.exit }
        };
        let mut left: f64 = random.random();
        let taken = state.leaving.iter().find(|transition| {
            left -= chance(transition);
            left < 0.0
        });
        let taken = taken.unwrap_or(last);
        if is_biased {
            cycle.ln_likelihood += (taken.per_hour / state.exit / chance(taken)).ln();
        }
        match taken.to {
            To::Loss => return Ok(Cycle { is_lost: true, ..cycle }),
            To::State(0) => return Ok(cycle),
            To::State(next) => at = next,
        }
    }
    Err(Error::new("chain", format!("no return to state 0 in {TRANSITIONS_MAX} transitions")))
}
