//! What parts do that a drive may have or not: static wear levelling, and a mapping table on flash.

use sinew_devices::flash::{Config, MappingCache, SlcCache, Ssd, WearLevelling, slc};
use sinew_devices::{Command, Device, Kind, Rng};

const BLOCKS: u32 = 1 << 15;

/// A drive written once in order, and then many times in its first tenth.
fn worn(wear_levelling: Option<WearLevelling>) -> (u32, u32, f64) {
    let config = Config { wear_levelling, pages: 16, ..slc() }.sized(BLOCKS, 0.15);
    let mut ssd = Ssd::new(config, 1);
    ssd.age(0.0);
    ssd.overwrite_at_once(u64::from(BLOCKS) * 30, BLOCKS / 10);
    let (least, most) = (ssd.erase_counts().iter().min().unwrap(), ssd.erase_counts().iter().max().unwrap());
    (*least, *most, ssd.stats().write_amplification())
}

#[test]
fn wear_levelling_bounds_the_spread_of_erases_and_costs_programs() {
    let (least, most, without) = worn(None);
    assert!(least <= 1 && most > 100, "{least} to {most}: cold data keeps its erase blocks");
    let (mut last, mut differ) = (without, (most - least) / 2);
    for spread in [64, 16, 4] {
        let (least, most, with) = worn(Some(WearLevelling { spread }));
        // At most one victim in eight is chosen for its wear, so the blocks of cold data follow with a delay.
        assert!(most - least < differ && most - least < spread + 60, "{spread}: {least} to {most}");
        assert!(with > last, "{spread}: {with} {last}");
        (last, differ) = (with, most - least);
    }
    assert!(last < without * 1.5, "{last} {without}");
}

/// Random single blocks, one after another; returns the part of table pages read, and programmed, per request.
fn table_traffic(kind: Kind, pages: u32) -> (f64, f64) {
    let config = Config { mapping_cache: Some(MappingCache::of_pages(pages)), pages: 16, ..slc() };
    // Much spare space, so that cleaning moves next to nothing.
    let mut ssd = Ssd::new(config.sized(BLOCKS, 4.0), 2);
    ssd.age(0.0);
    let (mut rng, mut done, mut now) = (Rng::new(3), Vec::new(), 0);
    let requests = 20_000;
    for tag in 0..requests {
        if tag == requests / 4 {
            ssd.reset_stats();
        }
        ssd.submit(now, Command { tag, kind, lba: rng.below(BLOCKS), blocks: 1 });
        while done.len() as u64 <= tag {
            now = ssd.next_event().expect("the request is under way");
            ssd.advance(now, &mut done);
        }
    }
    let (stats, measured) = (ssd.stats(), (requests * 3 / 4) as f64);
    (stats.mapping_reads as f64 / measured, stats.mapping_granules as f64 / measured)
}

#[test]
fn random_requests_miss_a_mapping_cache_by_the_part_that_is_not_in_memory() {
    let table = f64::from(BLOCKS / MappingCache::ENTRIES);
    for pages in [8, 16, 24, 32] {
        let missing = 1.0 - f64::from(pages) / table;
        let (reads, programs) = table_traffic(Kind::Read, pages);
        assert!((reads - missing).abs() < 0.02 && programs == 0.0, "{pages}: {reads}, {programs}");
        let (reads, programs) = table_traffic(Kind::Write, pages);
        // Each write changes its page, so each page that is read has another one programmed.
        assert!((reads - missing).abs() < 0.03, "{pages}: {reads}");
        assert!((programs - reads).abs() < 0.02, "{pages}: {programs}, {reads}");
    }
}

#[test]
fn a_miss_takes_the_time_of_a_read_more() {
    let took = |pages: Option<u32>| {
        let config = Config { mapping_cache: pages.map(MappingCache::of_pages), pages: 16, ..slc() };
        let mut ssd = Ssd::new(config.sized(BLOCKS, 0.3), 2);
        ssd.age(0.0);
        let mut done = Vec::new();
        let mut read = |ssd: &mut Ssd, lba| {
            let from = ssd.now();
            ssd.submit(from, Command { tag: 0, kind: Kind::Read, lba, blocks: 1 });
            while let Some(at) = ssd.next_event() {
                ssd.advance(at, &mut done);
            }
            done.last().unwrap().completed_at - from
        };
        (read(&mut ssd, 7), read(&mut ssd, 8))
    };
    let (whole, again) = took(None);
    assert_eq!(whole, again);
    assert_eq!(took(Some(8)), (2 * whole, whole), "the second read finds the page in memory");
}

/// Writes single blocks in order, 16 at a time, until `until`; returns the number of writes that ended before `boundary` and
/// after it, and the end.
fn write_for(ssd: &mut Ssd, from: u64, boundary: u64, until: u64) -> (u64, u64) {
    let (mut done, mut lba, mut now) = (Vec::new(), 0, from);
    let mut write = |ssd: &mut Ssd, now| {
        ssd.submit(now, Command { tag: 0, kind: Kind::Write, lba: lba % BLOCKS, blocks: 1 });
        lba += 1;
    };
    (0..16).for_each(|_| write(ssd, now));
    let mut counts = (0, 0);
    while now < until {
        now = ssd.next_event().expect("requests are under way");
        ssd.advance(now, &mut done);
        for _ in 0..done.len() {
            if now < boundary {
                counts.0 += 1
            } else {
                counts.1 += 1
            }
            write(ssd, now);
        }
        done.clear();
    }
    while let Some(at) = ssd.next_event() {
        ssd.advance(at, &mut done);
    }
    counts
}

#[test]
fn an_slc_cache_takes_writes_quickly_until_it_is_full_and_again_once_it_is_folded() {
    let slc_cache = SlcCache {
        erase_blocks: 24,
        bits: 3,
        sense_ns: 25_000,
        program_ns: 200_000,
        fold_after_ns: 100_000_000,
    };
    let tlc = Config { program_ns: 800_000, channel_block_ns: 0, pages: 60, ..slc() };
    let config = Config { slc_cache: Some(slc_cache), ..tlc.clone() }.sized(BLOCKS, 0.3);
    assert!((config.alpha() - 1.3).abs() < 0.02, "{}: the cache is not spare space", config.alpha());
    // 8 dies of 24 erase blocks with 20 pages: full after 3840 writes, each 25 us of all dies.
    let full_ns = 3840 * 25_000;
    let mut ssd = Ssd::new(config, 1);
    ssd.age(0.0);
    let mut from = 0;
    for round in 0..3 {
        let (quick, slow) = write_for(&mut ssd, from, from + full_ns, from + 2 * full_ns);
        assert!((3700..=3900).contains(&quick), "round {round}: {quick} writes into the cache");
        // Then each write is programmed slowly, beside folding: at most one in 100 us.
        assert!(slow < 960 && slow > 300, "round {round}: {slow} writes beyond the cache");
        // In the silence after the load, everything is folded.
        from = ssd.now() + 5_000_000_000;
    }
    let stats = ssd.stats();
    assert!(stats.slc_granules > 3 * 3700, "{stats:?}");
    assert!(stats.moved_granules >= 3 * 3000, "what was in the cache is moved: {stats:?}");
    for lba in (0..BLOCKS).step_by(97) {
        assert!(ssd.is_written(lba));
    }
    // Without the cache, everything is as slow.
    let mut plain = Ssd::new(tlc.sized(BLOCKS, 0.3), 1);
    plain.age(0.0);
    let (first, second) = write_for(&mut plain, 0, full_ns, 2 * full_ns);
    assert!((900..=980).contains(&first) && second < 980, "{first}, {second}");
}
