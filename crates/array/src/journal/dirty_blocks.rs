//! What the journal holds that is not in its place yet: the newest content of each such block, in memory as well.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sinew_core::buf::Buf;
use sinew_core::mutation::{self, Mutation};

/// A block as the journal has it.
#[derive(Clone, Debug)]
pub(crate) struct Pended {
    pub(crate) data: Buf,
    /// The group it is in.
    pub(crate) seq: u64,
}

/// Slots of a stripe at most, however wide it becomes: 253 columns of 256 blocks.
const STRIPE_SLOTS: u64 = 1 << 16;

/// The blocks in the journal, by stripe and slot.
#[derive(Default)]
pub(crate) struct Pending {
    blocks: BTreeMap<u64, Pended>,
    /// Groups that still hold something, the oldest first, with what they brought.
    groups: VecDeque<(u64, Vec<u64>)>,
    /// Counts removals: what was read from its place before one may be out of date after it.
    version: u64,
}

impl Pending {
    fn key(&self, stripe: u64, slot: u32) -> u64 {
        stripe * STRIPE_SLOTS + u64::from(slot)
    }

    /// Whether there is something of a stripe.
    pub(crate) fn has_stripe(&self, stripe: u64) -> bool {
        self.range(stripe, 0, STRIPE_SLOTS as u32).next().is_some()
    }

