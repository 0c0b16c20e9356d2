//! One run: make the members and the pool, fill the volumes, put the load on, measure.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sinew_devices::flash::Stats;
use sinew_members::latency::{MemberLatency, SpikeAvoidance};
use sinew_members::status::ShardStatus;
use sinew_members::update_latency::ChangeParts;
use sinew_sim::{DeviceStats, DiscardReads, World};
use sinew_workload::Kind;

use crate::grow;
use crate::load::{self, Load, Times};
use crate::measure::{Measured, measure, part, pool_state, programmed_blocks, warm_up};
use crate::members::{self, AgedDrives, FlashFacts, Member};
use crate::meter::VolumeMeter;
use crate::results::{
    Changes, FlashResult, KindResult, MemberResult, PoolResult, Simulated, Spikes, VolumeResult, WriteResult,
};
use crate::spec::{PresetName, Spec, TargetName};
use crate::system::System;
use crate::target::Target;
use crate::{Error, Result};

/// Called with what a run is doing and how far it is with that, from 0 to 1.
pub(crate) type Progress = Arc<dyn Fn(&'static str, f64) + Send + Sync>;

/// Runs what a description says once, with drives that others have aged. Also gives the number of requests to members in
/// all of it.
pub(crate) fn run(
    spec: &Spec,
    seed: u64,
    base: &Path,
    aged: Option<&AgedDrives>,
    progress: &Progress,
) -> Result<(Simulated, u64)> {
    let world = World::new(seed);
    world.set_step_limit(u64::MAX);
    world.trace_no_content();
    progress("aging members", 0.0);
    let discard = match spec.preset {
        Some(PresetName(preset)) if preset.discard => DiscardReads::Zeros,
        _ => DiscardReads::Kept,
    };
    let alone = spec.target == TargetName::Member;
    let members = members::make(&world, &spec.members, alone, discard, aged)?;
    let (system, target) = match spec.target {
        TargetName::Member => (None, on_member(&world, spec, &members[0])?),
        _ => {
            let (system, target) = System::open(&world, spec, &members)?;
            (Some(system), target)
        }
    };
    fill(&world, spec, &target, progress)?;
    // What grows has one part.
    let pool = system.as_ref().map(System::only);
    let grow = |before| {
        let grows = spec.grows.as_ref().filter(|grows| grows.before == before);
        grows.zip(pool).map(|(grows, pool)| grow::start(&world, spec, grows, pool, &members))
    };
    if let Some((growing, pool)) = grow(true).zip(pool) {
        progress("growing", 0.0);
        growing.wait(&world, pool, &target)?;
    }
    let mut workload = spec.workload.clone();
    workload.add_to_seeds(seed);
    let requests = workload.open(base)?.requests;
    let start = world.now();
    let measure_from = start + ns(spec.run.warm_up_s);
    let end = measure_from + ns(spec.run.duration_s);
    let interval = ns(spec.run.interval_s);
    let load = Load::start(&world, target, requests, spec.pace, Times { start, measure_from, end, interval });
    for member in members.iter().filter(|member| member.stalled) {
        world.device(member.device).hold_up(end - start);
    }
    warm_up(&world, spec, progress)?;
    let growing = grow(false);
    let to_the_end = spec.grows.as_ref().is_some_and(|grows| grows.to_the_end);
    let is_over = || to_the_end && growing.as_ref().is_some_and(grow::Growing::has_ended);
    let measured = measure(&world, spec, &load, &members, system.as_ref(), is_over, progress);
    if let Some(failure) = load.take_failure() {
        return Err(failure);
    }
    let measured = measured?;
    let end = measure_from + measured.ran_ns;
    let requests = by_kind(&load, end);
    let volumes = by_volume(&load, &spec.workload.names(), end);
    let grew = match growing.as_ref().zip(pool) {
        Some((growing, pool)) => Some(growing.result(&world, pool, requests.values())?),
        None => None,
    };
    let member_requests = members.iter().map(|m| requests_of(&world.device(m.device).stats())).sum();
    let members = member_results(&members, &measured);
    let Measured { before, after, series, ran_ns, .. } = measured;
    let client_bytes = after.client_bytes - before.client_bytes;
    let changes = before.pool.as_ref().zip(after.pool.as_ref()).and_then(changes_between);
    // Where they are not looked for, those from before that was said do not count.
    let watched =
        system.as_ref().filter(|system| system.step_around() != SpikeAvoidance::Off).map(System::members);
    let spikes = before.pool.as_ref().zip(after.pool.as_ref()).zip(watched);
    let figures = Simulated {
        changes,
        spikes: spikes.map(|(states, members)| spikes_between(states, members, ran_ns)),
        duration_s: ran_ns as f64 / 1e9,
        before_s: measure_from as f64 / 1e9,
        interval_s: spec.run.interval_s,
        writes: write_result(client_bytes, &members),
        requests,
        volumes,
        members,
        pool: system.as_ref().and_then(|system| pool_result(system, before.pool, after.pool)),
        grew,
        series,
    };
    Ok((figures, member_requests))
}

fn requests_of(stats: &DeviceStats) -> u64 {
    stats.reads + stats.writes + stats.flushes + stats.discards
}

pub(crate) fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

fn on_member(world: &World, spec: &Spec, member: &Member) -> Result<Target> {
    let sizes = spec.volumes.iter().map(|volume| volume.size.0);
    let total: u64 = sizes.clone().sum();
    if total > member.bytes {
        let why = format!("together {total} bytes, and the member has {}", member.bytes);
        return Err(Error::setting("volumes", why));
    }
    Ok(Target::member(&world.io(), member.device, sizes))
}

fn fill(world: &World, spec: &Spec, target: &Target, progress: &Progress) -> Result<()> {
    for (number, volume) in (0..).zip(&spec.volumes) {
        if volume.fill {
            let progress = Arc::clone(progress);
            load::fill(world, target, number, move |done| progress("filling", done))?;
        }
    }
    for (number, volume) in (0..).zip(&spec.volumes).filter(|(_, volume)| volume.overwrite > 0.0) {
        let progress = Arc::clone(progress);
        let (times, unit) = (volume.overwrite, volume.overwrite_unit.0);
        load::overwrite(world, target, number, times, unit, move |done| progress("overwriting", done))?;
    }
    Ok(())
}

/// What a reader of the JSON sees.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Discard => "discard",
        Kind::Flush => "flush",
    }
}

