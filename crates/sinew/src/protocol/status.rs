//! The answer to `status`, from what the configuration and the shards know.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::uuid_text;
use sinew_core::physical::Physical;
use sinew_engine::control::health::{Advice, Assessment, Health, Observed, assess};
use sinew_engine::control::physical_space::{DomainSpace, PoolSpace};
use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::config::{Config, VolumeConfig};
use sinew_format::model::damage::{DamagedRange, DamagedRanges};
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::policy::Policy;
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_format::model::volume_limits::VolumeLimits;
use sinew_members::latency::LatencyHistogram;
use sinew_members::open_mode::OpenMode;
use sinew_members::status::{BalanceBlocked, GovernorStatus, ShardStatus};

use super::advice::{self, Addressed};
use super::answer::DamagedPart;
use super::state::{
    API_VERSION, ArrayState, ElasticPolicyState, ElasticState, GovernorState, JournalState, MemberSpace,
    MemberView, Percentiles, PolicyState, PoolState, RebalanceBlocked, SharedSpace, StripeCounts,
    VolumeLimitsState, VolumeView,
};
use crate::names::access_name;

/// The state of a pool, as far as its configuration and its shards know it: without work and rates, settings, places, and
/// what a member's device tells. `control` is its control socket, for the commands in its advice.
pub(crate) fn pool(observed: &Observed<'_>, space: &PoolSpace, control: &Path) -> PoolState {
    let Observed { config, status, .. } = *observed;
    let Assessment { health, safety, advice } = assess(observed);
    let needs_attention = health > Health::Healthy || advice.iter().any(Advice::needs_action);
    let addressed = Addressed::new(config, control);
    let volumes = || config.volumes.iter().filter(|v| !v.deleting);
    let provisioned: u64 = volumes().map(|v| v.bytes).sum();
    let (columns, array) = match &config.geometry {
        PoolGeometry::Mapped(g) => ((g.data_columns, g.parity_columns()), None),
        PoolGeometry::Array(a) => {
            ((a.data_columns(), a.parity_columns()), Some(array_state(a, config, &status.governor)))
        }
    };
    let counters = status.counters.named();
    PoolState {
        api_version: API_VERSION,
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
        pool: config.name.clone(),
        uuid: uuid_text(&config.pool),
        health: health.name().to_owned(),
        access: access(observed).to_owned(),
        data_safe: advice::safety(safety).to_owned(),
        needs_attention,
        damaged_ranges: observed.damaged_ranges,
        advice: advice.iter().map(|advice| addressed.text(advice)).collect(),
        protection: config.geometry.name(),
        data_columns: columns.0,
        parity_columns: columns.1,
        shards: config.geometry.shards(),
        checksums: config.geometry.checksums(),
        array,
        stored_bytes: status.stored_bytes,
        stored_mirrored_bytes: status.stored_mirrored_bytes,
        stored_parity_bytes: status.stored_parity_bytes,
        capacity_bytes: status.capacity_bytes,
        provisioned_bytes: provisioned,
        overprovisioned: provisioned > status.capacity_bytes,
        raw_bytes: status.raw_bytes,
        free_bytes: status.free_bytes,
        stripes: StripeCounts {
            mirrored: status.stripes_mirrored,
            parity: status.stripes_parity,
            empty: status.stripes_empty,
            degraded: status.stripes_degraded,
            at_risk: status.stripes_at_risk,
        },
        metadata_degraded: status.metadata_degraded > 0,
        rebuild_chunks_left: status.rebuild_chunks_left,
        rebalance_chunks_left: status.balance_chunks_left,
        rebalance_blocked: rebalance_blocked(status),
        resync_stripes_left: status.resync_stripes_left,
        scrub_stripes_left: status.scrub_stripes_left,
        growth_chunks_left: status.growth_chunks_left,
        conversions_left: status.conversions_left,
        table_bytes: status.table_bytes,
        journal: JournalState {
            blocks_used: status.journal_blocks_used,
            blocks_written: status.journal_blocks_written,
        },
        counters: counters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        members: (0..config.members.len()).map(|i| member(observed, space, i)).collect(),
        physical: space.domains.iter().map(domain).collect(),
        volumes: volumes().map(|v| volume(observed, v)).collect(),
        ..PoolState::default()
    }
}

