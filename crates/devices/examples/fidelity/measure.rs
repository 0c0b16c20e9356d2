//! Measurements of the flash models, for the table of the example and for the tests.

use std::collections::BTreeSet;

use sinew_devices::disk::{self, Disk, Schedule};
use sinew_devices::flash::{Config, Link, Ssd, slc};
use sinew_devices::{Command, Completion, Device, Kind, Ns, Rng, theory};

/// Puts a request in after another: returns the completions of `requests` requests that arrive when `arrival` says,
/// given the time of the one before.
pub(crate) fn open_loop<D: Device>(
    device: &mut D,
    begin: Ns,
    requests: u64,
    mut arrival: impl FnMut(Ns) -> Ns,
    mut next: impl FnMut() -> (Kind, u32, u32),
) -> Vec<Completion> {
    let mut done = Vec::new();
    let mut now = begin;
    for tag in 0..requests {
        now = arrival(now);
        device.advance(now, &mut done);
        let (kind, lba, blocks) = next();
        device.submit(now, Command { tag, kind, lba, blocks });
    }
    drain(device, &mut done);
    done
}

/// Keeps `depth` requests under way until `requests` have ended.
pub(crate) fn closed_loop<D: Device>(
    device: &mut D,
    begin: Ns,
    requests: u64,
    depth: u64,
    mut next: impl FnMut() -> (Kind, u32, u32),
) -> Vec<Completion> {
    let mut done = Vec::new();
    let mut now = begin;
    for tag in 0..requests {
        while tag >= depth + done.len() as u64 {
            now = device.next_event().expect("requests are under way");
            device.advance(now, &mut done);
        }
        let (kind, lba, blocks) = next();
        device.submit(now, Command { tag, kind, lba, blocks });
    }
    drain(device, &mut done);
    done
}

fn drain<D: Device>(device: &mut D, done: &mut Vec<Completion>) {
    while let Some(at) = device.next_event() {
        device.advance(at, done);
    }
}

/// Mean of what `value` says of completions.
pub(crate) fn mean(done: &[Completion], value: impl Fn(&Completion) -> f64) -> f64 {
    done.iter().map(value).sum::<f64>() / done.len() as f64
}

/// Requests per second, from the first submission to the last completion.
pub(crate) fn rate(done: &[Completion]) -> f64 {
    let first = done.iter().map(|c| c.submitted_at).min().unwrap_or(0);
    let last = done.iter().map(|c| c.completed_at).max().unwrap_or(0);
    done.len() as f64 / (last - first) as f64 * 1e9
}

/// Write amplification of a drive in its steady state under random overwrites.
pub(crate) fn write_amplification(config: Config) -> f64 {
    let mut ssd = Ssd::new(config, 1);
    ssd.age(4.0);
    ssd.overwrite_at_once(u64::from(ssd.blocks()) * 2, ssd.blocks());
    ssd.stats().write_amplification()
}

/// A drive for tests of cleaning: eight dies of small erase blocks, so that there are many of them.
pub(crate) fn cleaning_drive(blocks: u32, spare: f64) -> Config {
    slc().sized(blocks, spare)
}

/// Mean wait, in service times, of random reads from one die, which is a server with constant service.
pub(crate) fn wait_of_one_die(load: f64, requests: u64) -> f64 {
    let config = Config { channels: 1, queue_depth: u32::MAX, ..slc() }.sized(1 << 15, 0.1);
    let service = (config.sense_ns + config.channel_block_ns) as f64;
    let mut ssd = Ssd::new(config, 1);
    ssd.age(0.0);
    let mut times = Rng::new(2);
    let mut places = Rng::new(3);
    let arrival = |last| last + times.exponential(service / load) as Ns;
    let blocks = ssd.blocks();
    let done = open_loop(&mut ssd, 0, requests, arrival, || (Kind::Read, places.below(blocks), 1));
    mean(&done, |c| c.latency_ns() as f64) / service - 1.0
}

/// Mean wait, in mean service times, of reads of exponential length that cost nothing but the link, and the load that
/// their lengths really made.
pub(crate) fn wait_of_the_link(load: f64, requests: u64) -> (f64, f64) {
    const MEAN_BLOCKS: f64 = 200.0;
    const BLOCK_NS: Ns = 1_000;
    let link = Link { command_ns: 0, latency_ns: 0, block_ns: BLOCK_NS, duplex: true };
    let config = Config { link, queue_depth: u32::MAX, ..slc() }.sized(1 << 15, 0.1);
    let mut ssd = Ssd::new(config, 1);
    let mut rng = Rng::new(4);
    let mut times = Rng::new(5);
    let mut total = 0.0;
    let arrival = |last| last + times.exponential(MEAN_BLOCKS * BLOCK_NS as f64 / load) as Ns;
    let done = open_loop(&mut ssd, 0, requests, arrival, || {
        let blocks = (rng.exponential(MEAN_BLOCKS).ceil() as u32).clamp(1, 1 << 15);
        total += f64::from(blocks) * BLOCK_NS as f64;
        (Kind::Read, 0, blocks)
    });
    let service = total / requests as f64;
    let end = done.iter().map(|c| c.submitted_at).max().unwrap_or(1);
    (mean(&done, |c| c.latency_ns() as f64) / service - 1.0, total / end as f64)
}

