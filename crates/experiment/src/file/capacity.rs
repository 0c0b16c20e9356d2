//! The part of a file about a simulation that asks for the largest load that the system serves.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The search for the largest `workload.speed` that the system serves: it is not saturated, no request fails, and latencies
/// keep within the bound. A run is measured at every speed that is tried; its figures are those at the largest speed served.
///
/// With a share, the run is measured at that part of a capacity instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacitySpec {
    /// The speed that is tried first. While it is served the next one is twice as much, and half as much while it is not.
    pub from: f64,
    /// No higher speed is tried.
    #[serde(default = "highest")]
    pub max: f64,
    /// The search ends when a speed that is not served is above one that is by at most this fraction of it.
    #[serde(default = "twentieth")]
    pub within: f64,
    /// The bound of the p99 of reads and of that of writes, in milliseconds; no bound where not given.
    #[serde(default)]
    pub p99_ms: Option<f64>,
    /// Measure at this part of the lowest of the capacities of `weakest_of`, which are searched for with the first seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Names of cases, each with the swept values of the run; the case of the run alone where not given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weakest_of: Vec<String>,
}

fn highest() -> f64 {
    1024.0
}

fn twentieth() -> f64 {
    0.05
}

impl CapacitySpec {
    pub(crate) fn check(&self) -> Result<()> {
        let positive = [("from", self.from), ("max", self.max), ("within", self.within)];
        let optional = [("p99_ms", self.p99_ms), ("share", self.share)];
        let optional = optional.into_iter().filter_map(|(name, value)| Some((name, value?)));
        for (name, value) in positive.into_iter().chain(optional) {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::setting(format!("capacity.{name}"), format!("{value} is not above 0")));
            }
        }
        if self.from > self.max {
            return Err(Error::setting("capacity.from", "it is above capacity.max"));
        }
        if self.share.is_some_and(|share| share > 1.0) {
            return Err(Error::setting("capacity.share", "it is above 1: the system would be overloaded"));
        }
        if self.share.is_none() && !self.weakest_of.is_empty() {
            let why = "a run at the capacity is one at its own: give capacity.share as well";
            return Err(Error::setting("capacity.weakest_of", why));
        }
        Ok(())
    }
}
