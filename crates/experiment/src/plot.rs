//! Drawings as SVG. Legends are left to the page, which knows the names behind the colours.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::Error;
use crate::summary::{Latencies, time};

/// Colours that the colour-blind can tell apart (M. Okabe, K. Ito, "Color Universal Design", 2008).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c"];

/// The colour of the `index`-th curve.
pub(crate) fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

fn rgb(index: usize) -> RGBColor {
    let part = |at| u8::from_str_radix(&colour(index)[at..at + 2], 16).unwrap_or(0);
    RGBColor(part(1), part(3), part(5))
}

/// Width and height; the page scales them.
const SIZE: (u32, u32) = (620, 300);
const GRID: RGBColor = RGBColor(225, 225, 225);
const INK: RGBColor = RGBColor(70, 70, 70);

/// One direction of a drawing: from where to where, where its marks are, and what they say.
struct Axis {
    range: Range<f64>,
    marks: Vec<f64>,
    label: Box<dyn Fn(f64) -> String>,
}

/// The range and the marks of an axis, as plotters wants them.
struct Marked(Range<f64>, Vec<f64>);

impl Ranged for Marked {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let part = (value - self.0.start) / (self.0.end - self.0.start);
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.1.clone()
    }

    fn range(&self) -> Range<f64> {
        self.0.clone()
    }
}

impl ValueFormatter<f64> for Marked {}

impl Axis {
    fn marked(&self) -> Marked {
        Marked(self.range.clone(), self.marks.clone())
    }

    /// A linear one with some six marks at round numbers.
    fn linear(end: f64, label: impl Fn(f64) -> String + 'static) -> Axis {
        let rough = end / 6.0;
        let decade = 10f64.powf(rough.log10().floor());
        let factors = [1.0, 2.0, 5.0, 10.0];
        let step = decade * factors.into_iter().find(|factor| factor * decade >= rough).unwrap_or(10.0);
        let marks = (0..=(end / step).floor() as i32).map(|i| f64::from(i) * step).collect();
        Axis { range: 0.0..end, marks, label: Box::new(label) }
    }

    /// Times whose logarithms are drawn, a mark for each decade.
    fn decades(curves: &[Curve]) -> Axis {
        let values = || curves.iter().flat_map(|c| &c.points).map(|p| p.1);
        let (low, high) =
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        let (low, high) = if low > high { (3, 6) } else { (low.floor() as i32, high.ceil() as i32) };
        let high = high.max(low + 1);
        let marks = (low..=high).map(f64::from).collect();
        let label = |power: f64| time(10f64.powf(power));
        Axis { range: f64::from(low)..f64::from(high), marks, label: Box::new(label) }
    }

    /// Seconds.
    fn seconds(duration_s: f64) -> Axis {
        Axis::linear(duration_s, |at| format!("{} s", (at * 1000.0).round() / 1000.0))
    }
}

/// Points of a curve, and which colour it has.
pub(crate) struct Curve {
    pub(crate) index: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Latency against the part of requests that do not exceed it, in nines.
pub(crate) fn percentiles(latencies: &[(usize, Latencies)]) -> Result<String, Error> {
    let curve = |(index, latencies): &(usize, Latencies)| {
        let nines = |part: f64| -(1.0 - part).log10();
        let total = latencies.total as f64;
        let mut from = 0.0;
        let mut points = Vec::new();
        for (ns, below) in latencies.steps() {
            // The slowest request is drawn as long as the one before it would be.
            let rest = (latencies.total - below) as f64;
            let to = nines(1.0 - rest.max(0.5) / total);
            points.extend([(from, (ns as f64).log10()), (to, (ns as f64).log10())]);
            from = to;
        }
        Curve { index: *index, points }
    };
    let curves: Vec<Curve> = latencies.iter().map(curve).collect();
    let end = curves.iter().flat_map(|c| c.points.last()).map(|p| p.0).fold(1.0, f64::max);
    let label = |nines: f64| {
        let digits = (nines as usize).saturating_sub(2);
        format!("{:.digits$} %", 100.0 - 100.0 * 0.1f64.powf(nines))
    };
    let marks = (0..=end as i32).map(f64::from).collect();
    draw(Axis { range: 0.0..end, marks, label: Box::new(label) }, Axis::decades(&curves), &curves)
}

/// Latencies (their logarithms) against time in seconds.
pub(crate) fn latency_over_time(curves: &[Curve], duration_s: f64) -> Result<String, Error> {
    draw(Axis::seconds(duration_s), Axis::decades(curves), curves)
}

/// Rates against time in seconds.
pub(crate) fn rate_over_time(curves: &[Curve], duration_s: f64) -> Result<String, Error> {
    let top = curves.iter().flat_map(|c| &c.points).map(|p| p.1).fold(1.0, f64::max);
    draw(Axis::seconds(duration_s), Axis::linear(top * 1.05, |rate| format!("{rate:.0}")), curves)
}

fn draw(x: Axis, y: Axis, curves: &[Curve]) -> Result<String, Error> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(28)
            .x_label_area_size(28)
            .y_label_area_size(58)
            .build_cartesian_2d(x.marked(), y.marked())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(("sans-serif", 13).into_font().color(&INK))
            .x_label_formatter(&|at| (x.label)(*at))
            .y_label_formatter(&|at| (y.label)(*at))
            .draw()
            .map_err(failed)?;
        for curve in curves {
            let line = LineSeries::new(curve.points.iter().copied(), rgb(curve.index).stroke_width(2));
            chart.draw_series(line).map_err(failed)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

/// How busy each member was, a row each, over time; darker is busier.
pub(crate) fn heat(rows: &[&[f64]], duration_s: f64, interval_s: f64) -> Result<String, Error> {
    let mut svg = String::new();
    let x = Axis::seconds(duration_s);
    {
        let size = (SIZE.0, 44 + 16 * rows.len() as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(28)
            .x_label_area_size(28)
            .y_label_area_size(58)
            .build_cartesian_2d(x.marked(), 0.0..rows.len() as f64)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(INK)
            .label_style(("sans-serif", 13).into_font().color(&INK))
            .x_label_formatter(&|at| (x.label)(*at))
            .y_labels(0)
            .draw()
            .map_err(failed)?;
        for (number, row) in rows.iter().enumerate() {
            // The first member is the uppermost.
            let top = (rows.len() - number) as f64;
            let cell = |(i, &busy): (usize, &f64)| {
                let (from, to) = (i as f64 * interval_s, ((i + 1) as f64 * interval_s).min(duration_s));
                Rectangle::new([(from, top - 0.92), (to, top - 0.08)], shade(busy).filled())
            };
            chart.draw_series(row.iter().enumerate().map(cell)).map_err(failed)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

/// From nearly white to dark blue.
pub(crate) fn shade(busy: f64) -> RGBColor {
    let mix = |light: f64, dark: f64| (light + (dark - light) * busy.clamp(0.0, 1.0)) as u8;
    RGBColor(mix(240.0, 8.0), mix(244.0, 48.0), mix(248.0, 107.0))
}

fn failed<E: std::error::Error + Send + Sync>(error: plotters::drawing::DrawingAreaErrorKind<E>) -> Error {
    Error::Engine { what: "drawing a plot", why: error.to_string() }
}
