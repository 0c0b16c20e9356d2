//! FastScale's figures 5, 6 and 7 again, and the growth of parity arrays: `cargo run --release --example growth`.
//!
//! As in the paper's section 2.4: 4 disks of 128 GB, blocks of 64 KiB, one disk added ten times. The paper's own
//! numbers are those in its text; its figures are not read off.

use std::hint::black_box;
use std::time::Instant;

use sinew_layout::Rotation;
use sinew_layout::fastscale::FastScale;
use sinew_layout::history::{History, HistoryError};
use sinew_layout::round_robin::{RoundRobin, SemiRoundRobin};
use sinew_layout::spread::Spread;
use sinew_layout::stats::{Counts, blocks_per_member, coefficient_of_variation, fraction_moved};

/// Blocks of 64 KiB on a disk of 128 GB, by the paper's count: "2 x 1024 x 1024".
const ROWS: u32 = 2 * 1024 * 1024;
/// Disks to begin with.
const BASE: u32 = 4;
/// Additions of one disk.
const ADDITIONS: usize = 10;
/// Blocks timed one by one, at random places.
const RANDOM_BLOCKS: usize = 1 << 18;
/// Each time is the best of so many.
const REPEATS: usize = 21;
/// Rows of the parity arrays, for the tables that walk all of them.
const PARITY_ROWS: u32 = 200_000;

fn main() -> Result<(), HistoryError> {
    let histories = histories(BASE, ADDITIONS)?;
    uniformity(&histories)?;
    migration(&histories)?;
    times(&histories)?;
    for (base, parities) in [(4, 1), (6, 2)] {
        parity(base, parities)?;
    }
    Ok(())
}

fn histories(base: u32, additions: usize) -> Result<Vec<History>, HistoryError> {
    let mut history = History::new(base)?;
    let mut all = vec![history.clone()];
    for _ in 0..additions {
        history.add(1)?;
        all.push(history.clone());
    }
    Ok(all)
}

fn percent(fraction: f64) -> f64 {
    100.0 * fraction
}

fn uniformity(histories: &[History]) -> Result<(), HistoryError> {
    println!("Coefficient of variation of the blocks of each disk, %, after so many additions (figure 5)\n");
    println!(
        "| additions | disks | round-robin | semi-RR | FastScale | FastScale, the first disks' data only |"
    );
    println!("|---:|---:|---:|---:|---:|---:|");
    let first_data = u64::from(BASE) * u64::from(ROWS);
    for (t, history) in histories.iter().enumerate() {
        let (disks, fast) = (history.width(), FastScale::new(history.clone(), ROWS)?);
        let (robin, semi) = (RoundRobin::new(disks), SemiRoundRobin::new(history.clone()));
        let cv = |member: &dyn Fn(u64) -> u32, blocks| {
            percent(coefficient_of_variation(&blocks_per_member(disks, blocks, member)))
        };
        let fast_all = {
            let mut counts = vec![0; disks as usize];
            fast.cursor(0).for_each(|home| counts[home.member as usize] += 1);
            percent(coefficient_of_variation(&counts))
        };
        println!(
            "| {t} | {disks} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
            cv(&|x| robin.home(x).member, fast.blocks()),
            cv(&|x| semi.disk(x), fast.blocks()),
            cv(&|x| semi_filled(x, t as u32), fast.blocks()),
            fast_all,
            cv(&|x| fast.home(x).member, first_data),
        );
    }
    println!("\nPaper: round-robin 0, FastScale 0, semi-RR at most 13.06.\n");
    Ok(())
}

/// Semi-round-robin if every addition was filled, round-robin, before the next: the disk after `additions` of one.
fn semi_filled(block: u64, additions: u32) -> u32 {
    let born = ((block / u64::from(ROWS)) as u32).saturating_sub(BASE - 1);
    let on = |disks: u32| (block % u64::from(disks)) as u32;
    let moved = (born + 1..=additions).rev().map(|i| BASE + i).find(|&disks| on(disks) == disks - 1);
    moved.map_or_else(|| on(BASE + born), |disks| disks - 1)
}

fn migration(histories: &[History]) -> Result<(), HistoryError> {
    println!("Blocks moved by each addition, % of those there were (figure 6)\n");
    println!("| addition | disks | round-robin | semi-RR | FastScale | least, n / (m + n) |");
    println!("|---:|---:|---:|---:|---:|---:|");
    for (t, pair) in histories.windows(2).enumerate() {
        let arrays = (FastScale::new(pair[0].clone(), ROWS)?, FastScale::new(pair[1].clone(), ROWS)?);
        let semis = (SemiRoundRobin::new(pair[0].clone()), SemiRoundRobin::new(pair[1].clone()));
        let robins = (RoundRobin::new(pair[0].width()), RoundRobin::new(pair[1].width()));
        let blocks = arrays.0.blocks();
        println!(
            "| {} | {} to {} | {:.2} | {:.2} | {:.2} | {:.2} |",
            t + 1,
            pair[0].width(),
            pair[1].width(),
            percent(fraction_moved(blocks, |x| robins.0.home(x), |x| robins.1.home(x))),
            percent(fraction_moved(blocks, |x| semis.0.disk(x), |x| semis.1.disk(x))),
            percent(fraction_moved(blocks, |x| arrays.0.home(x), |x| arrays.1.home(x))),
            percent(1.0 / f64::from(pair[1].width())),
        );
    }
    println!("\nPaper: round-robin 100; semi-RR and FastScale the same, falling with every addition.\n");
    Ok(())
}

