//! What members and pools do during measurement: snapshots at its beginning, during it, and at its end.

use std::collections::BTreeMap;

use sinew_devices::flash::Stats;
use sinew_members::status::ShardStatus;
use sinew_sim::{ControllerUsage, DeviceStats, Model, Usage, World};

use crate::file::spec::Spec;
use crate::progress::Progress;
use crate::results::simulated::{Interval, Part, PoolState};
use crate::run::load::Load;
use crate::run::steady;
use crate::system::members::Member;
use crate::system::pools::Pools;
use crate::units::nanoseconds;
use crate::{Error, Result};

/// The most snapshots of a run: reading the status of a pool takes real time. With more intervals than that, a snapshot covers
/// several.
const SNAPSHOTS_MAX: usize = 100;
/// Parts that are compared with each other.
const QUARTERS: u64 = 4;

/// What is measured.
pub(crate) struct Subjects<'a> {
    pub(crate) load: &'a Load,
    pub(crate) members: &'a [Member],
    /// The pools or arrays; nothing for a member alone.
    pub(crate) pools: Option<&'a Pools>,
}

/// All counters at one point in time.
pub(crate) struct Snapshot {
    pub(crate) devices: Vec<DeviceSnapshot>,
    pub(crate) pool: Option<ShardStatus>,
    pub(crate) controllers: Vec<ControllerUsage>,
    pub(crate) client_bytes: u64,
    /// Bytes of completed reads of clients.
    pub(crate) client_read_bytes: u64,
    /// Physical bytes in use.
    physical_used_bytes: u64,
}

/// The counters of a member.
pub(crate) struct DeviceSnapshot {
    pub(crate) stats: DeviceStats,
    pub(crate) usage: Usage,
    /// The counters of the flash of an SSD.
    pub(crate) flash: Option<Stats>,
}

/// The number of erase blocks that are erased, then of those with up to 10 % live, up to 20 %, and so on.
pub(crate) type LiveShares = [u64; 11];

/// A completed measurement.
pub(crate) struct Measured {
    pub(crate) before: Snapshot,
    pub(crate) after: Snapshot,
    /// For each member, the fraction of each interval with a request in flight.
    pub(crate) busy_series: Vec<Vec<f64>>,
    pub(crate) series: Vec<Interval>,
    /// The quarters of the measured time.
    pub(crate) quarters: Vec<Part>,
    /// For each member, the number of erase blocks by their live part at the beginning.
    pub(crate) live_before: Vec<LiveShares>,
    /// The same at the end.
    pub(crate) live_after: Vec<LiveShares>,
    /// For each member, the number of erase blocks by their number of erases.
    pub(crate) erase_counts: Vec<BTreeMap<u32, u64>>,
    /// The measured time, in virtual nanoseconds.
    pub(crate) ran_ns: u64,
}

/// Lets the load go on for this time, in virtual nanoseconds.
fn run_for(world: &World, time: u64) -> Result<()> {
    world.run_for(time).map_err(|stuck| Error::engine("running the load", stuck))
}

/// Runs the load until measurement begins, or until `is_over` at the end of an interval. Returns whether it was steady by then;
/// nothing if the file does not ask for that.
///
/// # Errors
/// [`Error::Engine`] if the world makes no progress or a pool does not report its status.
pub(crate) fn warm_up(
    world: &World,
    spec: &Spec,
    subjects: &Subjects<'_>,
    is_over: impl Fn() -> bool,
    progress: &Progress,
) -> Result<Option<bool>> {
    progress("warming up", 0.0);
    let (mut left, interval) = (nanoseconds(spec.run.warm_up_s), nanoseconds(spec.run.interval_s));
    while left > 0 && !is_over() {
        let length = interval.min(left);
        run_for(world, length)?;
        left -= length;
    }
    subjects.load.next_window(world.now());
    let Some(steady) = &spec.run.steady else { return Ok(None) };
    let (mut windows, mut took_s) = (Vec::new(), 0.0);
    let mut last = snapshot(world, subjects)?;
    while !steady::is_steady(steady, &windows) {
        if took_s + steady.window_s > steady.max_s || subjects.load.has_ended() || is_over() {
            return Ok(Some(false));
        }
        run_for(world, nanoseconds(steady.window_s))?;
        took_s += steady.window_s;
        let now = snapshot(world, subjects)?;
        windows.push(part(world, subjects.load, &[difference(0, &now, &last)]));
        last = now;
        progress("warming up", took_s / steady.max_s);
    }
    Ok(Some(true))
}

/// The figures of the part of the run that is ending and had these intervals.
fn part(world: &World, load: &Load, intervals: &[Interval]) -> Part {
    let sum = |of: fn(&Interval) -> u64| intervals.iter().map(of).sum::<u64>() as f64;
    let reached = sum(|interval| interval.reached_flash_bytes);
    let [read_p99_ns, write_p99_ns] = load.next_window(world.now());
    Part {
        flash_amplification: (reached > 0.0).then(|| sum(|interval| interval.programmed_bytes) / reached),
        read_p99_ns,
        write_p99_ns,
    }
}

