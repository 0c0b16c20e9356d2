//! Continuous-time Markov chains with one absorbing state, the loss.
//!
//! Times to loss come from state elimination by Grassmann, Taksar and Heyman (1985): only additions, multiplications and
//! divisions of positive numbers, so a mean time of 10^14 hours beside a repair of 10 hours loses no digits. Probabilities come
//! from uniformisation over a short step and repeated squaring, also without subtraction.

use crate::error::{Error, Result};

/// Where a transition leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// To a state, by number.
    State(usize),
    /// To the loss, which nothing leaves.
    Loss,
}

/// Whether a transition leads towards the loss or away from it. Importance sampling makes failures more frequent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A failure.
    Failure,
    /// A repair.
    Repair,
}

/// A transition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transition {
    /// The state that it leaves.
    pub from: usize,
    /// Where it leads.
    pub to: To,
    /// Its rate.
    pub per_hour: f64,
    /// Failure or repair.
    pub kind: Kind,
}

/// A chain. It begins in state 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    states: usize,
    transitions: Vec<Transition>,
}

/// The most states of a chain: the arithmetic is cubic.
const STATES_MAX: usize = 256;
/// Terms of the uniformised exponential over a step of at most one expected transition.
const TERMS: usize = 30;

impl Chain {
    /// A chain of `states` states beside the loss.
    ///
    /// # Errors
    /// No state or too many, a transition of a state that does not exist or to itself, or a rate that is not a finite number
    /// from 0 on.
    pub fn new(states: usize, transitions: Vec<Transition>) -> Result<Chain> {
        if !(1..=STATES_MAX).contains(&states) {
            return Err(Error::new("states", format!("a chain has 1 to {STATES_MAX} states, not {states}")));
        }
        for Transition { from, to, per_hour, .. } in &transitions {
            let exists = *from < states && !matches!(to, To::State(to) if *to >= states || to == from);
            if !exists {
                let why = format!("{from} to {to:?} is not between two of {states} states");
                return Err(Error::new("transitions", why));
            }
            if !(per_hour.is_finite() && *per_hour >= 0.0) {
                let why = format!("{per_hour} per hour from {from} to {to:?} is not a rate from 0 on");
                return Err(Error::new("transitions", why));
            }
        }
        Ok(Chain { states, transitions })
    }

    /// The number of states beside the loss.
    pub fn states(&self) -> usize {
        self.states
    }

    /// The transitions that leave a state.
    pub fn leaving(&self, state: usize) -> impl Iterator<Item = &Transition> {
        self.transitions.iter().filter(move |transition| transition.from == state)
    }

    /// The matrix of rates between states, with the loss as its last column.
    fn rates(&self) -> Vec<Vec<f64>> {
        let mut rates = vec![vec![0.0; self.states + 1]; self.states];
        for transition in &self.transitions {
            let to = match transition.to {
                To::State(to) => to,
                To::Loss => self.states,
            };
            rates[transition.from][to] += transition.per_hour;
        }
        rates
    }

    /// The mean hours that the chain spends in each state before the loss; infinite if the loss cannot be reached.
    pub fn mean_hours_in_states(&self) -> Vec<f64> {
        let (n, mut rates) = (self.states, self.rates());
        // Eliminate states from the last one on. Row s keeps the rates to lower states and to the loss.
        for s in (1..n).rev() {
            let exit: f64 = rates[s][..s].iter().sum::<f64>() + rates[s][n];
            let (lower, upper) = rates.split_at_mut(s);
            let from_s = &upper[0];
            for (i, row) in lower.iter_mut().enumerate() {
                if row[s] == 0.0 || exit == 0.0 {
                    continue;
                }
                let visits = row[s] / exit;
                for (j, rate) in from_s[..s].iter().enumerate() {
                    if j != i {
                        row[j] += visits * rate;
                    }
                }
                row[n] += visits * from_s[n];
            }
        }
        let mut hours = vec![0.0; n];
        hours[0] = 1.0 / rates[0][n];
        for s in 1..n {
            let exit: f64 = rates[s][..s].iter().sum::<f64>() + rates[s][n];
            let entered: f64 =
                (0..s).map(|i| if rates[i][s] == 0.0 { 0.0 } else { hours[i] * rates[i][s] }).sum();
            // A state that is never entered takes no time; one that nothing leaves takes all of it.
            hours[s] = if entered == 0.0 { 0.0 } else { entered / exit };
        }
        hours
    }

    /// The mean hours until the loss.
    pub fn mean_hours_to_loss(&self) -> f64 {
        self.mean_hours_in_states().iter().sum()
    }

