//! Runs that differ only in their seed, summarised.

use std::collections::BTreeMap;

use toml::Value;

use crate::results::schema::{Figures, RunResult};
use crate::results::simulated::{KindResult, Simulated};
use crate::results::spread::Spread;
use crate::units::time;

/// Runs that differ only in their seed.
pub(crate) struct Group<'a, F = Simulated> {
    /// Case and swept values of the group; empty if there are none.
    label: String,
    case: Option<&'a str>,
    settings: &'a BTreeMap<String, Value>,
    pub(crate) runs: Vec<Run<'a, F>>,
}

/// The seed of a run, and its figures of the selected kind.
pub(crate) struct Run<'a, F = Simulated> {
    pub(crate) seed: u64,
    pub(crate) figures: &'a F,
}

/// The runs that have figures of a kind, grouped by case and swept values, in order.
pub(crate) fn groups<F>(runs: &[RunResult], kind: fn(&Figures) -> Option<&F>) -> Vec<Group<'_, F>> {
    let mut groups: Vec<Group<'_, F>> = Vec::new();
    for (of, figures) in runs.iter().filter_map(|run| Some((run, kind(&run.figures)?))) {
        let (case, settings) = (of.case.as_deref(), &of.settings);
        let run = Run { seed: of.seed, figures };
        match groups.iter_mut().find(|group| (group.case, group.settings) == (case, settings)) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group { label: of.label(), case, settings, runs: vec![run] }),
        }
    }
    groups
}

impl<'a, F> Group<'a, F> {
    /// The label, or `all` if the file has neither cases nor swept values.
    pub(crate) fn name(&self) -> &str {
        if self.label.is_empty() { "all" } else { &self.label }
    }

    /// The case.
    pub(crate) fn case(&self) -> Option<&'a str> {
        self.case
    }

    /// The swept values, by path.
    pub(crate) fn settings(&self) -> &'a BTreeMap<String, Value> {
        self.settings
    }

    /// The figures of the first seed, for time series, which have no mean.
    pub(crate) fn first(&self) -> &'a F {
        self.runs[0].figures
    }

    /// The spread of a figure over the seeds.
    pub(crate) fn over_seeds(&self, figure: impl Fn(&F) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.runs.iter().filter_map(|run| figure(run.figures)).collect::<Vec<_>>())
    }
}

impl<'a> Group<'a> {
    /// The requests of a kind, of each run that has any.
    pub(crate) fn kind<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = &'a KindResult> + 's {
        self.runs.iter().filter_map(move |run| run.figures.requests.get(kind))
    }

    /// The latencies of a kind of requests, of all seeds together.
    pub(crate) fn latencies(&self, kind: &str) -> Latencies {
        let mut counts = BTreeMap::new();
        for &(ns, count) in self.kind(kind).flat_map(|found| &found.histogram) {
            *counts.entry(ns).or_insert(0) += count;
        }
        let total = counts.values().sum();
        let fewest = self.kind(kind).map(|found| found.summary.requests).min().unwrap_or(0);
        Latencies { counts, total, fewest }
    }
}

/// A distribution of latencies, exact to 1 %.
pub(crate) struct Latencies {
    /// The number of requests of each latency.
    counts: BTreeMap<u64, u64>,
    pub(crate) total: u64,
    /// The number of requests of the run that has the fewest.
    fewest: u64,
}

/// A step of a cumulative distribution of latencies.
pub(crate) struct LatencyStep {
    /// The latency in nanoseconds.
    pub(crate) ns: u64,
    /// The number of requests that do not exceed it.
    pub(crate) requests: u64,
}

/// A quantile means something if at least this many requests of a run are above it. Fewer depend on chance.
const REQUESTS_ABOVE_MIN: f64 = 20.0;

/// Whether enough of `requests` requests are above a quantile. Up to the median any number is enough.
pub(crate) fn is_quantile_known(quantile: f64, requests: u64) -> bool {
    quantile <= 0.5 || requests as f64 * (1.0 - quantile) >= REQUESTS_ABOVE_MIN
}

impl Latencies {
    /// The latency that the fraction `quantile` of all requests does not exceed.
    pub(crate) fn at(&self, quantile: f64) -> Option<u64> {
        let wanted = ((self.total as f64 * quantile).ceil() as u64).max(1);
        self.steps().find(|step| step.requests >= wanted).map(|step| step.ns)
    }

    /// The cumulative distribution.
    pub(crate) fn steps(&self) -> impl Iterator<Item = LatencyStep> {
        let mut requests = 0;
        self.counts.iter().map(move |(&ns, &count)| {
            requests += count;
            LatencyStep { ns, requests }
        })
    }

    /// [`Latencies::at`] for people; a dash if a run has too few requests above the quantile.
    pub(crate) fn show(&self, quantile: f64) -> String {
        match self.at(quantile) {
            Some(ns) if is_quantile_known(quantile, self.fewest) => time(ns as f64),
            _ => "-".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_histogram() {
        let counts = BTreeMap::from([(10, 50), (20, 49), (30, 1)]);
        let latencies = Latencies { counts, total: 100, fewest: 100 };
        assert_eq!(
            (latencies.at(0.5), latencies.at(0.51), latencies.at(0.99)),
            (Some(10), Some(20), Some(20))
        );
        assert_eq!((latencies.at(1.0), latencies.at(0.0)), (Some(30), Some(10)));
        assert_eq!((latencies.show(0.5), latencies.show(0.99)), ("10 ns".to_owned(), "-".to_owned()));
    }
}
