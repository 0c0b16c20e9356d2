//! The state of a pool as OpenMetrics text, for Prometheus and other scrapers.
//!
//! Names say their units; counters only grow until the pool is opened again or another device takes a member's place. Each
//! scrape is a snapshot that is built anew, so nothing is kept between scrapes.

use std::fmt;

use anyhow::{Context, Result};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use sinew_engine::control::health::{Health, assess};
use sinew_format::model::config::Config;
use sinew_members::latency::{LatencyHistogram, MemberLatency};
use sinew_members::member_stats::MemberStats;
use sinew_members::status::{CounterValues, ShardStatus};

/// The content type, for HTTP.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text of a pool; `faults` has the number of injected faults of each member.
///
/// # Errors
/// When the text cannot be encoded.
pub(crate) fn text(
    config: &Config,
    status: &ShardStatus,
    unnamed: &[usize],
    faults: &[usize],
) -> Result<String> {
    let mut families = of_pool(config, status, unnamed);
    families.extend(of_members(config, status, faults));
    let mut registry = Registry::with_prefix("sinew");
    registry.register_collector(Box::new(Snapshot(families)));
    let mut text = String::new();
    encode(&mut text, &registry).context("metrics cannot be written")?;
    Ok(text)
}

type Labels = Vec<(&'static str, String)>;

/// A number with its labels.
#[derive(Debug)]
enum Sample {
    Counter(Labels, u64),
    Gauge(Labels, f64),
}

/// Numbers of one name.
#[derive(Debug)]
struct Family {
    name: String,
    help: String,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Snapshot(Vec<Family>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for Family { name, help, samples } in &self.0 {
            let kind = match samples.first() {
                Some(Sample::Counter(..)) => ConstCounter::new(0u64).metric_type(),
                Some(Sample::Gauge(..)) => ConstGauge::new(0f64).metric_type(),
                None => continue,
            };
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for sample in samples {
                match sample {
                    // A number without labels is alone in its family.
                    Sample::Counter(labels, value) if labels.is_empty() => {
                        ConstCounter::new(*value).encode(family)?;
                        break;
                    }
                    Sample::Gauge(labels, value) if labels.is_empty() => {
                        ConstGauge::new(*value).encode(family)?;
                        break;
                    }
                    Sample::Counter(labels, value) => {
                        ConstCounter::new(*value).encode(family.encode_family(labels)?)?;
                    }
                    Sample::Gauge(labels, value) => {
                        ConstGauge::new(*value).encode(family.encode_family(labels)?)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn family(name: &str, help: &str, samples: Vec<Sample>) -> Family {
    // The encoder ends it with a full stop.
    Family { name: name.to_owned(), help: help.trim_end_matches('.').to_owned(), samples }
}

fn gauge(name: &str, help: &str, value: u64) -> Family {
    family(name, help, vec![Sample::Gauge(Vec::new(), value as f64)])
}

/// One number for each value of a label.
fn gauges(name: &str, help: &str, label: &'static str, values: &[(&str, u64)]) -> Family {
    let sample = |&(value, n): &(&str, u64)| Sample::Gauge(vec![(label, value.to_owned())], n as f64);
    family(name, help, values.iter().map(sample).collect())
}

fn of_pool(config: &Config, s: &ShardStatus, unnamed: &[usize]) -> Vec<Family> {
    let health = assess(config, s, unnamed).health;
    let states = Health::ALL.map(|state| (state.name(), u64::from(state == health)));
    let scrub = s.scrub_stripes_left.unwrap_or(0);
    let growth = s.growth_chunks_left.unwrap_or(0);
    let mut families = vec![
        gauges("health", "1 for what the pool is", "state", &states),
        gauge("stored_bytes", "Bytes that clients store", s.stored_bytes),
        gauges(
            "stored_form_bytes",
            "Of those, in mirrored and in parity stripes",
            "form",
            &[("mirrored", s.stored_mirrored_bytes), ("parity", s.stored_parity_bytes)],
        ),
        gauge("capacity_bytes", "Bytes that clients may store", s.capacity_bytes),
        gauge("raw_bytes", "Bytes of chunks on active members", s.raw_bytes),
        gauge("free_bytes", "Of those, free", s.free_bytes),
        gauges(
            "stripes",
            "Stripes by form",
            "form",
            &[("mirrored", s.stripes_mirrored), ("parity", s.stripes_parity), ("empty", s.stripes_empty)],
        ),
        gauge("stripes_degraded", "Stripes with a chunk that is not where it should be", s.stripes_degraded),
        gauge(
            "stripes_at_risk",
            "Stripes that have lost as much as the protection covers, or more",
            s.stripes_at_risk,
        ),
        gauges(
            "work_left_chunks",
            "Chunks that work under way has left",
            "work",
            &[("rebuild", s.rebuild_chunks_left), ("rebalance", s.balance_chunks_left), ("growth", growth)],
        ),
        gauges(
            "work_left_stripes",
            "Stripes that work under way has left",
            "work",
            &[("resync", s.resync_stripes_left), ("scrub", scrub)],
        ),
        gauge("table_bytes", "Memory of the tables", s.table_bytes),
        gauge("journal_used_blocks", "Blocks of the journal in use", s.journal_blocks_used),
        family(
            "journal_written_blocks",
            "Blocks of the journal written",
            vec![Sample::Counter(Vec::new(), s.journal_blocks_written)],
        ),
    ];
    let counter = |((name, value), meaning): ((&str, u64), &&str)| {
        family(name, meaning, vec![Sample::Counter(Vec::new(), value)])
    };
    families.extend(s.counters.named().into_iter().zip(CounterValues::MEANINGS).map(counter));
    let volumes = config.volumes.iter().filter(|v| !v.deleting);
    let sizes = volumes.map(|v| Sample::Gauge(vec![("volume", v.name.clone())], v.bytes as f64));
    families.push(family("volume_size_bytes", "Sizes of volumes", sizes.collect()));
    families
}

/// A name, its meaning, and how to read the number.
type Counted<T> = (&'static str, &'static str, fn(&T) -> u64);

const REQUESTS: [Counted<MemberStats>; 8] = [
    ("member_reads", "Reads completed", |m| m.reads),
    ("member_read_bytes", "Bytes read", |m| m.read_bytes),
    ("member_writes", "Writes completed", |m| m.writes),
    ("member_written_bytes", "Bytes written", |m| m.written_bytes),
    ("member_flushes", "Flushes completed", |m| m.flushes),
    ("member_read_errors", "Reads that failed", |m| u64::from(m.read_errors)),
    ("member_checksum_errors", "Blocks whose checksum did not match", |m| m.checksum_errors),
    ("member_repaired_blocks", "Blocks rewritten from redundancy", |m| m.repaired_blocks),
];

const ANSWERS: [Counted<MemberLatency>; 5] = [
    ("member_stragglers", "Requests that were pending for too long", |m| m.stragglers_seen),
    ("member_spikes", "Latency spikes", |m| m.spikes),
    ("member_redirections", "Requests that went to other members because this one was in a spike", |m| {
        m.redirections
    }),
    ("member_hedges", "Reads hedged because the member was late", |m| m.hedges),
    ("member_reconstructions", "Reads reconstructed from other members", |m| m.reconstructions),
];

fn of_members(config: &Config, status: &ShardStatus, faults: &[usize]) -> Vec<Family> {
    let label = |member: usize| vec![("member", member.to_string())];
    let with = |member: usize, name, value: &str| {
        let mut labels = label(member);
        labels.push((name, value.to_owned()));
        labels
    };
    let mut families = Vec::new();
    for (name, help, of) in REQUESTS {
        let each = status.members.iter().enumerate();
        families.push(family(name, help, each.map(|(i, m)| Sample::Counter(label(i), of(m))).collect()));
    }
    for (name, help, of) in ANSWERS {
        let each = status.member_latency.iter().enumerate();
        families.push(family(name, help, each.map(|(i, m)| Sample::Counter(label(i), of(m))).collect()));
    }
    let members = || config.members.iter().enumerate();
    let latency = || status.member_latency.iter().enumerate();
    let states = members().map(|(i, m)| Sample::Gauge(with(i, "state", m.state.name()), 1.0));
    families.push(family("member_state", "1 for the state that the member is in", states.collect()));
    let sizes = members().map(|(i, m)| Sample::Gauge(label(i), m.bytes as f64));
    families.push(family("member_size_bytes", "Sizes of members", sizes.collect()));
    let used = status.member_chunks_used.iter().enumerate();
    let used = used.map(|(i, &chunks)| Sample::Gauge(label(i), chunks as f64));
    families.push(family("member_used_chunks", "Chunks of stripes on the member", used.collect()));
    let responses = latency().map(|(i, m)| Sample::Gauge(with(i, "response", m.response.name()), 1.0));
    families.push(family("member_response", "1 for how the member answers", responses.collect()));
    let pending = latency().map(|(i, m)| Sample::Gauge(label(i), f64::from(m.stragglers)));
    families.push(family(
        "member_stragglers_pending",
        "Requests pending for too long now",
        pending.collect(),
    ));
    let faults = faults.iter().enumerate().map(|(i, &count)| Sample::Gauge(label(i), count as f64));
    families.push(family("member_faults", "Faults injected into the member", faults.collect()));
    let quantiles = |of: fn(&MemberLatency) -> &LatencyHistogram| {
        let of_member = |(i, m): (usize, &MemberLatency)| {
            let one = |(name, share)| {
                let seconds = of(m).quantile_ns(share)? as f64 / 1e9;
                Some(Sample::Gauge(with(i, "quantile", name), seconds))
            };
            [("0.5", 0.5), ("0.99", 0.99), ("0.999", 0.999)].into_iter().filter_map(one).collect::<Vec<_>>()
        };
        latency().flat_map(of_member).collect()
    };
    let help = "How long a part of the member's latest requests took at most";
    families.push(family("member_read_latency_seconds", help, quantiles(|m| &m.reads)));
    families.push(family("member_write_latency_seconds", help, quantiles(|m| &m.writes)));
    families
}
