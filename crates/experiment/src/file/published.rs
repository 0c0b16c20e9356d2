//! Published figures, and figures of closed forms, that an experiment compares its own with.
//!
//! A figure is named by its path in the JSON of a run: `requests.write.latency.p99_ns`, `members.0.flash.stalls`. A `*` in
//! the path stands for every name at that place: `volumes.*.latency.p50_ns`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::file::band::Band;
use crate::file::overrides;
use crate::units;

/// A published figure and the figure of ours to compare it with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
    /// What the figure is, in words.
    pub what: String,
    /// The path of our figure.
    pub figure: String,
    /// The path of a figure of the same run that ours is divided by.
    #[serde(default)]
    pub divided_by: Option<String>,
    /// The runs to compare; where nothing is given, each case with each combination of swept values.
    #[serde(default)]
    pub of: RunSelector,
    /// The runs whose same figure ours is divided by.
    #[serde(default)]
    pub over: Option<RunSelector>,
    /// Subtract our figure from 1: the comparison is about a reduction.
    #[serde(default)]
    pub less: bool,
    /// Of all selected runs, compare only the one with the highest figure.
    #[serde(default)]
    pub highest: bool,
    /// The published value.
    pub published: PublishedValue,
    /// The band in which our figure must lie: with `--check` a run fails when it lies outside. None where nothing is claimed.
    #[serde(default)]
    pub within: Option<Band>,
    /// The same for a quick run; `within` where not given.
    #[serde(default)]
    pub quick_within: Option<Band>,
    /// The unit of both figures.
    #[serde(default)]
    pub unit: Unit,
    /// The publication, and the place in it.
    pub source: String,
}

/// Selects runs by their case and by swept values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSelector {
    /// The case; any case where not given.
    #[serde(default)]
    pub case: Option<String>,
    /// Swept values, by path; any value of a path that is not given.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
}

/// A published value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PublishedValue {
    /// One number.
    Number(f64),
    /// The lowest and the highest of a range.
    Range([f64; 2]),
    /// The result of a closed form for the run: the path of a figure of the same run.
    Figure(String),
    /// Random single blocks per second that an array writes, predicted from runs of one of its drives; divided by the prediction
    /// of the runs of `over`, if there are any.
    Predicted {
        /// The runs of the drive.
        block_writes: DriveRuns,
    },
}

/// The cases with the runs of one drive alone, from which an array is predicted. Those with the same swept values as the run
/// of the array are used, or the only ones of a case that is not swept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveRuns {
    /// The case in which it writes random single blocks.
    pub writes: String,
    /// The case in which it reads them.
    pub reads: String,
}

/// The unit in which a figure is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A plain number.
    #[default]
    Number,
    /// Nanoseconds.
    Time,
    /// Bytes.
    Bytes,
    /// A fraction of 1, shown in percent.
    Part,
    /// A number of any magnitude, shown with a power of ten where it is very small or very large.
    Magnitude,
}

impl Unit {
    /// The value with its unit, for people.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Unit::Number => units::three_digits(value),
            Unit::Time => units::time(value),
            Unit::Bytes => units::bytes(value),
            Unit::Part => format!("{:.2} %", value * 100.0),
            Unit::Magnitude => units::magnitude(value),
        }
    }
}

impl PublishedFigure {
    /// Whether the path of our figure has a `*`, which stands for several names.
    pub(crate) fn has_wildcard(&self) -> bool {
        self.figure.split('.').any(|part| part == "*")
    }

    /// The band for our figure in a whole or a quick run.
    pub(crate) fn band(&self, quick: bool) -> Option<Band> {
        Band::of_run(quick, self.within, self.quick_within)
    }

    /// Our figure as an expression over paths: `highest requests.write.iops / that of CASE`.
    pub(crate) fn expression(&self) -> String {
        let over = self.over.as_ref().map(|over| {
            let parts = [over.case.clone().unwrap_or_default(), overrides::describe(&over.set)];
            format!(
                "that of {}",
                parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
            )
        });
        let parts = [Some(self.figure.clone()), self.divided_by.clone(), over];
        let path = parts.into_iter().flatten().collect::<Vec<_>>().join(" / ");
        let path = if self.less { format!("1 - {path}") } else { path };
        if self.highest { format!("highest {path}") } else { path }
    }
}

impl RunSelector {
    /// Whether the selector selects a run of this case with these swept values.
    pub(crate) fn selects(&self, case: Option<&str>, swept: &BTreeMap<String, Value>) -> bool {
        let case_fits = self.case.is_none() || self.case.as_deref() == case;
        case_fits && self.set.iter().all(|(path, value)| swept.get(path).is_some_and(|v| equal(v, value)))
    }
}

/// Whether two values are equal; the integer 1 and the float 1.0 are.
fn equal(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| value.as_float().or(value.as_integer().map(|n| n as f64));
    a == b || number(a).is_some_and(|a| number(b) == Some(a))
}
