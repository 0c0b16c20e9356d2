//! The disk takes the times that its data sheet gives.

use super::*;
use crate::Rng;

fn run(disk: &mut Disk, kind: Kind, lba: u32, blocks: u32) -> Ns {
    let mut done = Vec::new();
    disk.submit(disk.now, Command { tag: 0, kind, lba, blocks });
    while let Some(at) = disk.next_event() {
        disk.advance(at, &mut done);
    }
    done[0].latency_ns()
}

/// Mean latency in ms of requests of one block at random places.
fn random_ms(disk: &mut Disk, kind: Kind) -> f64 {
    let mut rng = Rng::new(1);
    let blocks = disk.blocks();
    let total: u64 = (0..20_000).map(|_| run(disk, kind, rng.below(blocks), 1)).sum();
    total as f64 / 20_000.0 / 1e6
}

#[test]
fn random_accesses_take_a_mean_seek_and_half_a_turn() {
    for (config, access_ms) in [(ultrastar_36z15(), 4.2 + 2.0), (constellation2(), 7.5 + 4.17)] {
        let expected = access_ms + (config.command_ns + config.link_block_ns) as f64 / 1e6;
        let write_ms = config.geometry.seek.write_ns as f64 / 1e6;
        let mut disk = Disk::new(Config { cache_segments: 0, ..config });
        let read = random_ms(&mut disk, Kind::Read);
        // The outer cylinders have more addresses, so seeks are a little shorter than over all cylinders.
        assert!((read / expected - 1.0).abs() < 0.04, "{read} ms, {expected} ms expected");
        let write = random_ms(&mut disk, Kind::Write);
        assert!((write - read - write_ms).abs() < 0.1, "{write} ms after {read} ms");
    }
}

#[test]
fn the_seek_curve_goes_through_the_published_points() {
    for config in [ultrastar_36z15(), constellation2()] {
        let Geometry { seek, blocks, .. } = config.geometry;
        let platters = Platters::new(&config.geometry);
        let cylinders = platters.pass(0, u64::from(blocks) * 8 - 1, u64::from(blocks) * 8).1.cylinder();
        assert_eq!(platters.seek_ns(1), seek.single_ns);
        let full = platters.seek_ns(cylinders);
        assert!(full.abs_diff(seek.full_ns) < seek.full_ns / 100, "{full}");
        let mut rng = Rng::new(2);
        let mut place = || u64::from(rng.below(cylinders as u32));
        let total: u64 = (0..100_000).map(|_| platters.seek_ns(place().abs_diff(place()))).sum();
        let mean = total / 100_000;
        assert!(mean.abs_diff(seek.average_ns) < seek.average_ns / 100, "{mean}");
    }
}

#[test]
fn reads_in_order_run_at_the_rate_of_the_medium() {
    for config in [ultrastar_36z15(), constellation2()] {
        let rev = 60e9 / f64::from(config.geometry.rpm);
        let switch = config.geometry.seek.single_ns as f64;
        let sustained = config.geometry.outer_rate as f64 * rev / (rev + switch);
        for blocks in [1, 16, 64] {
            let mut disk = Disk::new(config.clone());
            let mut done = Vec::new();
            for lba in (0..20_000).step_by(blocks as usize) {
                disk.submit(disk.now, Command { tag: 0, kind: Kind::Read, lba, blocks });
                while done.len() + 2 <= (lba / blocks) as usize {
                    let at = disk.next_event().expect("requests are under way");
                    disk.advance(at, &mut done);
                }
            }
            let rate = done.len() as f64 * f64::from(blocks) * 4096.0 / disk.now as f64 * 1e9;
            // A block at a time, the command overhead is longer than the block takes to pass.
            let limit = f64::from(blocks) * 4096.0 / config.command_ns as f64 * 1e9;
            let expected = sustained.min(limit);
            assert!((rate / expected - 1.0).abs() < 0.04, "{blocks}: {rate} B/s, {expected} expected");
        }
    }
}

#[test]
fn choosing_the_nearest_serves_more() {
    let rate = |schedule| {
        let mut disk = Disk::new(Config { schedule, ..ultrastar_36z15() });
        let mut rng = Rng::new(3);
        let mut done = Vec::new();
        for tag in 0..5_000 {
            while done.len() + 16 <= tag as usize {
                let at = disk.next_event().expect("requests are under way");
                disk.advance(at, &mut done);
            }
            let lba = rng.below(disk.blocks());
            disk.submit(disk.now, Command { tag, kind: Kind::Read, lba, blocks: 1 });
        }
        5_000e9 / disk.now as f64
    };
    let (fcfs, nearest) = (rate(Schedule::Fcfs), rate(Schedule::ShortestPositioning));
    assert!(nearest > fcfs * 1.5, "{fcfs} {nearest} requests/s");
}