fn by_kind(load: &Load, end: u64) -> BTreeMap<String, KindResult> {
    let meters = Kind::ALL.iter().zip(load.take_meters());
    meters.filter_map(|(&kind, meter)| Some((kind_name(kind).to_owned(), meter.finish(end)?))).collect()
}

/// Named by what their requests are like, where only one volume's are.
fn by_volume(load: &Load, names: &[(u32, String)], end: u64) -> BTreeMap<String, VolumeResult> {
    let name = |volume: u32| {
        let mut own = names.iter().filter(|(of, _)| *of == volume);
        let (_, name) = own.next().filter(|_| own.next().is_none())?;
        (names.iter().filter(|(_, other)| other == name).count() == 1).then(|| name.clone())
    };
    let meters = load.take_volume_meters();
    if meters.len() < 2 {
        return BTreeMap::new();
    }
    let result = |(volume, meter): (u32, VolumeMeter)| {
        (name(volume).unwrap_or_else(|| format!("volume{volume}")), meter.finish(volume, end))
    };
    (0..).zip(meters).map(result).collect()
}

fn member_results(members: &[Member], measured: &Measured) -> Vec<MemberResult> {
    let Measured { before, after, busy_series, erase_counts, ran_ns: span, .. } = measured;
    let span = *span;
    let result = |(i, member): (usize, &Member)| {
        let ((stats, usage, now), (stats_then, usage_then, then)) = (&after.devices[i], &before.devices[i]);
        let flash = member.flash.zip(now.as_ref().zip(then.as_ref()));
        MemberResult {
            model: member.model,
            bytes: member.bytes,
            reads: stats.reads - stats_then.reads,
            writes: stats.writes - stats_then.writes,
            flushes: stats.flushes - stats_then.flushes,
            read_bytes: stats.read_bytes - stats_then.read_bytes,
            written_bytes: stats.written_bytes - stats_then.written_bytes,
            busy: part(usage.busy_ns - usage_then.busy_ns, span),
            queue: part((usage.request_ns - usage_then.request_ns) as u64, span),
            busy_series: busy_series[i].clone(),
            flash: flash.map(|(facts, (now, then))| flash_result(facts, span, now, then, &erase_counts[i])),
        }
    };
    members.iter().enumerate().map(result).collect()
}

