//! The file about an array that grows by arithmetic alone: no requests, no simulated time.

use serde::{Deserialize, Serialize};
use sinew_layout::grown::{Grown, Method};
use sinew_layout::history::{History, HistoryError};
use sinew_layout::{LevelName, LevelParts};

use crate::file::head::experiment_file;
use crate::{Error, Result};

experiment_file! {
    /// A file about an array that grows.
    pub struct GrowthFile {
        /// The array.
        pub growth: GrowthSpec,
    }
}

/// An array that grows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrowthSpec {
    /// The level of the array.
    pub level: LevelName,
    /// The growth method.
    pub method: Method,
    /// Members of the array when it is created.
    pub members: u32,
    /// Chunks of each member.
    pub rows: u32,
    /// Members of each addition.
    #[serde(default = "one")]
    pub added: u32,
    /// Additions.
    pub additions: u32,
    /// Measure the time of address computation too; RAID 0 only. These times depend on the machine and are not cached.
    #[serde(default)]
    pub timed: bool,
}

fn one() -> u32 {
    1
}

impl GrowthSpec {
    /// The members of the array over its life: the first ones, then `additions` additions.
    pub(crate) fn history(&self, additions: u32) -> Result<History> {
        let invalid = |error: HistoryError| Error::setting("growth", error.to_string());
        let mut history = History::new(self.members).map_err(invalid)?;
        (0..additions).try_for_each(|_| history.add(self.added).map_err(invalid))?;
        Ok(history)
    }

    /// The array after `additions` additions.
    pub(crate) fn array_after(&self, additions: u32) -> Result<Grown> {
        let grown = Grown::new(
            self.level.level(LevelParts::default()),
            self.history(additions)?,
            self.method,
            self.rows,
        );
        grown.map_err(|error| Error::setting("growth", error.to_string()))
    }

    /// An array of `members` members that has never grown.
    pub(crate) fn fresh_array(&self, members: u32) -> Result<Grown> {
        let fresh = Grown::fresh(self.level.level(LevelParts::default()), members, self.rows);
        fresh.map_err(|error| Error::setting("growth", error.to_string()))
    }
}
