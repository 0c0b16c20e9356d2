//! The charts of the HTML report: from figures to curves, axes and SVG.

use std::collections::{BTreeMap, BTreeSet};

use sinew_workload::{BucketReport, Distribution};
use toml::Value;

use crate::Result;
use crate::file::overrides;
use crate::file::published::Unit;
use crate::report::svg::{self, Axis, Curve, Ring};
use crate::results::capacity::TriedLoad;
use crate::results::schema::Comparison;
use crate::results::simulated::{Interval, KindResult, Simulated};
use crate::results::summary::Group;
use crate::units::{bytes, magnitude, time};

/// Latency against the fraction of requests that do not exceed it.
///
/// # Errors
/// [`crate::Error::Drawing`] if the chart cannot be drawn.
pub(crate) fn percentiles(groups: &[Group<'_>], kind: &str) -> Result<String> {
    let curve = |(index, group): (usize, &Group<'_>)| {
        let latencies = group.latencies(kind);
        let total = latencies.total as f64;
        let mut from = 0.0;
        let mut points = Vec::new();
        for step in latencies.steps() {
            // On an axis of nines, 100 % is at infinity: the slowest request ends half a request before it.
            let slower = (latencies.total - step.requests) as f64;
            let to = 1.0 - slower.max(0.5) / total;
            points.extend([(from, step.ns as f64), (to, step.ns as f64)]);
            from = to;
        }
        Curve { index, points, dotted: false }
    };
    let curves: Vec<Curve> = groups.iter().enumerate().map(curve).collect();
    let end = curves.iter().flat_map(|c| c.points.last()).map(|p| p.0).fold(0.0, f64::max);
    svg::draw(&Axis::nines(end), &latency_axis(&curves, &[]), groups.len(), &curves, &[])
}

fn values<'a>(curves: &'a [Curve], rings: &'a [Ring]) -> impl Iterator<Item = f64> + 'a {
    let of_rings = rings.iter().flat_map(|ring| [ring.from, ring.to]);
    curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).chain(of_rings)
}

fn latency_axis(curves: &[Curve], rings: &[Ring]) -> Axis {
    Axis::log(values(curves, rings), time)
}

/// The end of an axis that begins at 0 and has space above the highest value.
fn end(curves: &[Curve], rings: &[Ring]) -> f64 {
    values(curves, rings).fold(0.0, f64::max) * 1.05
}

/// The label of a mark, without the digits of rounding errors.
fn mark(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

fn duration_s(groups: &[Group<'_>]) -> f64 {
    groups.iter().map(|group| group.first().duration_s).fold(0.0, f64::max)
}

fn first_kind<'a>(group: &Group<'a>, kind: &str) -> Option<&'a KindResult> {
    group.first().requests.get(kind)
}

