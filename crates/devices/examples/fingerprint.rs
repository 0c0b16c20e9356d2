//! Prints a hash of everything that a host can see of each drive under a fixed load: a change of structure alone leaves
//! all of them as they are.
//!
//! Covered are all parameter sets, aging, overwrites at once, cleaning by all policies, suspension, discards, flushes,
//! each kind of write buffer, and compression with a lack of space.
//!
//! `cargo run --release -p sinew-devices --example fingerprint [-- REQUESTS]`

use std::hash::{DefaultHasher, Hash, Hasher};

use sinew_devices::flash::*;
use sinew_devices::{Command, Device, Kind, Outcome, Rng, disk};

fn main() {
    let requests: u64 = std::env::args().nth(1).map_or(100_000, |n| n.parse().expect("a number of requests"));
    for (name, config) in drives() {
        for (blocks, pages) in [(1 << 13, 16), (1 << 16, 64)] {
            let config = Config { pages, ..config.clone() }.sized(blocks, 0.3);
            println!("{name:24} {blocks:6} {:016x}", of_drive(config, requests));
        }
    }
    for spare in [40, 4096] {
        println!("{:24} {spare:6} {:016x}", "fills up", of_full_drive(spare, requests));
    }
    for (name, config) in [("ultrastar", disk::ultrastar_36z15()), ("constellation", disk::constellation2())]
    {
        let mut hash = DefaultHasher::new();
        load(&mut disk::Disk::new(config), 0, &mut hash, requests, 7, |_, _, _| ());
        println!("{name:31} {:016x}", hash.finish());
    }
}

fn drives() -> Vec<(&'static str, Config)> {
    let eager = Cleaning { low: 3, high: 6, exclusive: true, single_erase: false };
    let compression = Some(Compression { granule_bytes: 1024, space_query: true, length_query: true });
    let fine = Some(Compression { granule_bytes: 512, space_query: true, length_query: true });
    let erases = Suspend { program_ns: None, ..SUSPEND };
    let batch = Drain::Batch { blocks: 64 };
    vec![
        ("slc", slc()),
        ("mqsim", mqsim()),
        ("femu", femu()),
        ("consumer", consumer()),
        ("datacenter", datacenter()),
        ("pitfalls", pitfalls()),
        ("slc suspends", Config { suspend: SUSPEND, ..slc() }),
        ("mqsim suspends erases", Config { suspend: erases, ..mqsim() }),
        ("datacenter suspends", Config { suspend: SUSPEND, ..datacenter() }),
        ("femu fifo", Config { policy: Policy::Fifo, ..femu() }),
        ("femu choices", Config { policy: Policy::Choices(4), drain: Drain::Steady, ..femu() }),
        ("slc exclusive", Config { cleaning: eager, drain: Drain::Steady, ..slc() }),
        ("slc exclusive through", Config { cleaning: eager, ..slc() }),
        ("small batches", Config { buffer_blocks: 64, drain: batch, ..datacenter() }),
        ("protected consumer", Config { power_loss_protected: true, ..consumer() }),
        ("consumer in turns", Config { cleaning: Cleaning { exclusive: false, ..eager }, ..consumer() }),
        ("compressing datacenter", Config { compression, cleaning: eager, ..datacenter() }),
        ("compressing consumer", Config { compression, cleaning: eager, ..consumer() }),
        (
            "compressing through",
            Config { compression: fine, cleaning: eager, drain: Drain::Through, ..consumer() },
        ),
    ]
}

fn of_drive(config: Config, requests: u64) -> u64 {
    let mut hash = DefaultHasher::new();
    let mut ssd = Ssd::new(config, 1);
    loaded(&mut ssd, &mut hash, requests / 4, 1);
    ssd.age(0.7);
    show(&ssd, &mut hash);
    loaded(&mut ssd, &mut hash, requests / 2, 2);
    ssd.overwrite_at_once(3_000, 2_000);
    show(&ssd, &mut hash);
    loaded(&mut ssd, &mut hash, requests / 8, 3);
    ssd.reset_stats();
    let mut twin = ssd.clone();
    loaded(&mut ssd, &mut hash, requests / 8, 4);
    loaded(&mut twin, &mut hash, requests / 8, 4);
    hash.finish()
}