/// The shortest time per item, in nanoseconds.
fn best(items: usize, mut run: impl FnMut()) -> f64 {
    let times = (0..REPEATS).map(|_| {
        let started = Instant::now();
        run();
        started.elapsed().as_nanos() as f64 / items as f64
    });
    times.fold(f64::INFINITY, f64::min)
}

fn times(histories: &[History]) -> Result<(), HistoryError> {
    println!("Nanoseconds to address one block, best of {REPEATS} (figure 7)\n");
    println!(
        "| additions | round-robin | semi-RR, random | FastScale, random | backwards, random | cursor, all blocks |"
    );
    println!("|---:|---:|---:|---:|---:|---:|");
    for (t, history) in histories.iter().enumerate() {
        let fast = FastScale::new(history.clone(), ROWS)?;
        let (robin, semi) = (RoundRobin::new(history.width()), SemiRoundRobin::new(history.clone()));
        let blocks = random_blocks(fast.blocks());
        let homes: Vec<_> = blocks.iter().map(|&x| fast.home(x)).collect();
        let each = |run: &dyn Fn(u64)| best(blocks.len(), || blocks.iter().for_each(|&x| run(x)));
        println!(
            "| {t} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} |",
            each(&|x| {
                black_box(robin.home(x));
            }),
            each(&|x| {
                black_box(semi.disk(x));
            }),
            each(&|x| {
                black_box(fast.home(x));
            }),
            best(homes.len(), || homes.iter().for_each(|&home| {
                black_box(fast.block_at(home));
            })),
            best(fast.blocks() as usize, || fast.cursor(0).for_each(|home| {
                black_box(home);
            })),
        );
    }
    println!(
        "\nPaper (Core 2 Duo T9400, 2.53 GHz, all blocks in order): round-robin 14, FastScale at most 240.\n"
    );
    Ok(())
}

/// The same blocks on every run: xorshift64 of a fixed seed (Marsaglia, 2003).
fn random_blocks(below: u64) -> Vec<u64> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    (0..RANDOM_BLOCKS).map(next).collect()
}

fn parity(base: u32, parities: u32) -> Result<(), HistoryError> {
    println!("RAID {}: from {base} members, one added at a time, {PARITY_ROWS} rows\n", 4 + parities);
    println!(
        "| members | data moved, spread | parity written | CV of data | CV of parity | space | \
         data moved, restripe | parity written |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    let make = |history: &History| Spread::new(history, PARITY_ROWS, Rotation::LeftSymmetric, parities);
    for pair in histories(base, ADDITIONS)?.windows(2) {
        let (before, after) = (make(&pair[0])?, make(&pair[1])?);
        let chunks = before.data_chunks();
        let updated: usize = after.regions().map(|region| region.parity.len()).sum();
        let counts = Counts::of(after.members(), u64::from(PARITY_ROWS), |home| after.role(home));
        let (m, n) = (pair[0].width(), pair[1].width());
        let best_space = f64::from(PARITY_ROWS) * f64::from(n - parities);
        let (old, new) = (u64::from(m - parities), u64::from(n - parities));
        let stripes = chunks.div_ceil(new);
        let geometry = |members| restriped(members, parities);
        let (from, to) = (geometry(m), geometry(n));
        let data = u64::from(PARITY_ROWS) * old;
        println!(
            "| {n} | {:.1} % | {:.1} % | {:.3} % | {:.3} % | {:.3} % | {:.1} % | {:.1} % |",
            percent(fraction_moved(chunks, |x| before.home(x), |x| after.home(x))),
            percent(updated as f64 / (f64::from(PARITY_ROWS) * f64::from(parities))),
            percent(coefficient_of_variation(&counts.data)),
            percent(coefficient_of_variation(&counts.parity)),
            percent(after.data_chunks() as f64 / best_space),
            percent(fraction_moved(data, |x| from.home(x), |x| to.home(x))),
            percent(stripes as f64 / f64::from(PARITY_ROWS)),
        );
    }
    println!(
        "\nParity written: % of all parity chunks. Space: % of what a new array of as many members has.\n"
    );
    Ok(())
}

fn restriped(members: u32, parities: u32) -> sinew_layout::Geometry {
    let rotation = Rotation::LeftSymmetric;
    let level = if parities == 1 {
        sinew_layout::Level::Raid5(rotation)
    } else {
        sinew_layout::Level::Raid6(rotation)
    };
    let made = sinew_layout::Geometry::new(level, members, 65536, u64::from(PARITY_ROWS) * 65536);
    made.expect("a geometry of the example")
}
