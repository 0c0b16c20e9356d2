//! Small drives with any parts that go together, full of data and with little spare space, end every request, also after a die
//! has failed.

use sinew_devices::flash::{
    Cleaning, Config, Drain, MappingCache, Redundancy, SUSPEND, SlcCache, Ssd, Striping, WearLevelling,
    consumer, datacenter, femu, mqsim, slc,
};
use sinew_devices::{Command, Completion, Device, Kind, Rng};

/// Requests under way at most.
const DEPTH: usize = 24;
/// Events after which a request that does not end is stuck.
const EVENTS_MAX: u64 = 2_000_000;

/// A drive whose parts go together.
fn drive(rng: &mut Rng) -> Config {
    loop {
        let suspended = Config { suspend: SUSPEND, ..datacenter() };
        let base = [slc(), mqsim(), femu(), suspended, consumer()][rng.below(5) as usize].clone();
        let striping = Striping::new(4, 1_000_000);
        let mut config = Config {
            channels: 2,
            chips: 1,
            dies: 2,
            planes: 1,
            page_bytes: base.page_bytes.min(8192),
            pages: 8,
            buffer_blocks: 64,
            cleaning: Cleaning { low: 3, high: 4, ..base.cleaning },
            drain: match base.drain {
                Drain::Batch { .. } => Drain::Batch { blocks: 32 },
                other => other,
            },
            redundancy: match rng.below(3) {
                0 => Redundancy::EccOnly,
                1 => Redundancy::Raid5(striping),
                _ => Redundancy::Elastic(striping),
            },
            ..base
        };
        if rng.below(2) == 0 {
            config.slc_cache = Some(SlcCache {
                erase_blocks: 3,
                bits: 2,
                sense_ns: config.sense_ns / 2,
                program_ns: config.program_ns / 3,
                fold_after_ns: 5_000_000,
            });
        }
        if rng.below(2) == 0 {
            config.mapping_cache = Some(MappingCache { pages: MappingCache::PAGES_MIN, entries: 64 });
        }
        if rng.below(3) == 0 {
            config.wear_levelling = Some(WearLevelling { spread: 2 });
        }
        // Cleaning changes the table, and has to gain more than its pages take.
        let spare = if config.mapping_cache.is_some() { 1.0 } else { 0.15 };
        let config = config.sized(1_000 + rng.below(4_000), spare);
        if config.check_features().and_then(|()| config.check_redundancy()).is_ok() {
            return config;
        }
    }
}

/// Plays one seed.
fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let config = drive(&mut rng);
    let mut ssd = Ssd::new(config.clone(), seed);
    if rng.below(2) == 0 {
        ssd.age(0.5);
    }
    let mut done: Vec<Completion> = Vec::new();
    let span = ssd.blocks() / [1, 1, 4][rng.below(3) as usize];
    let (sequential, blocks_max) = (rng.below(3) == 0, [1, 8, 200][rng.below(3) as usize].min(span / 2));
    let (mut next, requests) = (0, 3_000);
    let loses_at = if rng.below(3) == 0 { 1_000 + u64::from(rng.below(2_000)) } else { u64::MAX };
    for tag in 0..requests {
        let mut events = 0;
        while done.len() + DEPTH < tag as usize {
            let at = ssd.next_event().unwrap_or_else(|| panic!("{seed}: requests are under way: {config:?}"));
            ssd.advance(at, &mut done);
            events += 1;
            assert!(events < EVENTS_MAX, "{seed}: a request does not end: {config:?}");
        }
        if tag == loses_at {
            ssd.lose_die(ssd.now(), rng.below(config.all_dies()));
        }
        if rng.below(50) == 0 {
            let until = ssd.now() + u64::from(rng.below(50_000_000));
            ssd.advance(until, &mut done);
        }
        let kind = match rng.below(40) {
            0 => Kind::Flush,
            1 => Kind::Discard,
            2..10 => Kind::Read,
            _ => Kind::Write,
        };
        let blocks = 1 + rng.below(blocks_max);
        let lba = if sequential { next % (span - blocks) } else { rng.below(span - blocks) };
        next = lba + blocks;
        ssd.submit(ssd.now(), Command { tag, kind, lba, blocks });
    }
    let mut events = 0;
    while let Some(at) = ssd.next_event() {
        ssd.advance(at, &mut done);
        events += 1;
        assert!(events < EVENTS_MAX, "{seed}: the drive does not come to rest: {config:?}");
    }
    assert_eq!(done.len() as u64, requests, "{seed}: {config:?}");
}

#[test]
fn every_request_ends_whatever_parts_a_drive_has() {
    (0..60).for_each(run);
}
