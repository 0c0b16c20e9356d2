//! Which erase block of a die is cleaned.
//!
//! The emptiest block is found by looking at a lower bound for each group of blocks, then at the blocks of the group with
//! the least. Bounds follow a count down at once, and up only when that group is looked at, so that an overwrite costs
//! no more than a comparison.

use super::config::Policy;
use crate::Rng;

/// Count that stands for an erase block which cannot be cleaned, because it is free or open.
pub(super) const NO_VICTIM: u32 = u32::MAX;

/// Erase blocks in a group.
const GROUP: usize = 64;

/// Lower bounds of the live granules in each group of a die's erase blocks.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    least: Vec<u32>,
}

impl Bounds {
    pub(super) fn new(blocks: usize) -> Bounds {
        Bounds { least: vec![NO_VICTIM; blocks.div_ceil(GROUP)] }
    }

    /// A block of the die has so few live granules now.
    #[inline]
    pub(super) fn lower(&mut self, block: usize, live: u32) {
        let least = &mut self.least[block / GROUP];
        *least = live.min(*least);
    }

    /// The first of the blocks with the least live granules, if those are fewer than `full`.
    fn emptiest(&mut self, live: &[u32], full: u32) -> Option<usize> {
        // Blocks beyond `live` are never victims.
        let groups = live.len().div_ceil(GROUP);
        loop {
            let bound = self.least[..groups].iter().copied().min()?;
            if bound >= full {
                return None;
            }
            let group = self.least[..groups].iter().position(|&least| least == bound)?;
            let first = group * GROUP;
            let members = &live[first..live.len().min(first + GROUP)];
            if let Some(block) = members.iter().position(|&count| count == bound) {
                return Some(first + block);
            }
            self.least[group] = members.iter().copied().min()?;
        }
    }
}

/// The number of the block to clean within a die, or `None` when cleaning would gain nothing.
///
/// `live` has the live granules of each block or [`NO_VICTIM`], `bounds` belongs to it, `filled` says when each was
/// opened, `full` is the number of granules in a block.
pub(super) fn choose(
    policy: Policy,
    live: &[u32],
    bounds: &mut Bounds,
    filled: &[u32],
    full: u32,
    rng: &mut Rng,
) -> Option<usize> {
    match policy {
        Policy::Greedy => bounds.emptiest(live, full),
        Policy::Choices(choices) => {
            let best = (0..choices).map(|_| candidate(live, rng)).min_by_key(|&block| live[block])?;
            if live[best] < full { Some(best) } else { bounds.emptiest(live, full) }
        }
        Policy::Fifo => {
            let candidates = (0..live.len()).filter(|&block| live[block] != NO_VICTIM);
            candidates.min_by_key(|&block| filled[block])
        }
    }
}

/// Any block that can be cleaned. Nearly all can, so drawing until one is found takes few draws.
fn candidate(live: &[u32], rng: &mut Rng) -> usize {
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

    fn bounds(live: &[u32]) -> Bounds {
        let mut bounds = Bounds::new(live.len());
        live.iter().enumerate().for_each(|(block, &count)| bounds.lower(block, count));
        bounds
    }

    #[test]
    fn each_policy_takes_what_it_should() {
        let live = [NO_VICTIM, 5, 3, NO_VICTIM, 3, 8];
        let filled = [9, 2, 3, 1, 4, 5];
        let mut rng = Rng::new(1);
        let mut pick = |policy, live: &[u32]| choose(policy, live, &mut bounds(live), &filled, 8, &mut rng);
        assert_eq!(pick(Policy::Greedy, &live), Some(2));
        assert_eq!(pick(Policy::Fifo, &live), Some(1));
        assert!(matches!(pick(Policy::Choices(50), &live), Some(2 | 4)));
        assert_eq!(pick(Policy::Greedy, &[NO_VICTIM, 8, 8]), None);
    }

    #[test]
    fn bounds_find_the_emptiest_while_counts_go_up_and_down() {
        let mut rng = Rng::new(2);
        let mut live: Vec<u32> = (0..1000).map(|_| rng.below(100)).collect();
        let mut bounds = bounds(&live);
        for _ in 0..10_000 {
            let block = rng.below(1000) as usize;
            live[block] = if rng.below(3) == 0 { NO_VICTIM } else { rng.below(100) };
            bounds.lower(block, live[block]);
            let least = live.iter().copied().min();
            let found = bounds.emptiest(&live, 100);
            assert_eq!(found, live.iter().position(|&count| Some(count) == least));
        }
    }
}
