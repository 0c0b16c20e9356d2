//! Tables of simulations that both reports have: latencies by kind of request, and by volume.

use std::collections::BTreeMap;

use sinew_workload::Distribution;

use crate::results::capacity::CapacityResult;
use crate::results::ratio::Ratio;
use crate::results::spread::Spread;
use crate::results::summary::{Group, is_quantile_known};
use crate::units::{percent, three_digits, time};

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

/// The rows of the table of ratios, the headings first.
pub(crate) fn ratio_rows(ratios: &[Ratio]) -> Vec<Vec<String>> {
    let headings = ["", "", "ratio", "95 % interval", "pairs", "above 1", "left out", ""];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    rows.extend(ratios.iter().map(|ratio| {
        vec![
            ratio.what.clone(),
            ratio.label(),
            ratio.show_mean(),
            ratio.show_interval(),
            ratio.pairs.to_string(),
            format!("{} of {}", ratio.above_one, ratio.ratios),
            ratio.show_left_out(),
            ratio.show_violation(),
        ]
    }));
    rows
}

/// The rows of the table of capacities, the headings first; nothing if none was searched for.
pub(crate) fn capacity_rows(groups: &[Group<'_>]) -> Vec<Vec<String>> {
    let headings = ["", "largest speed served", "requests per second", "bound of p99", ""];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    for group in groups {
        let searched = || group.runs.iter().filter_map(|run| run.figures.capacity.as_ref());
        let Some(first) = searched().next() else { continue };
        let figure = |of: fn(&CapacityResult) -> Option<f64>| {
            Spread::of(&searched().filter_map(of).collect::<Vec<_>>())
                .map_or("-".to_owned(), |found| found.show(three_digits))
        };
        let (none, at_max) = (
            searched().filter(|found| found.speed.is_none()).count(),
            searched().filter(|found| found.at_max).count(),
        );
        let mut notes = Vec::new();
        if none > 0 {
            notes.push(format!("serves no speed that was tried in {none} of {} runs", searched().count()));
        }
        if at_max > 0 {
            notes.push(format!(
                "at least: the highest speed allowed, in {at_max} of {} runs",
                searched().count()
            ));
        }
        rows.push(vec![
            group.name().to_owned(),
            figure(|found| found.speed),
            figure(CapacityResult::completed_per_s),
            first.p99_bound_ns.map_or("-".to_owned(), |bound| time(bound as f64)),
            notes.join("; "),
        ]);
    }
    if rows.len() == 1 { Vec::new() } else { rows }
}

/// The rows of the table of loads that are a share of a capacity, the headings first; nothing if there are none.
pub(crate) fn load_rows(groups: &[Group<'_>]) -> Vec<Vec<String>> {
    let headings = ["", "share of the capacity", "speed", "capacities"];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    for group in groups {
        // The capacity is that with one seed, so that it is the same for all.
        let Some(load) = &group.first().load_share else { continue };
        let capacity = |(case, speed): (&String, &f64)| match case.as_str() {
            "" => three_digits(*speed),
            case => format!("{case}: {}", three_digits(*speed)),
        };
        let capacities: Vec<String> = load.capacities.iter().map(capacity).collect();
        let speed = three_digits(load.speed);
        rows.push(vec![group.name().to_owned(), percent(load.share), speed, capacities.join(", ")]);
    }
    if rows.len() == 1 { Vec::new() } else { rows }
}

/// The columns of the volume table. The second is the case, the third the kind of requests, the fourth the number of runs;
/// quantiles are geometric means over the runs, with their range.
pub(crate) const VOLUME_COLUMNS: [&str; 7] = ["volume", "", "", "runs", "p50", "p99", "p99.9"];

/// A quantile of the volume table.
struct VolumeQuantile {
    fraction: f64,
    of: fn(&Distribution) -> u64,
}

/// The quantiles of the volume table.
const VOLUME_QUANTILES: [VolumeQuantile; 3] = [
    VolumeQuantile { fraction: 0.5, of: |latency| latency.p50_ns },
    VolumeQuantile { fraction: 0.99, of: |latency| latency.p99_ns },
    VolumeQuantile { fraction: 0.999, of: |latency| latency.p99_9_ns },
];

/// A row of the volume table: the name of the volume, the number of the case, the kind of requests.
type VolumeRow<'a> = (&'a str, usize, &'a str);

/// The requests of one row in one run.
struct VolumeRun<'a> {
    requests: u64,
    latency: &'a Distribution,
}

/// The rows of the volume table, by name, then in the order of the cases, then reads before writes. A quantile is left out if a
/// run has too few requests above it.
pub(crate) fn volume_rows(groups: &[Group<'_>]) -> Vec<Vec<String>> {
    let mut cases: Vec<Option<&str>> = Vec::new();
    let mut found: BTreeMap<VolumeRow<'_>, Vec<VolumeRun<'_>>> = BTreeMap::new();
    for group in groups {
        let case = cases.iter().position(|&case| case == group.case()).unwrap_or(cases.len());
        if case == cases.len() {
            cases.push(group.case());
        }
        for (name, volume) in group.runs.iter().flat_map(|run| &run.figures.volumes) {
            for (kind, requests, latency) in
                [("read", volume.reads, &volume.read), ("write", volume.writes, &volume.write)]
            {
                let run = latency.iter().map(|latency| VolumeRun { requests, latency });
                found.entry((name, case, kind)).or_default().extend(run);
            }
        }
    }
    let row = |((name, case, kind), runs): (VolumeRow<'_>, Vec<VolumeRun<'_>>)| {
        let figure = |quantile: &VolumeQuantile| {
            if !runs.iter().all(|run| is_quantile_known(quantile.fraction, run.requests)) {
                return "-".to_owned();
            }
            let all: Vec<f64> = runs.iter().map(|run| (quantile.of)(run.latency) as f64).collect();
            Spread::geometric(&all).map_or("-".to_owned(), |spread| spread.show(time))
        };
        let case = cases[case].unwrap_or("all").to_owned();
        let mut cells = vec![name.to_owned(), case, kind.to_owned(), runs.len().to_string()];
        cells.extend(VOLUME_QUANTILES.iter().map(figure));
        cells
    };
    found.into_iter().filter(|(_, runs)| !runs.is_empty()).map(row).collect()
}
