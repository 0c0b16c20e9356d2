//! Results for people: a table on a terminal, and one page of HTML with plots that needs nothing else.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::Result;
use crate::plot::{self, Curve};
use crate::results::{Figures, KindResult, MemberResult, PoolResult, Results};
use crate::summary::{Group, bytes, groups, percent, three_digits, time};

const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
/// The kinds that have plots; the others are in the table.
const PLOTTED: [&str; 2] = ["read", "write"];
const KINDS: [&str; 4] = ["read", "write", "discard", "flush"];

/// A table for a terminal.
pub fn text(results: &Results) -> String {
    let groups = groups(results);
    let width = groups.iter().map(|group| group.name().chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    let line = |cells: &[String]| {
        let cells: Vec<_> = cells[2..].iter().map(|cell| format!("{cell:>9}")).collect();
        cells.join(" ")
    };
    let mut header = vec![String::new(), String::new(), "per s".to_owned()];
    header.extend(QUANTILES.iter().map(|(name, _)| (*name).to_owned()));
    header.extend(["max".to_owned(), "errors".to_owned()]);
    lines.push(format!("{:width$} {:7} {}", "", "", line(&header)));
    for group in &groups {
        for kind in KINDS.iter().filter(|kind| group.kind(kind).next().is_some()) {
            lines.push(format!("{:width$} {kind:7} {}", group.name(), line(&latency_cells(group, kind))));
        }
    }
    lines.push(String::new());
    for group in &groups {
        let figure = |what: fn(&Figures) -> Option<f64>| {
            group.over_seeds(what).map_or("-".to_owned(), |found| found.show(three_digits))
        };
        let busy = group.over_seeds(|f| Some(mean_busy(f))).map_or("-".to_owned(), |busy| busy.show(percent));
        lines.push(format!(
            "{:width$} members busy {busy}; write amplification: array {}, flash {}",
            group.name(),
            figure(|f| f.writes.array_amplification),
            figure(|f| f.writes.flash_amplification)
        ));
    }
    lines.join("\n")
}

/// Group, kind, then what the header of the table says.
fn latency_cells(group: &Group<'_>, kind: &str) -> Vec<String> {
    let latencies = group.latencies(kind);
    let rate = group.over_seeds(|f| Some(f.requests.get(kind)?.summary.iops)).map_or(0.0, |rate| rate.mean);
    let mut cells = vec![group.name().to_owned(), kind.to_owned(), format!("{rate:.0}")];
    cells.extend(QUANTILES.iter().map(|&(_, quantile)| latencies.show(quantile)));
    cells.push(latencies.at(1.0).map_or("-".to_owned(), |ns| time(ns as f64)));
    cells.push(group.kind(kind).map(|found| found.summary.errors).sum::<u64>().to_string());
    cells
}

fn mean_busy(figures: &Figures) -> f64 {
    figures.members.iter().map(|m| m.busy).sum::<f64>() / figures.members.len().max(1) as f64
}

/// One page of HTML.
///
/// # Errors
/// When a plot cannot be drawn.
pub fn html(results: &Results) -> Result<String> {
    let groups = groups(results);
    let seeds = groups.iter().map(|group| group.runs.len()).max().unwrap_or(0);
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
                p.note {
                    (results.runs.len()) " simulated runs, "
                    (three_digits(results.runs[0].figures.duration_s)) " s measured in each"
                    @if seeds > 1 { "; " (seeds) " seeds taken together, figures over time from the first" }
                    @if results.quick { "; a quick look, not the whole experiment" }
                    "."
                }
                (legend(&groups))
                h2 { "Latency" }
                (latency_table(&groups))
                (kind_plots(&groups, "Latency that so many requests do not exceed", percentile_plot)?)
                h2 { "Over time" }
                (kind_plots(&groups, "Median latency", |g, kind| over_time(g, kind, |b| b.latency_p50_ns))?)
                (kind_plots(&groups, "99th percentile of latency", |g, kind| over_time(g, kind, |b| b.latency_p99_ns))?)
                (kind_plots(&groups, "Requests per second", rate_plot)?)
                h2 { "Members" }
                (heat_plots(&groups)?)
                @for group in &groups { (member_table(group)) }
                h2 { "Writes and space" }
                (write_table(&groups))
                (work_table(&groups))
            }
        }
    };
    Ok(page.into_string())
}

