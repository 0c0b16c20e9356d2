//! The figures of a run: from counters before and after measurement to the results.

use std::collections::BTreeMap;

use sinew_devices::flash::{Redundancy, Stats};
use sinew_members::latency::{MemberLatency, SpikeAvoidance};
use sinew_members::status::ShardStatus;
use sinew_members::update_latency::ChangeParts;
use sinew_sim::ControllerUsage;
use sinew_workload::Kind;

use crate::file::names::TargetName;
use crate::file::spec::{ControllerSpec, Spec};
use crate::results::simulated::{
    ArrayResult, ControllerResult, ElasticResult, FlashResult, KindResult, MemberResult, OnlineGrowthResult,
    ParityResult, PoolResult, ReadResult, RebuiltResult, Simulated, Spikes, Steadiness, StripeUpdates,
    VolumeResult, WriteResult,
};
use crate::run::histogram::VolumeHistogram;
use crate::run::load::{Load, Times};
use crate::run::measure::{LiveShares, Measured, fraction, pool_state, programmed_blocks};
use crate::run::{steady, wear_model};
use crate::system::members::{FlashFacts, Member};
use crate::system::pools::Pools;

/// Bytes of the blocks that counters of flash count.
const FLASH_BLOCK_BYTES: u64 = 4096;

/// What a run observed.
pub(crate) struct Observed<'a> {
    pub(crate) load: &'a Load,
    pub(crate) members: &'a [Member],
    /// The pools or arrays; nothing for a member alone.
    pub(crate) pools: Option<&'a Pools>,
    pub(crate) measured: Measured,
    pub(crate) requests: BTreeMap<String, KindResult>,
    pub(crate) grew: Option<OnlineGrowthResult>,
    pub(crate) rebuilt: Option<RebuiltResult>,
    pub(crate) elastic: Option<ElasticResult>,
    /// Whether the warm-up ended because the load was steady, if it was to.
    pub(crate) reached_steady: Option<bool>,
}

/// All figures of a run with these times of its load.
pub(crate) fn simulated(spec: &Spec, times: Times, observed: Observed<'_>) -> Simulated {
    let Observed { load, members, pools, measured, requests, grew, rebuilt, elastic, reached_steady } =
        observed;
    let Times { measure_from, .. } = times;
    let names: Vec<_> = spec.clients().flat_map(|clients| clients.workload.names()).collect();
    let volumes = by_volume(load, &names, measure_from + measured.ran_ns);
    let array = (spec.preset.is_none() && spec.target == TargetName::Array).then(|| ArrayResult {
        level: spec.array.level,
        members: (spec.members_at_creation(members.len()) - spec.spares()) as u32,
    });
    let members = member_results(members, &measured);
    let Measured { before, after, series, quarters, ran_ns, .. } = measured;
    let states = before.pool.as_ref().zip(after.pool.as_ref());
    // Without detection, the counters have spikes that were detected before it was switched off.
    let detecting = pools.filter(|pools| pools.spike_avoidance() != SpikeAvoidance::Off);
    Simulated {
        changes: states.and_then(|(before, after)| stripe_updates(before, after)),
        spikes: states.zip(detecting).map(|((before, after), pools)| {
            let member_minutes = pools.members() as f64 * ran_ns as f64 / 60e9;
            spikes(before, after, member_minutes)
        }),
        duration_s: ran_ns as f64 / 1e9,
        before_s: measure_from as f64 / 1e9,
        interval_s: spec.run.interval_s,
        load: load.backlog(ran_ns),
        capacity: None,
        load_share: None,
        steadiness: Some(Steadiness {
            warm_up_s: (measure_from - times.start) as f64 / 1e9,
            reached: reached_steady,
            change: steady::change(&quarters),
            quarters,
        }),
        writes: write_result(after.client_bytes - before.client_bytes, &members),
        reads: read_result(after.client_read_bytes - before.client_read_bytes, &members),
        elastic,
        requests,
        volumes,
        members,
        array,
        controllers: controllers(spec, &before.controllers, &after.controllers, ran_ns),
        pool: pools.and_then(|pools| pool_result(pools, before.pool, after.pool)),
        grew,
        rebuilt,
        series,
    }
}

fn controllers(
    spec: &Spec,
    before: &[ControllerUsage],
    after: &[ControllerUsage],
    ran_ns: u64,
) -> Vec<ControllerResult> {
    let result = |(spec, (before, after)): (&ControllerSpec, (&ControllerUsage, &ControllerUsage))| {
        // What a controller has taken on counts at once, so a queue at the end could count for more than the time.
        let busy = |of: fn(&ControllerUsage) -> u64| fraction((of(after) - of(before)).min(ran_ns), ran_ns);
        ControllerResult {
            members: spec.members,
            commands_busy: busy(|usage| usage.commands_ns),
            inward_busy: busy(|usage| usage.inward_ns),
            outward_busy: busy(|usage| usage.outward_ns),
        }
    };
    spec.controllers.iter().zip(before.iter().zip(after)).map(result).collect()
}

