//! Every request ends, the tables agree, and equal seeds give equal runs, whatever the drive and the load.

use super::*;
use crate::{Command, Completion, Device, Kind, Ns, Outcome, Rng};

/// Drives small enough that random requests fill and clean them many times.
fn drives() -> Vec<Config> {
    let kinds = kinds_of_drives();
    let protected = Striping { protected_buffer: true, ..Striping::new(8, 50_000) };
    let redundancies = [
        Redundancy::EccOnly,
        Redundancy::Elastic(Striping::new(8, 300_000)),
        Redundancy::Elastic(Striping::new(5, 20_000_000)),
        Redundancy::Elastic(Striping::new(19, 1_000_000)),
        Redundancy::Elastic(protected),
    ];
    let raid5 = [(4, 200_000, ParityReads::Fewer), (8, 5_000_000, ParityReads::Reconstruct)].map(
        |(units, wait_ns, reads)| Redundancy::Raid5(Striping { reads, ..Striping::new(units, wait_ns) }),
    );
    let protected_raid5 = Redundancy::Raid5(Striping { units: 3, ..protected });
    let with_raid5 = raid5.into_iter().chain([protected_raid5]).flat_map(|redundancy| {
        let plain = kinds.iter().filter(|config| config.compression.is_none());
        plain.map(move |config| small(Config { redundancy, ..config.clone() }))
    });
    let with = |redundancy| kinds.iter().map(move |config| small(Config { redundancy, ..config.clone() }));
    let slc_cache = SlcCache {
        erase_blocks: 4,
        bits: 3,
        sense_ns: 25_000,
        program_ns: 200_000,
        fold_after_ns: 50_000_000,
    };
    let features = [
        Config { wear_levelling: Some(WearLevelling { spread: 3 }), ..slc() },
        Config { wear_levelling: Some(WearLevelling { spread: 1 }), policy: Policy::Fifo, ..femu() },
        Config { wear_levelling: Some(WearLevelling { spread: 2 }), ..datacenter() },
        Config { wear_levelling: Some(WearLevelling { spread: 2 }), ..consumer() },
        Config {
            wear_levelling: Some(WearLevelling { spread: 2 }),
            redundancy: Redundancy::Raid5(Striping::new(4, 200_000)),
            ..slc()
        },
        Config { mapping_cache: Some(MappingCache::of_pages(8)), ..slc() },
        Config { mapping_cache: Some(MappingCache::of_pages(8)), ..mqsim() },
        Config { mapping_cache: Some(MappingCache::of_pages(8)), ..consumer() },
        Config { slc_cache: Some(slc_cache), ..mqsim() },
        Config { slc_cache: Some(SlcCache { fold_after_ns: 1000, ..slc_cache }), ..slc() },
        Config {
            slc_cache: Some(slc_cache),
            mapping_cache: Some(MappingCache::of_pages(8)),
            wear_levelling: Some(WearLevelling { spread: 2 }),
            suspend: SUSPEND,
            ..datacenter()
        },
        Config { mapping_cache: Some(MappingCache::of_pages(8)), rows: true, ..datacenter() },
        Config {
            mapping_cache: Some(MappingCache::of_pages(8)),
            redundancy: Redundancy::Elastic(Striping::new(8, 300_000)),
            ..slc()
        },
    ];
    let features = features.map(|config| Config { pages: 16, ..config }.sized(1 << 14, 0.3));
    let rows = kinds.iter().map(|config| small(Config { rows: true, ..config.clone() }));
    redundancies.into_iter().flat_map(with).chain(rows).chain(with_raid5).chain(features).collect()
}

fn small(config: Config) -> Config {
    Config { pages: 16, ..config }.sized(1 << 13, 0.3)
}

fn kinds_of_drives() -> Vec<Config> {
    let eager = Cleaning { low: 3, high: 6, exclusive: true, single_erase: false };
    let compression = Compression { granule_bytes: 1024, space_query: true, length_query: true };
    vec![
        small(slc()),
        small(mqsim()),
        small(Config { suspend: Suspend { program_ns: None, ..SUSPEND }, ..mqsim() }),
        small(Config { policy: Policy::Fifo, ..femu() }),
        small(Config { policy: Policy::Choices(4), drain: Drain::Steady, ..femu() }),
        small(consumer()),
        small(Config { cleaning: eager, drain: Drain::Steady, ..slc() }),
        small(Config { buffer_blocks: 8, drain: Drain::Batch { blocks: 8 }, ..datacenter() }),
        small(Config { compression: Some(compression), cleaning: eager, ..datacenter() }),
        small(Config { compression: Some(compression), cleaning: eager, ..consumer() }),
        small(datacenter()),
        small(Config { suspend: SUSPEND, ..datacenter() }),
    ]
}

