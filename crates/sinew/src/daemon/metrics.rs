//! The state of a pool as metrics, for Prometheus and other scrapers. docs/metrics.md describes them.
//!
//! Names say their units. Counters only grow until the pool is opened again, another device takes the place of a member, or
//! a volume is deleted.

use anyhow::Result;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::uuid_text;
use sinew_engine::control::events::Severity;
use sinew_engine::control::health::{Health, Observed, assess};
use sinew_engine::control::physical_space::PoolSpace;
use sinew_format::model::config::{Config, VolumeConfig};
use sinew_format::model::damage::DamagedRanges;
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_members::latency::{LatencyHistogram, MemberLatency};
use sinew_members::member_stats::MemberStats;
use sinew_members::status::{CounterValues, Delayed, ShardStatus};

use super::exposition::{Family, Histogram, Labels, Number, open_metrics};
use super::volume_stats::{BOUNDS_NS, ERRORS, OPS, TimesSum, VolumeStats, VolumeSums};
use crate::pool::host::Open;

const NS_PER_S: f64 = 1e9;

/// The metrics of an open pool as OpenMetrics text.
///
/// # Errors
/// When a shard is gone, or the text cannot be encoded.
pub(super) async fn text(open: &Open, stats: &VolumeStats) -> Result<String> {
    let status = open.control.status().await?;
    let config = open.control.config();
    let volumes: Vec<&VolumeConfig> = config.volumes.iter().filter(|v| !v.deleting).collect();
    stats.retain(&volumes.iter().map(|volume| volume.id).collect::<Vec<_>>());
    let catalog = open.control.catalog();
    let shared = |volume: &VolumeConfig| catalog.get(&volume.name);
    let faults: Vec<usize> = config.members.iter().map(|m| open.faults(&m.path).len()).collect();
    let mut families = of_pool(&open.control.observed(&config, &status, &open.control.unnamed()));
    families.extend(of_space(&open.control.space()));
    families.push(of_events(&open.control.events().counts()));
    families.push(of_damage(&open.control.damage()));
    families.extend(of_members(&config, &status, &faults));
    let is_mapped = matches!(config.geometry, PoolGeometry::Mapped(_));
    let volumes: Vec<UsedVolume<'_>> = volumes
        .into_iter()
        .map(|volume| UsedVolume {
            volume,
            connections: shared(volume).map_or(0, |v| v.connections()),
            delayed: shared(volume).map(|v| v.delayed()).unwrap_or_default(),
            queued: status.volume_queued.get(&volume.id).copied().unwrap_or_default(),
            stored_bytes: is_mapped.then(|| status.volume_bytes.get(&volume.id).copied().unwrap_or(0)),
            sums: stats.of(volume.id),
        })
        .collect();
    families.extend(of_volumes(&volumes));
    open_metrics(&config.name, families)
}

/// A volume and its use.
struct UsedVolume<'a> {
    volume: &'a VolumeConfig,
    connections: usize,
    /// Requests that limits have delayed.
    delayed: Delayed,
    /// Requests that waited for their turn beside those of other volumes.
    queued: Delayed,
    /// Of mapped pools only.
    stored_bytes: Option<u64>,
    sums: VolumeSums,
}

fn gauge(name: &str, help: &str, value: u64) -> Family {
    Family::of(name, help, Number::Gauge(value as f64))
}

/// One number for each value of a label.
fn gauges(name: &str, help: &str, label: &'static str, values: &[(&str, u64)]) -> Family {
    let sample = |&(value, n): &(&str, u64)| (vec![(label, value.to_owned())], Number::Gauge(n as f64));
    Family::new(name, help, values.iter().map(sample).collect())
}

fn of_pool(observed: &Observed<'_>) -> Vec<Family> {
    let Observed { config, status: s, .. } = *observed;
    let health = assess(observed).health;
    let states = Health::ALL.map(|state| (state.name(), u64::from(state == health)));
    let scrub = s.scrub_stripes_left.unwrap_or(0);
    let growth = s.growth_chunks_left.unwrap_or(0);
    let build = vec![("version", env!("CARGO_PKG_VERSION").to_owned()), ("uuid", uuid_text(&config.pool))];
    let mut families = vec![
        Family::new("pool_info", "Version of the server and identity of the pool", vec![(build, ONE)]),
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
        Family::of(
            "journal_written_blocks",
            "Blocks of the journal written",
            Number::Counter(s.journal_blocks_written),
        ),
    ];
    if config.geometry.is_elastic() {
        let (g, requests) = (&s.governor, s.governor.requests.saturating_sub(s.governor.hits));
        families.push(gauges(
            "governor_requests",
            "Requests of the last minute, by the form of their stripe",
            "form",
            &[("mirrored", g.hits), ("other", requests)],
        ));
        families.push(gauges(
            "governor_sampled_bytes",
            "Content that was looked at for its compressibility",
            "of",
            &[("data", g.data_bytes), ("parity", g.parity_bytes)],
        ));
        families.push(gauges(
            "governor_sampled_stored_bytes",
            "The space that it is estimated to take",
            "of",
            &[("data", g.data_stored_bytes), ("parity", g.parity_stored_bytes)],
        ));
    }
    families.extend(s.counters.named().into_iter().zip(CounterValues::MEANINGS).map(counter));
    families
}

