//! Parity counts of a page-write sequence by rules of arithmetic alone, and the counts of a drive for the same sequence.

use std::collections::BTreeMap;

use sinew_devices::flash::{Config, ParityReads, Redundancy, Ssd, Stats, Striping, slc};
use sinew_devices::{Command, Device, Kind, Ns};

/// Writes of the host: when, which page.
pub(crate) type Pages = Vec<(Ns, u32)>;

/// Parity writes of full stripes (RAID-5: of all stripes), parity writes after P_wait, reads for parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) full: u64,
    pub(crate) partial: u64,
    pub(crate) reads: u64,
}

/// eSAP without cleaning: full parity when a stripe has all of its data, partial parity when more than P_wait passes, or the
/// sequence ends, while data is uncovered.
pub(crate) fn expected_elastic(pages: &Pages, units: u32, wait: Ns) -> Counts {
    let (mut held, mut uncovered, mut last) = (0, false, 0);
    let mut counts = Counts { full: 0, partial: 0, reads: 0 };
    for &(at, _) in pages {
        if uncovered && at - last > wait {
            counts.partial += 1;
        }
        (held, uncovered, last) = (held + 1, true, at);
        if held == units - 1 {
            counts.full += 1;
            (held, uncovered) = (0, false);
        }
    }
    counts.partial += u64::from(uncovered);
    counts
}

/// RAID-5: the parity of a logical stripe is written when all of its pages have changed, or when more than P_wait has passed
/// since its last change.
pub(crate) fn expected_raid5(pages: &Pages, units: u32, wait: Ns, reads: ParityReads) -> Counts {
    let data = u64::from(units - 1);
    let mut counts = Counts { full: 0, partial: 0, reads: 0 };
    let mut stripes: BTreeMap<u32, (Ns, Vec<u32>)> = BTreeMap::new();
    let mut write = |changed: u64| {
        counts.full += 1;
        counts.reads += match reads {
            ParityReads::Fewer => (changed + 1).min(data - changed),
            ParityReads::Reconstruct => data - changed,
        };
    };
    for &(at, page) in pages {
        let stripe = page / (units - 1);
        let (last, changed) = stripes.entry(stripe).or_insert((at, Vec::new()));
        if !changed.is_empty() && at - *last > wait {
            write(changed.len() as u64);
            changed.clear();
        }
        *last = at;
        if !changed.contains(&page) {
            changed.push(page);
        }
        if changed.len() as u64 == data {
            write(data);
            changed.clear();
        }
    }
    for (_, changed) in stripes.into_values() {
        if !changed.is_empty() {
            write(changed.len() as u64);
        }
    }
    counts
}

/// A drive that takes no time, with a row that holds `pages` writes and their parity.
pub(crate) fn fast_drive(redundancy: Redundancy, blocks: u32, pages: usize) -> Config {
    let raid5 = matches!(redundancy, Redundancy::Raid5(_));
    let dies = if raid5 { 8 } else { 256 };
    let base = Config {
        channels: dies,
        sense_ns: 0,
        program_ns: 0,
        erase_ns: 0,
        channel_block_ns: 0,
        queue_depth: 1 << 20,
        buffer_blocks: 1 << 20,
        redundancy,
        ..slc()
    };
    match redundancy {
        // Space for all old copies of a burst, even if all of them are on one die.
        Redundancy::Raid5(_) => base.sized(blocks, (150_000.0 / f64::from(blocks)).max(3.0)),
        _ => {
            let pages = (2 * pages as u32 + blocks * 2).div_ceil(dies).max(64);
            Config { pages, ..base }.sized(blocks, 0.1)
        }
    }
}

/// Writes single pages to a drive at their times. A drive with RAID-5 was filled before, so that each page has an old copy.
/// Returns what it counted.
pub(crate) fn run(config: Config, pages: &Pages) -> Stats {
    let mut ssd = Ssd::new(config, 1);
    if matches!(ssd.config().redundancy, Redundancy::Raid5(_)) {
        ssd.age(0.0);
    }
    let mut done = Vec::new();
    for &(at, page) in pages {
        while let Some(next) = ssd.next_event()
            && next <= at
        {
            ssd.advance(next, &mut done);
        }
        ssd.advance(at, &mut done);
        ssd.submit(at, Command { tag: 0, kind: Kind::Write, lba: page, blocks: 1 });
    }
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
    }
    assert_eq!(done.len(), pages.len());
    ssd.stats()
}

pub(crate) fn counts(stats: &Stats) -> Counts {
    Counts { full: stats.parity_granules, partial: stats.partial_parity_granules, reads: stats.parity_reads }
}

/// What the rules say and what the drive counts.
pub(crate) fn both(pages: &Pages, redundancy: Redundancy, blocks: u32) -> (Counts, Counts) {
    let Striping { units, wait_ns, reads, .. } = redundancy.striping().expect("it has stripes");
    let expected = match redundancy {
        Redundancy::Raid5(_) => expected_raid5(pages, units, wait_ns, reads),
        _ => expected_elastic(pages, units, wait_ns),
    };
    (expected, counts(&run(fast_drive(redundancy, blocks, pages.len()), pages)))
}