/// A random load; returns the completions.
fn load(ssd: &mut Ssd, seed: u64, requests: u64) -> Vec<Completion> {
    let mut rng = Rng::new(seed);
    let mut done = Vec::new();
    let mut now = ssd.now();
    for tag in 0..requests {
        while done.len() + 48 < tag as usize {
            now = ssd.next_event().unwrap_or_else(|| panic!("requests are under way: {:?}", ssd.config()));
            ssd.advance(now, &mut done);
        }
        if rng.below(4) == 0 {
            now += u64::from(rng.below(100_000));
            ssd.advance(now, &mut done);
        }
        let kind = match rng.below(40) {
            0 => Kind::Flush,
            1 => Kind::Discard,
            2..10 => Kind::Read,
            _ => Kind::Write,
        };
        let blocks = 1 + rng.below(40);
        let lba = rng.below(ssd.blocks() - blocks);
        if ssd.config().compression.is_some() {
            let lengths: Vec<u16> = (0..blocks).map(|_| 1 + rng.below(4096) as u16).collect();
            ssd.announce_lengths(lba, &lengths);
        }
        ssd.submit(now, Command { tag, kind, lba, blocks });
    }
    finish(ssd, &mut done);
    done
}

fn finish(ssd: &mut Ssd, done: &mut Vec<Completion>) -> Ns {
    let mut now = ssd.now();
    while let Some(at) = ssd.next_event() {
        assert!(at >= now, "time goes on");
        now = at;
        ssd.advance(at, done);
    }
    now
}

/// One request on its own; returns its latency.
fn alone(ssd: &mut Ssd, kind: Kind, lba: u32, blocks: u32) -> Completion {
    let mut done = Vec::new();
    ssd.submit(ssd.now(), Command { tag: 9, kind, lba, blocks });
    finish(ssd, &mut done);
    assert_eq!(done.len(), 1);
    done[0]
}

