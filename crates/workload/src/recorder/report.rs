//! The report of a run, as JSON. docs/workloads.md documents the schema.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Kind;

/// Raised when the meaning of a field of [`Report`] changes.
pub(super) const SCHEMA: u32 = 1;
/// Histograms keep three digits (0.1 %).
const DIGITS: u8 = 3;
/// The longest latency told apart from longer ones: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("the bounds are in order")
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this schema.
    pub schema: u32,
    /// When the run started, on the clock of the replay.
    pub start_ns: u64,
    /// The last completion, or the end that was given if later.
    pub end_ns: u64,
    /// By kind; a kind that did not occur is not there.
    pub kinds: BTreeMap<Kind, KindReport>,
    /// How long after it was due each request was issued, with success or not.
    pub late: Distribution,
    /// The length of the spans of time.
    pub bucket_ns: u64,
    /// Spans of time in which something completed.
    pub buckets: Vec<BucketReport>,
}

/// All requests of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindReport {
    /// Completed, with or without success.
    pub requests: u64,
    /// Of those, without success; they are in no other figure.
    pub errors: u64,
    /// Bytes of those with success.
    pub bytes: u64,
    /// Requests with success per second of the run.
    pub iops: f64,
    /// Bytes per second of the run.
    pub bytes_per_s: f64,
    /// From when a request was due.
    pub latency: Distribution,
    /// From when it was issued.
    pub service: Distribution,
}

/// A distribution of times, within 0.1 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it all")]
pub struct Distribution {
    pub mean_ns: f64,
    pub stdev_ns: f64,
    pub min_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p95_ns: u64,
    pub p99_ns: u64,
    pub p99_9_ns: u64,
    pub p99_99_ns: u64,
    pub max_ns: u64,
    /// The mean of the slowest 1 %, at least of the slowest one.
    #[serde(default)]
    pub slowest_mean_ns: f64,
}

/// What completed in a span of time; all kinds together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BucketReport {
    /// Its start, counted from the start of the run.
    pub from_ns: u64,
    /// Completed with success.
    pub requests: u64,
    /// Completed without.
    pub errors: u64,
    /// Bytes of those with success.
    pub bytes: u64,
    /// Mean latency.
    pub latency_mean_ns: f64,
    /// Median latency.
    pub latency_p50_ns: u64,
    /// 99th percentile of latency.
    pub latency_p99_ns: u64,
    /// Largest latency.
    pub latency_max_ns: u64,
}

impl Distribution {
    pub(super) fn of(histogram: &Histogram<u64>) -> Distribution {
        if histogram.is_empty() {
            return Distribution::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile);
        Distribution {
            mean_ns: histogram.mean(),
            stdev_ns: histogram.stdev(),
            min_ns: histogram.min(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p99_9_ns: at(0.999),
            p99_99_ns: at(0.9999),
            max_ns: histogram.max(),
            slowest_mean_ns: slowest_mean(histogram),
        }
    }
}

fn slowest_mean(histogram: &Histogram<u64>) -> f64 {
    let wanted = histogram.len().div_ceil(100);
    let (mut before, mut sum) = (histogram.len() - wanted, 0.0);
    for step in histogram.iter_recorded() {
        let passed = step.count_at_value().min(before);
        before -= passed;
        sum += (step.count_at_value() - passed) as f64 * step.value_iterated_to() as f64;
    }
    sum / wanted as f64
}

impl Report {
    /// As JSON, a line each for what belongs together.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and names only")
    }
}