/// The name of a kind of requests in the JSON.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Discard => "discard",
        Kind::Flush => "flush",
    }
}

/// The requests by kind, at the end of measurement.
pub(crate) fn by_kind(load: &Load, end: u64) -> BTreeMap<String, KindResult> {
    let histograms = Kind::ALL.iter().zip(load.take_kinds());
    histograms.filter_map(|(&kind, all)| Some((kind_name(kind).to_owned(), all.finish(end)?))).collect()
}

/// The requests by volume. `names` are the names of the workloads of each volume; a volume has that of its only workload, if no
/// other volume has the same.
fn by_volume(load: &Load, names: &[(u32, String)], end: u64) -> BTreeMap<String, VolumeResult> {
    let name = |volume: u32| {
        let mut own = names.iter().filter(|(of, _)| *of == volume);
        let (_, name) = own.next().filter(|_| own.next().is_none())?;
        (names.iter().filter(|(_, other)| other == name).count() == 1).then(|| name.clone())
    };
    let histograms = load.take_volumes();
    if histograms.len() < 2 {
        return BTreeMap::new();
    }
    let result = |(volume, histogram): (u32, VolumeHistogram)| {
        (name(volume).unwrap_or_else(|| format!("volume{volume}")), histogram.finish(volume, end))
    };
    (0..).zip(histograms).map(result).collect()
}

fn member_results(members: &[Member], measured: &Measured) -> Vec<MemberResult> {
    let Measured { before, after, busy_series, live_before, live_after, erase_counts, ran_ns, .. } = measured;
    let result = |(i, member): (usize, &Member)| {
        let (now, then) = (&after.devices[i], &before.devices[i]);
        let flash = member.flash.zip(now.flash.as_ref().zip(then.flash.as_ref()));
        let live = (&live_before[i], &live_after[i]);
        MemberResult {
            model: member.model,
            bytes: member.bytes,
            reads: now.stats.reads - then.stats.reads,
            writes: now.stats.writes - then.stats.writes,
            flushes: now.stats.flushes - then.stats.flushes,
            read_bytes: now.stats.read_bytes - then.stats.read_bytes,
            written_bytes: now.stats.written_bytes - then.stats.written_bytes,
            busy: fraction(now.usage.busy_ns - then.usage.busy_ns, *ran_ns),
            queue: fraction((now.usage.request_ns - then.usage.request_ns) as u64, *ran_ns),
            busy_series: busy_series[i].clone(),
            flash: flash
                .map(|(facts, (now, then))| flash_result(facts, *ran_ns, now, then, live, &erase_counts[i])),
        }
    };
    members.iter().enumerate().map(result).collect()
}

fn flash_result(
    facts: FlashFacts,
    ran_ns: u64,
    now: &Stats,
    then: &Stats,
    live: (&LiveShares, &LiveShares),
    erase_counts: &BTreeMap<u32, u64>,
) -> FlashResult {
    let written_blocks = now.written_blocks - then.written_blocks;
    let programmed_blocks = programmed_blocks(now) - programmed_blocks(then);
    let counted = |count: fn(&Stats) -> u64| count(now) - count(then);
    let parity = (facts.redundancy != Redundancy::EccOnly).then(|| {
        let full = counted(|stats| stats.parity_granules);
        let partial = counted(|stats| stats.partial_parity_granules);
        let row_end = counted(|stats| stats.row_end_parity_granules);
        let cleaning = counted(|stats| stats.cleaning_parity_granules);
        let reads = counted(|stats| stats.parity_reads);
        ParityResult {
            full,
            partial,
            row_end,
            cleaning,
            reads,
            writes_per_block: ratio(full + partial + row_end + cleaning, written_blocks),
            reads_per_block: ratio(reads, written_blocks),
        }
    });
    let erased_blocks = counted(|stats| stats.erases) * u64::from(facts.erase_block_blocks);
    let victim_live = ratio(counted(|stats| stats.victim_granules), erased_blocks);
    FlashResult {
        model: wear_model::predict(&facts, written_blocks, parity.as_ref(), victim_live),
        parity,
        victim_live,
        pe_cycles: erased_blocks as f64 / facts.physical_blocks as f64,
        mapping_reads: counted(|stats| stats.mapping_reads),
        mapping_blocks: counted(|stats| stats.mapping_granules),
        slc_blocks: counted(|stats| stats.slc_granules),
        levelled: counted(|stats| stats.levelled_rows),
        erases_least: erase_counts.keys().next().copied().unwrap_or(0),
        erases_most: erase_counts.keys().next_back().copied().unwrap_or(0),
        spare: (facts.spare * 1e6).round() / 1e6,
        die_busy: fraction(now.die_busy_ns - then.die_busy_ns, ran_ns * u64::from(facts.dies)),
        written_blocks,
        programmed_blocks,
        write_amplification: ratio(programmed_blocks, written_blocks),
        closed_form_amplification: facts.closed_form_amplification,
        live_before: live.0.to_vec(),
        live_after: live.1.to_vec(),
        erases: now.erases - then.erases,
        stalls: now.stalls - then.stalls,
        stalled_ns: now.stalled_ns - then.stalled_ns,
        erase_counts: erase_counts.iter().map(|(&count, &blocks)| (count, blocks)).collect(),
    }
}

