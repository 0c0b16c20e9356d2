//! Which erase block of a die is cleaned.
//!
//! The counts of a die are contiguous, so the emptiest is found by looking at all of them: some thousand small numbers,
//! once per cleaning, which is cheaper than keeping them sorted at every overwrite.

use super::config::Policy;
use crate::Rng;

/// Count that stands for an erase block which cannot be cleaned, because it is free or open.
pub(super) const NO_VICTIM: u16 = u16::MAX;

/// The number of the block to clean within a die, or `None` when cleaning would gain nothing.
///
/// `live` has the live granules of each block or [`NO_VICTIM`], `filled` when each was opened, `full` is the number of
/// granules in a block.
pub(super) fn choose(
    policy: Policy,
    live: &[u16],
    filled: &[u32],
    full: u16,
    rng: &mut Rng,
) -> Option<usize> {
    match policy {
        Policy::Greedy => emptiest(live, full),
        Policy::Choices(choices) => {
            let best = (0..choices).map(|_| candidate(live, rng)).min_by_key(|&block| live[block])?;
            if live[best] < full { Some(best) } else { emptiest(live, full) }
        }
        Policy::Fifo => {
            let candidates = (0..live.len()).filter(|&block| live[block] != NO_VICTIM);
            candidates.min_by_key(|&block| filled[block])
        }
    }
}

fn emptiest(live: &[u16], full: u16) -> Option<usize> {
    let least = live.iter().copied().min()?;
    if least < full { live.iter().position(|&count| count == least) } else { None }
}

/// Any block that can be cleaned. Nearly all can, so drawing until one is found takes few draws.
fn candidate(live: &[u16], rng: &mut Rng) -> usize {
    loop {
        let block = rng.below(live.len() as u32) as usize;
        if live[block] != NO_VICTIM {
            return block;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_takes_what_it_should() {
        let live = [NO_VICTIM, 5, 3, NO_VICTIM, 3, 8];
        let filled = [9, 2, 3, 1, 4, 5];
        let mut rng = Rng::new(1);
        assert_eq!(choose(Policy::Greedy, &live, &filled, 8, &mut rng), Some(2));
        assert_eq!(choose(Policy::Fifo, &live, &filled, 8, &mut rng), Some(1));
        let picked = choose(Policy::Choices(50), &live, &filled, 8, &mut rng);
        assert!(picked == Some(2) || picked == Some(4));
        assert_eq!(choose(Policy::Greedy, &[NO_VICTIM, 8, 8], &filled, 8, &mut rng), None);
    }
}
