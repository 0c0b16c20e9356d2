//! One run of a simulation: create the members and the pool, fill the volumes, start the load, measure.

use std::path::Path;
use std::sync::Arc;

use sinew_sim::{DeviceStats, DiscardReads, World};
use sinew_workload::{Content, ContentSpec};

use crate::file::names::{PresetName, TargetName};
use crate::file::spec::Spec;
use crate::progress::Progress;
use crate::results::simulated::Simulated;
use crate::run::elastic::{self, Conversion};
use crate::run::figures::{self, Observed};
use crate::run::load::{self, Load, LoadClients, Overwrite, Times};
use crate::run::measure::{Subjects, measure, warm_up};
use crate::run::member_failure::MemberFailure;
use crate::run::online_growth::OnlineGrowth;
use crate::system::members::{self, AgedDrives, Member};
use crate::system::pools::Pools;
use crate::system::target::Target;
use crate::units::nanoseconds;
use crate::{Error, Result};

/// The outcome of a run.
pub(crate) struct SimulatedRun {
    pub(crate) figures: Simulated,
    /// The number of requests to members over the whole run.
    pub(crate) member_requests: u64,
}

/// Runs a simulation once. `aged` keeps aged drives from one run for the next.
///
/// # Errors
/// [`Error::Setting`] if members or volumes do not fit, [`Error::Workload`] if the workload cannot be read,
/// [`Error::OutOfRange`] if a request exceeds its volume, and [`Error::Engine`] if the engine refuses an operation or the
/// simulated world makes no progress.
pub(crate) fn run(
    spec: &Spec,
    seed: u64,
    base: &Path,
    aged: Option<&AgedDrives>,
    progress: &Progress,
) -> Result<SimulatedRun> {
    let world = World::new(seed);
    world.set_step_limit(u64::MAX);
    world.trace_no_content();
    progress("aging members", 0.0);
    let by_preset = spec.preset.is_some_and(|PresetName(preset)| preset.discard);
    let by_pool = spec.pool.policy.discard.unwrap_or(by_preset);
    // Discards free the places that forms of an elastic array do not use.
    let discards = by_pool || spec.elastic().is_some();
    let discard = if discards { DiscardReads::Zeros } else { DiscardReads::Kept };
    let alone = spec.target == TargetName::Member;
    let members = members::make(&world, &spec.members, alone, discard, aged)?;
    members::add_controllers(&world, &spec.controllers, &members);
    let (pools, target) = match spec.target {
        TargetName::Member => (None, on_member(&world, spec, &members[0])?),
        _ => {
            let (pools, target) = Pools::open(&world, spec, &members)?;
            (Some(pools), target)
        }
    };
    let target_of = |content: Option<&ContentSpec>| -> Result<_> {
        let target = target.clone();
        Ok(match content {
            Some(content) => target.writing(Content::new(content, seed, base)?),
            None => target,
        })
    };
    let target = target_of(spec.content.as_ref())?;
    fill(&world, spec, &target, progress)?;
    // A system that grows has one part.
    let growing_pool = pools.as_ref().map(Pools::only);
    let grow = |before| {
        let grows = spec.grows.as_ref().filter(|grows| grows.before == before);
        grows.zip(growing_pool).map(|(grows, pool)| OnlineGrowth::start(&world, spec, grows, pool, &members))
    };
    if let Some((growth, pool)) = grow(true).zip(growing_pool) {
        progress("growing", 0.0);
        growth.wait(&world, pool, &target)?;
    }
    if let Some(pool) = growing_pool.filter(|_| spec.target == TargetName::Array || spec.elastic().is_some())
    {
        progress("preparing the array", 0.0);
        elastic::prepare(&world, spec, pool, members.len())?;
    }
    let clients: Result<Vec<_>> = spec
        .clients()
        .map(|clients| {
            let mut workload = clients.workload.clone();
            workload.add_to_seeds(seed);
            let target = target_of(clients.content)?;
            let (pace, starts_ns) = (clients.pace, nanoseconds(clients.starts_s));
            Ok(LoadClients { pace, starts_ns, requests: workload.open(base)?.requests, target })
        })
        .collect();
    let mut times = times_from(world.now(), spec);
    let load = Load::start(&world, clients?, times);
    for member in members.iter().filter(|member| member.stalled) {
        world.device(member.device).hold_up(times.end - times.start);
    }
    let subjects = Subjects { load: &load, members: &members, pools: pools.as_ref() };
    // To simulate an overload to its end would take most of the time of a search.
    let is_given_up = |times| spec.capacity.is_some() && load.overwhelms(times, world.now());
    let reached_steady = warm_up(&world, spec, &subjects, || is_given_up(times), progress)?;
    if reached_steady.is_some() {
        let measure_from = world.now();
        times = Times { measure_from, end: measure_from + nanoseconds(spec.run.duration_s), ..times };
        load.measure(times);
    }
    let growth = grow(false);
    let fails = spec.fails.as_ref().zip(growing_pool);
    let failure =
        fails.map(|(fails, pool)| MemberFailure::start(&world, fails, pool, &members)).transpose()?;
    let until_rebuilt = spec.fails.as_ref().is_some_and(|fails| fails.to_the_end);
    let until_grown = spec.grows.as_ref().is_some_and(|grows| grows.measure_until_grown);
    let conversion = match growing_pool {
        Some(pool) => Conversion::start(&world, spec, pool)?,
        None => None,
    };
    let is_over = || {
        until_grown && growth.as_ref().is_some_and(OnlineGrowth::has_ended)
            || conversion.as_ref().is_some_and(Conversion::has_ended)
            || until_rebuilt && failure.as_ref().is_some_and(MemberFailure::has_ended)
            || is_given_up(times)
    };
    let measured = measure(&world, spec, &subjects, is_over, progress);
    // The failure of the load explains an error of the measurement.
    if let Some(failure) = load.take_failure() {
        return Err(failure);
    }
    let measured = measured?;
    let requests = figures::by_kind(&load, times.measure_from + measured.ran_ns);
    let grew = match growth.as_ref().zip(growing_pool) {
        Some((growth, pool)) => Some(growth.result(&world, pool, requests.values())?),
        None => None,
    };
    let rebuilt = match failure.as_ref().zip(fails) {
        Some((failure, (fails, pool))) => Some(failure.result(&world, pool, fails, seed)?),
        None => None,
    };
    let converted = conversion.as_ref().zip(growing_pool);
    let converted = converted.map(|(conversion, pool)| conversion.result(&world, pool)).transpose()?;
    let elastic = elastic::result(&world, spec, growing_pool, &members, &measured.series, converted)?;
    let member_requests = members.iter().map(|m| count_requests(&world.device(m.device).stats())).sum();
    let observed = Observed {
        load: &load,
        members: &members,
        pools: pools.as_ref(),
        measured,
        requests,
        grew,
        rebuilt,
        elastic,
        reached_steady,
    };
    let figures = figures::simulated(spec, times, observed);
    Ok(SimulatedRun { figures, member_requests })
}