/// A figure of the latency in each interval, over time.
///
/// # Errors
/// [`crate::Error::Drawing`] if the chart cannot be drawn.
pub(crate) fn latency_over_time(
    groups: &[Group<'_>],
    kind: &str,
    figure: fn(&BucketReport) -> u64,
) -> Result<String> {
    let curve = |(index, group): (usize, &Group<'_>)| {
        let first = group.first();
        let buckets = first_kind(group, kind)?.series.iter().filter(|bucket| bucket.requests > 0);
        // A point is in the middle of its interval.
        let at = |b: &BucketReport| b.from_ns as f64 / 1e9 + first.interval_s / 2.0;
        let points =
            buckets.map(|b| (at(b), figure(b).max(1) as f64)).filter(|&(at, _)| at <= first.duration_s);
        Some(Curve { index, points: points.collect(), dotted: false })
    };
    let curves: Vec<_> = groups.iter().enumerate().filter_map(curve).collect();
    svg::draw(&Axis::seconds(duration_s(groups)), &latency_axis(&curves, &[]), groups.len(), &curves, &[])
}

/// Requests per second, over time.
///
/// # Errors
/// [`crate::Error::Drawing`] if the chart cannot be drawn.
pub(crate) fn rate_over_time(groups: &[Group<'_>], kind: &str) -> Result<String> {
    let curve = |(index, group): (usize, &Group<'_>)| {
        let (buckets, first) = (&first_kind(group, kind)?.series, group.first());
        let intervals = (first.duration_s / first.interval_s).ceil() as usize;
        let middle = |interval: usize| (interval as f64 + 0.5) * first.interval_s;
        let mut points: Vec<_> = (0..intervals).map(|interval| (middle(interval), 0.0)).collect();
        for bucket in buckets {
            let interval = (bucket.from_ns as f64 / 1e9 / first.interval_s).round() as usize;
            if let Some(point) = points.get_mut(interval) {
                let length = first.interval_s.min(first.duration_s - interval as f64 * first.interval_s);
                point.1 = bucket.requests as f64 / length;
            }
        }
        Some(Curve { index, points, dotted: false })
    };
    let curves: Vec<_> = groups.iter().enumerate().filter_map(curve).collect();
    let y = Axis::linear(end(&curves, &[]), mark);
    svg::draw(&Axis::seconds(duration_s(groups)), &y, groups.len(), &curves, &[])
}

/// The 99th percentile of latency against the requests completed per second, at the loads that a search for the capacity tried.
///
/// # Errors
/// [`crate::Error::Drawing`] if the chart cannot be drawn.
pub(crate) fn latency_by_load(groups: &[Group<'_>], kind: &str) -> Result<String> {
    let p99 = |load: &TriedLoad| if kind == "read" { load.read_p99_ns } else { load.write_p99_ns };
    let curve = |(index, group): (usize, &Group<'_>)| {
        let tried = &group.first().capacity.as_ref()?.tried;
        let points = tried.iter().filter_map(|load| Some((load.completed_per_s, p99(load)? as f64)));
        Some(Curve { index, points: points.collect(), dotted: true })
    };
    let curves: Vec<_> = groups.iter().enumerate().filter_map(curve).collect();
    let x = Axis::log(curves.iter().flat_map(|curve| &curve.points).map(|point| point.0), mark);
    svg::draw(&x, &latency_axis(&curves, &[]), groups.len(), &curves, &[])
}

/// How busy each member of a group was, over time.
///
/// # Errors
/// [`crate::Error::Drawing`] if the chart cannot be drawn.
pub(crate) fn busy(group: &Group<'_>) -> Result<String> {
    let first = group.first();
    let rows: Vec<&[f64]> = first.members.iter().map(|m| m.busy_series.as_slice()).collect();
    svg::heat(&rows, first.duration_s, first.interval_s)
}

/// A chart of several figures of one run over time.
pub(crate) struct TimeChart {
    pub(crate) title: &'static str,
    /// The names of the curves, in the order of the colours.
    pub(crate) names: Vec<&'static str>,
    pub(crate) svg: String,
}

/// A curve of a [`TimeChart`]: its name, and the figure of an interval of a length in seconds.
struct Line(&'static str, fn(&Interval, f64) -> Option<f64>);

const BYTES: [Line; 3] = [
    Line("by clients", |i, s| Some(i.client_bytes as f64 / s)),
    Line("to members", |i, s| Some(i.member_bytes as f64 / s)),
    Line("into flash", |i, s| (i.programmed_bytes > 0).then_some(i.programmed_bytes as f64 / s)),
];
const AMPLIFICATION: [Line; 2] = [
    Line("in the array", |i, _| i.pool.as_ref().and(ratio(i.member_bytes, i.client_bytes))),
    Line("in flash", |i, _| ratio(i.programmed_bytes, i.reached_flash_bytes)),
];
const STRIPES: [Line; 3] = [
    Line("mirrored", |i, _| Some(i.pool.as_ref()?.stripes_mirrored as f64)),
    Line("parity", |i, _| Some(i.pool.as_ref()?.stripes_parity as f64)),
    Line("degraded", |i, _| Some(i.pool.as_ref()?.stripes_degraded as f64)),
];
const SPACE: [Line; 2] = [
    Line("stored", |i, _| Some(i.pool.as_ref()?.stored_bytes as f64)),
    Line("free chunks", |i, _| Some(i.pool.as_ref()?.free_bytes as f64)),
];
const WORK: [Line; 4] = [
    Line("stripes converted", |i, s| work_per_second(i, "stripes_converted", s)),
    Line("blocks compacted", |i, s| work_per_second(i, "blocks_compacted", s)),
    Line("table pages written", |i, s| work_per_second(i, "pages_written", s)),
    Line("chunks rebuilt", |i, s| work_per_second(i, "chunks_rebuilt", s)),
];

fn ratio(of: u64, to: u64) -> Option<f64> {
    (of > 0 && to > 0).then(|| of as f64 / to as f64)
}

fn work_per_second(interval: &Interval, name: &str, seconds: f64) -> Option<f64> {
    interval.pool.as_ref()?;
    Some(interval.work.get(name).map_or(0.0, |&count| count as f64 / seconds))
}

/// Charts over time of bytes, space and stripes in the first run of a group.
///
/// # Errors
/// [`crate::Error::Drawing`] if a chart cannot be drawn.
pub(crate) fn over_time(group: &Group<'_>) -> Result<Vec<TimeChart>> {
    let number = |end: f64| Axis::linear(end, mark);
    let size = |end: f64| Axis::bytes(end, bytes);
    let rate = |end: f64| Axis::bytes(end, |value| format!("{}/s", bytes(value)));
    let first = group.first();
    let all = [
        time_chart(first, "Bytes written", &BYTES, &rate)?,
        time_chart(first, "Write amplification", &AMPLIFICATION, &number)?,
        time_chart(first, "Stripes", &STRIPES, &number)?,
        time_chart(first, "Space", &SPACE, &size)?,
        time_chart(first, "Background work per second", &WORK, &number)?,
    ];
    Ok(all.into_iter().flatten().collect())
}

/// A chart of the lines that are not always 0; nothing if all are.
fn time_chart(
    figures: &Simulated,
    title: &'static str,
    lines: &[Line],
    axis: &dyn Fn(f64) -> Axis,
) -> Result<Option<TimeChart>> {
    let (mut names, mut curves) = (Vec::new(), Vec::new());
    for Line(name, figure) in lines {
        let (mut from, mut points) = (0.0, Vec::new());
        for interval in &figures.series {
            let seconds = interval.until_s - from;
            points.extend(figure(interval, seconds).map(|value| (from + seconds / 2.0, value)));
            from = interval.until_s;
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
    let svg = svg::draw(&x, &y, curves.len(), &curves, &[])?;
    Ok(Some(TimeChart { title, names, svg }))
}

/// Charts of figures against the values of a swept path.
pub(crate) struct Sweep {
    /// The name of the horizontal axis.
    pub(crate) name: String,
    /// The names of the curves, in the order of the colours; a single curve has an empty name.
    pub(crate) curves: Vec<String>,
    pub(crate) charts: Vec<Chart>,
    /// Whether a chart shows published figures.
    pub(crate) has_rings: bool,
}

/// A chart with its title.
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) svg: String,
}

/// What a chart against swept values shows.
pub(crate) struct SweptChart<F = Simulated> {
    pub(crate) title: &'static str,
    /// The path of the figure, by which published figures name it.
    pub(crate) path: &'static str,
    pub(crate) figure: fn(&F) -> Option<f64>,
    pub(crate) unit: Unit,
}

/// The charts of a simulation against swept values.
pub(crate) const SWEPT: [SweptChart; 8] = [
    SweptChart {
        title: "Reads per second",
        path: "requests.read.iops",
        figure: |f| Some(f.requests.get("read")?.summary.iops),
        unit: Unit::Number,
    },
    SweptChart {
        title: "Writes per second",
        path: "requests.write.iops",
        figure: |f| Some(f.requests.get("write")?.summary.iops),
        unit: Unit::Number,
    },
    SweptChart {
        title: "Median latency, reads",
        path: "requests.read.latency.p50_ns",
        figure: |f| latency(f, "read", |l| l.p50_ns),
        unit: Unit::Time,
    },
    SweptChart {
        title: "Median latency, writes",
        path: "requests.write.latency.p50_ns",
        figure: |f| latency(f, "write", |l| l.p50_ns),
        unit: Unit::Time,
    },
    SweptChart {
        title: "99th percentile of latency, reads",
        path: "requests.read.latency.p99_ns",
        figure: |f| latency(f, "read", |l| l.p99_ns),
        unit: Unit::Time,
    },
    SweptChart {
        title: "99th percentile of latency, writes",
        path: "requests.write.latency.p99_ns",
        figure: |f| latency(f, "write", |l| l.p99_ns),
        unit: Unit::Time,
    },
    SweptChart {
        title: "Write amplification in the array",
        path: "writes.array_amplification",
        figure: |f| f.pool.as_ref().and(f.writes.array_amplification),
        unit: Unit::Number,
    },
    SweptChart {
        title: "Write amplification in flash",
        path: "writes.flash_amplification",
        figure: |f| f.writes.flash_amplification,
        unit: Unit::Number,
    },
];

fn latency(figures: &Simulated, kind: &str, quantile: fn(&Distribution) -> u64) -> Option<f64> {
    Some(quantile(&figures.requests.get(kind)?.summary.latency) as f64)
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|n| n as f64))
}

/// Draws figures against the swept path with the most numbers; nothing if no path has three.
///
/// # Errors
/// [`crate::Error::Drawing`] if a chart cannot be drawn.
pub(crate) fn sweep<F>(
    groups: &[Group<'_, F>],
    charts: &[SweptChart<F>],
    references: &[Comparison],
) -> Result<Option<Sweep>> {
    let Some(path) = axis_of(groups) else { return Ok(None) };
    let all = groups.iter().map(Group::settings).find(|settings| settings.contains_key(&path));
    let all = all.expect("the path is of one of the groups");
    let curve_name = |settings: &BTreeMap<String, Value>, case: Option<&str>| {
        let others = settings.iter().filter(|(other, _)| **other != path);
        let others = overrides::brief(&others.map(|(path, value)| (path.clone(), value.clone())).collect());
        let parts = [case.unwrap_or_default().to_owned(), others];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    };
    let mut curves: Vec<String> = Vec::new();
    for group in groups {
        let name = curve_name(group.settings(), group.case());
        if !curves.contains(&name) {
            curves.push(name);
        }
    }
    let index = |name: &str| curves.iter().position(|curve| curve == name);
    let x_of = |settings: &BTreeMap<String, Value>| settings.get(&path).and_then(number);
    let all_x = || groups.iter().filter_map(|group| x_of(group.settings()));
    let ends = (all_x().fold(f64::INFINITY, f64::min), all_x().fold(f64::NEG_INFINITY, f64::max));
    let mut drawn_charts = Vec::new();
    let mut has_rings = false;
    for &SweptChart { title, path: figure_path, figure, unit } in charts {
        let mut drawn: Vec<Curve> =
            (0..curves.len()).map(|index| Curve { index, points: Vec::new(), dotted: true }).collect();
        for group in groups {
            let index = index(&curve_name(group.settings(), group.case())).expect("collected above");
            let Some(found) = group.over_seeds(figure) else { continue };
            match x_of(group.settings()) {
                Some(x) => drawn[index].points.push((x, found.mean)),
                // A case that is not swept is a horizontal line to compare the others with.
                None => drawn[index].points.extend([ends.0, ends.1].map(|x| (x, found.mean))),
            }
        }
        if drawn.iter().all(|curve| curve.points.len() < 2) {
            continue;
        }
        drawn.iter_mut().for_each(|curve| curve.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        let rings =
            references.iter().filter(|reference| reference.figure == figure_path).filter_map(|reference| {
                let index = index(&curve_name(&reference.settings, reference.case.as_deref()))?;
                let [from, to] = reference.published;
                Some(Ring { index, x: x_of(&reference.settings)?, from, to })
            });
        let rings: Vec<_> = rings.collect();
        has_rings |= !rings.is_empty();
        let x = swept_axis(drawn.iter().flat_map(|curve| &curve.points).map(|point| point.0).collect());
        let y = match unit {
            Unit::Time => latency_axis(&drawn, &rings),
            Unit::Magnitude => Axis::log(values(&drawn, &rings), magnitude),
            Unit::Number | Unit::Bytes => Axis::linear(end(&drawn, &rings), mark),
            Unit::Part => {
                Axis::linear(end(&drawn, &rings), |fraction| format!("{} %", mark(fraction * 100.0)))
            }
        };
        drawn_charts.push(Chart { title, svg: svg::draw(&x, &y, curves.len(), &drawn, &rings)? });
    }
    let name = overrides::name(all, &path).to_owned();
    Ok(Some(Sweep { name, curves, charts: drawn_charts, has_rings }))
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

/// Logarithmic if the values span more than a factor of 8, unless they are equally spaced.
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
