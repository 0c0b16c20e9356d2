//! After the loss of a die or of a page, with or without power, what a drive says about each block is true, and no block is
//! lost that its redundancy covers. `cargo run --release -p sinew-devices --example chip_loss -- 10000` tries more seeds.

mod ledger;

use ledger::{Found, run};

#[test]
fn what_a_drive_says_after_a_loss_is_true() {
    let mut all = Found::default();
    for seed in 0..400 {
        let found = run(seed);
        all.checked += found.checked;
        all.combined += found.combined;
        all.from_memory += found.from_memory;
        all.lost += found.lost;
    }
    // Each way of an answer was taken.
    assert!(all.combined > 1_000 && all.from_memory > 100 && all.lost > 1_000, "{all:?}");
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