/// Runs the load for the measured time, or until `is_over` at the end of an interval, takes snapshots, and waits for the last
/// request.
///
/// # Errors
/// [`Error::Engine`] if the world makes no progress or a pool does not report its status.
pub(crate) fn measure(
    world: &World,
    spec: &Spec,
    subjects: &Subjects<'_>,
    is_over: impl Fn() -> bool,
    progress: &Progress,
) -> Result<Measured> {
    let Subjects { load, members, .. } = *subjects;
    let (duration, interval) = (nanoseconds(spec.run.duration_s), nanoseconds(spec.run.interval_s));
    let before = snapshot(world, subjects)?;
    let live_before = members.iter().map(|m| live_shares(world, m)).collect();
    let busy_ns = |m: &Member| world.device(m.device).usage().unwrap_or_default().busy_ns;
    let mut busy: Vec<u64> = members.iter().map(busy_ns).collect();
    let mut busy_series = vec![Vec::new(); members.len()];
    let intervals_of_snapshot = (duration.div_ceil(interval) as usize).div_ceil(SNAPSHOTS_MAX);
    let (mut last, mut series) = (None, Vec::new());
    let (mut elapsed, mut intervals) = (0, 0);
    // A quarter begins with the interval `quarter_from`.
    let (mut quarters, mut quarter_from) = (Vec::new(), 0);
    while elapsed < duration {
        let length = interval.min(duration - elapsed);
        run_for(world, length)?;
        let is_over = is_over();
        (elapsed, intervals) = (elapsed + length, intervals + 1);
        for ((member, last), series) in members.iter().zip(&mut busy).zip(&mut busy_series) {
            let busy = busy_ns(member);
            series.push(fraction(busy - *last, length));
            *last = busy;
        }
        if intervals % intervals_of_snapshot == 0 || elapsed == duration || is_over {
            let now = snapshot(world, subjects)?;
            series.push(difference(elapsed, &now, last.as_ref().unwrap_or(&before)));
            last = Some(now);
            if elapsed * QUARTERS >= duration * (quarters.len() as u64 + 1) {
                quarters.push(part(world, load, &series[quarter_from..]));
                quarter_from = series.len();
            }
        }
        progress("running", elapsed as f64 / duration as f64);
        if is_over {
            load.stop();
            break;
        }
    }
    let after = last.expect("a duration is above 0");
    let live_after = members.iter().map(|m| live_shares(world, m)).collect();
    let erase_counts = members.iter().map(|m| erase_counts(world, m)).collect();
    progress("draining", 1.0);
    world.run_until(|| load.has_ended()).map_err(|stuck| Error::engine("running the load", stuck))?;
    Ok(Measured {
        before,
        after,
        busy_series,
        series,
        quarters,
        live_before,
        live_after,
        erase_counts,
        ran_ns: elapsed,
    })
}

fn snapshot(world: &World, subjects: &Subjects<'_>) -> Result<Snapshot> {
    let now = world.now();
    let device = |member: &Member| {
        let device = world.device(member.device);
        let flash = device.model(|model| match model {
            Model::Flash(ssd) => Some(ssd.stats_in_blocks_at(now)),
            Model::Disk(_) => None,
        });
        DeviceSnapshot {
            stats: device.stats(),
            usage: device.usage().unwrap_or_default(),
            flash: flash.flatten(),
        }
    };
    Ok(Snapshot {
        devices: subjects.members.iter().map(device).collect(),
        pool: subjects.pools.map(|pools| pools.status(world)).transpose()?,
        controllers: (0..).map_while(|number| world.controller_usage(number)).collect(),
        client_bytes: subjects.load.written_bytes(),
        client_read_bytes: subjects.load.read_bytes(),
        physical_used_bytes: subjects.members.iter().map(|m| world.device(m.device).physical_used()).sum(),
    })
}

fn live_shares(world: &World, member: &Member) -> LiveShares {
    let mut shares = LiveShares::default();
    world.device(member.device).model(|model| {
        let Model::Flash(ssd) = model else { return };
        for live in ssd.live_shares() {
            shares[live.map_or(0, |live| ((live * 10.0).ceil() as usize).clamp(1, 10))] += 1;
        }
    });
    shares
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

/// The interval between two snapshots, which ends `until_ns` after measurement began.
fn difference(until_ns: u64, now: &Snapshot, then: &Snapshot) -> Interval {
    let members = |figure: fn(&DeviceStats) -> u64| {
        let sum = |snapshot: &Snapshot| snapshot.devices.iter().map(|d| figure(&d.stats)).sum::<u64>();
        sum(now) - sum(then)
    };
    let flash = |figure: fn(&Stats) -> u64| {
        let sum = |snapshot: &Snapshot| {
            snapshot.devices.iter().filter_map(|device| device.flash.as_ref()).map(figure).sum::<u64>()
        };
        sum(now) - sum(then)
    };
    let work = now.pool.iter().zip(&then.pool).flat_map(|(now, then)| {
        let counters = now.counters.named().into_iter().zip(then.counters.named());
        counters.map(|((name, now), (_, then))| (name.to_owned(), now - then))
    });
    Interval {
        until_s: until_ns as f64 / 1e9,
        client_bytes: now.client_bytes - then.client_bytes,
        member_bytes: members(|stats| stats.written_bytes),
        reached_flash_bytes: flash(|stats| stats.written_blocks) * 4096,
        programmed_bytes: flash(programmed_blocks) * 4096,
        erases: flash(|stats| stats.erases),
        physical_used_bytes: now.physical_used_bytes,
        pool: now.pool.as_ref().map(pool_state),
        work: work.filter(|(_, count)| *count > 0).collect(),
    }
}

/// Blocks of 4 KiB programmed: for the host, by cleaning, as padding and as parity. The counts are already in blocks.
pub(crate) fn programmed_blocks(stats: &Stats) -> u64 {
    stats.programmed_granules()
}

/// The state of a pool with a status.
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

/// A fraction of a time, rounded to six digits after the point.
pub(crate) fn fraction(of_ns: u64, whole_ns: u64) -> f64 {
    (of_ns as f64 / whole_ns as f64 * 1e6).round() / 1e6
}
