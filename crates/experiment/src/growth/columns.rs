//! What is shown of an array that grows: in tables, and against what was swept.

use crate::drawings::Swept;
use crate::reference::Unit;
use crate::results::GrowthFigures;
use crate::summary::Group;

/// A heading, and the figure below it.
type Column = (&'static str, fn(&GrowthFigures) -> Option<f64>, Unit);

const COLUMNS: [Column; 11] = [
    ("members", |f| Some(f64::from(f.members)), Unit::Number),
    ("CV of data", |f| Some(f.data_cv), Unit::Part),
    ("CV of the first data", |f| Some(f.first_data_cv), Unit::Part),
    ("CV of parity", |f| f.parity_cv, Unit::Part),
    ("moved", |f| f.moved, Unit::Part),
    ("least", |f| f.least_moved, Unit::Part),
    ("parity written", |f| f.parity_written, Unit::Part),
    ("space", |f| Some(f.space), Unit::Part),
    ("ns, random", |f| Some(f.times.as_ref()?.random_ns), Unit::Number),
    ("in order", |f| Some(f.times.as_ref()?.in_order_ns), Unit::Number),
    ("backwards", |f| f.times.as_ref()?.backwards_ns, Unit::Number),
];

/// What is drawn against what was swept.
pub(crate) const SWEPT: [Swept<GrowthFigures>; 7] = [
    ("Coefficient of variation of data", "growth.data_cv", |f| Some(f.data_cv), Unit::Part),
    (
        "The same, of the data that the first members had",
        "growth.first_data_cv",
        |f| Some(f.first_data_cv),
        Unit::Part,
    ),
    ("Coefficient of variation of parity", "growth.parity_cv", |f| f.parity_cv, Unit::Part),
    ("Blocks moved by the last addition", "growth.moved", |f| f.moved, Unit::Part),
    ("Parity written by it", "growth.parity_written", |f| f.parity_written, Unit::Part),
    (
        "Time to find a random block",
        "growth.times.random_ns",
        |f| Some(f.times.as_ref()?.random_ns),
        Unit::Time,
    ),
    (
        "Time to find a block, all in order",
        "growth.times.in_order_ns",
        |f| Some(f.times.as_ref()?.in_order_ns),
        Unit::Time,
    ),
];

/// What is to be known about times.
pub(crate) const TIMES_NOTE: &str = "Times to find a block are of this machine and of what else it did; other figures are the same everywhere.";

pub(crate) fn is_timed(groups: &[Group<'_, GrowthFigures>]) -> bool {
    groups.iter().any(|group| group.first().times.is_some())
}

/// Headings, then a row for each group. What no group has is left out.
pub(crate) fn rows(groups: &[Group<'_, GrowthFigures>]) -> Vec<Vec<String>> {
    let has = |column: &&Column| groups.iter().any(|group| (column.1)(group.first()).is_some());
    let columns: Vec<_> = COLUMNS.iter().filter(has).collect();
    let headings = [""].into_iter().chain(columns.iter().map(|column| column.0));
    let mut rows = vec![headings.map(str::to_owned).collect()];
    rows.extend(groups.iter().map(|group| {
        let cell = |(_, figure, unit): &&Column| {
            figure(group.first()).map_or("-".to_owned(), |value| unit.show(value))
        };
        [group.name().to_owned()].into_iter().chain(columns.iter().map(cell)).collect()
    }));
    rows
}
