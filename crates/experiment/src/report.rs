//! Results as one page of HTML with plots that needs nothing else, for the screen and for paper.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::Result;
use crate::drawings::{self, Story, Sweep};
use crate::growth::columns;
use crate::plot;
use crate::reference::Comparison;
use crate::results::{Figures, GrowthFigures, MemberResult, PoolResult, Results, Simulated};
use crate::summary::{
    Group, KINDS, QUANTILES, VOLUME_COLUMNS, bytes, groups, latency_cells, percent, three_digits, volume_rows,
};

/// The kinds that have plots; the others are in the table.
const PLOTTED: [&str; 2] = ["read", "write"];
/// So many groups are shown one by one without being asked.
const SHOWN_MAX: usize = 4;

/// One page of HTML.
///
/// # Errors
/// When a plot cannot be drawn.
pub fn html(results: &Results) -> Result<String> {
    let (simulated, growth) =
        (groups(&results.runs, Figures::simulated), groups(&results.runs, Figures::growth));
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
                @if results.quick { p.note { "A quick look, not the whole experiment." } }
                (reference_table(&results.references))
                @if !simulated.is_empty() { (simulations(&simulated, &results.references)?) }
                @if !growth.is_empty() { (growths(&growth, &results.references)?) }
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
            @if seeds > 1 { "; " (seeds) " seeds taken together, figures over time from the first" }
            "."
        }
    }
}