    /// As `choose`, but of these stripes, whatever their groups; at least one, if there is any.
    pub(crate) fn choose_of(
        &self,
        stripes: &BTreeSet<u64>,
        chunk_blocks: u32,
        offsets_max: usize,
    ) -> BTreeMap<u64, Vec<u32>> {
        let (mut chosen, mut used) = (BTreeMap::new(), 0);
        for &stripe in stripes.iter().filter(|&&stripe| self.has_stripe(stripe)) {
            let all = self.range(stripe, 0, STRIPE_SLOTS as u32);
            let slots: Vec<u32> = all.map(|(slot, _)| slot).collect();
            used += slots.iter().map(|slot| slot % chunk_blocks).collect::<BTreeSet<u32>>().len();
            if used > offsets_max && !chosen.is_empty() {
                break;
            }
            chosen.insert(stripe, slots);
        }
        chosen
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// New content, in a group not older than any before.
    pub(crate) fn insert(&mut self, seq: u64, stripe: u64, slot: u32, data: Buf) {
        let key = self.key(stripe, slot);
        self.blocks.insert(key, Pended { data, seq });
        match self.groups.back_mut() {
            Some((last, keys)) if *last == seq => keys.push(key),
            _ => self.groups.push_back((seq, vec![key])),
        }
    }

    pub(crate) fn get(&self, stripe: u64, slot: u32) -> Option<&Pended> {
        self.blocks.get(&self.key(stripe, slot))
    }

    /// What there is among consecutive slots of a stripe, in order.
    pub(crate) fn range(&self, stripe: u64, slot: u32, count: u32) -> impl Iterator<Item = (u32, &Pended)> {
        let (base, first) = (self.key(stripe, 0), self.key(stripe, slot));
        let found = self.blocks.range(first..first + u64::from(count));
        found.map(move |(&key, pended)| ((key - base) as u32, pended))
    }

    /// Takes out a block whose content of group `seq` is in its place; newer content stays.
    pub(crate) fn settle(&mut self, stripe: u64, slot: u32, seq: u64) {
        let key = self.key(stripe, slot);
        let newest = |pended: &Pended| pended.seq == seq || mutation::on(Mutation::DrainOutOfOrder);
        if self.blocks.get(&key).is_some_and(newest) {
            self.blocks.remove(&key);
            self.version += 1;
        }
    }

    /// The oldest group that holds something.
    pub(crate) fn oldest(&mut self) -> Option<u64> {
        while let Some((seq, keys)) = self.groups.front() {
            if keys.iter().any(|key| self.blocks.get(key).is_some_and(|p| p.seq == *seq)) {
                return Some(*seq);
            }
            self.groups.pop_front();
        }
        None
    }

    /// Chooses slots to be brought to their places, by stripe: everything of the oldest group, then what else lies in
    /// the same stripes, then more stripes, while offsets that need parity are at most `offsets_max`.
    pub(crate) fn choose(
        &mut self,
        chunk_blocks: u32,
        offsets_max: usize,
        stripes_max: usize,
    ) -> BTreeMap<u64, Vec<u32>> {
        let mut chosen: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        let Some(oldest) = self.oldest() else { return BTreeMap::new() };
        let place = |key: u64| (key / STRIPE_SLOTS, (key % STRIPE_SLOTS) as u32);
        let live = |key: &&u64, seq: u64| self.blocks.get(key).is_some_and(|p| p.seq == seq);
        for key in self.groups[0].1.iter().filter(|key| live(key, oldest)) {
            let (stripe, slot) = place(*key);
            chosen.entry(stripe).or_default().insert(slot);
        }
        let offsets = |slots: &BTreeSet<u32>| {
            slots.iter().map(|slot| slot % chunk_blocks).collect::<BTreeSet<u32>>().len()
        };
        let mut used: usize = chosen.values().map(offsets).sum();
        let mut grow = |chosen: &mut BTreeMap<u64, BTreeSet<u32>>, stripe: u64| {
            let all: BTreeSet<u32> =
                self.range(stripe, 0, STRIPE_SLOTS as u32).map(|(slot, _)| slot).collect();
            let now = chosen.get(&stripe).map_or(0, offsets);
            let more = offsets(&all) - now;
            let fits = used + more <= offsets_max;
            if fits {
                used += more;
                chosen.insert(stripe, all);
            }
            fits
        };
        for stripe in chosen.keys().copied().collect::<Vec<_>>() {
            grow(&mut chosen, stripe);
        }
        'groups: for (seq, keys) in self.groups.iter().skip(1) {
            for key in keys.iter().filter(|key| live(key, *seq)) {
                let stripe = place(*key).0;
                if chosen.contains_key(&stripe) {
                    continue;
                }
                if chosen.len() >= stripes_max || !grow(&mut chosen, stripe) {
                    break 'groups;
                }
            }
        }
        chosen.into_iter().map(|(stripe, slots)| (stripe, slots.into_iter().collect())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew_core::buf::BLOCK_BYTES;

    fn content() -> Buf {
        Buf::zeroed(BLOCK_BYTES)
    }

    #[test]
    fn newer_content_hides_older_and_outlives_its_settling() {
        let mut pending = Pending::default();
        pending.insert(10, 1, 5, content());
        pending.insert(12, 1, 5, content());
        assert_eq!(pending.oldest(), Some(12));
        pending.settle(1, 5, 10);
        assert_eq!(pending.get(1, 5).map(|p| p.seq), Some(12));
        pending.settle(1, 5, 12);
        assert!(pending.is_empty() && pending.oldest().is_none());
    }

    #[test]
    fn the_oldest_group_goes_first_and_neighbours_with_it() {
        let mut pending = Pending::default();
        pending.insert(10, 1, 5, content());
        pending.insert(10, 7, 0, content());
        pending.insert(11, 1, 21, content());
        pending.insert(12, 9, 3, content());
        // Slots 5 and 21 are at one offset of a chunk of 16.
        let chosen = pending.choose(16, 2, 64);
        assert_eq!(chosen, BTreeMap::from([(1, vec![5, 21]), (7, vec![0])]));
        assert_eq!(pending.choose(16, 3, 64).len(), 3);
        assert_eq!(pending.choose(16, 3, 2).len(), 2);
        // However little may be done, the oldest group is.
        assert_eq!(pending.choose(16, 0, 0), BTreeMap::from([(1, vec![5]), (7, vec![0])]));
    }
}