/// Events since the pool was opened.
fn of_events(counts: &[(&'static str, Severity, u64)]) -> Family {
    let sample = |&(event, severity, count): &(&'static str, Severity, u64)| {
        let labels = vec![("event", event.to_owned()), ("severity", severity.name().to_owned())];
        (labels, Number::Counter(count))
    };
    Family::new("events", "Events of the pool", counts.iter().map(sample).collect())
}

/// Damaged parts of volumes; nothing where there are none.
fn of_damage(damage: &[(String, DamagedRanges)]) -> Family {
    let bytes = |ranges: &DamagedRanges| {
        ranges.ranges().iter().map(|range| range.blocks * BLOCK_BYTES as u64).sum::<u64>() as f64
    };
    let sample = |(volume, ranges): &(String, DamagedRanges)| {
        (vec![("volume", volume.clone())], Number::Gauge(bytes(ranges)))
    };
    let help = "Bytes of the volume that had no good copy when they were read; absent if there are none";
    Family::new("volume_damaged_bytes", help, damage.iter().map(sample).collect())
}

/// Physical space of thin members; nothing where there are none.
fn of_space(space: &PoolSpace) -> Vec<Family> {
    let mut bytes = Vec::new();
    for (member, physical) in space.members.iter().enumerate() {
        let Some(physical) = physical else { continue };
        let sample = |of: &str, value: u64| (member_with(member, "space", of), Number::Gauge(value as f64));
        bytes.push(sample("used", physical.used));
        bytes.extend(physical.free.map(|free| sample("free", free)));
    }
    let mut until_full = Vec::new();
    for domain in &space.domains {
        let Some(seconds) = domain.full_in_s() else { continue };
        until_full.extend(domain.members.iter().map(|m| (member(*m), Number::Gauge(seconds as f64))));
    }
    let help = "Seconds until the member's physical space is full at the rate of the last minute; absent if it does not grow";
    vec![
        Family::new(
            "member_physical_bytes",
            "Physical space of thin members: used, and free to be shared",
            bytes,
        ),
        Family::new("member_physical_full_seconds", help, until_full),
    ]
}

/// A counter of the state. Nanoseconds become seconds.
fn counter(((name, value), meaning): ((&str, u64), &&str)) -> Family {
    match (name.strip_suffix("_ns"), meaning.strip_prefix("Nanoseconds")) {
        (Some(name), Some(rest)) => Family::of(
            &format!("{name}_seconds"),
            &format!("Seconds{rest}"),
            Number::Seconds(value as f64 / NS_PER_S),
        ),
        _ => Family::of(name, meaning, Number::Counter(value)),
    }
}

const ONE: Number = Number::Gauge(1.0);

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

/// The label of a member.
fn member(number: usize) -> Labels {
    vec![("member", number.to_string())]
}

/// The label of a member, and another one.
fn member_with(number: usize, name: &'static str, value: &str) -> Labels {
    vec![("member", number.to_string()), (name, value.to_owned())]
}

/// A counter of every member.
fn counters_of_members<T>(members: &[T], (name, help, of): Counted<T>) -> Family {
    let each = members.iter().enumerate();
    Family::new(name, help, each.map(|(i, m)| (member(i), Number::Counter(of(m)))).collect())
}

/// A gauge of every member.
fn gauges_of_members(name: &str, help: &str, values: impl Iterator<Item = u64>) -> Family {
    let sample = |(i, value)| (member(i), Number::Gauge(value as f64));
    Family::new(name, help, values.enumerate().map(sample).collect())
}

fn of_members(config: &Config, status: &ShardStatus, faults: &[usize]) -> Vec<Family> {
    let mut families: Vec<Family> =
        REQUESTS.into_iter().map(|of| counters_of_members(&status.members, of)).collect();
    families.extend(ANSWERS.into_iter().map(|of| counters_of_members(&status.member_latency, of)));
    let latency = &status.member_latency;
    let members = || config.members.iter().enumerate();
    let infos = members().map(|(i, m)| {
        let mut labels = member_with(i, "path", &m.path);
        labels.push(("uuid", uuid_text(&m.uuid)));
        (labels, ONE)
    });
    families.push(Family::new("member_info", "Where the member is, and its identity", infos.collect()));
    let states = members().map(|(i, m)| (member_with(i, "state", m.state.name()), ONE));
    families.push(Family::new("member_state", "1 for the state that the member is in", states.collect()));
    let responses = latency.iter().enumerate();
    let responses = responses.map(|(i, m)| (member_with(i, "response", m.response.name()), ONE));
    families.push(Family::new("member_response", "1 for how the member answers", responses.collect()));
    let sizes = config.members.iter().map(|m| m.bytes);
    families.push(gauges_of_members("member_size_bytes", "Sizes of members", sizes));
    let used = status.member_chunks_used.iter().copied();
    families.push(gauges_of_members("member_used_chunks", "Chunks of stripes on the member", used));
    let pending = latency.iter().map(|m| u64::from(m.stragglers));
    let help = "Requests pending for too long now";
    families.push(gauges_of_members("member_stragglers_pending", help, pending));
    let unanswered = latency.iter().map(|m| m.unanswered_ns / 1_000_000_000);
    let help = "How long the member's oldest request has been pending";
    families.push(gauges_of_members("member_unanswered_seconds", help, unanswered));
    let faults = faults.iter().map(|&count| count as u64);
    families.push(gauges_of_members("member_faults", "Faults injected into the member", faults));
    families.push(recent("member_read_latency_seconds", latency, |m| &m.reads));
    families.push(recent("member_write_latency_seconds", latency, |m| &m.writes));
    families
}

/// How long parts of the latest requests took.
fn recent(name: &str, members: &[MemberLatency], of: fn(&MemberLatency) -> &LatencyHistogram) -> Family {
    let of_member = |(i, m): (usize, &MemberLatency)| {
        let one = |(percentile, share)| {
            let seconds = of(m).quantile_ns(share)? as f64 / NS_PER_S;
            Some((member_with(i, "percentile", percentile), Number::Gauge(seconds)))
        };
        [("50", 0.5), ("99", 0.99), ("99.9", 0.999)].into_iter().filter_map(one).collect::<Vec<_>>()
    };
    let samples = members.iter().enumerate().flat_map(of_member).collect();
    Family::new(name, "How long a part of the member's latest requests took at most", samples)
}

fn of_volumes(volumes: &[UsedVolume<'_>]) -> Vec<Family> {
    let each = |name: &str, help: &str, of: fn(&UsedVolume<'_>) -> Number| {
        let sample = |v: &UsedVolume<'_>| (volume(v), of(v));
        Family::new(name, help, volumes.iter().map(sample).collect())
    };
    let times = volumes.iter().flat_map(|v| {
        let with_op = |(op, times): (&str, &TimesSum)| (volume_with(v, "op", op), histogram(times));
        OPS.into_iter().zip(&v.sums.times).map(with_op).collect::<Vec<_>>()
    });
    let errors = volumes.iter().flat_map(|v| {
        let of_error = |(error, &n): (&str, &u64)| (volume_with(v, "error", error), Number::Counter(n));
        ERRORS.into_iter().zip(&v.sums.errors).map(of_error).collect::<Vec<_>>()
    });
    let stored = volumes.iter().filter_map(|v| Some((volume(v), Number::Gauge(v.stored_bytes? as f64))));
    vec![
        each("volume_size_bytes", "Sizes of volumes", |v| Number::Gauge(v.volume.bytes as f64)),
        Family::new("volume_stored_bytes", "Bytes that the volume stores", stored.collect()),
        each("volume_connections", "Connections of clients", |v| Number::Gauge(v.connections as f64)),
        each("volume_limit_requests_per_second", "Limit of requests per second; 0 for none", |v| {
            Number::Gauge(v.volume.limits.iops as f64)
        }),
        each("volume_limit_bytes_per_second", "Limit of bytes per second; 0 for none", |v| {
            Number::Gauge(v.volume.limits.bytes_per_second as f64)
        }),
        each("volume_delayed_requests", "Requests that limits of the volume delayed", |v| {
            Number::Counter(v.delayed.requests)
        }),
        each("volume_delay_seconds", "Seconds for which limits of the volume delayed requests", |v| {
            Number::Seconds(v.delayed.ns as f64 / NS_PER_S)
        }),
        each("volume_queued_requests", "Requests that waited for their turn beside other volumes", |v| {
            Number::Counter(v.queued.requests)
        }),
        each("volume_queued_seconds", "Seconds for which requests waited for their turn", |v| {
            Number::Seconds(v.queued.ns as f64 / NS_PER_S)
        }),
        each("volume_read_bytes", "Bytes that clients read", |v| Number::Counter(v.sums.read_bytes)),
        each("volume_written_bytes", "Bytes that clients wrote", |v| Number::Counter(v.sums.written_bytes)),
        Family::new(
            "volume_request_duration_seconds",
            "Requests of clients, by how long they took in the server",
            times.collect(),
        ),
        Family::new(
            "volume_request_errors",
            "Requests of clients that were answered with an error",
            errors.collect(),
        ),
    ]
}

/// The label of a volume.
fn volume(used: &UsedVolume<'_>) -> Labels {
    vec![("volume", used.volume.name.clone())]
}

/// The label of a volume, and another one.
fn volume_with(used: &UsedVolume<'_>, name: &'static str, value: &str) -> Labels {
    vec![("volume", used.volume.name.clone()), (name, value.to_owned())]
}

fn histogram(times: &TimesSum) -> Number {
    let ends = BOUNDS_NS.iter().map(|ns| *ns as f64 / NS_PER_S).chain([f64::INFINITY]);
    let buckets = ends.zip(times.buckets).collect();
    Number::Histogram(Histogram { buckets, sum_seconds: times.sum_ns as f64 / NS_PER_S })
}
