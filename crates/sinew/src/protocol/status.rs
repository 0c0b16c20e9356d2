//! The answer to `status`: the state of a pool as JSON. docs/control-api.md describes the fields.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::uuid_text;
use sinew_core::physical::Physical;
use sinew_engine::control::health::{Advice, Assessment, Health, Observed, assess};
use sinew_engine::control::physical_space::{DomainSpace, PoolSpace};
use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::config::Config;
use sinew_format::model::damage::{DamagedRange, DamagedRanges};
use sinew_format::model::policy::Policy;
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_members::latency::LatencyHistogram;

use super::advice::{self, Addressed};
use crate::names::access_name;

/// The state of a pool, as far as its configuration and its shards know it. `control` is its control socket, for the
/// commands in its advice.
pub(crate) fn pool(observed: &Observed<'_>, space: &PoolSpace, control: &Path) -> Value {
    let Observed { config, status, .. } = *observed;
    let members: Vec<Value> = config.members.iter().enumerate().map(|(i, m)| {
        let stats = status.members.get(i).copied().unwrap_or_default();
        let latency = status.member_latency.get(i).cloned().unwrap_or_default();
        json!({
            "member": i, "path": m.path, "uuid": uuid_text(&m.uuid), "state": m.state.name(), "bytes": m.bytes,
            "chunks": member_chunks(config, i),
            "chunks_used": match config.geometry {
                PoolGeometry::Mapped(_) => status.member_chunks_used.get(i).copied().unwrap_or(0),
                PoolGeometry::Array(_) => member_chunks(config, i),
            },
            "chunks_parity": status.member_chunks_parity.get(i).copied().unwrap_or(0),
            "chunks_stale": status.member_chunks_stale.get(i).copied().unwrap_or(0),
            "reads": stats.reads, "read_bytes": stats.read_bytes, "writes": stats.writes,
            "written_bytes": stats.written_bytes, "flushes": stats.flushes, "read_errors": stats.read_errors,
            "checksum_errors": stats.checksum_errors, "repaired_blocks": stats.repaired_blocks,
            "response": latency.response.name(), "read_latency_us": quantiles(&latency.reads),
            "write_latency_us": quantiles(&latency.writes), "straggler_after_us": latency.late_after_ns / 1000,
            "stragglers": latency.stragglers, "stragglers_total": latency.stragglers_seen, "spikes": latency.spikes,
            "redirections": latency.redirections, "hedges": latency.hedges,
            "reconstructions": latency.reconstructions, "slower_than_peers_s": latency.slow_for_ns / 1_000_000_000,
            "unanswered_s": latency.unanswered_ns / 1_000_000_000,
            "physical": space.members.get(i).copied().flatten().map(physical), "physical_limit": m.physical,
        })
    }).collect();
    let volumes: Vec<Value> = config
        .volumes
        .iter()
        .filter(|v| !v.deleting)
        .map(|v| json!({ "name": v.name, "bytes": v.bytes }))
        .collect();
    let counters: serde_json::Map<String, Value> =
        status.counters.named().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let Assessment { health, safety, advice } = assess(observed);
    let needs_attention = health > Health::Healthy || advice.iter().any(Advice::needs_action);
    let addressed = Addressed::new(config, control);
    let provisioned: u64 = config.volumes.iter().filter(|v| !v.deleting).map(|v| v.bytes).sum();
    let (columns, array) = match &config.geometry {
        PoolGeometry::Mapped(g) => ((g.data_columns, g.parity_columns()), Value::Null),
        PoolGeometry::Array(a) => ((a.data_columns(), a.parity_columns()), array_json(a)),
    };
    json!({
        "pool": config.name, "uuid": uuid_text(&config.pool), "health": health.name(),
        "data_safe": advice::safety(safety), "needs_attention": needs_attention,
        "damaged_ranges": observed.damaged_ranges,
        "advice": advice.iter().map(|advice| addressed.text(advice)).collect::<Vec<_>>(),
        "protection": config.geometry.name(), "data_columns": columns.0, "parity_columns": columns.1,
        "shards": config.geometry.shards(), "checksums": config.geometry.checksums(), "array": array,
        "stored_bytes": status.stored_bytes, "stored_mirrored_bytes": status.stored_mirrored_bytes,
        "stored_parity_bytes": status.stored_parity_bytes, "capacity_bytes": status.capacity_bytes,
        "provisioned_bytes": provisioned, "overprovisioned": provisioned > status.capacity_bytes,
        "raw_bytes": status.raw_bytes, "free_bytes": status.free_bytes,
        "stripes": { "mirrored": status.stripes_mirrored, "parity": status.stripes_parity,
            "empty": status.stripes_empty, "degraded": status.stripes_degraded, "at_risk": status.stripes_at_risk },
        "metadata_degraded": status.metadata_degraded > 0,
        "rebuild_chunks_left": status.rebuild_chunks_left, "rebalance_chunks_left": status.balance_chunks_left, "resync_stripes_left": status.resync_stripes_left, "scrub_stripes_left": status.scrub_stripes_left,
        "growth_chunks_left": status.growth_chunks_left, "conversions_left": status.conversions_left,
        "table_bytes": status.table_bytes,
        "journal": { "blocks_used": status.journal_blocks_used, "blocks_written": status.journal_blocks_written },
        "counters": counters, "members": members, "volumes": volumes,
        "physical": space.domains.iter().map(domain).collect::<Vec<_>>(),
    })
}

