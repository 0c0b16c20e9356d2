//! Charts as SVG. They have no legends: the page shows them, because it knows the names of the curves.
//!
//! The SVG contains the colours of the light page; report.css replaces them on a dark screen.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::{Error, Result};

/// Colours that colour-blind people can distinguish (M. Okabe, K. Ito, "Color Universal Design", 2008).
pub(crate) const COLOURS: [&str; 8] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C8C"];
/// The points of the colour scale that is used for more curves than that, as red, green and blue.
const SCALE: [(f64, f64, f64); 3] = [(68.0, 40.0, 130.0), (33.0, 145.0, 140.0), (240.0, 175.0, 30.0)];

/// The colour of the `index`-th of `count` curves.
pub(crate) fn colour(index: usize, count: usize) -> String {
    if count <= COLOURS.len() {
        return COLOURS[index % COLOURS.len()].to_owned();
    }
    let at = index as f64 / (count - 1) as f64 * (SCALE.len() - 1) as f64;
    let (low, part) = ((at as usize).min(SCALE.len() - 2), at - (at as usize).min(SCALE.len() - 2) as f64);
    let mix = |from: f64, to: f64| (from + (to - from) * part) as u8;
    let ((r, g, b), (r2, g2, b2)) = (SCALE[low], SCALE[low + 1]);
    format!("#{:02X}{:02X}{:02X}", mix(r, r2), mix(g, g2), mix(b, b2))
}

fn rgb(index: usize, count: usize) -> RGBColor {
    let colour = colour(index, count);
    let part = |at| u8::from_str_radix(&colour[at..at + 2], 16).unwrap_or(0);
    RGBColor(part(1), part(3), part(5))
}

/// The width and height of a chart; the page scales it.
const SIZE: (u32, u32) = (620, 280);
const GRID: RGBColor = RGBColor(225, 225, 225);
const INK: RGBColor = RGBColor(70, 70, 70);
const LABEL: (&str, i32) = ("sans-serif", 15);

/// The mapping from values to positions along an axis.
#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Log,
    /// Fractions of 1 by their number of nines: 0.9 is at 1, 0.99 at 2.
    Nines,
}

impl Scale {
    fn position(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.log10(),
            Scale::Nines => -(1.0 - value).log10(),
        }
    }
}

/// An axis of a chart: its scale, its range and its marks.
pub(crate) struct Axis {
    scale: Scale,
    range: Range<f64>,
    marks: Vec<Mark>,
}

/// A labelled position of an axis.
struct Mark {
    position: f64,
    label: String,
}

impl Axis {
    /// Linear from 0, with about six marks at round numbers.
    pub(crate) fn linear(end: f64, label: impl Fn(f64) -> String) -> Axis {
        Axis::in_units(end, 1.0, label)
    }

    /// Linear bytes from 0, with marks at round numbers of KiB, MiB, …
    pub(crate) fn bytes(end: f64, label: impl Fn(f64) -> String) -> Axis {
        let unit = 1024f64.powi(end.max(1.0).log(1024.0).floor() as i32);
        Axis::in_units(end, unit, label)
    }

