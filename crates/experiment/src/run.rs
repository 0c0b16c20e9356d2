//! One run: make the members and the pool, fill the volumes, put the load on, measure.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use sinew_devices::flash::Stats;
use sinew_engine::disk::superblock::Config;
use sinew_engine::pool::{self, Candidate};
use sinew_engine::status::ShardStatus;
use sinew_sim::{DeviceStats, Model, OpenPool, Usage, World};
use sinew_workload::Kind;

use crate::load::{self, Load, Times};
use crate::members::{self, Member};
use crate::results::{Figures, FlashResult, KindResult, MemberResult, PoolResult, PoolState, WriteResult};
use crate::spec::{Spec, TargetName};
use crate::target::Target;
use crate::{Error, Result};

/// Called with what a run is doing and how far it is with that, from 0 to 1.
pub(crate) type Progress = Arc<dyn Fn(&'static str, f64) + Send + Sync>;

/// Runs what a description says once. Also gives the number of requests to members in all of it.
pub(crate) fn run(spec: &Spec, seed: u64, base: &Path, progress: &Progress) -> Result<(Figures, u64)> {
    let world = World::new(seed);
    world.set_step_limit(u64::MAX);
    progress("aging members", 0.0);
    let members = members::make(&world, &spec.members, spec.target == TargetName::Member)?;
    let pool = match spec.target {
        TargetName::Pool => Some(open_pool(&world, spec, &members)?),
        TargetName::Member => None,
    };
    let target = match &pool {
        Some(pool) => {
            let volume = |i| pool.volume(&volume_name(i)).expect("it was made with the pool");
            Target::pool((0..spec.volumes.len()).map(volume).collect())
        }
        None => on_member(&world, spec, &members[0])?,
    };
    fill(&world, spec, &target, progress)?;
    let mut workload = spec.workload.clone();
    crate::plan::add_to_seeds(&mut workload.source, seed);
    let requests = workload.open(base)?.requests;
    let start = world.now();
    let measure_from = start + ns(spec.run.warm_up_s);
    let end = measure_from + ns(spec.run.duration_s);
    let interval = ns(spec.run.interval_s);
    let load = Load::start(&world, target, requests, spec.pace, Times { start, measure_from, end, interval });
    let measured = measure(&world, spec, &load, &members, pool.as_ref(), progress);
    if let Some(failure) = load.take_failure() {
        return Err(failure);
    }
    let Measured { before, after, busy_series } = measured?;
    let requests = by_kind(&load, end);
    let member_requests = members.iter().map(|m| requests_of(&world.device(m.device).stats())).sum();
    let members = member_results(spec, &members, &before, &after, busy_series);
    let figures = Figures {
        duration_s: spec.run.duration_s,
        before_s: measure_from as f64 / 1e9,
        interval_s: spec.run.interval_s,
        writes: write_result(&requests, &members),
        requests,
        members,
        pool: pool.map(|pool| pool_result(spec, &pool.control.config(), before.pool, after.pool)),
    };
    Ok((figures, member_requests))
}

fn requests_of(stats: &DeviceStats) -> u64 {
    stats.reads + stats.writes + stats.flushes + stats.discards
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

fn volume_name(number: usize) -> String {
    format!("volume{number}")
}

fn open_pool(world: &World, spec: &Spec, members: &[Member]) -> Result<OpenPool> {
    let candidate = |(i, m): (usize, &Member)| Candidate { device: m.device, path: format!("member{i}") };
    let candidates: Vec<_> = members.iter().enumerate().map(candidate).collect();
    let pool_spec = pool::PoolSpec {
        name: "experiment".to_owned(),
        protection: spec.pool.protection.into(),
        data_columns: spec.pool.width,
        shards: spec.pool.shards.unwrap_or(1),
        checksums: spec.pool.checksums,
        journal_blocks: None,
        force: false,
    };
    let sizes: Vec<u64> = spec.volumes.iter().map(|volume| volume.size.0).collect();
    let throttle = spec.pool.throttle;
    let io = world.io();
    let opened = world.block_on(async move {
        let made = pool::create(&io, &candidates, &pool_spec).await;
        made.map_err(|error| Error::engine("making the pool", error))?;
        let opened = OpenPool::open(io, candidates, || false).await;
        let pool = opened.map_err(|error| Error::engine("opening the pool", error))?;
        for (i, bytes) in sizes.into_iter().enumerate() {
            let made = pool.control.create_volume(&volume_name(i), bytes).await;
            made.map_err(|error| Error::engine("making the volumes", error))?;
        }
        if let Some(rate) = throttle {
            pool.control.throttle(rate.0).await;
        }
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

/// Everything at one time.
struct Snapshot {
    devices: Vec<(DeviceStats, Usage, Option<Stats>)>,
    erase_counts: Vec<BTreeMap<u32, u64>>,
    pool: Option<ShardStatus>,
}

struct Measured {
    before: Snapshot,
    after: Snapshot,
    /// By member, then by span of time.
    busy_series: Vec<Vec<f64>>,
}

fn snapshot(world: &World, members: &[Member], pool: Option<&OpenPool>) -> Result<Snapshot> {
    let status = pool.map(|pool| {
        let control = Rc::clone(&pool.control);
        let status = world.block_on(async move { control.status().await });
        let status = status.map_err(|stuck| Error::engine("asking for the status", stuck))?;
        status.map_err(|error| Error::engine("asking for the status", error))
    });
    let devices = members.iter().map(|m| world.device(m.device));
    let of_flash = |model: &Model| match model {
        Model::Flash(ssd) => {
            let mut counts = BTreeMap::new();
            ssd.erase_counts().iter().for_each(|&count| *counts.entry(count).or_insert(0) += 1);
            (Some(ssd.stats()), counts)
        }
        Model::Disk(_) => (None, BTreeMap::new()),
    };
    let mut snapshot = Snapshot { devices: Vec::new(), erase_counts: Vec::new(), pool: status.transpose()? };
    for device in devices {
        let (flash, counts) = device.model(of_flash).unwrap_or_default();
        snapshot.devices.push((device.stats(), device.usage().unwrap_or_default(), flash));
        snapshot.erase_counts.push(counts);
    }
    Ok(snapshot)
}

/// Lets the load run, looks at the beginning and the end of the measured time and after every span, and waits for the
/// last request.
fn measure(
    world: &World,
    spec: &Spec,
    load: &Load,
    members: &[Member],
    pool: Option<&OpenPool>,
    progress: &Progress,
) -> Result<Measured> {
    let run_for = |time| world.run_for(time).map_err(|stuck| Error::engine("the load", stuck));
    let (warm_up, duration, interval) =
        (ns(spec.run.warm_up_s), ns(spec.run.duration_s), ns(spec.run.interval_s));
    progress("warming up", 0.0);
    run_for(warm_up)?;
    let before = snapshot(world, members, pool)?;
    let usage = |m: &Member| world.device(m.device).usage().unwrap_or_default().busy_ns;
    let mut last: Vec<u64> = members.iter().map(usage).collect();
    let mut busy_series = vec![Vec::new(); members.len()];
    let mut done = 0;
    while done < duration {
        let span = interval.min(duration - done);
        run_for(span)?;
        done += span;
        for ((member, last), series) in members.iter().zip(&mut last).zip(&mut busy_series) {
            let busy = usage(member);
            series.push(part(busy - *last, span));
            *last = busy;
        }
        progress("running", done as f64 / duration as f64);
    }
    let after = snapshot(world, members, pool)?;
    progress("draining", 1.0);
    world.run_until(|| load.has_ended()).map_err(|stuck| Error::engine("the load", stuck))?;
    Ok(Measured { before, after, busy_series })
}

/// A part of a span of time, with the digits that mean something.
fn part(of: u64, span: u64) -> f64 {
    (of as f64 / span as f64 * 1e6).round() / 1e6
}

/// The length of the kind's name is what a reader of the JSON sees.
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

fn member_results(
    spec: &Spec,
    members: &[Member],
    before: &Snapshot,
    after: &Snapshot,
    busy_series: Vec<Vec<f64>>,
) -> Vec<MemberResult> {
    let span = ns(spec.run.duration_s);
    let result = |(i, (member, busy_series)): (usize, (&Member, Vec<f64>))| {
        let ((stats, usage, flash), (stats_then, usage_then, flash_then)) =
            (&after.devices[i], &before.devices[i]);
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
            busy_series,
            flash: flash
                .zip(*flash_then)
                .map(|(now, then)| flash_result(member, span, &now, &then, &after.erase_counts[i])),
        }
    };
    members.iter().zip(busy_series).enumerate().map(result).collect()
}

fn flash_result(
    member: &Member,
    span: u64,
    now: &Stats,
    then: &Stats,
    erase_counts: &BTreeMap<u32, u64>,
) -> FlashResult {
    // Without compression a granule is a block.
    let programmed = |s: &Stats| s.written_granules + s.moved_granules + s.padded_granules;
    let written_blocks = now.written_blocks - then.written_blocks;
    let programmed_blocks = programmed(now) - programmed(then);
    let dies = u64::from(member.dies.unwrap_or(1));
    FlashResult {
        spare: (member.spare.unwrap_or(0.0) * 1e6).round() / 1e6,
        die_busy: part(now.die_busy_ns - then.die_busy_ns, span * dies),
        written_blocks,
        programmed_blocks,
        write_amplification: programmed_blocks as f64 / written_blocks.max(1) as f64,
        erases: now.erases - then.erases,
        stalls: now.stalls - then.stalls,
        stalled_ns: now.stalled_ns - then.stalled_ns,
        erase_counts: erase_counts.iter().map(|(&count, &blocks)| (count, blocks)).collect(),
    }
}

fn write_result(requests: &BTreeMap<String, KindResult>, members: &[MemberResult]) -> WriteResult {
    let client_bytes = requests.get("write").map_or(0, |kind| kind.summary.bytes);
    let member_bytes = members.iter().map(|m| m.written_bytes).sum();
    let flash = members.iter().filter_map(|m| m.flash.as_ref());
    let programmed_bytes = flash.clone().map(|f| f.programmed_blocks * 4096).sum();
    let reached_flash: u64 = flash.map(|f| f.written_blocks * 4096).sum();
    let ratio = |of: u64, to: u64| (to > 0).then(|| of as f64 / to as f64);
    WriteResult {
        client_bytes,
        member_bytes,
        programmed_bytes,
        array_amplification: ratio(member_bytes, client_bytes),
        flash_amplification: ratio(programmed_bytes, reached_flash),
    }
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
        data_columns: config.geometry.data_columns,
        work: counters.map(|((name, now), (_, then))| (name.to_owned(), now - then)).collect(),
        before: pool_state(&before),
        after: pool_state(&after),
    }
}

fn pool_state(status: &ShardStatus) -> PoolState {
    PoolState {
        stored_bytes: status.stored_bytes,
        capacity_bytes: status.capacity_bytes,
        raw_bytes: status.raw_bytes,
        free_bytes: status.free_bytes,
        stripes_mirrored: status.stripes_mirrored,
        stripes_parity: status.stripes_parity,
        stripes_degraded: status.stripes_degraded,
        table_bytes: status.table_bytes,
    }
}
