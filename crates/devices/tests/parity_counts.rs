//! A drive writes exactly the parities that the rules of RAID-5 and of eSAP ask for, and reads what they ask for.

mod parity;

use parity::{Pages, both, counts, fast_drive, run};
use sinew_devices::flash::{ParityReads, Redundancy, Striping};
use sinew_devices::{Ns, Rng};

const MS: Ns = 1_000_000;

/// Pages with gaps that are even in 0 to `gap_max`, each at random among `blocks` or in order.
fn synthetic(count: u32, gap_max: Ns, blocks: u32, random: bool, seed: u64) -> Pages {
    let mut rng = Rng::new(seed);
    let mut at = 0;
    let page = |rng: &mut Rng, i: u32| if random { rng.below(blocks) } else { i % blocks };
    (0..count)
        .map(|i| {
            at += u64::from(rng.below(gap_max as u32 + 1));
            (at, page(&mut rng, i))
        })
        .collect()
}

#[test]
fn parity_counts_are_those_of_the_rules() {
    for seed in 0..4 {
        for (gap_max, wait) in [(200 * MS, 50 * MS), (200 * MS, 200 * MS), (2 * MS, 10 * MS), (0, 0), (MS, 0)]
        {
            let random = seed % 2 == 0;
            let pages = synthetic(5_000, gap_max, 2_000, random, seed);
            for units in [2, 3, 8, 16, 32] {
                for reads in [ParityReads::Fewer, ParityReads::Reconstruct] {
                    let striping = Striping { reads, ..Striping::new(units, wait) };
                    // A whole number of stripes of each size, so that none is short.
                    let (expected, counted) = both(&pages, Redundancy::Raid5(striping), 6510);
                    assert_eq!(
                        expected, counted,
                        "RAID-5 of {units}, P_wait {wait}, gaps to {gap_max}, seed {seed}"
                    );
                }
                let striping = Striping::new(units, wait);
                let (expected, counted) = both(&pages, Redundancy::Elastic(striping), 2_000);
                assert_eq!(
                    expected, counted,
                    "eSAP of {units}, P_wait {wait}, gaps to {gap_max}, seed {seed}"
                );
            }
        }
    }
}

#[test]
fn synthetic_gaps_give_the_closed_forms() {
    let writes = 100_000;
    let pages = synthetic(writes, 200 * MS, 200_000, true, 3);
    for (units, partial) in [(8, 0.6429), (16, 0.7000), (32, 0.7258)] {
        for (wait, partial) in [(50 * MS, partial), (200 * MS, 0.0)] {
            let redundancy = Redundancy::Elastic(Striping::new(units, wait));
            let stats = run(fast_drive(redundancy, 200_000, pages.len()), &pages);
            let counted = counts(&stats);
            assert_eq!(counted.full, u64::from(writes / (units - 1)));
            let share = counted.partial as f64 / f64::from(writes);
            assert!((share - partial).abs() < 0.005, "{units}: {share} instead of {partial}");
        }
    }
    // Nearly every page is alone in its stripe: one parity, and the old data and the old parity are read.
    let redundancy = Redundancy::Raid5(Striping::new(8, 50 * MS));
    let counted = counts(&run(fast_drive(redundancy, 200_004, pages.len()), &pages));
    assert!((counted.full as f64 / f64::from(writes) - 1.0).abs() < 0.002, "{counted:?}");
    assert!((counted.reads as f64 / f64::from(writes) - 2.0).abs() < 0.005, "{counted:?}");
}

#[test]
fn a_protected_buffer_writes_no_parity_of_an_incomplete_stripe() {
    let pages = synthetic(3_000, 200 * MS, 2_000, true, 1);
    let striping = Striping { protected_buffer: true, ..Striping::new(8, 50 * MS) };
    let stats = run(fast_drive(Redundancy::Elastic(striping), 2_000, pages.len()), &pages);
    assert_eq!((stats.parity_granules, stats.partial_parity_granules), (3_000 / 7, 0));
}

/// P_wait runs from the last data of a stripe. Counted from the first, it gives other numbers.
#[cfg(feature = "mutations")]
#[test]
fn a_wait_from_the_first_data_is_found_by_the_counts() {
    use sinew_devices::flash::{Defect, set_defect};
    // In order, so that consecutive writes change one stripe of RAID-5.
    let pages = synthetic(5_000, 40 * MS, 2_000, false, 0);
    let striping = Striping::new(8, 50 * MS);
    for (redundancy, blocks) in [(Redundancy::Raid5(striping), 6510), (Redundancy::Elastic(striping), 2_000)]
    {
        set_defect(Some(Defect::WaitFromFirst));
        let (expected, counted) = both(&pages, redundancy, blocks);
        set_defect(None);
        assert_ne!(expected, counted, "{redundancy:?}");
    }
}
