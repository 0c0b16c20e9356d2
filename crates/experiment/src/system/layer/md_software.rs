//! The time that md's software takes for a write.
//!
//! The simulation has no CPU time. md's CPU time is the largest part of the latency of a write to an array of SSDs, because
//! the stages of md wait for one another and for further writes to the same stripe (FusionRAID, FAST '21, section 2.2). The
//! paper measures it almost alone, on RAM disks (figure 3): 0.14 ms on average, and 1.69 ms for the slowest 1 %. The times
//! here are drawn from the log-normal distribution with these two values; that the distribution is log-normal is an assumption.

use rand::SeedableRng;
use rand_distr::{Distribution, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The mean of the paper.
const MEAN_NS: f64 = 140_000.0;
/// The standard deviation of the logarithm for which the slowest 1 % take 1.69 / 0.14 times the mean.
const SIGMA: f64 = 1.155;

/// Draws the times of md's software.
pub(super) struct MdSoftware {
    time_ns: LogNormal<f64>,
    random: Xoshiro256PlusPlus,
}

impl MdSoftware {
    pub(super) fn new(seed: u64) -> MdSoftware {
        let time_ns = LogNormal::new(MEAN_NS.ln() - SIGMA * SIGMA / 2.0, SIGMA).expect("finite");
        MdSoftware { time_ns, random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// The time of one write, in nanoseconds.
    pub(super) fn draw(&mut self) -> u64 {
        self.time_ns.sample(&mut self.random) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_slowest_are_those_of_the_paper() {
        let mut software = MdSoftware::new(1);
        let mut times: Vec<u64> = (0..1_000_000).map(|_| software.draw()).collect();
        times.sort_unstable();
        let mean = |times: &[u64]| times.iter().sum::<u64>() as f64 / times.len() as f64;
        assert!((mean(&times) / 140e3 - 1.0).abs() < 0.01, "{}", mean(&times));
        let slowest = mean(&times[990_000..]);
        assert!((slowest / 1.69e6 - 1.0).abs() < 0.03, "{slowest}");
    }
}
