//! What members and pool do in the measured time: looked at when it begins, after every span, and when it ends.

use std::collections::BTreeMap;

use sinew_devices::flash::Stats;
use sinew_members::status::ShardStatus;
use sinew_sim::{DeviceStats, Model, Usage, World};

use crate::load::Load;
use crate::members::Member;
use crate::results::{PoolState, Span};
use crate::run::{Progress, ns};
use crate::spec::Spec;
use crate::system::System;
use crate::{Error, Result};

/// Spans in which everything is looked at, at most: looking at a pool takes real time.
const LOOKS_MAX: usize = 100;

/// Everything at one time.
pub(crate) struct Snapshot {
    pub(crate) devices: Vec<(DeviceStats, Usage, Option<Stats>)>,
    pub(crate) pool: Option<ShardStatus>,
    pub(crate) client_bytes: u64,
}

pub(crate) struct Measured {
    pub(crate) before: Snapshot,
    pub(crate) after: Snapshot,
    /// By member, then by span of time.
    pub(crate) busy_series: Vec<Vec<f64>>,
    pub(crate) series: Vec<Span>,
    /// By member: a number of erases, and the erase blocks that have it.
    pub(crate) erase_counts: Vec<BTreeMap<u32, u64>>,
    /// Virtual time measured.
    pub(crate) ran_ns: u64,
}

/// Lets the load run until what is measured begins.
pub(crate) fn warm_up(world: &World, spec: &Spec, progress: &Progress) -> Result<()> {
    progress("warming up", 0.0);
    world.run_for(ns(spec.run.warm_up_s)).map_err(|stuck| Error::engine("the load", stuck))
}

/// Lets the load run, looks, and waits for the last request.
pub(crate) fn measure(
    world: &World,
    spec: &Spec,
    load: &Load,
    members: &[Member],
    system: Option<&System>,
    is_over: impl Fn() -> bool,
    progress: &Progress,
) -> Result<Measured> {
    let run_for = |time| world.run_for(time).map_err(|stuck| Error::engine("the load", stuck));
    let look = || snapshot(world, load, members, system);
    let (duration, interval) = (ns(spec.run.duration_s), ns(spec.run.interval_s));
    let before = look()?;
    let usage = |m: &Member| world.device(m.device).usage().unwrap_or_default().busy_ns;
    let mut busy: Vec<u64> = members.iter().map(usage).collect();
    let mut busy_series = vec![Vec::new(); members.len()];
    let stride = (duration.div_ceil(interval) as usize).div_ceil(LOOKS_MAX);
    let (mut last, mut series) = (None, Vec::new());
    let (mut done, mut spans) = (0, 0);
    while done < duration {
        let span = interval.min(duration - done);
        run_for(span)?;
        let is_over = is_over();
        (done, spans) = (done + span, spans + 1);
        for ((member, last), series) in members.iter().zip(&mut busy).zip(&mut busy_series) {
            let busy = usage(member);
            series.push(part(busy - *last, span));
            *last = busy;
        }
        if spans % stride == 0 || done == duration || is_over {
            let now = look()?;
            series.push(span_of(done, &now, last.as_ref().unwrap_or(&before)));
            last = Some(now);
        }
        progress("running", done as f64 / duration as f64);
        if is_over {
            load.stop();
            break;
        }
    }
    let after = last.expect("a duration is above 0");
    let erase_counts = members.iter().map(|m| erase_counts(world, m)).collect();
    progress("draining", 1.0);
    world.run_until(|| load.has_ended()).map_err(|stuck| Error::engine("the load", stuck))?;
    Ok(Measured { before, after, busy_series, series, erase_counts, ran_ns: done })
}

fn snapshot(world: &World, load: &Load, members: &[Member], system: Option<&System>) -> Result<Snapshot> {
    let now = world.now();
    let device = |member: &Member| {
        let device = world.device(member.device);
        let flash = device.model(|model| match model {
            Model::Flash(ssd) => Some(ssd.stats_at(now)),
            Model::Disk(_) => None,
        });
        (device.stats(), device.usage().unwrap_or_default(), flash.flatten())
    };
    Ok(Snapshot {
        devices: members.iter().map(device).collect(),
        pool: system.map(|system| system.status(world)).transpose()?,
        client_bytes: load.written_bytes(),
    })
}

fn erase_counts(world: &World, member: &Member) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    world.device(member.device).model(|model| {
        if let Model::Flash(ssd) = model {
            ssd.erase_counts().iter().for_each(|&count| *counts.entry(count).or_insert(0) += 1);
        }
    });
    counts
}

fn span_of(until_ns: u64, now: &Snapshot, then: &Snapshot) -> Span {
    let members = |figure: fn(&DeviceStats) -> u64| {
        let sum = |snapshot: &Snapshot| snapshot.devices.iter().map(|device| figure(&device.0)).sum::<u64>();
        sum(now) - sum(then)
    };
    let flash = |figure: fn(&Stats) -> u64| {
        let sum = |snapshot: &Snapshot| {
            snapshot.devices.iter().filter_map(|device| device.2.as_ref()).map(figure).sum::<u64>()
        };
        sum(now) - sum(then)
    };
    let work = now.pool.iter().zip(&then.pool).flat_map(|(now, then)| {
        let counters = now.counters.named().into_iter().zip(then.counters.named());
        counters.map(|((name, now), (_, then))| (name.to_owned(), now - then))
    });
    Span {
        until_s: until_ns as f64 / 1e9,
        client_bytes: now.client_bytes - then.client_bytes,
        member_bytes: members(|stats| stats.written_bytes),
        reached_flash_bytes: flash(|stats| stats.written_blocks) * 4096,
        programmed_bytes: flash(programmed_blocks) * 4096,
        erases: flash(|stats| stats.erases),
        pool: now.pool.as_ref().map(pool_state),
        work: work.filter(|(_, count)| *count > 0).collect(),
    }
}

/// Blocks programmed, for whatever reason; without compression a granule is a block.
pub(crate) fn programmed_blocks(stats: &Stats) -> u64 {
    stats.written_granules + stats.moved_granules + stats.padded_granules
}

pub(crate) fn pool_state(status: &ShardStatus) -> PoolState {
    PoolState {
        stored_bytes: status.stored_bytes,
        capacity_bytes: status.capacity_bytes,
        raw_bytes: status.raw_bytes,
        free_bytes: status.free_bytes,
        used_bytes: status.raw_bytes - status.free_bytes,
        stripes_mirrored: status.stripes_mirrored,
        stripes_parity: status.stripes_parity,
        stripes_degraded: status.stripes_degraded,
        table_bytes: status.table_bytes,
    }
}

/// A part of a span of time, with the digits that mean something.
pub(crate) fn part(of: u64, span: u64) -> f64 {
    (of as f64 / span as f64 * 1e6).round() / 1e6
}