    fn in_units(end: f64, unit: f64, label: impl Fn(f64) -> String) -> Axis {
        let end = if end > 0.0 { end / unit } else { 1.0 };
        let rough = end / 6.0;
        let decade = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0].into_iter().find(|factor| factor * decade >= rough).unwrap_or(10.0) * decade;
        let marks = (0..=(end / step + 1e-9).floor() as i32).map(|i| f64::from(i) * step * unit);
        Axis {
            scale: Scale::Linear,
            range: 0.0..end * unit,
            marks: marks.map(|at| Mark { position: at, label: label(at) }).collect(),
        }
    }

    /// Logarithmic, over the values above 0, with marks at 1, 2, 5, 10, or at decades only if those were many.
    pub(crate) fn log(values: impl Iterator<Item = f64>, label: impl Fn(f64) -> String) -> Axis {
        let (low, high) = values
            .filter(|value| *value > 0.0)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (v.min(low), v.max(high)));
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        let first = low.log10().floor() as i32;
        let round =
            (first..=high.log10().ceil() as i32).flat_map(|d| [1.0, 2.0, 5.0].map(|f| f * 10f64.powi(d)));
        let round: Vec<f64> = round.collect();
        let start = round.iter().rposition(|mark| *mark <= low * 1.000_001).unwrap_or(0);
        let end = round.iter().position(|mark| *mark >= high * 0.999_999).unwrap_or(round.len() - 1);
        let shown = &round[start..=end.max(start + 1).min(round.len() - 1)];
        let few = shown.len() <= 8;
        let is_decade = |mark: &f64| (mark.log10() - mark.log10().round()).abs() < 1e-9;
        let marks = shown.iter().filter(|mark| few || is_decade(mark));
        Axis {
            scale: Scale::Log,
            range: shown[0].log10()..shown[shown.len() - 1].log10(),
            marks: marks.map(|&at| Mark { position: at.log10(), label: label(at) }).collect(),
        }
    }

    /// Fractions of 1 up to `end`, which is below 1, by their number of nines.
    pub(crate) fn nines(end: f64) -> Axis {
        let end = Scale::Nines.position(end).max(1.0);
        let label = |nines: i32| {
            let digits = (nines as usize).saturating_sub(2);
            format!("{:.digits$} %", 100.0 - 100.0 * 0.1f64.powi(nines))
        };
        let mark = |nines| Mark { position: f64::from(nines), label: label(nines) };
        let marks = (0..=end as i32).map(mark);
        Axis { scale: Scale::Nines, range: 0.0..end, marks: marks.collect() }
    }

    /// Linear seconds from 0.
    pub(crate) fn seconds(end: f64) -> Axis {
        Axis::linear(end, |at| format!("{} s", (at * 1000.0).round() / 1000.0))
    }

    fn marked(&self) -> Marked<'_> {
        Marked(self)
    }

    /// The label of the mark at a position.
    fn label(&self, position: f64) -> String {
        let found = self.marks.iter().find(|mark| (mark.position - position).abs() < 1e-12);
        found.map_or(String::new(), |mark| mark.label.clone())
    }
}

/// An axis with the traits that plotters needs.
struct Marked<'a>(&'a Axis);

impl Ranged for Marked<'_> {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let Range { start, end } = self.0.range;
        limit.0 + ((value - start) / (end - start) * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.0.marks.iter().map(|mark| mark.position).collect()
    }

    fn range(&self) -> Range<f64> {
        self.0.range.clone()
    }
}

impl ValueFormatter<f64> for Marked<'_> {}

/// A line through points, in the colour of its index.
pub(crate) struct Curve {
    pub(crate) index: usize,
    pub(crate) points: Vec<(f64, f64)>,
    /// Draw a dot at each point.
    pub(crate) dotted: bool,
}