fn physical(physical: Physical) -> Value {
    let Physical { used, free, domain: _, source } = physical;
    json!({ "used": used, "free": free, "total": physical.total(), "source": source.name() })
}

/// Space that members share.
fn domain(space: &DomainSpace) -> Value {
    json!({
        "members": space.members, "used": space.used, "free": space.free, "growth_per_s": space.growth,
        "full_in_s": space.full_in_s(), "overcommitted": space.is_overcommitted,
    })
}

/// Latencies of the latest requests; null without any.
fn quantiles(history: &LatencyHistogram) -> Value {
    let us = |share| history.quantile_ns(share).map(|ns| ns / 1000);
    match us(0.5) {
        Some(p50) => json!({ "p50": p50, "p99": us(0.99), "p99.9": us(0.999) }),
        None => Value::Null,
    }
}

/// Chunks of a member that can be used.
fn member_chunks(config: &Config, member: usize) -> u64 {
    match &config.geometry {
        PoolGeometry::Mapped(geometry) => {
            u64::from(config.members[member].layout.chunks) * geometry.shards as u64
        }
        PoolGeometry::Array(array) => {
            if config.has_place(member) {
                array.layout.member_chunks()
            } else {
                0
            }
        }
    }
}

fn array_json(array: &ArrayGeometry) -> Value {
    let level = array.layout.level();
    json!({
        "level": level.number(), "layout": level.rotation().map(|r| r.to_string()),
        "copies": array.layout.copies(), "groups": array.groups(), "members": array.members(),
        "chunk_bytes": array.layout.chunk_bytes(), "journal": array.journal, "data_offset": array.data_offset(),
        "md": array.md.map(access_name),
        "growing": array.grown.and_then(|grown| grown.method()).map(GrowMethod::name),
        "sets": array.grown.map(|grown| grown.disks().to_vec()),
        "elastic": array.elastic.map(|elastic| json!({
            "expect": f64::from(elastic.expect_milli) / 1000.0,
            "physical_bytes": (elastic.physical > 0).then_some(elastic.physical),
        })),
    })
}

/// The answer to `damage`: the damaged ranges of volumes.
pub(crate) fn damage(damage: &[(String, DamagedRanges)]) -> Value {
    let all =
        damage.iter().flat_map(|(volume, ranges)| ranges.ranges().iter().map(move |range| (volume, range)));
    let range = |(volume, range): (&String, &DamagedRange)| {
        let since = UNIX_EPOCH + Duration::from_secs(range.since_s);
        let since = (range.since_s > 0).then(|| humantime::format_rfc3339_seconds(since).to_string());
        let block = BLOCK_BYTES as u64;
        json!({
            "volume": volume, "offset": range.first * block, "bytes": range.blocks * block, "since": since,
        })
    };
    all.map(range).collect()
}

/// A policy, as the state and the answer to a change of it have it.
pub(crate) fn policy(policy: &Policy) -> Value {
    json!({
        "packing": policy.packing.name(),
        "defragment": policy.gather,
        "discard": policy.discard,
        "convert_below_free": policy.convert_below_free,
        "convert_above_mirrored": policy.convert_above_mirrored,
        "convert_pause_above": policy.convert_pause_above,
    })
}