    /// The probability of the loss within a number of hours.
    ///
    /// # Errors
    /// Hours that are negative or not finite.
    pub fn loss_within(&self, hours: f64) -> Result<f64> {
        if !(hours.is_finite() && hours >= 0.0) {
            return Err(Error::new("hours", format!("{hours} is not a time from 0 on")));
        }
        let n = self.states + 1;
        let rates = self.rates();
        let exit = |row: &Vec<f64>| row.iter().sum::<f64>();
        let fastest = rates.iter().map(exit).fold(0.0, f64::max);
        if fastest == 0.0 || hours == 0.0 {
            return Ok(0.0);
        }
        let squarings = (fastest * hours).log2().ceil().max(0.0) as u32;
        let step = hours / 2f64.powi(squarings as i32);
        // One transition of the uniformised chain; the loss, its last state, stays.
        let mut jump = vec![vec![0.0; n]; n];
        for (s, row) in rates.iter().enumerate() {
            for (to, rate) in row.iter().enumerate() {
                jump[s][to] = rate / fastest;
            }
            jump[s][s] = (fastest - exit(row)).max(0.0) / fastest;
        }
        jump[n - 1][n - 1] = 1.0;
        let mean = fastest * step;
        let (mut weight, mut power, mut over_step) = ((-mean).exp(), identity(n), vec![vec![0.0; n]; n]);
        for term in 1..=TERMS {
            for (sum, row) in over_step.iter_mut().zip(&power) {
                sum.iter_mut().zip(row).for_each(|(sum, entry)| *sum += weight * entry);
            }
            power = product(&power, &jump);
            weight *= mean / term as f64;
        }
        normalise(&mut over_step);
        for _ in 0..squarings {
            over_step = product(&over_step, &over_step);
            normalise(&mut over_step);
        }
        Ok(over_step[0][n - 1])
    }
}

fn identity(n: usize) -> Vec<Vec<f64>> {
    (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect()
}

fn product(a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let entry = |row: &[f64], j: usize| row.iter().zip(b).map(|(entry, other)| entry * other[j]).sum();
    a.iter().map(|row| (0..b.len()).map(|j| entry(row, j)).collect()).collect()
}

/// Makes the rows of a matrix of probabilities sum to 1 again.
fn normalise(matrix: &mut [Vec<f64>]) {
    for row in matrix {
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|entry| *entry /= sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(from: usize, to: To, per_hour: f64) -> Transition {
        Transition { from, to, per_hour, kind: Kind::Failure }
    }

    fn repair(from: usize, to: usize, per_hour: f64) -> Transition {
        Transition { from, to: To::State(to), per_hour, kind: Kind::Repair }
    }

    #[test]
    fn a_single_state_decays() {
        let chain = Chain::new(1, vec![failure(0, To::Loss, 0.01)]).unwrap();
        assert!((chain.mean_hours_to_loss() - 100.0).abs() < 1e-10);
        for hours in [1e-6, 1.0, 100.0, 3000.0] {
            let expected = -f64::exp_m1(-0.01 * hours);
            assert!((chain.loss_within(hours).unwrap() / expected - 1.0).abs() < 1e-12, "{hours}");
        }
        assert_eq!(chain.loss_within(0.0), Ok(0.0));
    }

    #[test]
    fn states_in_series_are_an_erlang_distribution() {
        let chain = Chain::new(
            3,
            vec![failure(0, To::State(2), 0.5), failure(2, To::State(1), 0.5), failure(1, To::Loss, 0.5)],
        )
        .unwrap();
        assert!((chain.mean_hours_to_loss() - 6.0).abs() < 1e-12);
        let x: f64 = 0.5 * 4.0;
        let erlang = 1.0 - (-x).exp() * (1.0 + x + x * x / 2.0);
        assert!((chain.loss_within(4.0).unwrap() / erlang - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_probability_of_a_rare_loss_is_that_of_its_mean_time() {
        let (l, m, n) = (1.0 / 1.5e6, 0.1, 8.0);
        let chain = Chain::new(
            2,
            vec![failure(0, To::State(1), n * l), repair(1, 0, m), failure(1, To::Loss, (n - 1.0) * l)],
        )
        .unwrap();
        let within = chain.loss_within(87_600.0).unwrap();
        let approximately = 87_600.0 / chain.mean_hours_to_loss();
        // The first 10 hours have a lower rate of loss, and half of the approximation squared is missing.
        assert!((within / approximately - 1.0).abs() < 3e-4, "{within} {approximately}");
        assert!((within - 2.18e-5).abs() < 1e-7, "{within}");
    }

    #[test]
    fn a_loss_out_of_reach_takes_for_ever() {
        let chain = Chain::new(2, vec![failure(0, To::State(1), 1.0), repair(1, 0, 1.0)]).unwrap();
        assert_eq!(chain.mean_hours_to_loss(), f64::INFINITY);
        assert_eq!(chain.loss_within(1e6), Ok(0.0));
        let trapped = Chain::new(2, vec![failure(0, To::State(1), 1.0)]).unwrap();
        assert_eq!(trapped.mean_hours_to_loss(), f64::INFINITY);
        let unused = Chain::new(2, vec![failure(0, To::Loss, 1.0)]).unwrap();
        assert_eq!(unused.mean_hours_in_states(), [1.0, 0.0]);
    }

    #[test]
    fn impossible_chains_are_refused() {
        assert!(Chain::new(0, vec![]).is_err());
        assert!(Chain::new(1, vec![failure(0, To::State(1), 1.0)]).is_err());
        assert!(Chain::new(1, vec![failure(0, To::State(0), 1.0)]).is_err());
        assert!(Chain::new(1, vec![failure(0, To::Loss, f64::NAN)]).is_err());
        assert!(Chain::new(1, vec![]).unwrap().loss_within(-1.0).is_err());
    }
}
