//! The columns and charts of arrays that grow by arithmetic alone.

use crate::file::published::Unit;
use crate::report::charts::SweptChart;
use crate::report::columns::Column;
use crate::results::schema::GrowthFigures;
use crate::results::summary::Group;

/// The columns of the table.
pub(crate) const COLUMNS: [Column<GrowthFigures>; 11] = [
    Column { heading: "members", figure: |f| Some(f64::from(f.members)), unit: Unit::Number },
    Column { heading: "CV of data", figure: |f| Some(f.data_cv), unit: Unit::Part },
    Column { heading: "CV of first data", figure: |f| Some(f.first_data_cv), unit: Unit::Part },
    Column { heading: "CV of parity", figure: |f| f.parity_cv, unit: Unit::Part },
    Column { heading: "moved", figure: |f| f.moved, unit: Unit::Part },
    Column { heading: "minimum", figure: |f| f.least_moved, unit: Unit::Part },
    Column { heading: "parity written", figure: |f| f.parity_written, unit: Unit::Part },
    Column { heading: "space", figure: |f| Some(f.space), unit: Unit::Part },
    Column { heading: "ns, random", figure: |f| Some(f.times.as_ref()?.random_ns), unit: Unit::Number },
    Column { heading: "sequential", figure: |f| Some(f.times.as_ref()?.in_order_ns), unit: Unit::Number },
    Column { heading: "inverse", figure: |f| f.times.as_ref()?.backwards_ns, unit: Unit::Number },
];

/// The charts against swept values.
pub(crate) const CHARTS: [SweptChart<GrowthFigures>; 7] = [
    SweptChart {
        title: "Coefficient of variation of data",
        path: "growth.data_cv",
        figure: |f| Some(f.data_cv),
        unit: Unit::Part,
    },
    SweptChart {
        title: "Coefficient of variation of the data of the first members",
        path: "growth.first_data_cv",
        figure: |f| Some(f.first_data_cv),
        unit: Unit::Part,
    },
    SweptChart {
        title: "Coefficient of variation of parity",
        path: "growth.parity_cv",
        figure: |f| f.parity_cv,
        unit: Unit::Part,
    },
    SweptChart {
        title: "Blocks moved by the last addition",
        path: "growth.moved",
        figure: |f| f.moved,
        unit: Unit::Part,
    },
    SweptChart {
        title: "Parity written by the last addition",
        path: "growth.parity_written",
        figure: |f| f.parity_written,
        unit: Unit::Part,
    },
    SweptChart {
        title: "Time to find a block, random order",
        path: "growth.times.random_ns",
        figure: |f| Some(f.times.as_ref()?.random_ns),
        unit: Unit::Time,
    },
    SweptChart {
        title: "Time to find a block, sequential order",
        path: "growth.times.in_order_ns",
        figure: |f| Some(f.times.as_ref()?.in_order_ns),
        unit: Unit::Time,
    },
];

/// The note below a table with times.
pub(crate) const TIMES_NOTE: &str =
    "Times to find a block depend on this machine and its load; all other figures do not.";

/// Whether any group has times.
pub(crate) fn is_timed(groups: &[Group<'_, GrowthFigures>]) -> bool {
    groups.iter().any(|group| group.first().times.is_some())
}
