//! Numbers as text for scrapers: OpenMetrics, and from it the older text format of Prometheus.
//!
//! Each scrape is a snapshot that is built anew, so nothing is kept between scrapes.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

use anyhow::{Context, Result};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// The content type of OpenMetrics, for HTTP.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Names of labels with their values.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A value of a metric.
#[derive(Debug)]
pub(super) enum Number {
    /// A count that only grows.
    Counter(u64),
    /// A time that only grows.
    Seconds(f64),
    /// A value that goes up and down.
    Gauge(f64),
    /// How often requests took how long.
    Histogram(Histogram),
}

/// Requests by their time.
#[derive(Debug)]
pub(super) struct Histogram {
    /// Upper ends of the buckets in seconds, with the requests in each. The last end is infinite.
    pub(super) buckets: Vec<(f64, u64)>,
    /// All times together.
    pub(super) sum_seconds: f64,
}

/// Numbers of one name, all of one kind.
#[derive(Debug)]
pub(super) struct Family {
    name: String,
    help: String,
    samples: Vec<(Labels, Number)>,
}

impl Family {
    /// Numbers of one name.
    pub(super) fn new(name: &str, help: &str, samples: Vec<(Labels, Number)>) -> Family {
        // Meanings of counters are sentences.
        Family { name: name.to_owned(), help: help.trim_end_matches('.').to_owned(), samples }
    }

    /// A number without labels of its own.
    pub(super) fn of(name: &str, help: &str, number: Number) -> Family {
        Family::new(name, help, vec![(Vec::new(), number)])
    }
}

impl EncodeMetric for Number {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Number::Counter(value) => ConstCounter::new(*value).encode(encoder),
            Number::Seconds(value) => ConstCounter::new(*value).encode(encoder),
            Number::Gauge(value) => ConstGauge::new(*value).encode(encoder),
            Number::Histogram(Histogram { buckets, sum_seconds }) => {
                let count = buckets.iter().map(|(_, requests)| requests).sum();
                let none: Option<&HashMap<usize, Exemplar<Labels, f64>>> = None;
                encoder.encode_histogram(*sum_seconds, count, buckets, none)
            }
        }
    }

    fn metric_type(&self) -> MetricType {
        match self {
            Number::Counter(_) | Number::Seconds(_) => MetricType::Counter,
            Number::Gauge(_) => MetricType::Gauge,
            Number::Histogram(_) => MetricType::Histogram,
        }
    }
}

#[derive(Debug)]
struct Snapshot(Vec<Family>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { name, help, samples } in &self.0 {
            let Some((_, first)) = samples.first() else { continue };
            let mut family = encoder.encode_descriptor(name, help, None, first.metric_type())?;
            for (labels, number) in samples {
                if labels.is_empty() {
                    // Alone in its family.
                    number.encode(family)?;
                    break;
                }
                number.encode(family.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

/// All families as OpenMetrics text, each number with the label of its pool.
///
/// # Errors
/// When the text cannot be encoded.
pub(super) fn open_metrics(pool: &str, families: Vec<Family>) -> Result<String> {
    let label = (Cow::Borrowed("pool"), Cow::Owned(pool.to_owned()));
    let mut registry = Registry::with_prefix_and_labels("sinew", std::iter::once(label));
    registry.register_collector(Box::new(Snapshot(families)));
    let mut text = String::new();
    encode(&mut text, &registry).context("metrics cannot be written")?;
    Ok(text)
}

/// OpenMetrics text in the older format of Prometheus, which names a counter as its numbers are named.
pub(crate) fn prometheus(text: &str) -> String {
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let counters: BTreeSet<&str> = kinds.filter_map(|kind| kind.strip_suffix(" counter")).collect();
    let mut out = String::with_capacity(text.len());
    for line in text.lines().filter(|line| *line != "# EOF") {
        let name = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
        match name.and_then(|rest| rest.split_once(' ')) {
            Some((name, rest)) if counters.contains(name) => {
                let keyword = &line[..line.len() - name.len() - 1 - rest.len()];
                out.extend([keyword, name, "_total ", rest, "\n"]);
            }
            _ => out.extend([line, "\n"]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_name_counters_as_they_must() {
        let sample = |op: &str, requests| {
            let histogram =
                Histogram { buckets: vec![(0.5, requests), (f64::INFINITY, 1)], sum_seconds: 2.25 };
            (vec![("op", op.to_owned())], Number::Histogram(histogram))
        };
        let families = vec![
            Family::of("reads", "Reads.", Number::Counter(7)),
            Family::of("size_bytes", "Size", Number::Gauge(1.0)),
            Family::new("request_duration_seconds", "Times", vec![sample("read", 2), sample("write", 0)]),
        ];
        let text = open_metrics("a\"b", families).unwrap();
        let has = |text: &str, line: &str| assert!(text.lines().any(|l| l == line), "{line}: {text}");
        has(&text, "# TYPE sinew_reads counter");
        has(&text, "sinew_reads_total{pool=\"a\\\"b\"} 7");
        has(&text, "sinew_request_duration_seconds_bucket{pool=\"a\\\"b\",le=\"0.5\",op=\"read\"} 2");
        has(&text, "sinew_request_duration_seconds_bucket{pool=\"a\\\"b\",le=\"+Inf\",op=\"read\"} 3");
        has(&text, "sinew_request_duration_seconds_count{pool=\"a\\\"b\",op=\"write\"} 1");
        has(&text, "# EOF");
        let text = prometheus(&text);
        has(&text, "# HELP sinew_reads_total Reads");
        has(&text, "# TYPE sinew_reads_total counter");
        has(&text, "# TYPE sinew_size_bytes gauge");
        has(&text, "sinew_reads_total{pool=\"a\\\"b\"} 7");
        assert!(!text.contains("# EOF"));
    }
}
