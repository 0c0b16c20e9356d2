//! The simulator's own proof: break the engine on purpose, one way at a time, and see that the torture notices.

use std::panic::catch_unwind;

use sinew_engine::sabotage::{Sabotage, choose};
use sinew_sim::torture::{Plan, run};

/// Seeds tried for each defect before it counts as not found.
const SEEDS_MAX: u64 = 600;

#[test]
fn every_deliberate_defect_is_found() {
    // Broken engines panic; that is one way of being found.
    std::panic::set_hook(Box::new(|_| ()));
    let mut missed = Vec::new();
    for way in Sabotage::ALL {
        choose(Some(way));
        let found = (0..SEEDS_MAX).find_map(|seed| match catch_unwind(|| run(&Plan::draw(seed))) {
            Ok(Ok(_)) => None,
            Ok(Err(failure)) => Some((seed, failure.what)),
            Err(_) => Some((seed, "a broken invariant".to_owned())),
        });
        choose(None);
        match found {
            Some((seed, what)) => {
                println!("{way:?}: seed {seed}: {}", what.chars().take(120).collect::<String>())
            }
            None => missed.push(way),
        }
    }
    assert!(missed.is_empty(), "not found in {SEEDS_MAX} seeds each: {missed:?}");
}
