//! The ratio of a figure of one system to that of another, over pairs of runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::file::band::Band;
use crate::file::overrides;
use crate::units::three_digits;

/// A ratio, from all its pairs of runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// What the ratio is, in words.
    pub what: String,
    /// The path of the figure.
    pub figure: String,
    /// The swept values of the pairs, by path; empty if they are all.
    pub settings: BTreeMap<String, Value>,
    /// Pairs of runs that count.
    pub pairs: usize,
    /// The geometric mean; nothing without a pair.
    pub mean: Option<f64>,
    /// The ends of its interval of 95 %; nothing with fewer than three pairs.
    pub interval: Option<[f64; 2]>,
    /// Ratios of single names in single pairs, and those above 1.
    pub ratios: usize,
    /// See `ratios`.
    pub above_one: usize,
    /// Ratios left out, because too few requests were above the quantile.
    pub too_few_requests: usize,
    /// Ratios left out, because one of the two runs has no such figure.
    pub one_sided: usize,
    /// Pairs left out, because one of their runs was saturated.
    pub saturated: usize,
    /// The band in which the mean must lie, if the file states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Band>,
}

impl Ratio {
    /// Whether the mean lies in the stated band. Without a band nothing is claimed, and a band is not met without a mean.
    pub fn holds(&self) -> bool {
        self.within.is_none_or(|band| band.contains(self.mean))
    }

    /// What the ratio is of, for people: the swept values.
    pub(crate) fn label(&self) -> String {
        overrides::brief(&self.settings)
    }

    /// The mean, for people.
    pub(crate) fn show_mean(&self) -> String {
        self.mean.map_or("-".to_owned(), three_digits)
    }

    /// The interval, for people.
    pub(crate) fn show_interval(&self) -> String {
        let show = |[low, high]: [f64; 2]| format!("{} to {}", three_digits(low), three_digits(high));
        self.interval.map_or("-".to_owned(), show)
    }

    /// What was left out, for people; empty if nothing was.
    pub(crate) fn show_left_out(&self) -> String {
        let few = (self.too_few_requests > 0).then(|| format!("{} with few requests", self.too_few_requests));
        let one_sided = (self.one_sided > 0).then(|| format!("{} that one side lacks", self.one_sided));
        let saturated = (self.saturated > 0).then(|| format!("{} saturated pairs", self.saturated));
        few.into_iter().chain(one_sided).chain(saturated).collect::<Vec<_>>().join(", ")
    }

    /// The band that the mean has left, for people; empty if it has not.
    pub(crate) fn show_violation(&self) -> String {
        self.within.map_or(String::new(), |band| band.violation(self.mean, three_digits))
    }

    /// What the ratio is, its value, and the band that it has left, for people.
    pub fn describe(&self) -> String {
        format!("{}: ours {}, {}", self.what, self.show_mean(), self.show_violation())
    }
}