fn ratio(of: u64, to: u64) -> Option<f64> {
    (to > 0).then(|| of as f64 / to as f64)
}

fn write_result(client_bytes: u64, members: &[MemberResult]) -> WriteResult {
    let member_bytes = members.iter().map(|m| m.written_bytes).sum();
    let flash = members.iter().filter_map(|m| m.flash.as_ref());
    let programmed_bytes = flash.clone().map(|f| f.programmed_blocks * FLASH_BLOCK_BYTES).sum();
    let reached_flash: u64 = flash.map(|f| f.written_blocks * FLASH_BLOCK_BYTES).sum();
    WriteResult {
        client_bytes,
        member_bytes,
        programmed_bytes,
        array_amplification: ratio(member_bytes, client_bytes),
        read_amplification: ratio(members.iter().map(|m| m.read_bytes).sum(), client_bytes),
        flash_amplification: ratio(programmed_bytes, reached_flash),
    }
}

fn read_result(client_bytes: u64, members: &[MemberResult]) -> ReadResult {
    let member_bytes = members.iter().map(|m| m.read_bytes).sum();
    ReadResult { client_bytes, member_bytes, amplification: ratio(member_bytes, client_bytes) }
}

/// The stripe updates between two states; nothing if there were none.
fn stripe_updates(before: &ShardStatus, after: &ShardStatus) -> Option<StripeUpdates> {
    let (waits, before, after) =
        (after.update_latency.since(&before.update_latency), &before.counters, &after.counters);
    let all = ChangeParts {
        changes: after.stripe_changes - before.stripe_changes,
        wait_ns: after.stripe_wait_ns - before.stripe_wait_ns,
        read_ns: after.stripe_read_ns - before.stripe_read_ns,
        mark_ns: after.stripe_mark_ns - before.stripe_mark_ns,
        write_ns: after.stripe_write_ns - before.stripe_write_ns,
    };
    let slowest = waits.slowest(100).map(|parts| Box::new(mean_times(parts, None)));
    (all.changes > 0).then(|| mean_times(all, slowest))
}

fn mean_times(sums: ChangeParts, slowest: Option<Box<StripeUpdates>>) -> StripeUpdates {
    let mean = |sum: u64| (sum as f64 / sums.changes as f64).round();
    StripeUpdates {
        changes: sums.changes,
        wait_ns: mean(sums.wait_ns),
        read_ns: mean(sums.read_ns),
        mark_ns: mean(sums.mark_ns),
        write_ns: mean(sums.write_ns),
        slowest,
    }
}

/// The spikes between two states. `member_minutes` is the time between them multiplied by the number of members.
fn spikes(before: &ShardStatus, after: &ShardStatus, member_minutes: f64) -> Spikes {
    let sum = |status: &ShardStatus| {
        let mut sum = MemberLatency::default();
        status.member_latency.iter().for_each(|latency| sum.add(latency));
        sum
    };
    let (before, after) = (sum(before), sum(after));
    let spikes = after.spikes - before.spikes;
    Spikes {
        spikes,
        per_member_minute: spikes as f64 / member_minutes,
        mean_ns: ratio(after.spiking_ns - before.spiking_ns, spikes).map(f64::round),
        writes_met: ratio(
            after.spiking_writes - before.spiking_writes,
            after.watched_writes - before.watched_writes,
        ),
        redirections: after.redirections - before.redirections,
        reconstructions: after.reconstructions - before.reconstructions,
    }
}

/// The result of mapped pools; nothing for arrays.
fn pool_result(pools: &Pools, before: Option<ShardStatus>, after: Option<ShardStatus>) -> Option<PoolResult> {
    let stripes = pools.stripes()?;
    let bytes = pools.member_bytes();
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let counters = after.counters.named().into_iter().zip(before.counters.named());
    Some(PoolResult {
        protection: stripes.protection,
        data_columns: stripes.data_columns,
        member_bytes: bytes.all,
        metadata_bytes: bytes.metadata,
        work: counters.map(|((name, now), (_, then))| (name.to_owned(), now - then)).collect(),
        before: pool_state(&before),
        after: pool_state(&after),
    })
}
