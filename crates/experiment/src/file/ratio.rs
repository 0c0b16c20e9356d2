//! Ratios of a figure of one system to that of another, from paired runs.
//!
//! Two runs are a pair if their seed and their swept values are equal, so that both systems have the same requests at the same
//! times.

use serde::{Deserialize, Serialize};

use crate::file::band::Band;
use crate::file::published::RunSelector;

/// A figure of some runs divided by the same figure of the runs that they are paired with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatioSpec {
    /// What the ratio is, in words.
    pub what: String,
    /// The path of the figure. A `*` in it stands for every name that both runs have.
    pub figure: String,
    /// The runs whose figure is divided.
    pub of: RunSelector,
    /// The runs whose figure it is divided by. What is named here, the case or swept values, need not be equal in a pair.
    pub over: RunSelector,
    /// Give the ratio for each combination of swept values, too.
    #[serde(default)]
    pub apart: bool,
    /// The band in which the ratio must lie: with `--check` a run fails when it lies outside. None where nothing is claimed.
    #[serde(default)]
    pub within: Option<Band>,
    /// The same for a quick run; `within` where not given.
    #[serde(default)]
    pub quick_within: Option<Band>,
}

impl RatioSpec {
    /// The band in a whole or a quick run.
    pub(crate) fn band(&self, quick: bool) -> Option<Band> {
        Band::of_run(quick, self.within, self.quick_within)
    }
}
