//! Bands that a file states for figures of its runs: `experiment run --check` fails outside them.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The lowest and the highest value of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Band([f64; 2]);

impl Band {
    /// The band of a whole or a quick run: that of a quick run is `quick_within`, or `within` where it is not given.
    pub(crate) fn of_run(quick: bool, within: Option<Band>, quick_within: Option<Band>) -> Option<Band> {
        quick_within.filter(|_| quick).or(within)
    }

    pub(crate) fn check(&self, setting: &str) -> Result<()> {
        let Band([low, high]) = self;
        if low <= high {
            return Ok(());
        }
        Err(Error::setting(
            setting,
            format!("a band begins with its lowest value, and {low} is above {high}"),
        ))
    }

    /// Whether a figure lies in the band; one that no run has does not.
    pub(crate) fn contains(&self, figure: Option<f64>) -> bool {
        let Band([low, high]) = self;
        figure.is_some_and(|figure| (low..=high).contains(&&figure))
    }

    /// The band for people, if a figure has left it; otherwise empty.
    pub(crate) fn violation(&self, figure: Option<f64>, show: impl Fn(f64) -> String) -> String {
        let Band([low, high]) = *self;
        if self.contains(figure) { String::new() } else { format!("outside {} to {}", show(low), show(high)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_has_its_ends_and_no_missing_figure() {
        let band = Band([1.0, 2.0]);
        assert!(band.contains(Some(1.0)) && band.contains(Some(2.0)));
        assert!(!band.contains(Some(2.1)) && !band.contains(Some(f64::NAN)) && !band.contains(None));
        assert_eq!(band.violation(Some(3.0), |value| value.to_string()), "outside 1 to 2");
        assert_eq!(band.violation(Some(1.5), |value| value.to_string()), "");
        let error = Band([2.0, 1.0]).check("ratios.0.within").unwrap_err();
        assert!(error.to_string().contains("2 is above 1"), "{error}");
    }

    #[test]
    fn a_quick_run_may_have_a_band_of_its_own() {
        let (whole, quick) = (Some(Band([1.0, 2.0])), Some(Band([0.0, 9.0])));
        assert_eq!(Band::of_run(true, whole, quick), quick);
        assert_eq!((Band::of_run(false, whole, quick), Band::of_run(true, whole, None)), (whole, whole));
    }
}
