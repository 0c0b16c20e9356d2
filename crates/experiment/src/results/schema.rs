//! The results of an experiment as JSON. Each field says what it is and its unit.
//!
//! Only [`AddressingTimes`] depend on the machine. Otherwise equal files, seeds and programs give equal bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::file::band::Band;
use crate::file::overrides;
use crate::file::published::Unit;
use crate::results::ratio::Ratio;
use crate::results::reliability::ReliabilityFigures;
use crate::results::simulated::Simulated;
use crate::results::spread::Spread;

/// The version of the schema, raised when the meaning of a field changes.
pub const SCHEMA: u32 = 1;

/// The results of all runs of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The version of this schema.
    pub schema: u32,
    /// The name of the experiment.
    pub experiment: String,
    /// The description in its file.
    pub description: String,
    /// Whether this was a quick run.
    pub quick: bool,
    /// The runs, ordered by case, then by swept values, then by seed.
    pub runs: Vec<RunResult>,
    /// Published figures and ours.
    pub references: Vec<Comparison>,
    /// Ratios of figures of paired runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ratios: Vec<Ratio>,
    /// The text of the file.
    pub file: String,
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The case, if the file has cases.
    pub case: Option<String>,
    /// The swept values of this run, by path.
    pub settings: BTreeMap<String, Value>,
    /// The seed; 0 if the run uses no random numbers.
    pub seed: u64,
    /// The figures of the run.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Figures {
    /// Of the engine, or of a member alone, under a load.
    Simulated(Box<Simulated>),
    /// Of an array that grew by arithmetic alone.
    Growth {
        /// The figures, in a table of their own as in the file.
        growth: Box<GrowthFigures>,
    },
    /// Of reliability by arithmetic alone.
    Reliability {
        /// The figures, in a table of their own as in the file.
        reliability: Box<ReliabilityFigures>,
    },
}

/// An array that grew by arithmetic alone. A coefficient of variation is the standard deviation over the members divided by the
/// mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrowthFigures {
    /// The number of members after all additions.
    pub members: u32,
    /// The number of logical blocks, each as large as a chunk.
    pub blocks: u64,
    /// `blocks` divided by the blocks of a new array of as many members.
    pub space: f64,
    /// The data chunks of each member, copies included.
    pub data: Vec<u64>,
    /// The parity chunks of each member.
    pub parity: Vec<u64>,
    /// The coefficient of variation of `data`.
    pub data_cv: f64,
    /// The coefficient of variation of `parity`; nothing without parity.
    pub parity_cv: Option<f64>,
    /// The coefficient of variation of the data that the array held before any addition.
    pub first_data_cv: f64,
    /// The fraction of the blocks that the last addition moved; nothing without an addition.
    pub moved: Option<f64>,
    /// The smallest fraction that an addition of n members to m must move for equal shares, n / (m + n); nothing without an
    /// addition.
    pub least_moved: Option<f64>,
    /// The fraction of all parity that the last addition wrote; nothing without an addition or without parity.
    pub parity_written: Option<f64>,
    /// Times of this machine, if the file asks for them.
    pub times: Option<AddressingTimes>,
}

/// Nanoseconds of this machine to find the location of one block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AddressingTimes {
    /// Blocks in random order.
    pub random_ns: f64,
    /// All blocks in sequential order.
    pub in_order_ns: f64,
    /// The inverse, the block at a random location; nothing if the addressing has no inverse.
    pub backwards_ns: Option<f64>,
}

/// A published figure and ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What the figure is, in words.
    pub what: String,
    /// Our figure as an expression over paths: `highest` if only the run with the highest figure is compared, and the divisor
    /// after a slash.
    pub figure: String,
    /// The case of the runs, if the file has cases.
    pub case: Option<String>,
    /// The swept values of the runs, by path.
    pub settings: BTreeMap<String, Value>,
    /// The unit of both figures.
    pub unit: Unit,
    /// The lowest and the highest published value.
    pub published: [f64; 2],
    /// Our figure over the seeds; nothing if no run has the figure.
    pub ours: Option<Spread>,
    /// The band in which the mean of ours must lie, if the file states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Band>,
    /// The publication, and the place in it.
    pub source: String,
}

impl Results {
    /// The results as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("figures are numbers and names")
    }
}

impl RunResult {
    /// The case and the swept values, for people. Runs that differ only in their seed have the same label.
    pub fn label(&self) -> String {
        label(self.case.as_deref(), &self.settings)
    }
}

impl Figures {
    /// The figures of a simulation.
    pub fn simulated(&self) -> Option<&Simulated> {
        match self {
            Figures::Simulated(figures) => Some(figures),
            Figures::Growth { .. } | Figures::Reliability { .. } => None,
        }
    }

    /// The figures of an array that grew by arithmetic alone.
    pub fn growth(&self) -> Option<&GrowthFigures> {
        match self {
            Figures::Growth { growth } => Some(growth),
            Figures::Simulated(_) | Figures::Reliability { .. } => None,
        }
    }

    /// The figures of reliability by arithmetic alone.
    pub fn reliability(&self) -> Option<&ReliabilityFigures> {
        match self {
            Figures::Reliability { reliability } => Some(reliability),
            Figures::Simulated(_) | Figures::Growth { .. } => None,
        }
    }
}

impl Comparison {
    /// The published figure, for people.
    pub(crate) fn show_published(&self) -> String {
        let [from, to] = self.published;
        let (from, to) = (self.unit.show(from), self.unit.show(to));
        if from == to { from } else { format!("{from} to {to}") }
    }

    /// Our figure, for people.
    pub(crate) fn show_ours(&self) -> String {
        self.ours.map_or("-".to_owned(), |ours| ours.show(|value| self.unit.show(value)))
    }

    /// Whether ours lies in the stated band. Without a band nothing is claimed, and a band is not met without a figure.
    pub fn holds(&self) -> bool {
        self.within.is_none_or(|band| band.contains(self.mean()))
    }

    /// The band that ours has left, for people; empty if it has not.
    pub fn show_violation(&self) -> String {
        let violation = |band: Band| band.violation(self.mean(), |value| self.unit.show(value));
        self.within.map_or(String::new(), violation)
    }

    fn mean(&self) -> Option<f64> {
        self.ours.map(|ours| ours.mean)
    }

    /// What is compared, with both values and the band that ours has left, for people.
    pub fn describe(&self) -> String {
        let of = self.label();
        let of = if of.is_empty() { of } else { format!(" ({of})") };
        format!("{}{of}: ours {}, {}", self.what, self.show_ours(), self.show_violation())
    }

    /// The case and the swept values of the runs, for people.
    pub(crate) fn label(&self) -> String {
        label(self.case.as_deref(), &self.settings)
    }
}

fn label(case: Option<&str>, swept: &BTreeMap<String, Value>) -> String {
    let swept = overrides::brief(swept);
    match case {
        Some(case) if swept.is_empty() => case.to_owned(),
        Some(case) => format!("{case}, {swept}"),
        None => swept,
    }
}
