//! Tables of simulations that both reports have: latencies by kind of request, and by volume.

use std::collections::BTreeMap;

use sinew_workload::Distribution;

use crate::results::spread::Spread;
use crate::results::summary::Group;
use crate::units::time;

/// The kinds of requests, in the order of the rows.
pub(crate) const KINDS: [&str; 4] = ["read", "write", "discard", "flush"];

/// A column of the latency table.
pub(crate) struct Quantile {
    /// The heading.
    pub(crate) name: &'static str,
    /// The fraction of requests that do not exceed the latency in the column.
    fraction: f64,
}

/// The quantiles of the latency table.
pub(crate) const QUANTILES: [Quantile; 6] = [
    Quantile { name: "p50", fraction: 0.5 },
    Quantile { name: "p90", fraction: 0.9 },
    Quantile { name: "p95", fraction: 0.95 },
    Quantile { name: "p99", fraction: 0.99 },
    Quantile { name: "p99.9", fraction: 0.999 },
    Quantile { name: "p99.99", fraction: 0.9999 },
];

/// A row of the latency table: group, kind, requests per second, the latencies of [`QUANTILES`], the highest latency, errors.
pub(crate) fn latency_cells(group: &Group<'_>, kind: &str) -> Vec<String> {
    let latencies = group.latencies(kind);
    let rate = group.over_seeds(|f| Some(f.requests.get(kind)?.summary.iops)).map_or(0.0, |rate| rate.mean);
    let mut cells = vec![group.name().to_owned(), kind.to_owned(), format!("{rate:.0}")];
    cells.extend(QUANTILES.iter().map(|quantile| latencies.show(quantile.fraction)));
    cells.push(latencies.at(1.0).map_or("-".to_owned(), |ns| time(ns as f64)));
    cells.push(group.kind(kind).map(|found| found.summary.errors).sum::<u64>().to_string());
    cells
}

/// The columns of the volume table. The second is the case, the third the number of runs; quantiles are means over the runs, with
/// their range.
pub(crate) const VOLUME_COLUMNS: [&str; 6] = ["volume", "", "runs", "p50", "p99", "p99.9"];

/// The rows of the volume table, by name and then in the order of the cases.
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