fn simulations(groups: &[Group<'_>], references: &[Comparison]) -> Result<Markup> {
    Ok(html! {
        (swept(drawings::sweep(groups, &drawings::SWEPT, references)?))
        @if groups.len() > 1 { ul.legend.top { (legend(groups.iter().map(Group::name))) } }
        h2 { "Latency" }
        (latency_table(groups))
        (volume_table(groups))
        (kind_plots(groups, "Latency by part of requests", drawings::percentiles)?)
        h2 { "Over time" }
        (kind_plots(groups, "Median latency", |g, kind| drawings::latency_over_time(g, kind, |b| b.latency_p50_ns))?)
        (kind_plots(groups, "99th percentile of latency", |g, kind| drawings::latency_over_time(g, kind, |b| b.latency_p99_ns))?)
        (kind_plots(groups, "Highest latency", |g, kind| drawings::latency_over_time(g, kind, |b| b.latency_max_ns))?)
        (kind_plots(groups, "Requests per second", drawings::rate_over_time)?)
        h2 { "Writes and space" }
        (write_table(groups))
        (work_table(groups))
        (each(groups, stories)?)
        h2 { "Members" }
        p.note {
            "Part of the time with a request under way, a row for each member: "
            @for (label, part) in [("none", 0.0), ("a quarter", 0.25), ("half", 0.5), ("three quarters", 0.75), ("all", 1.0)] {
                span.swatch style={ "background:color-mix(in srgb, var(--c0) " (part * 100.0) "%, transparent)" } {} (label) " "
            }
        }
        (each(groups, members)?)
    })
}

fn growths(groups: &[Group<'_, GrowthFigures>], references: &[Comparison]) -> Result<Markup> {
    let rows = columns::rows(groups);
    Ok(html! {
        (swept(drawings::sweep(groups, &columns::SWEPT, references)?))
        h2 { "Arrays" }
        div.wide { table {
            thead { tr { @for cell in rows.iter().take(1).flatten() { th { (cell) } } } }
            tbody { @for row in rows.iter().skip(1) { tr { @for cell in row { td { (cell) } } } } }
        } }
        @if columns::is_timed(groups) { p.note { (columns::TIMES_NOTE) } }
    })
}

fn swatch(index: usize, count: usize) -> Markup {
    // The colours of few curves are the style sheet's, which has others for dark screens.
    let colour = plot::colour(index, count);
    if count <= plot::COLOURS.len() {
        html! { span class={ "swatch c" (index) } {} }
    } else {
        html! { span.swatch style={ "background:" (colour) } {} }
    }
}

fn legend<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Markup {
    let count = names.len();
    html! { @for (i, name) in names.enumerate() { li { (swatch(i, count)) (name) } } }
}

fn reference_table(references: &[Comparison]) -> Markup {
    html! {
        @if !references.is_empty() {
            h2 { "Beside published figures" }
            div.wide { table {
                thead { tr { th {} th.words {} th { "published" } th { "here" } th.words { "source" } } }
                tbody { @for found in references { tr {
                    td { (found.what) }
                    td.words { (found.label()) }
                    td { (found.show_published()) }
                    td { (found.show_ours()) }
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
        @if sweep.has_rings { p.note { "Rings are the published figures, joined where they are ranges." } }
        div.plots {
            @for (title, svg) in &sweep.drawings { figure { figcaption { (title) } (PreEscaped(svg)) } }
        }
    }
}

/// Something of each group, folded where there are many.
fn each(groups: &[Group<'_>], show: fn(&Group<'_>) -> Result<Markup>) -> Result<Markup> {
    let shown: Result<Vec<_>> = groups.iter().map(|group| Ok((group, show(group)?))).collect();
    let shown = shown?;
    Ok(html! {
        @for (group, markup) in shown {
            details open[groups.len() <= SHOWN_MAX] {
                summary { (group.name()) @if group.runs.len() > 1 { ", seed " (group.runs[0].seed) } }
                (markup)
            }
        }
    })
}

fn stories(group: &Group<'_>) -> Result<Markup> {
    let stories = drawings::stories(group)?;
    Ok(html! {
        div.plots {
            @for Story { title, names, svg } in stories {
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
        div.plots { figure { (PreEscaped(drawings::busy(group)?)) } }
        div.wide { (member_table(group)) }
    })
}

fn latency_table(groups: &[Group<'_>]) -> Markup {
    html! {
        div.wide { table {
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
        } }
        @for error in groups.iter().flat_map(|g| KINDS.iter().flat_map(|k| g.kind(k))).filter_map(|k| k.first_error.as_ref()).take(1) {
            p.note { "The first error: " (error) "." }
        }
        p.note { "Latency counts from when a request was due. Percentiles with fewer than ten requests above them are left out." }
    }
}

/// Where there are several volumes: each, over all runs of a case.
fn volume_table(groups: &[Group<'_>]) -> Markup {
    let rows = volume_rows(groups);
    html! {
        @if !rows.is_empty() {
            div.wide { table {
                caption { "By volume, all kinds of requests together: means over the runs, and from the lowest to the highest" }
                thead { tr { @for column in VOLUME_COLUMNS { th { (column) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            } }
        }
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

fn member_table(group: &Group<'_>) -> Markup {
    let members = &group.first().members;
    html! {
        table {
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
        td { (or_none(flash.and_then(|f| f.write_amplification).map(three_digits))) }
        td { (or_none(flash.map(|f| f.erases.to_string()))) }
        td { (or_none(life.map(|(least, most)| format!("{least} to {most}")))) }
    } }
}

type Row = (&'static str, fn(&Simulated) -> Option<f64>, fn(f64) -> String);

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

fn pool(figures: &Simulated, figure: impl Fn(&PoolResult) -> f64) -> Option<f64> {
    figures.pool.as_ref().map(figure)
}

fn write_table(groups: &[Group<'_>]) -> Markup {
    html! {
        div.wide { table {
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
        } }
    }
}

/// What the engine counted, of what it did at all.
fn work_table(groups: &[Group<'_>]) -> Markup {
    let pooled: Vec<_> = groups.iter().filter(|group| group.first().pool.is_some()).collect();
    let count = |f: &Simulated, name: &str| Some(*f.pool.as_ref()?.work.get(name)? as f64);
    let names = pooled.first().and_then(|group| group.first().pool.as_ref()).map(|pool| pool.work.keys());
    let did =
        |name: &str| pooled.iter().any(|group| group.runs.iter().any(|r| count(r.figures, name) > Some(0.0)));
    html! {
        @if !pooled.is_empty() {
            div.wide { table {
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
            } }
        }
    }
}
