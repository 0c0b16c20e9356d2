//! Distributions of the places of requests.

use serde::{Deserialize, Serialize};

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Place {
    /// Anywhere, all places alike.
    Uniform,
    /// One after the other, and from the start again.
    Sequential,
    /// The k-th most popular place in proportion to 1 / k^theta; popular places are scattered. YCSB's theta is 0.99
    /// (Cooper et al., SoCC'10, section 5).
    Zipf {
        /// The skew, 0 or more; 0 is uniform.
        theta: f64,
    },
    /// A part of the places gets most of the requests; hot places are scattered.
    HotCold {
        /// The share of places that is hot.
        #[serde(default = "hot_places")]
        places: f64,
        /// The share of requests that go there.
        #[serde(default = "hot_requests")]
        requests: f64,
    },
}

/// The 80/20 rule.
fn hot_places() -> f64 {
    0.2
}

fn hot_requests() -> f64 {
    0.8
}