/// Mean service of random reads of one block from a disk in ns, their mean wait at some load, and what that should be.
pub(crate) fn wait_of_a_disk(config: disk::Config, load: f64, requests: u64) -> (f64, f64, f64) {
    let config = disk::Config { cache_segments: 0, schedule: Schedule::Fcfs, ..config };
    let blocks = config.geometry.blocks;
    let read = |seed| {
        let mut rng = Rng::new(seed);
        move || (Kind::Read, rng.below(blocks), 1)
    };
    let alone = closed_loop(&mut Disk::new(config.clone()), 0, requests / 4, 1, read(1));
    let service = mean(&alone, |c| c.latency_ns() as f64);
    let square = mean(&alone, |c| (c.latency_ns() as f64).powi(2));
    let interval = service / load;
    let mut times = Rng::new(2);
    let arrival = |last| last + times.exponential(interval) as Ns;
    let queued = open_loop(&mut Disk::new(config), 0, requests, arrival, read(3));
    let wait = mean(&queued, |c| c.latency_ns() as f64) - service;
    (service, wait, theory::mg1_wait(1.0 / interval, service, square))
}

/// Random 4 KiB writes per second of a drive in its steady state, and its write amplification.
pub(crate) fn sustained_writes(config: Config) -> (f64, f64) {
    let mut ssd = Ssd::new(config, 1);
    ssd.age(3.0);
    let mut rng = Rng::new(6);
    let blocks = ssd.blocks();
    let mut next = || (Kind::Write, rng.below(blocks), 1);
    // The buffer and the free blocks that aging left are used up first.
    closed_loop(&mut ssd, 0, 20_000, 32, &mut next);
    ssd.reset_stats();
    let begin = ssd.now();
    let done = closed_loop(&mut ssd, begin, 60_000, 32, &mut next);
    (rate(&done), ssd.stats().write_amplification())
}

/// What a load met when its drive stood still.
#[derive(Debug)]
pub(crate) struct Spikes {
    /// Mean latency of all requests.
    pub(crate) mean_ns: f64,
    /// How many runs of latencies were above the floor.
    pub(crate) spikes: usize,
    /// Median of the highest latency of each spike.
    pub(crate) height_ns: f64,
    /// Median of the time from the end of one spike to the beginning of the next.
    pub(crate) gap_ns: f64,
}

/// 64 KiB writes in order, one at a time, within the first `span` blocks.
pub(crate) fn sequential_writes(ssd: &mut Ssd, requests: u64, span: u32) -> Vec<Completion> {
    let mut lba = 0;
    let begin = ssd.now();
    closed_loop(ssd, begin, requests, 1, || {
        let at = lba;
        lba = (lba + 16) % span;
        (Kind::Write, at, 16)
    })
}

/// 64 KiB writes at random places, `depth` at a time.
pub(crate) fn random_writes(ssd: &mut Ssd, requests: u64, depth: u64) -> Vec<Completion> {
    let mut rng = Rng::new(7);
    let begin = ssd.now();
    let places = ssd.blocks() / 16;
    closed_loop(ssd, begin, requests, depth, || (Kind::Write, rng.below(places) * 16, 16))
}

/// Finds the spikes among completions in order: runs of latencies above `floor_ns`.
pub(crate) fn spikes(done: &[Completion], floor_ns: f64) -> Spikes {
    let mut heights = Vec::new();
    let mut gaps = Vec::new();
    let mut last_end = None;
    let mut inside = false;
    for completion in done {
        let latency = completion.latency_ns() as f64;
        if latency > floor_ns {
            if !inside {
                gaps.extend(last_end.map(|end: Ns| completion.submitted_at.saturating_sub(end) as f64));
                heights.push(latency);
            }
            let highest = heights.last_mut().expect("a spike has begun");
            *highest = latency.max(*highest);
            last_end = Some(completion.completed_at);
        }
        inside = latency > floor_ns;
    }
    Spikes {
        mean_ns: mean(done, |c| c.latency_ns() as f64),
        spikes: heights.len(),
        height_ns: median(&mut heights),
        gap_ns: median(&mut gaps),
    }
}

/// The latency that such a share of completions does not exceed.
pub(crate) fn quantile(done: &[Completion], share: f64) -> f64 {
    let mut latencies: Vec<f64> = done.iter().map(|c| c.latency_ns() as f64).collect();
    latencies.sort_by(f64::total_cmp);
    latencies[((latencies.len() - 1) as f64 * share) as usize]
}

/// Seconds in which something completed with a latency above `floor_ns`, and seconds in all.
pub(crate) fn seconds_above(done: &[Completion], floor_ns: f64) -> (usize, usize) {
    let second = |c: &Completion| c.completed_at / 1_000_000_000;
    let all: BTreeSet<u64> = done.iter().map(second).collect();
    let late: BTreeSet<u64> = done.iter().filter(|c| c.latency_ns() as f64 > floor_ns).map(second).collect();
    (late.len(), all.len())
}

/// The middle of some values, 0 of none.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
