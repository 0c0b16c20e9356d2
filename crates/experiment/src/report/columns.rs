//! Tables of runs that are arithmetic alone: one row for each group, one column for each figure that any group has.

use crate::file::published::Unit;
use crate::results::summary::Group;

/// A column of a table.
pub(crate) struct Column<F> {
    pub(crate) heading: &'static str,
    pub(crate) figure: fn(&F) -> Option<f64>,
    pub(crate) unit: Unit,
}

/// The headings, then a row for each group. Columns without figures are left out.
pub(crate) fn rows<F>(columns: &[Column<F>], groups: &[Group<'_, F>]) -> Vec<Vec<String>> {
    let has_figures =
        |column: &&Column<F>| groups.iter().any(|group| (column.figure)(group.first()).is_some());
    let columns: Vec<_> = columns.iter().filter(has_figures).collect();
    let headings = [""].into_iter().chain(columns.iter().map(|column| column.heading));
    let mut rows = vec![headings.map(str::to_owned).collect()];
    rows.extend(groups.iter().map(|group| {
        let cell = |column: &&Column<F>| {
            (column.figure)(group.first()).map_or("-".to_owned(), |value| column.unit.show(value))
        };
        [group.name().to_owned()].into_iter().chain(columns.iter().map(cell)).collect()
    }));
    rows
}
