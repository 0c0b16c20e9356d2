//! One run: make the members and the pool, fill the volumes, put the load on, measure.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sinew_devices::flash::Stats;
use sinew_engine::array::geometry::ArraySpec;
use sinew_engine::disk::superblock::Config;
use sinew_engine::pool::{self, Candidate};
use sinew_engine::status::ShardStatus;
use sinew_engine::throttle::Bounds;
use sinew_sim::{DeviceStats, OpenPool, World};
use sinew_workload::Kind;

use crate::grow;
use crate::load::{self, Load, Times};
use crate::measure::{Measured, measure, part, pool_state, programmed_blocks, warm_up};
use crate::members::{self, FlashFacts, Member};
use crate::results::{Changes, FlashResult, KindResult, MemberResult, PoolResult, Simulated, WriteResult};
use crate::spec::{Spec, TargetName};
use crate::target::Target;
use crate::{Error, Result};

/// The name of the pool or array.
const NAME: &str = "experiment";

/// Called with what a run is doing and how far it is with that, from 0 to 1.
pub(crate) type Progress = Arc<dyn Fn(&'static str, f64) + Send + Sync>;

/// Runs what a description says once. Also gives the number of requests to members in all of it.
pub(crate) fn run(spec: &Spec, seed: u64, base: &Path, progress: &Progress) -> Result<(Simulated, u64)> {
    let world = World::new(seed);
    world.set_step_limit(u64::MAX);
    world.trace_no_content();
    progress("aging members", 0.0);
    let members = members::make(&world, &spec.members, spec.target == TargetName::Member)?;
    let pool = match spec.target {
        TargetName::Pool | TargetName::Array => Some(open_pool(&world, spec, &members)?),
        TargetName::Member => None,
    };
    let target = match &pool {
        Some(pool) => {
            let volume = |i| pool.volume(&volume_name(spec, i)).expect("it was made with the pool");
            Target::pool((0..spec.volumes.len()).map(volume).collect())
        }
        None => on_member(&world, spec, &members[0])?,
    };
    fill(&world, spec, &target, progress)?;
    let grow = |before| {
        let grows = spec.grows.as_ref().filter(|grows| grows.before == before);
        grows.zip(pool.as_ref()).map(|(grows, pool)| grow::start(&world, spec, grows, pool, &members))
    };
    if let Some((growing, pool)) = grow(true).zip(pool.as_ref()) {
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
    warm_up(&world, spec, progress)?;
    let growing = grow(false);
    let to_the_end = spec.grows.as_ref().is_some_and(|grows| grows.to_the_end);
    let is_over = || to_the_end && growing.as_ref().is_some_and(grow::Growing::has_ended);
    let measured = measure(&world, spec, &load, &members, pool.as_ref(), is_over, progress);
    if let Some(failure) = load.take_failure() {
        return Err(failure);
    }
    let measured = measured?;
    let end = measure_from + measured.ran_ns;
    let requests = by_kind(&load, end);
    let grew = match growing.as_ref().zip(pool.as_ref()) {
        Some((growing, pool)) => Some(growing.result(&world, pool, requests.values())?),
        None => None,
    };
    let member_requests = members.iter().map(|m| requests_of(&world.device(m.device).stats())).sum();
    let members = member_results(&members, &measured);
    let Measured { before, after, series, ran_ns, .. } = measured;
    let client_bytes = after.client_bytes - before.client_bytes;
    let changes = before.pool.as_ref().zip(after.pool.as_ref()).and_then(changes_between);
    let figures = Simulated {
        changes,
        duration_s: ran_ns as f64 / 1e9,
        before_s: measure_from as f64 / 1e9,
        interval_s: spec.run.interval_s,
        writes: write_result(client_bytes, &members),
        requests,
        members,
        pool: pool
            .filter(|_| spec.target == TargetName::Pool)
            .map(|pool| pool_result(spec, &pool.control.config(), before.pool, after.pool)),
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

/// An array's volume has its name.
fn volume_name(spec: &Spec, number: usize) -> String {
    if spec.target == TargetName::Array { NAME.to_owned() } else { format!("volume{number}") }
}

/// A member as the engine is given it.
pub(crate) fn candidate(number: usize, member: &Member) -> Candidate {
    Candidate { device: member.device, path: format!("member{number}") }
}

fn open_pool(world: &World, spec: &Spec, members: &[Member]) -> Result<OpenPool> {
    let first = &members[..grow::first_members(spec, members.len())];
    let candidates: Vec<_> = first.iter().enumerate().map(|(i, m)| candidate(i, m)).collect();
    let (kind, shards, volumes) = match spec.target {
        TargetName::Array => {
            let array = ArraySpec {
                level: spec.array.level.into(),
                chunk_bytes: spec.array.chunk.0 as u32,
                journal: spec.array.journal,
                spares: 0,
                zeroed: true,
            };
            // Its one volume is made with it.
            (pool::PoolKind::Array(array), spec.array.shards, [].as_slice())
        }
        _ => {
            let mapped = pool::PoolKind::Mapped {
                protection: spec.pool.protection.into(),
                data_columns: spec.pool.width,
                checksums: spec.pool.checksums,
            };
            (mapped, spec.pool.shards, spec.volumes.as_slice())
        }
    };
    let pool_spec = pool::PoolSpec {
        name: NAME.to_owned(),
        kind,
        shards: shards.unwrap_or(1),
        journal_blocks: None,
        force: false,
    };
    let sizes: Vec<(String, u64)> =
        volumes.iter().enumerate().map(|(i, v)| (volume_name(spec, i), v.size.0)).collect();
    let bounds = Bounds {
        bytes_per_second: spec.pool.throttle.map_or(0, |rate| rate.0),
        rest_above: spec.grows.as_ref().map_or(0, |grows| grows.rest_above),
    };
    let step_around = spec.pool.step_around.into();
    let io = world.io();
    let opened = world.block_on(async move {
        let made = pool::create(&io, &candidates, &pool_spec).await;
        made.map_err(|error| Error::engine("making the pool", error))?;
        let opened = OpenPool::open(io, candidates, || false).await;
        let pool = opened.map_err(|error| Error::engine("opening the pool", error))?;
        for (name, bytes) in sizes {
            let made = pool.control.create_volume(&name, bytes).await;
            made.map_err(|error| Error::engine("making the volumes", error))?;
        }
        pool.control.throttle(bounds).await;
        pool.control.step_around(step_around).await;
        Ok(pool)
    });
    opened.map_err(|stuck| Error::engine("making the pool", stuck))?
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
        load::overwrite(world, target, number, volume.overwrite, move |done| progress("overwriting", done))?;
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
    let (before, after) = (&before.counters, &after.counters);
    let changes = after.stripe_changes - before.stripe_changes;
    let mean = |after: u64, before: u64| ((after - before) as f64 / changes as f64).round();
    (changes > 0).then(|| Changes {
        changes,
        wait_ns: mean(after.stripe_wait_ns, before.stripe_wait_ns),
        read_ns: mean(after.stripe_read_ns, before.stripe_read_ns),
        mark_ns: mean(after.stripe_mark_ns, before.stripe_mark_ns),
        write_ns: mean(after.stripe_write_ns, before.stripe_write_ns),
    })
}

fn pool_result(
    spec: &Spec,
    config: &Config,
    before: Option<ShardStatus>,
    after: Option<ShardStatus>,
) -> PoolResult {
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let counters = after.counters.named().into_iter().zip(before.counters.named());
    PoolResult {
        protection: spec.pool.protection,
        data_columns: config.mapped().data_columns,
        work: counters.map(|((name, now), (_, then))| (name.to_owned(), now - then)).collect(),
        before: pool_state(&before),
        after: pool_state(&after),
    }
}
