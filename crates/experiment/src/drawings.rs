//! What is drawn in a report, each drawing from the figures to its SVG.

use std::collections::{BTreeMap, BTreeSet};

use sinew_workload::BucketReport;
use toml::Value;

use crate::Result;
use crate::plot::{self, Axis, Curve, Ring};
use crate::reference::{Comparison, Unit};
use crate::results::{KindResult, Simulated, Span};
use crate::settings;
use crate::summary::{Group, bytes, time};

/// Latency against the part of requests that do not exceed it.
pub(crate) fn percentiles(groups: &[Group<'_>], kind: &str) -> Result<String> {
    let curve = |(index, group): (usize, &Group<'_>)| {
        let latencies = group.latencies(kind);
        let total = latencies.total as f64;
        let mut from = 0.0;
        let mut points = Vec::new();
        for (ns, below) in latencies.steps() {
            // The slowest request is drawn as long as the one before it would be.
            let rest = (latencies.total - below) as f64;
            let to = 1.0 - rest.max(0.5) / total;
            points.extend([(from, ns as f64), (to, ns as f64)]);
            from = to;
        }
        Curve { index, points, dotted: false }
    };
    let curves: Vec<Curve> = groups.iter().enumerate().map(curve).collect();
    let end = curves.iter().flat_map(|c| c.points.last()).map(|p| p.0).fold(0.0, f64::max);
    plot::draw(&Axis::nines(end), &latency_axis(&curves, &[]), groups.len(), &curves, &[])
}

fn values<'a>(curves: &'a [Curve], rings: &'a [Ring]) -> impl Iterator<Item = f64> + 'a {
    let of_rings = rings.iter().flat_map(|ring| [ring.from, ring.to]);
    curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).chain(of_rings)
}

fn latency_axis(curves: &[Curve], rings: &[Ring]) -> Axis {
    Axis::log(values(curves, rings), time)
}

/// The end of an axis that begins at 0.
fn end(curves: &[Curve], rings: &[Ring]) -> f64 {
    values(curves, rings).fold(0.0, f64::max) * 1.05
}

/// A number at a mark, which is round.
fn mark(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

fn duration_s(groups: &[Group<'_>]) -> f64 {
    groups.iter().map(|group| group.first().duration_s).fold(0.0, f64::max)
}

fn first_kind<'a>(group: &Group<'a>, kind: &str) -> Option<&'a KindResult> {
    group.first().requests.get(kind)
}

