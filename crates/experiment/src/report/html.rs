//! The report as one self-contained page of HTML with charts, for the screen and for print.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::Result;
use crate::report::charts::{self, Sweep, TimeChart};
use crate::report::tables::{
    KINDS, QUANTILES, VOLUME_COLUMNS, capacity_rows, latency_cells, load_rows, ratio_rows, volume_rows,
};
use crate::report::{columns, growth_columns, reliability_columns, svg};
use crate::results::reliability::ReliabilityFigures;
use crate::results::schema::{Comparison, Figures, GrowthFigures, Results};
use crate::results::simulated::{MemberResult, PoolResult, Simulated};
use crate::results::summary::{Group, groups};
use crate::units::{bytes, percent, three_digits};

/// The kinds of requests that have charts; the others are only in the table.
const CHARTED: [&str; 2] = ["read", "write"];
/// Up to this many groups, the details of each group are unfolded.
const UNFOLDED_MAX: usize = 4;

/// One page of HTML.
///
/// # Errors
/// [`crate::Error::Drawing`] if a chart cannot be drawn.
pub fn html(results: &Results) -> Result<String> {
    let (simulated, growth) =
        (groups(&results.runs, Figures::simulated), groups(&results.runs, Figures::growth));
    let reliability = groups(&results.runs, Figures::reliability);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Sinew: " (results.experiment) }
                style { (PreEscaped(include_str!("report.css"))) }
            }
            body {
                h1 { (results.experiment) }
                p.lead { (results.description) }
                @if let Some(first) = simulated.first() { (simulated_note(results, first)) }
                @if results.quick { p.note { "A quick run, not the whole experiment." } }
                (comparison_table(&results.references))
                @if !results.ratios.is_empty() { h2 { "Ratios of paired runs" } (row_table(&ratio_rows(&results.ratios))) }
                @if !simulated.is_empty() { (simulations(&simulated, &results.references)?) }
                @if !growth.is_empty() { (growths(&growth, &results.references)?) }
                @if !reliability.is_empty() { (reliabilities(&reliability, &results.references)?) }
                h2 { "The file" }
                pre { (results.file) }
            }
        }
    };
    Ok(page.into_string())
}

fn simulated_note(results: &Results, first: &Group<'_>) -> Markup {
    let seeds = first.runs.len();
    html! {
        p.note {
            (results.runs.len()) " simulated runs, "
            (three_digits(first.first().duration_s)) " s measured in each"
            @if seeds > 1 { "; figures are over " (seeds) " seeds, time series from the first" }
            "."
        }
    }
}

