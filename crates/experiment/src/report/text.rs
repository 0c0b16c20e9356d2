//! The report for a terminal.

use crate::report::columns::rows;
use crate::report::tables::{
    KINDS, QUANTILES, VOLUME_COLUMNS, capacity_rows, latency_cells, load_rows, ratio_rows, volume_rows,
};
use crate::report::{growth_columns, reliability_columns};
use crate::results::ratio::Ratio;
use crate::results::reliability::ReliabilityFigures;
use crate::results::schema::{Comparison, Figures, GrowthFigures, Results};
use crate::results::simulated::{RebuiltResult, Simulated};
use crate::results::spread::Spread;
use crate::results::summary::{Group, groups};
use crate::units::{bytes, magnitude, percent, three_digits, time};

/// A run is called not steady if its last quarter differs from its first by more than this.
const CHANGE_MAX: f64 = 0.1;

/// Tables of latencies, of members and writes, and of published figures and ours.
pub fn text(results: &Results) -> String {
    let simulated = groups(&results.runs, Figures::simulated);
    let growth = growth(&groups(&results.runs, Figures::growth));
    let reliability = reliability(&groups(&results.runs, Figures::reliability));
    let references = references(&results.references);
    let ratios = ratios(&results.ratios);
    let of_simulations = [
        latencies(&simulated),
        volumes(&simulated),
        members(&simulated),
        rebuilds(&simulated),
        table_of(&capacity_rows(&simulated)),
        table_of(&load_rows(&simulated)),
    ];
    let tables = of_simulations.into_iter().chain([growth, reliability, references, ratios]);
    let tables: Vec<_> = tables.filter(|table| !table.is_empty()).collect();
    tables.join("\n")
}

fn growth(groups: &[Group<'_, GrowthFigures>]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let note = if growth_columns::is_timed(groups) {
        format!("{}\n", growth_columns::TIMES_NOTE)
    } else {
        String::new()
    };
    table(&rows(&growth_columns::COLUMNS, groups), 1) + &note
}

fn reliability(groups: &[Group<'_, ReliabilityFigures>]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    table(&rows(&reliability_columns::COLUMNS, groups), 1)
}

fn latencies(groups: &[Group<'_>]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let mut rows = vec![vec![String::new(), String::new(), "per s".to_owned()]];
    rows[0].extend(QUANTILES.iter().map(|quantile| quantile.name.to_owned()));
    rows[0].extend(["max".to_owned(), "errors".to_owned()]);
    for group in groups {
        let kinds = KINDS.iter().filter(|kind| group.kind(kind).next().is_some());
        rows.extend(kinds.map(|kind| latency_cells(group, kind)));
    }
    table(&rows, 2)
}

fn volumes(groups: &[Group<'_>]) -> String {
    let mut rows = volume_rows(groups);
    if rows.is_empty() {
        return String::new();
    }
    rows.insert(0, VOLUME_COLUMNS.map(str::to_owned).to_vec());
    table(&rows, 3)
}

fn members(groups: &[Group<'_>]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let header = ["", "members busy", "amplification in array", "in flash", "first to last quarter", ""];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for group in groups {
        let figure = |what: fn(&Simulated) -> Option<f64>| {
            group.over_seeds(what).map_or("-".to_owned(), |found| found.show(three_digits))
        };
        let busy = group.over_seeds(|f| Some(mean_busy(f))).map_or("-".to_owned(), |busy| busy.show(percent));
        let array = figure(|f| f.writes.array_amplification);
        let change = group.over_seeds(|f| f.steadiness.as_ref()?.change);
        let change = change.map_or("-".to_owned(), |change| match change.high {
            high if high > CHANGE_MAX => format!("NOT STEADY, {}", percent(high)),
            high => percent(high),
        });
        let flash = figure(|f| f.writes.flash_amplification);
        rows.push(vec![group.name().to_owned(), busy, array, flash, change, saturation(group)]);
    }
    table(&rows, 1)
}

/// The number of saturated runs, and how much of the load they completed; empty if none was.
fn saturation(group: &Group<'_>) -> String {
    let saturated = group.runs.iter().filter_map(|run| run.figures.load?.saturated_part());
    let parts: Vec<f64> = saturated.collect();
    let (count, runs) = (parts.len(), group.runs.len());
    let show =
        |part: Spread| format!("SATURATED in {count} of {runs} runs, completed {}", part.show(percent));
    Spread::of(&parts).map_or(String::new(), show)
}

/// Rebuilds of members that failed; nothing where none did.
fn rebuilds(groups: &[Group<'_>]) -> String {
    let header = ["", "rebuilt", "in", "per s", "P(pool lost)", "P(any loss)"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for group in groups.iter().filter(|group| group.first().rebuilt.is_some()) {
        let figure = |what: fn(&RebuiltResult) -> Option<f64>, show: fn(f64) -> String| {
            let found = group.over_seeds(|f| f.rebuilt.as_ref().and_then(what));
            found.map_or("-".to_owned(), |found| found.show(show))
        };
        rows.push(vec![
            group.name().to_owned(),
            figure(|rebuilt| Some(rebuilt.bytes as f64), bytes),
            figure(|rebuilt| rebuilt.took_ns.map(|took| took as f64), time),
            figure(|rebuilt| rebuilt.bytes_per_s, bytes),
            figure(|rebuilt| rebuilt.loss.as_ref().map(|loss| loss.loss), magnitude),
            figure(|rebuilt| rebuilt.loss.as_ref().map(|loss| loss.any_loss), magnitude),
        ]);
    }
    if rows.len() == 1 { String::new() } else { table(&rows, 1) }
}

fn table_of(rows: &[Vec<String>]) -> String {
    if rows.is_empty() { String::new() } else { table(rows, 1) }
}

fn mean_busy(figures: &Simulated) -> f64 {
    figures.members.iter().map(|m| m.busy).sum::<f64>() / figures.members.len().max(1) as f64
}

fn ratios(ratios: &[Ratio]) -> String {
    if ratios.is_empty() { String::new() } else { table(&ratio_rows(ratios), 2) }
}

fn references(references: &[Comparison]) -> String {
    if references.is_empty() {
        return String::new();
    }
    let mut rows = vec![["", "", "published", "ours", "", ""].map(str::to_owned).to_vec()];
    let mut sources: Vec<&str> = Vec::new();
    for found in references {
        if !sources.contains(&found.source.as_str()) {
            sources.push(&found.source);
        }
        let number = sources.iter().position(|source| *source == found.source).unwrap_or(0) + 1;
        let of = found.label();
        rows.push(vec![
            found.what.clone(),
            of,
            found.show_published(),
            found.show_ours(),
            found.show_violation(),
            format!("[{number}]"),
        ]);
    }
    let sources = sources.iter().enumerate().map(|(i, source)| format!("[{}] {source}\n", i + 1));
    table(&rows, 2) + &sources.collect::<String>()
}

/// Aligned columns: the first `left` ones to the left, the others to the right. An empty column is left out.
fn table(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cell = |(column, cell): (usize, &String)| {
            let width = widths[column];
            if column < left { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        };
        let cells: Vec<_> = row.iter().enumerate().filter(|(i, _)| widths[*i] > 0).map(cell).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["", "", "x"], ["long name", "", "1"], ["b", "", "100"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows, 2), "             x\nlong name    1\nb          100\n");
    }
}
