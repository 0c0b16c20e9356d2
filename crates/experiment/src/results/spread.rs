//! A figure over several seeds.

use serde::{Deserialize, Serialize};

/// The mean and the range of a figure over several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The lowest value.
    pub low: f64,
    /// The highest value.
    pub high: f64,
}

impl Spread {
    /// The spread of values; nothing if there are none.
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        let fold = |f: fn(f64, f64) -> f64, from| values.iter().copied().fold(from, f);
        let mean = fold(|a, b| a + b, 0.0) / values.len() as f64;
        let (low, high) = (fold(f64::min, f64::INFINITY), fold(f64::max, f64::NEG_INFINITY));
        (!values.is_empty()).then_some(Spread { mean, low, high })
    }

    /// As [`Spread::of`], with the geometric mean, of positive values.
    pub(crate) fn geometric(values: &[f64]) -> Option<Spread> {
        let spread = Spread::of(values)?;
        let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
        Some(Spread { mean: (logarithms / values.len() as f64).exp(), ..spread })
    }

    /// The mean, and the range if its ends look different.
    pub(crate) fn show(&self, show: impl Fn(f64) -> String) -> String {
        let (mean, low, high) = (show(self.mean), show(self.low), show(self.high));
        if low == high { mean } else { format!("{mean} ({low} to {high})") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::three_digits;

    #[test]
    fn a_range_is_shown_where_there_is_one() {
        let spread = Spread { mean: 2.0, low: 1.0, high: 3.0 };
        assert_eq!(spread.show(three_digits), "2 (1 to 3)");
        assert_eq!(Spread { low: 2.0, high: 2.0, ..spread }.show(three_digits), "2");
    }
}