/// A latency of each span over time.
pub(crate) fn latency_over_time(
    groups: &[Group<'_>],
    kind: &str,
    figure: fn(&BucketReport) -> u64,
) -> Result<String> {
    let curve = |(index, group): (usize, &Group<'_>)| {
        let first = group.first();
        let buckets = first_kind(group, kind)?.series.iter().filter(|bucket| bucket.requests > 0);
        // A point stands in the middle of its span.
        let at = |b: &BucketReport| b.from_ns as f64 / 1e9 + first.interval_s / 2.0;
        let points =
            buckets.map(|b| (at(b), figure(b).max(1) as f64)).filter(|&(at, _)| at <= first.duration_s);
        Some(Curve { index, points: points.collect(), dotted: false })
    };
    let curves: Vec<_> = groups.iter().enumerate().filter_map(curve).collect();
    plot::draw(&Axis::seconds(duration_s(groups)), &latency_axis(&curves, &[]), groups.len(), &curves, &[])
}

/// Requests per second over time.
pub(crate) fn rate_over_time(groups: &[Group<'_>], kind: &str) -> Result<String> {
    let curve = |(index, group): (usize, &Group<'_>)| {
        let (buckets, first) = (&first_kind(group, kind)?.series, group.first());
        let spans = (first.duration_s / first.interval_s).ceil() as usize;
        let middle = |span: usize| (span as f64 + 0.5) * first.interval_s;
        let mut points: Vec<_> = (0..spans).map(|span| (middle(span), 0.0)).collect();
        for bucket in buckets {
            let span = (bucket.from_ns as f64 / 1e9 / first.interval_s).round() as usize;
            if let Some(point) = points.get_mut(span) {
                let length = first.interval_s.min(first.duration_s - span as f64 * first.interval_s);
                point.1 = bucket.requests as f64 / length;
            }
        }
        Some(Curve { index, points, dotted: false })
    };
    let curves: Vec<_> = groups.iter().enumerate().filter_map(curve).collect();
    let y = Axis::linear(end(&curves, &[]), mark);
    plot::draw(&Axis::seconds(duration_s(groups)), &y, groups.len(), &curves, &[])
}

/// How busy the members of a group were.
pub(crate) fn busy(group: &Group<'_>) -> Result<String> {
    let first = group.first();
    let rows: Vec<&[f64]> = first.members.iter().map(|m| m.busy_series.as_slice()).collect();
    plot::heat(&rows, first.duration_s, first.interval_s)
}

/// A drawing of several figures of one run over time, with the names of its colours.
pub(crate) struct Story {
    pub(crate) title: &'static str,
    pub(crate) names: Vec<&'static str>,
    pub(crate) svg: String,
}

type Line = (&'static str, fn(&Span, f64) -> Option<f64>);

const BYTES: [Line; 3] = [
    ("by clients", |span, s| Some(span.client_bytes as f64 / s)),
    ("to members", |span, s| Some(span.member_bytes as f64 / s)),
    ("into flash", |span, s| (span.programmed_bytes > 0).then_some(span.programmed_bytes as f64 / s)),
];
const AMPLIFICATION: [Line; 2] = [
    ("in the array", |span, _| span.pool.as_ref().and(ratio(span.member_bytes, span.client_bytes))),
    ("in flash", |span, _| ratio(span.programmed_bytes, span.reached_flash_bytes)),
];
const STRIPES: [Line; 3] = [
    ("mirrored", |span, _| Some(span.pool.as_ref()?.stripes_mirrored as f64)),
    ("parity", |span, _| Some(span.pool.as_ref()?.stripes_parity as f64)),
    ("degraded", |span, _| Some(span.pool.as_ref()?.stripes_degraded as f64)),
];
const SPACE: [Line; 2] = [
    ("stored", |span, _| Some(span.pool.as_ref()?.stored_bytes as f64)),
    ("free chunks", |span, _| Some(span.pool.as_ref()?.free_bytes as f64)),
];
const WORK: [Line; 4] = [
    ("stripes converted", |span, s| did(span, "stripes_converted", s)),
    ("blocks compacted", |span, s| did(span, "blocks_compacted", s)),
    ("table pages written", |span, s| did(span, "pages_written", s)),
    ("chunks rebuilt", |span, s| did(span, "chunks_rebuilt", s)),
];

fn ratio(of: u64, to: u64) -> Option<f64> {
    (of > 0 && to > 0).then(|| of as f64 / to as f64)
}

fn did(span: &Span, name: &str, seconds: f64) -> Option<f64> {
    span.pool.as_ref()?;
    Some(span.work.get(name).map_or(0.0, |&count| count as f64 / seconds))
}

/// What happened to bytes, space and stripes in the first run of a group.
pub(crate) fn stories(group: &Group<'_>) -> Result<Vec<Story>> {
    let number = |end: f64| Axis::linear(end, mark);
    let size = |end: f64| Axis::bytes(end, bytes);
    let rate = |end: f64| Axis::bytes(end, |value| format!("{}/s", bytes(value)));
    let first = group.first();
    let all = [
        story(first, "Bytes written", &BYTES, &rate)?,
        story(first, "Write amplification", &AMPLIFICATION, &number)?,
        story(first, "Stripes", &STRIPES, &number)?,
        story(first, "Space", &SPACE, &size)?,
        story(first, "Background work per second", &WORK, &number)?,
    ];
    Ok(all.into_iter().flatten().collect())
}

/// Lines that are not 0 all the time.
fn story(
    figures: &Simulated,
    title: &'static str,
    lines: &[Line],
    axis: &dyn Fn(f64) -> Axis,
) -> Result<Option<Story>> {
    let (mut names, mut curves) = (Vec::new(), Vec::new());
    for (name, figure) in lines {
        let (mut from, mut points) = (0.0, Vec::new());
        for span in &figures.series {
            let seconds = span.until_s - from;
            points.extend(figure(span, seconds).map(|value| (from + seconds / 2.0, value)));
            from = span.until_s;
        }
        if points.len() > 1 && points.iter().any(|point| point.1 != 0.0) {
            names.push(*name);
            curves.push(Curve { index: curves.len(), points, dotted: false });
        }
    }
    if curves.is_empty() {
        return Ok(None);
    }
    let (x, y) = (Axis::seconds(figures.duration_s), axis(end(&curves, &[])));
    let svg = plot::draw(&x, &y, curves.len(), &curves, &[])?;
    Ok(Some(Story { title, names, svg }))
}

/// Figures against what was swept.
pub(crate) struct Sweep {
    /// What is along the horizontal axis.
    pub(crate) name: String,
    /// The names of the colours; one without a name where there is one only.
    pub(crate) curves: Vec<String>,
    /// Titles and drawings.
    pub(crate) drawings: Vec<(&'static str, String)>,
    /// Whether figures of other people are among them.
    pub(crate) has_rings: bool,
}

/// A title, the path of the figure, the figure, its unit.
pub(crate) type Swept<F = Simulated> = (&'static str, &'static str, fn(&F) -> Option<f64>, Unit);

/// What is drawn of a simulation against what was swept.
pub(crate) const SWEPT: [Swept; 8] = [
    ("Reads per second", "requests.read.iops", |f| Some(f.requests.get("read")?.summary.iops), Unit::Number),
    (
        "Writes per second",
        "requests.write.iops",
        |f| Some(f.requests.get("write")?.summary.iops),
        Unit::Number,
    ),
    ("Median latency, reads", "requests.read.latency.p50_ns", |f| latency(f, "read", false), Unit::Time),
    ("Median latency, writes", "requests.write.latency.p50_ns", |f| latency(f, "write", false), Unit::Time),
    (
        "99th percentile of latency, reads",
        "requests.read.latency.p99_ns",
        |f| latency(f, "read", true),
        Unit::Time,
    ),
    (
        "99th percentile of latency, writes",
        "requests.write.latency.p99_ns",
        |f| latency(f, "write", true),
        Unit::Time,
    ),
    (
        "Write amplification in the array",
        "writes.array_amplification",
        |f| f.pool.as_ref().and(f.writes.array_amplification),
        Unit::Number,
    ),
    (
        "Write amplification in flash",
        "writes.flash_amplification",
        |f| f.writes.flash_amplification,
        Unit::Number,
    ),
];

fn latency(figures: &Simulated, kind: &str, high: bool) -> Option<f64> {
    let latency = &figures.requests.get(kind)?.summary.latency;
    Some(if high { latency.p99_ns } else { latency.p50_ns } as f64)
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|n| n as f64))
}

/// Draws figures against the path with the most numbers, if one has three or more.
pub(crate) fn sweep<F>(
    groups: &[Group<'_, F>],
    figures: &[Swept<F>],
    references: &[Comparison],
) -> Result<Option<Sweep>> {
    let Some(path) = axis_of(groups) else { return Ok(None) };
    let all = groups.iter().map(Group::settings).find(|settings| settings.contains_key(&path));
    let all = all.expect("it was found in one");
    let rest = |settings: &BTreeMap<String, Value>, case: Option<&str>| {
        let others = settings.iter().filter(|(other, _)| **other != path);
        let others = settings::brief(&others.map(|(path, value)| (path.clone(), value.clone())).collect());
        let parts = [case.unwrap_or_default().to_owned(), others];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    };
    let mut curves: Vec<String> = Vec::new();
    for group in groups {
        let name = rest(group.settings(), group.case());
        if !curves.contains(&name) {
            curves.push(name);
        }
    }
    let index = |name: &str| curves.iter().position(|curve| curve == name);
    let place = |settings: &BTreeMap<String, Value>| settings.get(&path).and_then(number);
    let places = || groups.iter().filter_map(|group| place(group.settings()));
    let ends = (places().fold(f64::INFINITY, f64::min), places().fold(f64::NEG_INFINITY, f64::max));
    let mut drawings = Vec::new();
    let mut has_rings = false;
    for &(title, figure_path, figure, unit) in figures {
        let mut drawn: Vec<Curve> =
            (0..curves.len()).map(|index| Curve { index, points: Vec::new(), dotted: true }).collect();
        for group in groups {
            let index = index(&rest(group.settings(), group.case())).expect("collected above");
            let Some(found) = group.over_seeds(figure) else { continue };
            match place(group.settings()) {
                Some(x) => drawn[index].points.push((x, found.mean)),
                // What was not swept is a level to hold the others to.
                None => drawn[index].points.extend([ends.0, ends.1].map(|x| (x, found.mean))),
            }
        }
        if drawn.iter().all(|curve| curve.points.len() < 2) {
            continue;
        }
        drawn.iter_mut().for_each(|curve| curve.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        let rings =
            references.iter().filter(|reference| reference.figure == figure_path).filter_map(|reference| {
                let index = index(&rest(&reference.settings, reference.case.as_deref()))?;
                let [from, to] = reference.published;
                Some(Ring { index, x: place(&reference.settings)?, from, to })
            });
        let rings: Vec<_> = rings.collect();
        has_rings |= !rings.is_empty();
        let x = swept_axis(drawn.iter().flat_map(|curve| &curve.points).map(|point| point.0).collect());
        let y = match unit {
            Unit::Time => latency_axis(&drawn, &rings),
            Unit::Number | Unit::Bytes => Axis::linear(end(&drawn, &rings), mark),
            Unit::Part => Axis::linear(end(&drawn, &rings), |part| format!("{} %", mark(part * 100.0))),
        };
        drawings.push((title, plot::draw(&x, &y, curves.len(), &drawn, &rings)?));
    }
    let name = settings::name(all, &path).to_owned();
    Ok(Some(Sweep { name, curves, drawings, has_rings }))
}

/// The path with the most different numbers, three or more.
fn axis_of<F>(groups: &[Group<'_, F>]) -> Option<String> {
    let numbers = |path: &String| {
        let swept = groups.iter().filter_map(|group| group.settings().get(path));
        let values: Option<BTreeSet<u64>> = swept.map(|value| Some(number(value)?.to_bits())).collect();
        values.map_or(0, |values| values.len())
    };
    let paths: BTreeSet<&String> = groups.iter().flat_map(|group| group.settings().keys()).collect();
    paths
        .into_iter()
        .map(|path| (numbers(path), path))
        .filter(|(count, _)| *count >= 3)
        .max_by_key(|(count, _)| *count)
        .map(|(_, path)| path.clone())
}

/// Logarithmic where values differ by much, unless they are as far apart as numbers in a row.
fn swept_axis(mut values: Vec<f64>) -> Axis {
    values.sort_by(f64::total_cmp);
    values.dedup();
    let (low, high) = (values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(0.0));
    let mut gaps = values.windows(2).map(|pair| pair[1] - pair[0]);
    let first = gaps.next().unwrap_or(0.0);
    let is_even = gaps.all(|gap| (gap - first).abs() < 1e-9 * high);
    if low > 0.0 && high / low > 8.0 && !is_even {
        Axis::log(values.into_iter(), mark)
    } else {
        Axis::linear(high * 1.05, mark)
    }
}