/// A published figure: a ring, or two rings with a line between them for a range.
pub(crate) struct Ring {
    pub(crate) index: usize,
    pub(crate) x: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// Draws curves and rings, in the colours of `count` curves.
///
/// # Errors
/// [`Error::Drawing`] if the plotting library fails.
pub(crate) fn draw(x: &Axis, y: &Axis, count: usize, curves: &[Curve], rings: &[Ring]) -> Result<String> {
    let mut svg = String::new();
    let position = |point: (f64, f64)| (x.scale.position(point.0), y.scale.position(point.1));
    let is_finite = |point: &(f64, f64)| point.0.is_finite() && point.1.is_finite();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(28)
            .x_label_area_size(28)
            .y_label_area_size(66)
            .build_cartesian_2d(x.marked(), y.marked())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(LABEL.into_font().color(&INK))
            .x_label_formatter(&|at| x.label(*at))
            .y_label_formatter(&|at| y.label(*at))
            .draw()
            .map_err(failed)?;
        for curve in curves {
            let points: Vec<_> =
                curve.points.iter().map(|&point| position(point)).filter(is_finite).collect();
            let colour = rgb(curve.index, count);
            let dots = points.iter().filter(|_| curve.dotted);
            let dots: Vec<_> = dots.map(|&point| Circle::new(point, 3, colour.filled())).collect();
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2))).map_err(failed)?;
            chart.draw_series(dots).map_err(failed)?;
        }
        for ring in rings {
            let (from, to) = (position((ring.x, ring.from)), position((ring.x, ring.to)));
            let colour = rgb(ring.index, count);
            let ends = [from, to].into_iter().filter(is_finite);
            let ends: Vec<_> = ends.map(|end| Circle::new(end, 6, colour.stroke_width(1))).collect();
            chart.draw_series(LineSeries::new([from, to], colour.stroke_width(1))).map_err(failed)?;
            chart.draw_series(ends).map_err(failed)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Draws how busy each member was over time, one row for each member; a stronger colour is busier.
///
/// # Errors
/// [`Error::Drawing`] if the plotting library fails.
pub(crate) fn heat(rows: &[&[f64]], duration_s: f64, interval_s: f64) -> Result<String> {
    let mut svg = String::new();
    let x = Axis::seconds(duration_s);
    {
        let size = (SIZE.0, 44 + 16 * rows.len() as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(28)
            .x_label_area_size(28)
            .y_label_area_size(66)
            .build_cartesian_2d(x.marked(), 0.0..rows.len() as f64)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(INK)
            .label_style(LABEL.into_font().color(&INK))
            .x_label_formatter(&|at| x.label(*at))
            .y_labels(0)
            .draw()
            .map_err(failed)?;
        for (number, row) in rows.iter().enumerate() {
            // The first member is at the top.
            let top = (rows.len() - number) as f64;
            let cell = |cell: Cell| {
                let corners = [(cell.from_s, top - 0.92), (cell.to_s, top - 0.08)];
                Rectangle::new(corners, rgb(0, 1).mix(cell.busy).filled())
            };
            chart.draw_series(cells(row, duration_s, interval_s).into_iter().map(cell)).map_err(failed)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

/// The most cells of a row: about one for each two points of its width.
const CELLS_MAX: usize = 260;

/// One or more neighbouring intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    from_s: f64,
    to_s: f64,
    /// The mean over the intervals, from 0 to 1.
    busy: f64,
}

/// The cells of a row.
fn cells(row: &[f64], duration_s: f64, interval_s: f64) -> Vec<Cell> {
    let intervals_of_cell = row.len().div_ceil(CELLS_MAX).max(1);
    let cell = |(i, intervals): (usize, &[f64])| {
        let from_s = (i * intervals_of_cell) as f64 * interval_s;
        let to_s = (from_s + intervals.len() as f64 * interval_s).min(duration_s);
        let mean = intervals.iter().sum::<f64>() / intervals.len() as f64;
        Cell { from_s, to_s, busy: mean.clamp(0.0, 1.0) }
    };
    row.chunks(intervals_of_cell).enumerate().map(cell).collect()
}

fn failed<E: std::error::Error + Send + Sync>(error: plotters::drawing::DrawingAreaErrorKind<E>) -> Error {
    Error::Drawing { why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.marks.iter().map(|mark| mark.label.as_str()).collect()
    }

    #[test]
    fn marks_are_round_numbers() {
        let number = |value: f64| format!("{}", (value * 1000.0).round() / 1000.0);
        assert_eq!(labels(&Axis::linear(10.0, number)), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(&Axis::log([3.0, 40.0].into_iter(), number)), ["2", "5", "10", "20", "50"]);
        assert_eq!(
            labels(&Axis::log([0.03, 2.0].into_iter(), number)),
            ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]
        );
        assert_eq!(
            labels(&Axis::log([1.0, 90_000.0].into_iter(), number)),
            ["1", "10", "100", "1000", "10000", "100000"]
        );
        assert_eq!(labels(&Axis::log([5.0, 5.0].into_iter(), number)), ["5", "10"]);
        assert_eq!(labels(&Axis::log(std::iter::empty(), number)), ["1", "2", "5", "10"]);
        assert_eq!(labels(&Axis::nines(0.9995)), ["0 %", "90 %", "99 %", "99.9 %"]);
    }

    #[test]
    fn marks_of_bytes_are_round_too() {
        let axis = Axis::bytes(2.5 * 1024.0 * 1024.0, crate::units::bytes);
        assert_eq!(labels(&axis), ["0 B", "512 KiB", "1 MiB", "1.50 MiB", "2 MiB", "2.50 MiB"]);
    }

    #[test]
    fn many_intervals_share_cells() {
        let cell = |from_s, to_s, busy| Cell { from_s, to_s, busy };
        let three = [cell(0.0, 1.0, 0.0), cell(1.0, 2.0, 1.0), cell(2.0, 2.5, 0.5)];
        assert_eq!(cells(&[0.0, 1.0, 0.5], 2.5, 1.0), three);
        let many = cells(&vec![0.5; 1000], 100.0, 0.1);
        assert!(many.len() <= CELLS_MAX && many.iter().all(|cell| cell.busy == 0.5));
        assert!((many[many.len() - 1].to_s - 100.0).abs() < 1e-9);
    }

    #[test]
    fn colours_differ() {
        for count in [1, 8, 9, 20] {
            let all: std::collections::BTreeSet<_> = (0..count).map(|index| colour(index, count)).collect();
            assert_eq!(all.len(), count);
        }
    }
}