/// The times of a load that starts at `start`; the latest ones if it warms up until it is steady.
fn times_from(start: u64, spec: &Spec) -> Times {
    let steady_s = spec.run.steady.as_ref().map_or(0.0, |steady| steady.max_s);
    let measure_from = start + nanoseconds(spec.run.warm_up_s + steady_s);
    let end = measure_from + nanoseconds(spec.run.duration_s);
    Times { start, measure_from, end, interval: nanoseconds(spec.run.interval_s) }
}

fn count_requests(stats: &DeviceStats) -> u64 {
    stats.reads + stats.writes + stats.flushes + stats.discards
}

/// The volumes on a member alone, without the engine.
fn on_member(world: &World, spec: &Spec, member: &Member) -> Result<Target> {
    let sizes = spec.volumes.iter().map(|volume| volume.size.0);
    let total: u64 = sizes.clone().sum();
    if total > member.bytes {
        let why = format!("together they have {total} bytes; the member has {}", member.bytes);
        return Err(Error::setting("volumes", why));
    }
    Ok(Target::member(&world.io(), member.device, sizes))
}

/// Fills all volumes, then overwrites them at random.
fn fill(world: &World, spec: &Spec, target: &Target, progress: &Progress) -> Result<()> {
    for (number, volume) in (0..).zip(&spec.volumes) {
        if volume.fill {
            let progress = Arc::clone(progress);
            load::fill(world, target, number, volume.fill_part, move |done| progress("filling", done))?;
        }
    }
    for (number, volume) in (0..).zip(&spec.volumes).filter(|(_, volume)| volume.overwrite > 0.0) {
        let progress = Arc::clone(progress);
        let overwrite = Overwrite { times: volume.overwrite, unit_bytes: volume.overwrite_unit.0 };
        load::overwrite(world, target, number, overwrite, move |done| progress("overwriting", done))?;
    }
    Ok(())
}