fn flash_result(
    facts: FlashFacts,
    span: u64,
    now: &Stats,
    then: &Stats,
    erase_counts: &BTreeMap<u32, u64>,
) -> FlashResult {
    let written_blocks = now.written_blocks - then.written_blocks;
    let programmed_blocks = programmed_blocks(now) - programmed_blocks(then);
    FlashResult {
        spare: (facts.spare * 1e6).round() / 1e6,
        die_busy: part(now.die_busy_ns - then.die_busy_ns, span * u64::from(facts.dies)),
        written_blocks,
        programmed_blocks,
        write_amplification: ratio(programmed_blocks, written_blocks),
        closed_form_amplification: facts.closed_form,
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
    let programmed_bytes = flash.clone().map(|f| f.programmed_blocks * 4096).sum();
    let reached_flash: u64 = flash.map(|f| f.written_blocks * 4096).sum();
    WriteResult {
        client_bytes,
        member_bytes,
        programmed_bytes,
        array_amplification: ratio(member_bytes, client_bytes),
        flash_amplification: ratio(programmed_bytes, reached_flash),
    }
}

fn changes_between((before, after): (&ShardStatus, &ShardStatus)) -> Option<Changes> {
    let (waits, before, after) =
        (after.update_latency.since(&before.update_latency), &before.counters, &after.counters);
    let all = ChangeParts {
        changes: after.stripe_changes - before.stripe_changes,
        wait_ns: after.stripe_wait_ns - before.stripe_wait_ns,
        read_ns: after.stripe_read_ns - before.stripe_read_ns,
        mark_ns: after.stripe_mark_ns - before.stripe_mark_ns,
        write_ns: after.stripe_write_ns - before.stripe_write_ns,
    };
    let slowest = waits.slowest(100).map(|parts| Box::new(changes(parts, None)));
    (all.changes > 0).then(|| changes(all, slowest))
}

fn changes(parts: ChangeParts, slowest: Option<Box<Changes>>) -> Changes {
    let mean = |sum: u64| (sum as f64 / parts.changes as f64).round();
    Changes {
        changes: parts.changes,
        wait_ns: mean(parts.wait_ns),
        read_ns: mean(parts.read_ns),
        mark_ns: mean(parts.mark_ns),
        write_ns: mean(parts.write_ns),
        slowest,
    }
}

fn spikes_between((before, after): (&ShardStatus, &ShardStatus), members: usize, span_ns: u64) -> Spikes {
    let sum = |status: &ShardStatus| {
        let mut sum = MemberLatency::default();
        status.member_latency.iter().for_each(|latency| sum.add(latency));
        sum
    };
    let (before, after) = (sum(before), sum(after));
    let spikes = after.spikes - before.spikes;
    let minutes = members as f64 * span_ns as f64 / 60e9;
    Spikes {
        spikes,
        per_member_minute: spikes as f64 / minutes,
        mean_ns: ratio(after.spiking_ns - before.spiking_ns, spikes).map(f64::round),
        writes_met: ratio(
            after.spiking_writes - before.spiking_writes,
            after.watched_writes - before.watched_writes,
        ),
        redirections: after.redirections - before.redirections,
        reconstructions: after.reconstructions - before.reconstructions,
    }
}

fn pool_result(
    system: &System,
    before: Option<ShardStatus>,
    after: Option<ShardStatus>,
) -> Option<PoolResult> {
    let (protection, data_columns) = system.mapped()?;
    let (member_bytes, metadata_bytes) = system.bytes();
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let counters = after.counters.named().into_iter().zip(before.counters.named());
    Some(PoolResult {
        protection,
        data_columns,
        member_bytes,
        metadata_bytes,
        work: counters.map(|((name, now), (_, then))| (name.to_owned(), now - then)).collect(),
        before: pool_state(&before),
        after: pool_state(&after),
    })
}
