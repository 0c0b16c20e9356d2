//! Runs that differ in their seed alone, taken together, and figures as people read them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sinew_workload::Distribution;
use toml::Value;

use crate::results::{Figures, KindResult, RunResult, Simulated};
use crate::settings;

pub(crate) const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
pub(crate) const KINDS: [&str; 4] = ["read", "write", "discard", "flush"];

/// Runs that differ in their seed alone.
pub(crate) struct Group<'a, F = Simulated> {
    /// What tells it from the others; empty when there are none.
    label: String,
    case: Option<&'a str>,
    settings: &'a BTreeMap<String, Value>,
    pub(crate) runs: Vec<Run<'a, F>>,
}

/// The figures of a run, as far as they are of the kind that is looked at.
pub(crate) struct Run<'a, F = Simulated> {
    pub(crate) seed: u64,
    pub(crate) figures: &'a F,
}

/// What tells runs from others.
pub(crate) fn label(case: Option<&str>, swept: &BTreeMap<String, Value>) -> String {
    let swept = settings::brief(swept);
    match case {
        Some(case) if swept.is_empty() => case.to_owned(),
        Some(case) => format!("{case}, {swept}"),
        None => swept,
    }
}

/// The runs with figures of a kind by case and settings, in order.
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
    pub(crate) fn name(&self) -> &str {
        if self.label.is_empty() { "all" } else { &self.label }
    }

    pub(crate) fn case(&self) -> Option<&'a str> {
        self.case
    }

    pub(crate) fn settings(&self) -> &'a BTreeMap<String, Value> {
        self.settings
    }

    /// The run with the first seed, for what cannot be taken together.
    pub(crate) fn first(&self) -> &'a F {
        self.runs[0].figures
    }

    /// The mean over the seeds, and the range.
    pub(crate) fn over_seeds(&self, figure: impl Fn(&F) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.runs.iter().filter_map(|run| figure(run.figures)).collect::<Vec<_>>())
    }
}

impl<'a> Group<'a> {
    pub(crate) fn kind<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = &'a KindResult> + 's {
        self.runs.iter().filter_map(move |run| run.figures.requests.get(kind))
    }

    /// Latencies of all seeds.
    pub(crate) fn latencies(&self, kind: &str) -> Latencies {
        let mut counts = BTreeMap::new();
        for &(ns, count) in self.kind(kind).flat_map(|found| &found.histogram) {
            *counts.entry(ns).or_insert(0) += count;
        }
        let total = counts.values().sum();
        Latencies { counts, total }
    }
}

/// Group, kind, requests per second, the latencies of [`QUANTILES`], the longest, errors.
pub(crate) fn latency_cells(group: &Group<'_>, kind: &str) -> Vec<String> {
    let latencies = group.latencies(kind);
    let rate = group.over_seeds(|f| Some(f.requests.get(kind)?.summary.iops)).map_or(0.0, |rate| rate.mean);
    let mut cells = vec![group.name().to_owned(), kind.to_owned(), format!("{rate:.0}")];
    cells.extend(QUANTILES.iter().map(|&(_, quantile)| latencies.show(quantile)));
    cells.push(latencies.at(1.0).map_or("-".to_owned(), |ns| time(ns as f64)));
    cells.push(group.kind(kind).map(|found| found.summary.errors).sum::<u64>().to_string());
    cells
}

/// Latencies by volume: its name, the case, in how many runs, and three quantiles, the mean over these with its range.
pub(crate) const VOLUME_COLUMNS: [&str; 6] = ["volume", "", "runs", "p50", "p99", "p99.9"];