#[test]
fn every_request_ends_and_the_tables_agree() {
    for config in drives() {
        let mut ssd = Ssd::new(config.clone(), 1);
        ssd.age(0.5);
        let is_plain = config.redundancy == Redundancy::EccOnly && !config.rows;
        for seed in 0..if is_plain { 3 } else { 1 } {
            let done = load(&mut ssd, seed, 3_000);
            assert_eq!(done.len(), 3_000, "{config:?}");
            let suspends = config.suspend.program_ns.or(config.suspend.erase_ns).is_some();
            // Rows of a drive with many dies are large, so that such a drive cleans rarely.
            let suspended = ssd.stats().suspensions > 0;
            assert!(if is_plain { suspended == suspends } else { suspends || !suspended }, "{config:?}");
            ssd.mapping().verify();
            alone(&mut ssd, Kind::Flush, 0, 0);
            ssd.overwrite_at_once(1_000, 1_000);
            ssd.mapping().verify();
        }
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for config in drives() {
        let run = |seed| {
            let mut ssd = Ssd::new(config.clone(), seed);
            ssd.age(0.2);
            (load(&mut ssd, 5, 800), ssd.stats())
        };
        assert!(run(1) == run(1));
    }
}

#[test]
fn a_lone_request_takes_the_sum_of_its_steps() {
    let config = mqsim().sized(1 << 16, 0.1);
    let (link, channel) = (config.link.block_ns, config.channel_block_ns);
    let mut ssd = Ssd::new(config.clone(), 1);
    assert_eq!(alone(&mut ssd, Kind::Read, 5, 1).latency_ns(), link, "nothing to read");
    assert_eq!(alone(&mut ssd, Kind::Write, 5, 1).latency_ns(), link, "the buffer takes it");
    assert_eq!(alone(&mut ssd, Kind::Read, 5, 1).latency_ns(), link, "the buffer has it");
    let flush = alone(&mut ssd, Kind::Flush, 0, 0).latency_ns();
    assert_eq!(flush, 4 * channel + config.program_ns, "a unit of two pages of 8 KiB");
    assert_eq!(alone(&mut ssd, Kind::Read, 5, 1).latency_ns(), config.sense_ns + channel + link);
    assert_eq!(alone(&mut ssd, Kind::Flush, 0, 0).latency_ns(), 0, "nothing to flush");
    alone(&mut ssd, Kind::Discard, 5, 1);
    assert!(!ssd.is_written(5));
    // Two dies of a channel sense at once but share the way out.
    alone(&mut ssd, Kind::Write, 0, 36);
    alone(&mut ssd, Kind::Flush, 0, 0);
    let both = alone(&mut ssd, Kind::Read, 0, 36).latency_ns();
    assert_eq!(both, config.sense_ns + 8 * channel + 36 * link);
}

/// Reads of one block, at this interval in nanoseconds, while the only die programs a unit: their latencies, when the program has
/// ended, and how often it was suspended.
fn reads_during_a_program(suspend: Suspend, times: std::ops::Range<Ns>, apart: usize) -> (Vec<Ns>, Ns, u64) {
    let one_die = Config { channels: 1, suspend, power_loss_protected: false, ..datacenter() };
    let mut ssd = Ssd::new(one_die.sized(1 << 16, 0.3), 1);
    let unit = ssd.config().unit_blocks();
    alone(&mut ssd, Kind::Write, 0, unit);
    alone(&mut ssd, Kind::Flush, 0, 0);
    let begin = ssd.now();
    ssd.submit(begin, Command { tag: 0, kind: Kind::Write, lba: unit, blocks: unit });
    let mut done = Vec::new();
    ssd.advance(begin + 100_000, &mut done);
    ssd.submit(begin + 100_000, Command { tag: 1, kind: Kind::Flush, lba: 0, blocks: 0 });
    for at in times.step_by(apart) {
        ssd.advance(begin + at, &mut done);
        ssd.submit(begin + at, Command { tag: 2, kind: Kind::Read, lba: 0, blocks: 1 });
    }
    finish(&mut ssd, &mut done);
    let flush = done.iter().find(|c| c.tag == 1).expect("it ends");
    let reads = done.iter().filter(|c| c.tag == 2).map(Completion::latency_ns).collect();
    (reads, flush.completed_at - begin, ssd.stats().suspensions)
}

#[test]
fn reads_interrupt_a_program_and_do_not_starve_it() {
    let (config, apart) = (datacenter(), 150_000);
    let suspend_ns = SUSPEND.program_ns.expect("it can be suspended");
    let (alone, ends, _) = reads_during_a_program(SUSPEND, 5_000_000..5_000_001, apart);
    // It begins after 0.2 ms and takes 0.75 ms.
    let one = 500_000..500_001;
    let (waits, ends_as_well, suspensions) = reads_during_a_program(Suspend::NONE, one.clone(), apart);
    assert!(waits[0] > alone[0] + 300_000, "{waits:?}");
    assert_eq!((ends_as_well, suspensions), (ends, 0));
    let (interrupts, ends_later, suspensions) = reads_during_a_program(SUSPEND, one, apart);
    assert_eq!((interrupts[0], suspensions), (alone[0] + suspend_ns, 1));
    assert_eq!(ends_later, ends + suspend_ns + config.sense_ns + config.channel_block_ns);
    // Reads for ten times as long as it takes: between two of them it goes on for as long as suspending takes.
    let (reads, ends_last, suspensions) =
        reads_during_a_program(SUSPEND, 300_000..10 * config.program_ns, apart);
    let times = config.program_ns / suspend_ns;
    assert!((3..=times).contains(&suspensions), "{suspensions}");
    assert!(ends_last < ends + times * (suspend_ns + 3 * alone[0]), "{ends_last}");
    assert!(reads.iter().all(|&read| read < alone[0] + 2 * suspend_ns + config.sense_ns), "{reads:?}");
}

#[test]
fn space_runs_out_before_addresses_do() {
    let compression = Compression { granule_bytes: 1024, space_query: true, length_query: true };
    let cleaning = Cleaning { low: 3, high: 4, exclusive: false, single_erase: true };
    let mut config = Config { compression: Some(compression), pages: 64, cleaning, ..datacenter() };
    // Four times as many addresses as flash.
    config.erase_blocks = 40;
    config.blocks = (config.physical_blocks() * 4) as u32;
    let mut ssd = Ssd::new(config.clone(), 1);
    let total = ssd.space().map(|space| space.total).expect("it tells");
    assert!(total < u64::from(config.blocks) * 4096);
    let mut lba = 0;
    while alone(&mut ssd, Kind::Write, lba, 8).outcome == Outcome::Done {
        lba += 8;
    }
    let space = ssd.space().expect("it tells");
    assert_eq!(space.used, space.total);
    assert_eq!(ssd.length_of(0), Some(4096));
    // What compresses fits where something larger was, and gives the difference back.
    ssd.announce_lengths(0, &[700; 8]);
    assert_eq!(alone(&mut ssd, Kind::Write, 0, 8).outcome, Outcome::Done);
    assert_eq!(ssd.length_of(0), Some(700));
    assert_eq!(ssd.space().map(|space| space.total - space.used), Some(8 * 3 * 1024));
    ssd.mapping().verify();
    let quiet = Compression { space_query: false, length_query: false, ..compression };
    let ssd = Ssd::new(Config { compression: Some(quiet), ..config }, 1);
    assert_eq!((ssd.space(), ssd.length_of(0)), (None, None));
}

/// Whatever the redundancy, the flash for compressed data holds it, and granules are counted as parts of blocks.
#[test]
fn flash_for_compressed_data_holds_it() {
    for redundancy in [Redundancy::EccOnly, Redundancy::Elastic(Striping::new(8, 300_000))] {
        for granule_bytes in [128, 512, 2048, 4096] {
            let compression = Compression { granule_bytes, space_query: true, length_query: false };
            let config = Config { redundancy, pages: 16, ..datacenter() }.compressing(compression);
            for mebibytes in [1, 20, 100] {
                let sized = config.clone().sized(config.blocks_for_compressed(mebibytes << 20) as u32, 0.0);
                let mut ssd = Ssd::new(Config { blocks: 1 << 20, ..sized }, 1);
                let total = ssd.space().map_or(0, |space| space.total);
                assert!(
                    total >= mebibytes << 20,
                    "{redundancy:?}, {granule_bytes}: {total} of {mebibytes} MiB"
                );
                ssd.announce_lengths(0, &[2048; 8]);
                alone(&mut ssd, Kind::Write, 0, 8);
                let stats = ssd.stats_in_blocks_at(ssd.now());
                let granules = u64::from(2048u32.div_ceil(granule_bytes)) * 8;
                assert_eq!(ssd.stats().written_granules, granules);
                let blocks = granules * u64::from(granule_bytes) / 4096;
                assert_eq!((stats.written_blocks, stats.written_granules), (8, blocks));
            }
        }
    }
}

#[test]
fn a_drive_that_was_discarded_once_keeps_its_wear_alone() {
    let mut ssd = Ssd::new(small(super::datacenter()), 5);
    ssd.age(1.0);
    let wear = ssd.erase_counts().to_vec();
    ssd.trim_at_once();
    assert!((0..ssd.blocks()).all(|lba| !ssd.is_written(lba)));
    assert_eq!(ssd.erase_counts(), wear);
    load(&mut ssd, 5, 400);
    let stats = ssd.stats();
    assert!(stats.written_blocks > 0 && stats.victim_granules == 0, "nothing live is moved: {stats:?}");
}

#[test]
fn wear_is_counted() {
    let mut ssd = Ssd::new(slc().sized(1 << 16, 0.2), 1);
    ssd.age(2.0);
    let erases: u64 = ssd.erase_counts().iter().map(|&count| u64::from(count)).sum();
    assert!(erases > 1_000);
    assert_eq!(ssd.stats(), Stats::default());
}

#[test]
fn requests_that_meet_a_stop_end_together_after_it() {
    let mut ssd = Ssd::new(consumer().sized(1 << 18, 0.145), 1);
    alone(&mut ssd, Kind::Write, 0, 16);
    alone(&mut ssd, Kind::Flush, 0, 0);
    let mut done = Vec::new();
    let (mut lba, stops) = (16, ssd.stats().stalls);
    while ssd.stats().stalls == stops {
        ssd.submit(ssd.now(), Command { tag: 0, kind: Kind::Write, lba, blocks: 16 });
        lba += 16;
        while ssd.stats().stalls == stops
            && let Some(at) = ssd.next_event()
        {
            ssd.advance(at, &mut done);
        }
    }
    finish_what_was_acknowledged(&mut ssd, &mut done);
    let begin = ssd.now();
    for tag in 1..=8 {
        let at = begin + tag * 200_000;
        ssd.advance(at, &mut done);
        ssd.submit(at, Command { tag, kind: Kind::Read, lba: 0, blocks: 1 });
    }
    finish(&mut ssd, &mut done);
    let reads: Vec<_> = done.iter().filter(|c| c.tag > 0).collect();
    let (first, last) = (reads[0].completed_at, reads[7].completed_at);
    assert!(reads[0].latency_ns() > 2_000_000, "{reads:?}");
    assert!(last - first < 1_000_000, "{reads:?}");
}

/// Takes the completions that a stop does not hold up.
fn finish_what_was_acknowledged(ssd: &mut Ssd, done: &mut Vec<Completion>) {
    let soon = ssd.now() + 100_000;
    ssd.advance(soon, done);
}