/// A compressing drive with more addresses than flash.
fn of_full_drive(erase_blocks: u32, requests: u64) -> u64 {
    let compression = Compression { granule_bytes: 1024, space_query: true, length_query: true };
    let cleaning = Cleaning { low: 3, high: 4, exclusive: false, single_erase: true };
    let pages = if erase_blocks > 1000 { 4 } else { 64 };
    let mut config = Config { compression: Some(compression), pages, cleaning, erase_blocks, ..datacenter() };
    config.blocks = (config.physical_blocks() * 3) as u32;
    let mut hash = DefaultHasher::new();
    let mut ssd = Ssd::new(config, 1);
    ssd.age(0.1);
    show(&ssd, &mut hash);
    loaded(&mut ssd, &mut hash, requests, 5);
    hash.finish()
}

fn loaded(ssd: &mut Ssd, hash: &mut DefaultHasher, requests: u64, seed: u64) {
    let compresses = ssd.config().compression.is_some();
    load(ssd, ssd.now(), hash, requests, seed, |ssd, command, rng| {
        if compresses && command.kind == Kind::Write {
            let lengths: Vec<u16> = (0..command.blocks).map(|_| 1 + rng.below(4096) as u16).collect();
            ssd.announce_lengths(command.lba, &lengths);
        }
    });
    show(ssd, hash);
}

/// A random load in phases: reads, writes and mixtures, of small and of large requests, at various queue depths.
fn load<D: Device>(
    device: &mut D,
    begin: u64,
    hash: &mut DefaultHasher,
    requests: u64,
    seed: u64,
    mut before: impl FnMut(&mut D, &Command, &mut Rng),
) {
    let mut rng = Rng::new(seed);
    let mut done = Vec::new();
    let (mut now, mut completed) = (begin, 0);
    let (mut depth, mut writes, mut blocks_max, mut span) = (1, 20, 40, device.blocks());
    for tag in 0..requests {
        if tag % 1000 == 0 {
            depth = [1, 4, 32, 200][rng.below(4) as usize];
            writes = [0, 10, 20, 38, 38][rng.below(5) as usize];
            blocks_max = [1, 8, 40, 100][rng.below(4) as usize];
            span = [device.blocks(), device.blocks() / 4][rng.below(2) as usize];
        }
        while completed + depth <= tag {
            now = device.next_event().expect("requests are under way");
            device.advance(now, &mut done);
            completed += take(&mut done, hash);
        }
        if rng.below(4) == 0 {
            now += u64::from(rng.below(100_000));
            device.advance(now, &mut done);
            completed += take(&mut done, hash);
        }
        let kind = match rng.below(40) {
            0 if rng.below(4) == 0 => Kind::Flush,
            1 => Kind::Discard,
            draw if draw < writes => Kind::Write,
            _ => Kind::Read,
        };
        let blocks = 1 + rng.below(blocks_max);
        let command = Command { tag, kind, lba: rng.below(span - blocks), blocks };
        before(device, &command, &mut rng);
        device.submit(now, command);
        device.next_event().hash(hash);
    }
    while let Some(at) = device.next_event() {
        at.hash(hash);
        device.advance(at, &mut done);
        completed += take(&mut done, hash);
    }
    assert_eq!(completed, requests);
}

fn take(done: &mut Vec<sinew_devices::Completion>, hash: &mut DefaultHasher) -> u64 {
    for completion in done.iter() {
        (completion.tag, completion.submitted_at, completion.completed_at).hash(hash);
        (completion.outcome == Outcome::Done).hash(hash);
    }
    std::mem::take(done).len() as u64
}

fn show(ssd: &Ssd, hash: &mut DefaultHasher) {
    let stats = ssd.stats();
    [stats.written_blocks, stats.written_granules, stats.moved_granules, stats.padded_granules].hash(hash);
    [stats.erases, stats.host_senses, stats.suspensions, stats.stalls, stats.stalled_ns].hash(hash);
    (stats.die_busy_ns, ssd.stats_at(ssd.now() + 5).die_busy_ns, ssd.now()).hash(hash);
    ssd.erase_counts().hash(hash);
    ssd.space().map(|space| (space.total, space.used)).hash(hash);
    for lba in 0..ssd.blocks() {
        (ssd.is_written(lba), ssd.length_of(lba)).hash(hash);
    }
}