fn simulations(groups: &[Group<'_>], references: &[Comparison]) -> Result<Markup> {
    Ok(html! {
        (swept(charts::sweep(groups, &charts::SWEPT, references)?))
        @if groups.len() > 1 { ul.legend.top { (legend(groups.iter().map(Group::name))) } }
        (capacities(groups)?)
        (loads(groups))
        h2 { "Latency" }
        (latency_table(groups))
        (volume_table(groups))
        (kind_charts(groups, "Latency by fraction of requests", charts::percentiles)?)
        h2 { "Over time" }
        (kind_charts(groups, "Median latency", |g, kind| charts::latency_over_time(g, kind, |b| b.latency_p50_ns))?)
        (kind_charts(groups, "99th percentile of latency", |g, kind| charts::latency_over_time(g, kind, |b| b.latency_p99_ns))?)
        (kind_charts(groups, "Highest latency", |g, kind| charts::latency_over_time(g, kind, |b| b.latency_max_ns))?)
        (kind_charts(groups, "Requests per second", charts::rate_over_time)?)
        h2 { "Writes and space" }
        (write_table(groups))
        (work_table(groups))
        (each(groups, time_charts)?)
        h2 { "Members" }
        p.note {
            "Fraction of the time with a request in flight, one row for each member: "
            @for (label, fraction) in [("none", 0.0), ("a quarter", 0.25), ("half", 0.5), ("three quarters", 0.75), ("all", 1.0)] {
                span.swatch style={ "background:color-mix(in srgb, var(--c0) " (fraction * 100.0) "%, transparent)" } {} (label) " "
            }
        }
        (each(groups, members)?)
    })
}

fn growths(groups: &[Group<'_, GrowthFigures>], references: &[Comparison]) -> Result<Markup> {
    Ok(html! {
        (swept(charts::sweep(groups, &growth_columns::CHARTS, references)?))
        h2 { "Arrays" }
        (row_table(&columns::rows(&growth_columns::COLUMNS, groups)))
        @if growth_columns::is_timed(groups) { p.note { (growth_columns::TIMES_NOTE) } }
    })
}

fn reliabilities(groups: &[Group<'_, ReliabilityFigures>], references: &[Comparison]) -> Result<Markup> {
    Ok(html! {
        (swept(charts::sweep(groups, &reliability_columns::CHARTS, references)?))
        h2 { "Reliability" }
        (row_table(&columns::rows(&reliability_columns::COLUMNS, groups)))
    })
}

/// A table whose first row are the headings.
fn row_table(rows: &[Vec<String>]) -> Markup {
    html! {
        div.wide { table {
            thead { tr { @for cell in rows.iter().take(1).flatten() { th { (cell) } } } }
            tbody { @for row in rows.iter().skip(1) { tr { @for cell in row { td { (cell) } } } } }
        } }
    }
}

fn swatch(index: usize, count: usize) -> Markup {
    // The style sheet defines the colours of few curves, with others for dark screens.
    let colour = svg::colour(index, count);
    if count <= svg::COLOURS.len() {
        html! { span class={ "swatch c" (index) } {} }
    } else {
        html! { span.swatch style={ "background:" (colour) } {} }
    }
}

fn legend<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Markup {
    let count = names.len();
    html! { @for (i, name) in names.enumerate() { li { (swatch(i, count)) (name) } } }
}

fn comparison_table(references: &[Comparison]) -> Markup {
    html! {
        @if !references.is_empty() {
            h2 { "Compared with published figures" }
            div.wide { table {
                thead { tr { th {} th.words {} th { "published" } th { "ours" } th.words { "source" } } }
                tbody { @for found in references { tr {
                    td { (found.what) }
                    td.words { (found.label()) }
                    td { (found.show_published()) }
                    td { (found.show_ours()) " " (found.show_violation()) }
                    td.words { (found.source) }
                } } }
            } }
        }
    }
}

fn swept(sweep: Option<Sweep>) -> Markup {
    let Some(sweep) = sweep else { return html! {} };
    html! {
        h2 { "By " (sweep.name) }
        @if sweep.curves.len() > 1 { ul.legend { (legend(sweep.curves.iter().map(String::as_str))) } }
        @if sweep.has_rings { p.note { "Rings are published figures; a line joins the two rings of a range." } }
        div.plots {
            @for chart in &sweep.charts { figure { figcaption { (chart.title) } (PreEscaped(&chart.svg)) } }
        }
    }
}

/// Details of each group, folded if there are many groups.
fn each(groups: &[Group<'_>], show: fn(&Group<'_>) -> Result<Markup>) -> Result<Markup> {
    let shown: Result<Vec<_>> = groups.iter().map(|group| Ok((group, show(group)?))).collect();
    let shown = shown?;
    Ok(html! {
        @for (group, markup) in shown {
            details open[groups.len() <= UNFOLDED_MAX] {
                summary { (group.name()) @if group.runs.len() > 1 { ", seed " (group.runs[0].seed) } }
                (markup)
            }
        }
    })
}

fn time_charts(group: &Group<'_>) -> Result<Markup> {
    let all = charts::over_time(group)?;
    Ok(html! {
        div.plots {
            @for TimeChart { title, names, svg } in all {
                figure {
                    figcaption { (title) ": " @for (i, name) in names.iter().enumerate() { span.item { (swatch(i, names.len())) (name) } " " } }
                    (PreEscaped(svg))
                }
            }
        }
    })
}

fn members(group: &Group<'_>) -> Result<Markup> {
    Ok(html! {
        div.plots { figure { (PreEscaped(charts::busy(group)?)) } }
        div.wide { (member_table(group)) }
    })
}

/// The largest loads served, and the latency at every load that was tried; nothing if none was searched for.
fn capacities(groups: &[Group<'_>]) -> Result<Markup> {
    let rows = capacity_rows(groups);
    if rows.is_empty() {
        return Ok(html! {});
    }
    Ok(html! {
        h2 { "Capacity" }
        (row_table(&rows))
        (kind_charts(groups, "99th percentile of latency by requests completed per second", charts::latency_by_load)?)
    })
}

/// The loads that are a share of a capacity; nothing if there are none.
fn loads(groups: &[Group<'_>]) -> Markup {
    let rows = load_rows(groups);
    if rows.is_empty() {
        return html! {};
    }
    html! { h2 { "Loads" } (row_table(&rows)) }
}

fn latency_table(groups: &[Group<'_>]) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th {} th {} th { "per second" }
                @for quantile in QUANTILES { th { (quantile.name) } }
                th { "max" } th { "errors" }
            } }
            tbody {
                @for group in groups { @for kind in KINDS {
                    @if group.kind(kind).next().is_some() {
                        tr { @for cell in latency_cells(group, kind) { td { (cell) } } }
                    }
                } }
            }
        } }
        @for error in groups.iter().flat_map(|g| KINDS.iter().flat_map(|k| g.kind(k))).filter_map(|k| k.first_error.as_ref()).take(1) {
            p.note { "The first error: " (error) "." }
        }
        p.note { "Latency is counted from when a request was due. Percentiles with fewer than twenty requests of a run above them are left out." }
    }
}

/// Each volume, over all runs of a case, if there are several volumes.
fn volume_table(groups: &[Group<'_>]) -> Markup {
    let rows = volume_rows(groups);
    html! {
        @if !rows.is_empty() {
            div.wide { table {
                caption { "Latency by volume: geometric means over the runs, with their range" }
                thead { tr { @for column in VOLUME_COLUMNS { th { (column) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            } }
        }
    }
}

/// A chart for reads and one for writes, side by side, if there are such requests.
fn kind_charts(
    groups: &[Group<'_>],
    title: &str,
    draw: impl Fn(&[Group<'_>], &str) -> Result<String>,
) -> Result<Markup> {
    let kinds = CHARTED.iter().filter(|kind| groups.iter().any(|group| group.kind(kind).next().is_some()));
    let charts: Result<Vec<_>> = kinds.map(|&kind| Ok((kind, draw(groups, kind)?))).collect();
    let charts = charts?;
    Ok(html! {
        div.plots {
            @for (kind, svg) in charts {
                figure { figcaption { (title) ", " (kind) "s" } (PreEscaped(svg)) }
            }
        }
    })
}

fn member_table(group: &Group<'_>) -> Markup {
    let members = &group.first().members;
    html! {
        table {
            thead { tr {
                th {} th { "model" } th { "size" } th { "spare" } th { "busy" } th { "dies busy" } th { "queue" }
                th { "reads" } th { "writes" } th { "flushes" } th { "written" } th { "flash amplification" } th { "erases" }
                th { "erases over its life" }
            } }
            tbody {
                @for (i, member) in members.iter().enumerate() { (member_row(i, member)) }
            }
        }
    }
}

fn member_row(index: usize, member: &MemberResult) -> Markup {
    let flash = member.flash.as_ref();
    let life = flash.and_then(|f| Some((f.erase_counts.first()?.0, f.erase_counts.last()?.0)));
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    html! { tr {
        td { (index) }
        td { (format!("{:?}", member.model).to_lowercase()) }
        td { (bytes(member.bytes as f64)) }
        td { (or_none(flash.map(|f| percent(f.spare)))) }
        td { (percent(member.busy)) }
        td { (or_none(flash.map(|f| percent(f.die_busy)))) }
        td { (three_digits(member.queue)) }
        td { (member.reads) }
        td { (member.writes) }
        td { (member.flushes) }
        td { (bytes(member.written_bytes as f64)) }
        td { (or_none(flash.and_then(|f| f.write_amplification).map(three_digits))) }
        td { (or_none(flash.map(|f| f.erases.to_string()))) }
        td { (or_none(life.map(|(least, most)| format!("{least} to {most}")))) }
    } }
}

/// A row of the table of writes and space: its heading, the figure, and how it is shown.
struct Row(&'static str, fn(&Simulated) -> Option<f64>, fn(f64) -> String);

const WRITE_ROWS: [Row; 14] = [
    Row("written by clients", |f| Some(f.writes.client_bytes as f64), bytes),
    Row("written to members", |f| Some(f.writes.member_bytes as f64), bytes),
    Row("programmed into flash", |f| Some(f.writes.programmed_bytes as f64), bytes),
    Row("amplification in the array", |f| f.writes.array_amplification, three_digits),
    Row("amplification in flash", |f| f.writes.flash_amplification, three_digits),
    Row("data columns of a full stripe", |f| pool(f, |p| p.data_columns as f64), three_digits),
    Row("stored at the end", |f| pool(f, |p| p.after.stored_bytes as f64), bytes),
    Row("free chunks at the end", |f| pool(f, |p| p.after.free_bytes as f64), bytes),
    Row("mirrored stripes at the end", |f| pool(f, |p| p.after.stripes_mirrored as f64), three_digits),
    Row("parity stripes at the end", |f| pool(f, |p| p.after.stripes_parity as f64), three_digits),
    Row("degraded stripes at the end", |f| pool(f, |p| p.after.stripes_degraded as f64), three_digits),
    Row("memory of the tables", |f| pool(f, |p| p.after.table_bytes as f64), bytes),
    Row("from the first to the last quarter", |f| f.steadiness.as_ref()?.change, percent),
    Row("completed of a load that saturates", |f| f.load?.saturated_part(), percent),
];

fn pool(figures: &Simulated, figure: impl Fn(&PoolResult) -> f64) -> Option<f64> {
    figures.pool.as_ref().map(figure)
}

fn write_table(groups: &[Group<'_>]) -> Markup {
    html! {
        div.wide { table {
            thead { tr { th {} @for group in groups { th { (group.name()) } } } }
            tbody {
                @for Row(name, figure, show) in WRITE_ROWS {
                    tr {
                        td { (name) }
                        @for group in groups {
                            td { (group.over_seeds(figure).map_or("-".to_owned(), |found| found.show(show))) }
                        }
                    }
                }
            }
        } }
    }
}

/// The engine's counters that are not 0 in all runs.
fn work_table(groups: &[Group<'_>]) -> Markup {
    let pooled: Vec<_> = groups.iter().filter(|group| group.first().pool.is_some()).collect();
    let count = |f: &Simulated, name: &str| Some(*f.pool.as_ref()?.work.get(name)? as f64);
    let names = pooled.first().and_then(|group| group.first().pool.as_ref()).map(|pool| pool.work.keys());
    let is_nonzero =
        |name: &str| pooled.iter().any(|group| group.runs.iter().any(|r| count(r.figures, name) > Some(0.0)));
    html! {
        @if !pooled.is_empty() {
            div.wide { table {
                caption { "Counters of the engine" }
                thead { tr { th {} @for group in &pooled { th { (group.name()) } } } }
                tbody {
                    @for name in names.into_iter().flatten().filter(|name| is_nonzero(name)) {
                        tr {
                            td { (name.replace('_', " ")) }
                            @for group in &pooled {
                                td { (group.over_seeds(|f| count(f, name)).map_or("-".to_owned(), |n| n.show(three_digits))) }
                            }
                        }
                    }
                }
            } }
        }
    }
}
