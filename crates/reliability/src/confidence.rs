//! Confidence intervals of estimates.

use statrs::function::beta::beta_reg;
use statrs::function::erf::erf_inv;

use crate::solve::bisect;

/// An estimate with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether the interval contains a value.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The interval of a decreasing or increasing function of the estimate.
    pub fn map(&self, function: impl Fn(f64) -> f64) -> Interval {
        let (a, b) = (function(self.low), function(self.high));
        Interval { mean: function(self.mean), low: a.min(b), high: a.max(b) }
    }
}

/// The number of standard deviations on either side of the mean that a normal variable stays within, with probability `level`.
pub fn deviations(level: f64) -> f64 {
    std::f64::consts::SQRT_2 * erf_inv(level)
}

/// The probability of an event that was seen `seen` times in `trials`, with the exact interval of Clopper and Pearson.
/// Without trials nothing is known: the interval is 0 to 1. (Bisection, because the results of `inv_beta_reg` in
/// `statrs` 0.19 do not pass the test below.)
pub fn proportion(seen: u64, trials: u64, level: f64) -> Interval {
    if trials == 0 {
        return Interval { mean: f64::NAN, low: 0.0, high: 1.0 };
    }
    let (k, n, tail) = (seen as f64, trials as f64, (1.0 - level) / 2.0);
    let low = if seen == 0 { 0.0 } else { bisect(0.0, 1.0, |p| beta_reg(k, n - k + 1.0, p) < tail) };
    let high =
        if seen == trials { 1.0 } else { bisect(0.0, 1.0, |p| beta_reg(k + 1.0, n - k, p) < 1.0 - tail) };
    Interval { mean: k / n, low, high }
}

/// Sums of a sample, from which its mean and the interval of the mean follow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    count: u64,
    mean: f64,
    /// The sum of squared distances to the mean.
    squares: f64,
}

impl Sample {
    /// Adds a value, by Welford's method.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The variance of the mean; infinite for fewer than two values.
    pub fn variance_of_mean(&self) -> f64 {
        if self.count < 2 {
            return f64::INFINITY;
        }
        self.squares / (self.count - 1) as f64 / self.count as f64
    }

    /// The mean and its interval, by the normal distribution: for samples of hundreds of values or more.
    pub fn interval(&self, level: f64) -> Interval {
        around(self.mean, self.variance_of_mean(), level)
    }
}

/// The normal interval around an estimate with a variance.
pub(crate) fn around(mean: f64, variance: f64, level: f64) -> Interval {
    let reach = deviations(level) * variance.sqrt();
    Interval { mean, low: mean - reach, high: mean + reach }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_has_its_known_quantiles() {
        assert!((deviations(0.95) - 1.959963985).abs() < 1e-8);
        assert!((deviations(0.99) - 2.575829304).abs() < 1e-8);
    }

    #[test]
    fn the_exact_interval_has_its_known_ends() {
        // None of n: the upper end solves (1 - p)^n = 0.025.
        let none = proportion(0, 100, 0.95);
        assert!((none.high - (1.0 - 0.025f64.powf(0.01))).abs() < 1e-9 && none.low == 0.0, "{none:?}");
        let all = proportion(100, 100, 0.95);
        assert!((all.low - 0.025f64.powf(0.01)).abs() < 1e-9 && all.high == 1.0, "{all:?}");
        // From a table of Clopper-Pearson intervals: 10 of 100.
        let ten = proportion(10, 100, 0.95);
        assert!((ten.low - 0.0490047).abs() < 1e-6 && (ten.high - 0.1762226).abs() < 1e-6, "{ten:?}");
        // Both ends have the tails that define them.
        let few = proportion(3, 1_000_000, 0.95);
        let tail = statrs::function::beta::beta_reg(3.0, 999_998.0, few.low);
        assert!((tail - 0.025).abs() < 1e-8, "{tail}");
        assert_eq!((proportion(0, 0, 0.95).low, proportion(0, 0, 0.95).high), (0.0, 1.0));
    }

    #[test]
    fn a_sample_has_its_mean_and_variance() {
        let mut sample = Sample::default();
        [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].into_iter().for_each(|value| sample.add(value));
        assert_eq!((sample.count(), sample.mean()), (8, 5.0));
        assert!((sample.variance_of_mean() - 32.0 / 7.0 / 8.0).abs() < 1e-12);
        assert!(sample.interval(0.95).contains(5.0));
        assert_eq!(Sample::default().variance_of_mean(), f64::INFINITY);
    }
}
