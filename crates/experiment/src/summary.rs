//! Runs that differ in their seed alone, taken together, and figures as people read them.

use std::collections::BTreeMap;

use crate::results::{Figures, KindResult, Results, RunResult};

/// Runs that differ in their seed alone.
pub(crate) struct Group<'a> {
    /// What tells it from the others; empty when there are none.
    pub(crate) label: String,
    pub(crate) runs: Vec<&'a RunResult>,
}

/// The runs by case and settings, in order.
pub(crate) fn groups(results: &Results) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in &results.runs {
        let label = run.label();
        match groups.iter_mut().find(|group| group.label == label) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group { label, runs: vec![run] }),
        }
    }
    groups
}

impl<'a> Group<'a> {
    pub(crate) fn name(&self) -> &str {
        if self.label.is_empty() { "all" } else { &self.label }
    }

    /// The run with the first seed, for what cannot be taken together.
    pub(crate) fn first(&self) -> &'a Figures {
        &self.runs[0].figures
    }

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

    /// The mean over the seeds, and the range when it is one.
    pub(crate) fn over_seeds(&self, figure: impl Fn(&Figures) -> Option<f64>) -> Option<Spread> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| figure(&run.figures)).collect();
        let fold = |f: fn(f64, f64) -> f64, from| values.iter().copied().fold(from, f);
        let mean = fold(|a, b| a + b, 0.0) / values.len() as f64;
        let (low, high) = (fold(f64::min, f64::INFINITY), fold(f64::max, f64::NEG_INFINITY));
        (!values.is_empty()).then_some(Spread { mean, low, high })
    }
}

/// A figure over several seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
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