/// The rows of those columns, by name and then in the order of the cases.
pub(crate) fn volume_rows(groups: &[Group<'_>]) -> Vec<Vec<String>> {
    let mut cases: Vec<Option<&str>> = Vec::new();
    let mut found: BTreeMap<(&str, usize), Vec<&Distribution>> = BTreeMap::new();
    for group in groups {
        let case = cases.iter().position(|&case| case == group.case()).unwrap_or(cases.len());
        if case == cases.len() {
            cases.push(group.case());
        }
        for (name, volume) in group.runs.iter().flat_map(|run| &run.figures.volumes) {
            found.entry((name, case)).or_default().push(&volume.latency);
        }
    }
    let row = |((name, case), runs): ((&str, usize), Vec<&Distribution>)| {
        let figure = |of: fn(&Distribution) -> u64| {
            let all: Vec<f64> = runs.iter().map(|latency| of(latency) as f64).collect();
            Spread::of(&all).map_or("-".to_owned(), |spread| spread.show(time))
        };
        let case = cases[case].unwrap_or("all").to_owned();
        let mut cells = vec![name.to_owned(), case, runs.len().to_string()];
        cells.extend([figure(|l| l.p50_ns), figure(|l| l.p99_ns), figure(|l| l.p99_9_ns)]);
        cells
    };
    found.into_iter().map(row).collect()
}

/// A figure over several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        let fold = |f: fn(f64, f64) -> f64, from| values.iter().copied().fold(from, f);
        let mean = fold(|a, b| a + b, 0.0) / values.len() as f64;
        let (low, high) = (fold(f64::min, f64::INFINITY), fold(f64::max, f64::NEG_INFINITY));
        (!values.is_empty()).then_some(Spread { mean, low, high })
    }

    /// The mean, and the range where there is one to be seen.
    pub(crate) fn show(&self, show: impl Fn(f64) -> String) -> String {
        let (mean, low, high) = (show(self.mean), show(self.low), show(self.high));
        if low == high { mean } else { format!("{mean} ({low} to {high})") }
    }
}

/// A distribution of latencies, exact to 1 %.
pub(crate) struct Latencies {
    counts: BTreeMap<u64, u64>,
    pub(crate) total: u64,
}

impl Latencies {
    /// The latency that a part `quantile` of all requests does not exceed.
    pub(crate) fn at(&self, quantile: f64) -> Option<u64> {
        let wanted = ((self.total as f64 * quantile).ceil() as u64).max(1);
        self.steps().find(|&(_, below)| below >= wanted).map(|(ns, _)| ns)
    }

    /// Each latency and how many requests do not exceed it.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut below = 0;
        self.counts.iter().map(move |(&ns, &count)| {
            below += count;
            (ns, below)
        })
    }

    /// As [`Latencies::at`], unless there are too few requests for that quantile to mean anything.
    pub(crate) fn show(&self, quantile: f64) -> String {
        // Fewer than ten requests above it: it is the luck of the draw.
        let above = self.total as f64 * (1.0 - quantile);
        match self.at(quantile) {
            Some(ns) if above >= 10.0 || quantile <= 0.5 => time(ns as f64),
            _ => "-".to_owned(),
        }
    }
}

/// A time in the unit that suits it.
pub(crate) fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        _ if ns < 1e3 => (ns, "ns"),
        _ if ns < 1e6 => (ns / 1e3, "µs"),
        _ if ns < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Bytes in the unit that suits them.
pub(crate) fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..units.len() - 1).find(|&i| bytes < 1024f64.powi(i as i32 + 1)).unwrap_or(units.len() - 1);
    format!("{} {}", three_digits(bytes / 1024f64.powi(power as i32)), units[power])
}

/// A number with about three digits.
pub(crate) fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == v.trunc() && v >= 1.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ if value == 0.0 => "0".to_owned(),
        _ => format!("{value:.2}"),
    }
}

/// A part as percent.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_histogram() {
        let latencies = Latencies { counts: BTreeMap::from([(10, 50), (20, 49), (30, 1)]), total: 100 };
        assert_eq!(
            (latencies.at(0.5), latencies.at(0.51), latencies.at(0.99)),
            (Some(10), Some(20), Some(20))
        );
        assert_eq!((latencies.at(1.0), latencies.at(0.0)), (Some(30), Some(10)));
        assert_eq!((latencies.show(0.5), latencies.show(0.99)), ("10 ns".to_owned(), "-".to_owned()));
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(
            [time(999.0), time(1500.0), time(2.5e7), time(1e9)],
            ["999 ns", "1.50 µs", "25 ms", "1 s"]
        );
        assert_eq!([bytes(512.0), bytes(1536.0), bytes(8e9)], ["512 B", "1.50 KiB", "7.45 GiB"]);
        let spread = Spread { mean: 2.0, low: 1.0, high: 3.0 };
        assert_eq!(spread.show(three_digits), "2 (1 to 3)");
        assert_eq!(Spread { low: 2.0, high: 2.0, ..spread }.show(three_digits), "2");
    }
}
