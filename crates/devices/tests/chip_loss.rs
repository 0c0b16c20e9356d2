//! After the loss of a die or of a page, with or without power, what a drive says about each block is true, and no block is
//! lost that its redundancy covers. `cargo run --release -p sinew-devices --example chip_loss -- 10000` tries more seeds.

mod ledger;

use ledger::{Found, run};
use sinew_devices::flash::{Config, Redundancy, Ssd, Striping, slc};
use sinew_devices::{Command, Device, Kind, Outcome};

#[test]
fn what_a_drive_says_after_a_loss_is_true() {
    let mut all = Found::default();
    for seed in 0..400 {
        all.add(run(seed));
    }
    // Each way of an answer was taken.
    assert!(all.combined > 1_000 && all.from_memory > 100 && all.lost > 1_000, "{all:?}");
    assert!(all.degraded_reads > 1_000 && all.unreadable_reads > 1_000, "{all:?}");
}

/// A read of a block on the lost die senses the rest of its stripe; without redundancy the block is reported as lost.
#[test]
fn reads_of_a_lost_die_cost_the_rest_of_their_stripes() {
    for (redundancy, terms) in [
        (Redundancy::EccOnly, 0),
        (Redundancy::Elastic(Striping::new(8, 50_000_000)), 7),
        (Redundancy::Elastic(Striping::new(4, 50_000_000)), 3),
        (Redundancy::Raid5(Striping::new(8, 50_000_000)), 7),
    ] {
        let mut ssd = Ssd::new(Config { redundancy, ..slc() }.sized(1 << 14, 0.3), 1);
        ssd.age(0.5);
        let losses = ssd.lose_die(0, 3);
        let gone = losses.rebuilt as usize + losses.lost.len();
        assert!(gone > 500, "{gone} blocks are on the die; {redundancy:?}");
        assert_eq!(losses.lost.is_empty(), redundancy != Redundancy::EccOnly);
        let mut done = Vec::new();
        for lba in 0..ssd.blocks() {
            ssd.submit(ssd.now(), Command { tag: u64::from(lba), kind: Kind::Read, lba, blocks: 1 });
            while let Some(at) = ssd.next_event() {
                ssd.advance(at, &mut done);
            }
        }
        let bad = |outcome| done.iter().filter(|completion| completion.outcome == outcome).count();
        assert_eq!(bad(Outcome::Unreadable), losses.lost.len());
        assert_eq!(bad(Outcome::Done) + losses.lost.len(), 1 << 14);
        let stats = ssd.stats();
        assert_eq!(stats.combined_blocks, u64::from(losses.rebuilt));
        assert_eq!(stats.unreadable_blocks, losses.lost.len() as u64);
        let expected = (1 << 14) - gone as u64 + terms * u64::from(losses.rebuilt);
        // Stripes that end with their row are shorter.
        assert!(stats.host_senses <= expected && stats.host_senses * 50 > expected * 49, "{redundancy:?}");
    }
}

/// Each deliberate defect is found within these seeds. P_wait counted from the first data is found by its counts, in
/// `parity_counts.rs`.
#[cfg(feature = "mutations")]
#[test]
fn defects_are_found() {
    use sinew_devices::flash::{Defect, set_defect};
    for defect in Defect::ALL.into_iter().filter(|&defect| defect != Defect::WaitFromFirst) {
        set_defect(Some(defect));
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        let by = (0..400).find(|&seed| std::panic::catch_unwind(|| run(seed)).is_err());
        std::panic::set_hook(hook);
        set_defect(None);
        println!("{defect:?} is found by seed {by:?}");
        assert!(by.is_some(), "{defect:?} is not found");
    }
}
