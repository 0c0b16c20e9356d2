//! The capacity of a system: the largest load that it serves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The result of a search for the capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacityResult {
    /// The largest `workload.speed` that was served, at which the other figures of the run were measured. Nothing if none was;
    /// the other figures are then those of the lowest one that was tried.
    pub speed: Option<f64>,
    /// The search ended at the highest speed that the file allows: the capacity may be larger.
    pub at_max: bool,
    /// The bound of the p99 of reads and of that of writes, if the file states one.
    pub p99_bound_ns: Option<u64>,
    /// All loads that were tried, the lowest first.
    pub tried: Vec<TriedLoad>,
}

impl CapacityResult {
    /// Requests of all kinds completed per second at the largest speed that was served.
    pub fn completed_per_s(&self) -> Option<f64> {
        let at = self.tried.iter().find(|load| Some(load.speed) == self.speed)?;
        Some(at.completed_per_s)
    }
}

/// A load that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedLoad {
    /// The `workload.speed`.
    pub speed: f64,
    /// Requests of all kinds completed per second.
    pub completed_per_s: f64,
    /// The 99th percentile of the latency of reads; nothing if fewer than twenty were above it.
    pub read_p99_ns: Option<u64>,
    /// The same of writes.
    pub write_p99_ns: Option<u64>,
    /// The system was saturated, as `load.saturated`.
    pub saturated: bool,
    /// Requests that failed.
    pub errors: u64,
    /// Whether the system served this load.
    pub served: bool,
}

/// A load that is a share of a capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadShareResult {
    /// The share.
    pub share: f64,
    /// The `workload.speed`: this share of the lowest capacity.
    pub speed: f64,
    /// The capacities by case, as speeds.
    pub capacities: BTreeMap<String, f64>,
}
