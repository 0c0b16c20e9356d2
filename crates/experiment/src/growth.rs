//! Experiments with the arithmetic of arrays that grow: no requests, no simulated time, and nothing random.
//!
//! Each run has an array after so many additions of members. Only times of addressing, for those who ask for them
//! ([`times`]), depend on the machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sinew_layout::grown::{Grown, Method};
use sinew_layout::history::History;
use sinew_layout::stats::coefficient_of_variation;
use sinew_layout::{Level, Rotation};
use toml::Value;

use crate::reference::ReferenceSpec;
use crate::results::GrowthFigures;
use crate::spec::CaseSpec;
use crate::{Error, Result};

pub(crate) mod columns;
mod times;

/// A file about an array that grows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrowthFile {
    /// What it shows, in a sentence or two.
    pub description: String,
    /// The array.
    pub growth: GrowthSpec,
    /// Arrays to compare, as in [`crate::spec::Spec`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<CaseSpec>,
    /// Values to try, by path. All combinations are run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep: BTreeMap<String, Vec<Value>>,
    /// What a quick run sets, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quick: BTreeMap<String, Value>,
    /// Figures of other people to hold the results beside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<ReferenceSpec>,
}

/// An array that grows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrowthSpec {
    /// Its level.
    pub level: LevelName,
    /// How it grows.
    pub method: MethodName,
    /// Members that it is made with.
    pub members: u32,
    /// Chunks of each member.
    pub rows: u32,
    /// Members of each addition.
    #[serde(default = "one")]
    pub added: u32,
    /// Additions.
    pub additions: u32,
    /// Take the time of addressing too; RAID 0 only. Such figures depend on the machine, and are not kept.
    #[serde(default)]
    pub timed: bool,
}

/// A level that can grow. RAID 10 has two near copies, parity is left-symmetric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it all")]
pub enum LevelName {
    Raid0,
    Raid10,
    Raid5,
    Raid6,
}

/// A way to grow; docs/layouts.md describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "docs/layouts.md describes them")]
pub enum MethodName {
    #[serde(rename = "fastscale")]
    FastScale,
    RoundRobin,
    SemiRoundRobin,
    Restripe,
    Spread,
}

fn one() -> u32 {
    1
}

impl From<LevelName> for Level {
    fn from(name: LevelName) -> Level {
        match name {
            LevelName::Raid0 => Level::Raid0,
            LevelName::Raid10 => Level::Raid10 { copies: 2 },
            LevelName::Raid5 => Level::Raid5(Rotation::LeftSymmetric),
            LevelName::Raid6 => Level::Raid6(Rotation::LeftSymmetric),
        }
    }
}

impl From<MethodName> for Method {
    fn from(name: MethodName) -> Method {
        match name {
            MethodName::FastScale => Method::FastScale,
            MethodName::RoundRobin => Method::RoundRobin,
            MethodName::SemiRoundRobin => Method::SemiRoundRobin,
            MethodName::Restripe => Method::Restripe,
            MethodName::Spread => Method::Spread,
        }
    }
}

impl GrowthSpec {
    /// Finds what can be found without running anything.
    pub(crate) fn check(&self) -> Result<()> {
        if self.timed && self.level != LevelName::Raid0 {
            return Err(Error::setting("growth.timed", "only the addressing of raid0 is timed"));
        }
        self.after(self.additions).map(drop)
    }

    fn history(&self, additions: u32) -> Result<History> {
        let wrong = |error: sinew_layout::history::HistoryError| Error::setting("growth", error.to_string());
        let mut history = History::new(self.members).map_err(wrong)?;
        (0..additions).try_for_each(|_| history.add(self.added).map_err(wrong))?;
        Ok(history)
    }

    /// The array after so many additions.
    fn after(&self, additions: u32) -> Result<Grown> {
        let grown = Grown::new(self.level.into(), self.history(additions)?, self.method.into(), self.rows);
        grown.map_err(|error| Error::setting("growth", error.to_string()))
    }
}

/// Counts what a description says.
pub(crate) fn run(spec: &GrowthSpec, progress: &dyn Fn(&'static str, f64)) -> Result<GrowthFigures> {
    progress("counting", 0.0);
    let array = spec.after(spec.additions)?;
    let level = Level::from(spec.level);
    let new = |members| {
        let new = Grown::fresh(level, members, spec.rows);
        new.map_err(|error| Error::setting("growth", error.to_string()))
    };
    let counts = array.counts();
    let first = array.data_counts(new(spec.members)?.blocks());
    let moved = match spec.additions.checked_sub(1) {
        Some(before) => Some(array.moved_from(&spec.after(before)?)),
        None => None,
    };
    progress("timing", 0.5);
    let times = if spec.timed { times::take(spec)? } else { None };
    Ok(GrowthFigures {
        members: array.members(),
        blocks: array.blocks(),
        space: array.blocks() as f64 / new(array.members())?.blocks() as f64,
        data_cv: coefficient_of_variation(&counts.data),
        parity_cv: (array.parities() > 0).then(|| coefficient_of_variation(&counts.parity)),
        first_data_cv: coefficient_of_variation(&first.data),
        data: counts.data,
        parity: counts.parity,
        moved,
        least_moved: array.least_moved(),
        parity_written: array.parity_written(),
        times,
    })
}