/// Why shares differ although nothing moves.
fn rebalance_blocked(status: &ShardStatus) -> Option<RebalanceBlocked> {
    let BalanceBlocked { chunks, together, no_room, degraded, open, unmovable } = status.balance_blocked;
    let is_blocked = chunks > 0 && status.balance_chunks_left == 0;
    is_blocked.then_some(RebalanceBlocked { chunks, together, no_room, degraded, open, unmovable })
}

/// Whether the members are written; md's arrays say that by themselves.
fn access(observed: &Observed<'_>) -> &'static str {
    match observed.config.geometry {
        PoolGeometry::Array(array) if array.is_read_only() => OpenMode::ReadOnly.name(),
        _ => observed.mode.name(),
    }
}

fn volume(observed: &Observed<'_>, volume: &VolumeConfig) -> VolumeView {
    let used = observed.status.volume_bytes.get(&volume.id).copied().unwrap_or(0);
    let used_bytes = matches!(observed.config.geometry, PoolGeometry::Mapped(_)).then_some(used);
    VolumeView {
        name: volume.name.clone(),
        bytes: volume.bytes,
        used_bytes,
        protection: observed.config.protection_of(volume).map(|chosen| chosen.to_string()),
        misplaced_bytes: observed.status.volume_misplaced_bytes.get(&volume.id).copied(),
        limits: volume_limits(&volume.limits),
        queued_requests: observed.status.volume_queued.get(&volume.id).map_or(0, |queued| queued.requests),
        ..VolumeView::default()
    }
}

/// The limits of a volume, as the state and the answer to a change of them have it.
pub(crate) fn volume_limits(limits: &VolumeLimits) -> VolumeLimitsState {
    let VolumeLimits { iops, bytes_per_second, burst_ms } = *limits;
    VolumeLimitsState { iops, bytes_per_second, burst_ms }
}

fn member(observed: &Observed<'_>, space: &PoolSpace, i: usize) -> MemberView {
    let Observed { config, status, .. } = *observed;
    let m = &config.members[i];
    let stats = status.members.get(i).copied().unwrap_or_default();
    let latency = status.member_latency.get(i).cloned().unwrap_or_default();
    let chunks = member_chunks(config, i);
    MemberView {
        member: i,
        path: m.path.clone(),
        uuid: uuid_text(&m.uuid),
        state: m.state.name().to_owned(),
        bytes: m.bytes,
        chunks,
        chunks_used: match config.geometry {
            PoolGeometry::Mapped(_) => status.member_chunks_used.get(i).copied().unwrap_or(0),
            PoolGeometry::Array(_) => chunks,
        },
        chunks_parity: status.member_chunks_parity.get(i).copied().unwrap_or(0),
        chunks_stale: status.member_chunks_stale.get(i).copied().unwrap_or(0),
        reads: stats.reads,
        read_bytes: stats.read_bytes,
        writes: stats.writes,
        written_bytes: stats.written_bytes,
        flushes: stats.flushes,
        read_errors: u64::from(stats.read_errors),
        checksum_errors: stats.checksum_errors,
        repaired_blocks: stats.repaired_blocks,
        response: latency.response.name().to_owned(),
        read_latency_us: percentiles(&latency.reads),
        write_latency_us: percentiles(&latency.writes),
        straggler_after_us: latency.late_after_ns / 1000,
        stragglers: u64::from(latency.stragglers),
        stragglers_total: latency.stragglers_seen,
        spikes: latency.spikes,
        redirections: latency.redirections,
        hedges: latency.hedges,
        reconstructions: latency.reconstructions,
        slower_than_peers_s: latency.slow_for_ns / 1_000_000_000,
        unanswered_s: latency.unanswered_ns / 1_000_000_000,
        timed_out: false,
        faults: Vec::new(),
        physical: space.members.get(i).copied().flatten().map(physical),
        physical_limit: m.physical,
        weight: m.weight,
    }
}

fn physical(physical: Physical) -> MemberSpace {
    let Physical { used, free, domain: _, source } = physical;
    MemberSpace { used, free, total: physical.total(), source: source.name().to_owned() }
}

/// Space that members share.
fn domain(space: &DomainSpace) -> SharedSpace {
    SharedSpace {
        members: space.members.clone(),
        used: space.used,
        free: space.free,
        growth_per_s: space.growth,
        full_in_s: space.full_in_s(),
        overcommitted: space.is_overcommitted,
    }
}

/// Latencies of the latest requests; none without any.
fn percentiles(history: &LatencyHistogram) -> Option<Percentiles> {
    let us = |share| history.quantile_ns(share).map(|ns| ns / 1000);
    Some(Percentiles { p50: us(0.5)?, p99: us(0.99)?, p999: us(0.999)? })
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

fn array_state(array: &ArrayGeometry, config: &Config, governor: &GovernorStatus) -> ArrayState {
    let level = array.layout.level();
    ArrayState {
        level: u32::from(level.number()),
        layout: level.rotation().map(|r| r.to_string()),
        parity_weights: level.weights().map(|weights| weights.weights()),
        copies: array.layout.copies() as u64,
        groups: array.groups() as u64,
        members: array.members() as u64,
        chunk_bytes: u64::from(array.layout.chunk_bytes()),
        journal: array.journal,
        data_offset: array.data_offset(),
        md: array.md.map(|access| access_name(access).to_owned()),
        growing: array
            .grown
            .and_then(|grown| grown.method())
            .map(|method| GrowMethod::name(method).to_owned()),
        sets: array.grown.map(|grown| grown.disks().iter().map(|&disks| disks as u64).collect()),
        elastic: array.elastic.map(|elastic| ElasticState {
            expect: f64::from(elastic.expect_milli) / 1000.0,
            physical_bytes: (elastic.physical > 0).then_some(elastic.physical),
            policy: elastic_policy(&config.elastic_policy),
            governor: governor_state(governor),
        }),
    }
}

fn governor_state(seen: &GovernorStatus) -> GovernorState {
    let ratio = |all: u64, part: u64| (part > 0).then(|| all as f64 / part as f64);
    GovernorState {
        requests: seen.requests,
        hits: seen.hits,
        hit_rate: (seen.requests > 0).then(|| seen.hits as f64 / seen.requests as f64),
        data_ratio: ratio(seen.data_bytes, seen.data_stored_bytes),
        parity_ratio: ratio(seen.parity_bytes, seen.parity_stored_bytes),
    }
}

/// The policy of an elastic array, as the state and the answer to a change of it have it.
pub(crate) fn elastic_policy(policy: &ElasticPolicy) -> ElasticPolicyState {
    ElasticPolicyState {
        mirrored_share: policy.mirrored_share,
        govern: policy.governed,
        low: policy.low,
        high: policy.high,
        hit_factor: f64::from(policy.hit_factor) / 100.0,
        steady: f64::from(policy.steady_permille) / 10.0,
        interval_ms: policy.interval_ms,
        convert_rate: policy.convert_rate,
        weigh: policy.weighed,
        autonomous: policy.autonomous,
        autonomous_period_s: policy.autonomous_period_s,
    }
}

/// The answer to `damage`: the damaged ranges of volumes.
pub(crate) fn damage(damage: &[(String, DamagedRanges)]) -> Vec<DamagedPart> {
    let all =
        damage.iter().flat_map(|(volume, ranges)| ranges.ranges().iter().map(move |range| (volume, range)));
    let part = |(volume, range): (&String, &DamagedRange)| {
        let since = UNIX_EPOCH + Duration::from_secs(range.since_s);
        let block = BLOCK_BYTES as u64;
        DamagedPart {
            volume: volume.clone(),
            offset: range.first * block,
            bytes: range.blocks * block,
            since: (range.since_s > 0).then(|| humantime::format_rfc3339_seconds(since).to_string()),
        }
    };
    all.map(part).collect()
}

/// A policy, as the state and the answer to a change of it have it.
pub(crate) fn policy(policy: &Policy) -> PolicyState {
    PolicyState {
        packing: policy.packing.name().to_owned(),
        defragment: policy.gather,
        discard: policy.discard,
        convert_below_free: policy.convert_below_free,
        convert_above_mirrored: policy.convert_above_mirrored,
        convert_pause_above: policy.convert_pause_above,
        shares: policy.shares.name().to_owned(),
    }
}
