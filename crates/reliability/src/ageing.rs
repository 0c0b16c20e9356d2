//! Synchronous ageing: how close together the drives of an array wear out, and what uneven shares of the writes change.
//!
//! Uneven parity belongs to arrays that update in place. A log-structured pool writes parity once per stripe, so the share of
//! stripes of a member decides its wear there.

use statrs::function::erf::erfc;

use crate::error::{Error, Result, positive};

/// Writes that each member of a RAID 5 array gets per random write of one block, for the share of parity that each member
/// holds: p + (1 - p) / (n - 1), because a block lies with equal probability on each of the members that do not hold its parity.
///
/// # Errors
/// Fewer than three members, a negative share, or shares whose sum is not 1.
pub fn writes_by_parity_share(shares: &[f64]) -> Result<Vec<f64>> {
    let n = shares.len();
    if n < 3 {
        return Err(Error::new("shares", format!("an array with parity has three members or more, not {n}")));
    }
    let sum: f64 = shares.iter().sum();
    if shares.iter().any(|share| !(0.0..=1.0).contains(share)) || (sum - 1.0).abs() > 1e-9 {
        return Err(Error::new("shares", format!("shares are from 0 to 1 with a sum of 1, not {sum}")));
    }
    Ok(shares.iter().map(|p| p + (1.0 - p) / (n - 1) as f64).collect())
}

/// The lives of the drives of an array: normally distributed around a mean for each drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Lives {
    /// The mean life of each drive, in days.
    pub mean_days: Vec<f64>,
    /// The standard deviation of each, in days.
    pub deviation_days: f64,
}

/// Steps of the integral over the first wear-out.
const STEPS: usize = 8000;
/// Standard deviations on either side that the integral covers.
const REACH: f64 = 9.0;

impl Lives {
    /// Drives whose mean lives are equally spaced from `1 - spread` to `1 + spread` of `mean_days`.
    ///
    /// # Errors
    /// Fewer than two drives, or values that are not positive; the spread may be 0.
    pub fn spaced(drives: u32, mean_days: f64, spread: f64, variation: f64) -> Result<Lives> {
        positive("mean_days", mean_days)?;
        positive("variation", variation)?;
        if drives < 2 {
            return Err(Error::new("drives", "two drives or more can wear out together"));
        }
        if !(0.0..1.0).contains(&spread) {
            return Err(Error::new("spread", format!("{spread} is not from 0 to below 1")));
        }
        let place = |i: u32| 2.0 * f64::from(i) / f64::from(drives - 1) - 1.0;
        let mean = |i: u32| mean_days * (1.0 + spread * place(i));
        Ok(Lives { mean_days: (0..drives).map(mean).collect(), deviation_days: mean_days * variation })
    }

    /// The probability that a second drive wears out within a number of days of the first.
    pub fn second_within(&self, days: f64) -> f64 {
        let sd = self.deviation_days;
        let ends = self.mean_days.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &mean| {
            (low.min(mean - REACH * sd), high.max(mean + REACH * sd))
        });
        let step = (ends.1 - ends.0) / STEPS as f64;
        // The first wears out at `at`, and none of the others within the days after.
        let alone_at = |at: f64| -> f64 {
            let survives = |mean: f64| 0.5 * erfc((at + days - mean) / (sd * std::f64::consts::SQRT_2));
            let density = |mean: f64| {
                (-((at - mean) / sd).powi(2) / 2.0).exp() / (sd * (2.0 * std::f64::consts::PI).sqrt())
            };
            let others = |first: usize| -> f64 {
                let others = self.mean_days.iter().enumerate().filter(|(i, _)| *i != first);
                others.map(|(_, mean)| survives(*mean)).product()
            };
            self.mean_days.iter().enumerate().map(|(i, mean)| density(*mean) * others(i)).sum()
        };
        let alone: f64 = (0..=STEPS).map(|i| alone_at(ends.0 + i as f64 * step) * step).sum();
        (1.0 - alone).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parity_shares_move_writes() {
        let even = writes_by_parity_share(&[0.2; 5]).unwrap();
        assert!(even.iter().all(|writes| (writes - 0.4).abs() < 1e-12), "{even:?}");
        assert_eq!(
            writes_by_parity_share(&[1.0, 0.0, 0.0, 0.0, 0.0]).unwrap(),
            [1.0, 0.25, 0.25, 0.25, 0.25]
        );
        let uneven = writes_by_parity_share(&[0.6, 0.1, 0.1, 0.1, 0.1]).unwrap();
        assert!((uneven[0] / uneven[1] - 2.154).abs() < 1e-3, "{uneven:?}");
        let uneven = writes_by_parity_share(&[0.4, 0.3, 0.2, 0.1, 0.0]).unwrap();
        assert!((uneven[0] - 0.55).abs() < 1e-12 && (uneven[4] - 0.25).abs() < 1e-12, "{uneven:?}");
        // Each array write is two writes of members.
        assert!((uneven.iter().sum::<f64>() - 2.0).abs() < 1e-12);
        assert!(writes_by_parity_share(&[0.5, 0.5]).is_err());
        assert!(writes_by_parity_share(&[0.5, 0.5, 0.5]).is_err());
    }

    #[test]
    fn staggered_lives_help_drives_that_are_alike() {
        // From an independent numerical integration: n = 8, mean 5 years, within 1, 7 and 30 days.
        let published = [
            (0.02, 0.0, [0.0385, 0.2477, 0.7507]),
            (0.02, 0.1, [0.0103, 0.0716, 0.30104]),
            (0.05, 0.0, [0.0155, 0.1051, 0.3949]),
            (0.05, 0.1, [0.0093, 0.0641, 0.2572]),
            (0.10, 0.0, [0.0078, 0.0536, 0.2154]),
            (0.10, 0.1, [0.0064, 0.0441, 0.1798]),
        ];
        for (variation, spread, expected) in published {
            let lives = Lives::spaced(8, 1825.0, spread, variation).unwrap();
            for (days, expected) in [1.0, 7.0, 30.0].into_iter().zip(expected) {
                let ours = lives.second_within(days);
                assert!((ours - expected).abs() < 1e-4, "{variation} {spread} {days}: {ours}");
            }
        }
        assert!(Lives::spaced(8, 1825.0, 0.0, 0.02).unwrap().second_within(0.0) < 1e-6);
    }
}
