//! How long md's software takes for a write.
//!
//! A simulation has no processor time. Of a write to an array of SSDs md's is the largest part, since its stages wait for one
//! another and for writes that might join them (FusionRAID, FAST '21, section 2.2). The paper measures it nearly by itself, on
//! memory disks (figure 3): 0.14 ms on average, and 1.69 ms for the slowest 1 %. It is drawn from the log-normal distribution
//! that has both; the shape is an assumption.

use rand::SeedableRng;
use rand_distr::{Distribution, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The mean.
const MEAN_NS: f64 = 140_000.0;
/// The deviation of the logarithm, with which the slowest 1 % take 1.69 / 0.14 times the mean.
const SIGMA: f64 = 1.155;

pub(super) struct Software {
    time_ns: LogNormal<f64>,
    random: Xoshiro256PlusPlus,
}

impl Software {
    pub(super) fn new(seed: u64) -> Software {
        let time_ns = LogNormal::new(MEAN_NS.ln() - SIGMA * SIGMA / 2.0, SIGMA).expect("finite");
        Software { time_ns, random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// The time of one write.
    pub(super) fn draw(&mut self) -> u64 {
        self.time_ns.sample(&mut self.random) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_what_the_paper_has() {
        let mut software = Software::new(1);
        let mut times: Vec<u64> = (0..1_000_000).map(|_| software.draw()).collect();
        times.sort_unstable();
        let mean = |times: &[u64]| times.iter().sum::<u64>() as f64 / times.len() as f64;
        assert!((mean(&times) / 140e3 - 1.0).abs() < 0.01, "{}", mean(&times));
        let slowest = mean(&times[990_000..]);
        assert!((slowest / 1.69e6 - 1.0).abs() < 0.03, "{slowest}");
    }
}