fn legend(groups: &[Group<'_>]) -> Markup {
    html! {
        @if groups.len() > 1 {
            ul.legend {
                @for (i, group) in groups.iter().enumerate() {
                    li { span.swatch style={ "background:" (plot::colour(i)) } {} (group.name()) }
                }
            }
        }
    }
}

fn latency_table(groups: &[Group<'_>]) -> Markup {
    html! {
        table {
            thead { tr {
                th {} th {} th { "per second" }
                @for (name, _) in QUANTILES { th { (name) } }
                th { "max" } th { "errors" }
            } }
            tbody {
                @for group in groups { @for kind in KINDS {
                    @if group.kind(kind).next().is_some() {
                        tr { @for cell in latency_cells(group, kind) { td { (cell) } } }
                    }
                } }
            }
        }
        @for error in groups.iter().flat_map(|g| KINDS.iter().flat_map(|k| g.kind(k))).filter_map(|k| k.first_error.as_ref()).take(1) {
            p.note { "The first error: " (error) "." }
        }
        p.note { "Latency counts from when a request was due. Percentiles with fewer than ten requests above them are left out." }
    }
}

/// A drawing for reads and one for writes, side by side, as far as there are any.
fn kind_plots(
    groups: &[Group<'_>],
    title: &str,
    draw: impl Fn(&[Group<'_>], &str) -> Result<String>,
) -> Result<Markup> {
    let kinds = PLOTTED.iter().filter(|kind| groups.iter().any(|group| group.kind(kind).next().is_some()));
    let plots: Result<Vec<_>> = kinds.map(|&kind| Ok((kind, draw(groups, kind)?))).collect();
    let plots = plots?;
    Ok(html! {
        div.plots {
            @for (kind, svg) in plots {
                figure { figcaption { (title) ", " (kind) "s" } (PreEscaped(svg)) }
            }
        }
    })
}

fn percentile_plot(groups: &[Group<'_>], kind: &str) -> Result<String> {
    let latencies: Vec<_> = groups.iter().map(|group| group.latencies(kind)).enumerate().collect();
    plot::percentiles(&latencies)
}

fn duration_s(groups: &[Group<'_>]) -> f64 {
    groups.iter().map(|group| group.first().duration_s).fold(0.0, f64::max)
}

fn first_kind<'a>(group: &Group<'a>, kind: &str) -> Option<&'a KindResult> {
    group.first().requests.get(kind)
}

fn over_time(
    groups: &[Group<'_>],
    kind: &str,
    figure: fn(&sinew_workload::BucketReport) -> u64,
) -> Result<String> {
    let curve = |(index, group): (usize, &Group<'_>)| {
        let buckets = first_kind(group, kind)?.series.iter().filter(|bucket| bucket.requests > 0);
        let point =
            |b: &sinew_workload::BucketReport| (b.from_ns as f64 / 1e9, (figure(b).max(1) as f64).log10());
        let end = group.first().duration_s;
        Some(Curve { index, points: buckets.map(point).filter(|&(at, _)| at <= end).collect() })
    };
    let curves: Vec<_> = groups.iter().enumerate().filter_map(curve).collect();
    plot::latency_over_time(&curves, duration_s(groups))
}

fn rate_plot(groups: &[Group<'_>], kind: &str) -> Result<String> {
    let curve = |(index, group): (usize, &Group<'_>)| {
        let (buckets, first) = (&first_kind(group, kind)?.series, group.first());
        let spans = (first.duration_s / first.interval_s).round() as usize;
        let mut points: Vec<_> = (0..spans).map(|span| (span as f64 * first.interval_s, 0.0)).collect();
        for bucket in buckets {
            let span = (bucket.from_ns as f64 / 1e9 / first.interval_s).round() as usize;
            if let Some(point) = points.get_mut(span) {
                point.1 = bucket.requests as f64 / first.interval_s;
            }
        }
        Some(Curve { index, points })
    };
    let curves: Vec<_> = groups.iter().enumerate().filter_map(curve).collect();
    plot::rate_over_time(&curves, duration_s(groups))
}

fn heat_plots(groups: &[Group<'_>]) -> Result<Markup> {
    let draw = |group: &Group<'_>| {
        let first = group.first();
        let rows: Vec<&[f64]> = first.members.iter().map(|m| m.busy_series.as_slice()).collect();
        Ok((group.name().to_owned(), plot::heat(&rows, first.duration_s, first.interval_s)?))
    };
    let plots: Result<Vec<_>> = groups.iter().map(draw).collect();
    let plots = plots?;
    Ok(html! {
        p.note {
            "Part of the time with a request under way, a row for each member: "
            @for (label, part) in [("none", 0.0), ("a quarter", 0.25), ("half", 0.5), ("three quarters", 0.75), ("all", 1.0)] {
                @let shade = plot::shade(part);
                span.swatch style={ "background:rgb(" (shade.0) "," (shade.1) "," (shade.2) ")" } {} (label) " "
            }
        }
        div.plots {
            @for (name, svg) in plots { figure { figcaption { (name) } (PreEscaped(svg)) } }
        }
    })
}

fn member_table(group: &Group<'_>) -> Markup {
    let members = &group.first().members;
    html! {
        table {
            caption { (group.name()) ", seed " (group.runs[0].seed) }
            thead { tr {
                th {} th { "model" } th { "size" } th { "spare" } th { "busy" } th { "dies busy" } th { "queue" }
                th { "reads" } th { "writes" } th { "flushes" } th { "written" } th { "flash amplification" } th { "erases" }
                th { "erases in its life" }
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
        td { (or_none(flash.map(|f| three_digits(f.write_amplification)))) }
        td { (or_none(flash.map(|f| f.erases.to_string()))) }
        td { (or_none(life.map(|(least, most)| format!("{least} to {most}")))) }
    } }
}

type Row = (&'static str, fn(&Figures) -> Option<f64>, fn(f64) -> String);

const WRITE_ROWS: [Row; 12] = [
    ("written by clients", |f| Some(f.writes.client_bytes as f64), bytes),
    ("written to members", |f| Some(f.writes.member_bytes as f64), bytes),
    ("programmed into flash", |f| Some(f.writes.programmed_bytes as f64), bytes),
    ("amplification in the array", |f| f.writes.array_amplification, three_digits),
    ("amplification in flash", |f| f.writes.flash_amplification, three_digits),
    ("data columns of a full stripe", |f| pool(f, |p| p.data_columns as f64), three_digits),
    ("stored at the end", |f| pool(f, |p| p.after.stored_bytes as f64), bytes),
    ("free chunks at the end", |f| pool(f, |p| p.after.free_bytes as f64), bytes),
    ("mirrored stripes at the end", |f| pool(f, |p| p.after.stripes_mirrored as f64), three_digits),
    ("parity stripes at the end", |f| pool(f, |p| p.after.stripes_parity as f64), three_digits),
    ("degraded stripes at the end", |f| pool(f, |p| p.after.stripes_degraded as f64), three_digits),
    ("memory of the tables", |f| pool(f, |p| p.after.table_bytes as f64), bytes),
];

fn pool(figures: &Figures, figure: impl Fn(&PoolResult) -> f64) -> Option<f64> {
    figures.pool.as_ref().map(figure)
}

fn write_table(groups: &[Group<'_>]) -> Markup {
    html! {
        table.figures {
            thead { tr { th {} @for group in groups { th { (group.name()) } } } }
            tbody {
                @for (name, figure, show) in WRITE_ROWS {
                    tr {
                        td { (name) }
                        @for group in groups {
                            td { (group.over_seeds(figure).map_or("-".to_owned(), |found| found.show(show))) }
                        }
                    }
                }
            }
        }
    }
}

/// What the engine counted, of what it did at all.
fn work_table(groups: &[Group<'_>]) -> Markup {
    let pooled: Vec<_> = groups.iter().filter(|group| group.first().pool.is_some()).collect();
    let count = |f: &Figures, name: &str| Some(*f.pool.as_ref()?.work.get(name)? as f64);
    let names = pooled.first().and_then(|group| group.first().pool.as_ref()).map(|pool| pool.work.keys());
    let did = |name: &str| {
        pooled.iter().any(|group| group.runs.iter().any(|r| count(&r.figures, name) > Some(0.0)))
    };
    html! {
        @if !pooled.is_empty() {
            table.figures {
                caption { "What the engine did" }
                thead { tr { th {} @for group in &pooled { th { (group.name()) } } } }
                tbody {
                    @for name in names.into_iter().flatten().filter(|name| did(name)) {
                        tr {
                            td { (name.replace('_', " ")) }
                            @for group in &pooled {
                                td { (group.over_seeds(|f| count(f, name)).map_or("-".to_owned(), |n| n.show(three_digits))) }
                            }
                        }
                    }
                }
            }
        }
    }
}
