//! The part of a file about a simulation in which a member fails and is rebuilt.

use serde::{Deserialize, Serialize};

use crate::file::reliability::PoolLossSpec;

/// A member that fails during the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailsSpec {
    /// The number of the member.
    pub member: usize,
    /// When it fails, in seconds after measurement began.
    pub at_s: f64,
    /// What takes its place.
    pub replace: ReplacementName,
    /// End measurement when everything is rebuilt, if that is before `run.duration_s`.
    #[serde(default)]
    pub to_the_end: bool,
    /// How probable a loss is with the measured rate of the rebuild, in place of a rate or time of its own.
    #[serde(default)]
    pub loss: Option<PoolLossSpec>,
}

/// What takes the place of a member that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplacementName {
    /// The last member of the file, which the pool or array is created without.
    New,
    /// The last member of the file, which is a spare of the array.
    Spare,
    /// The free space of the other members of a mapped pool.
    FreeSpace,
    /// Nothing: the load meets a degraded pool to the end.
    None,
}
