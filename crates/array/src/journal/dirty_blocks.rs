//! The dirty blocks: the newest content of each block that is in the journal and not in its place yet, kept in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sinew_core::buf::Buf;
use sinew_core::mutation::{self, Mutation};

/// The newest content of a block.
#[derive(Clone, Debug)]
pub(crate) struct DirtyBlock {
    pub(crate) data: Buf,
    /// The group it is in.
    pub(crate) seq: u64,
}

/// Slots of a stripe at most, however wide it becomes: 253 columns of 256 blocks.
const STRIPE_SLOTS: u64 = 1 << 16;

/// The blocks in the journal, by stripe and slot.
#[derive(Default)]
pub(crate) struct DirtyBlocks {
    blocks: BTreeMap<u64, DirtyBlock>,
    /// Groups, the oldest first, with the blocks that they brought.
    groups: VecDeque<(u64, Vec<u64>)>,
    /// Counts removals: content read from its place before a removal may be out of date after it.
    version: u64,
}

impl DirtyBlocks {
    fn key(&self, stripe: u64, slot: u32) -> u64 {
        stripe * STRIPE_SLOTS + u64::from(slot)
    }

    /// Whether a stripe has dirty blocks.
    pub(crate) fn has_stripe(&self, stripe: u64) -> bool {
        self.range(stripe, 0, STRIPE_SLOTS as u32).next().is_some()
    }

    /// As `choose`, but of these stripes, whatever their groups; at least one stripe, if any has dirty blocks.
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

    /// Whether every block is in its place.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Dirty blocks.
    pub(crate) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Changes with every removal.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// New content, in a group not older than any before.
    pub(crate) fn insert(&mut self, seq: u64, stripe: u64, slot: u32, data: Buf) {
        let key = self.key(stripe, slot);
        self.blocks.insert(key, DirtyBlock { data, seq });
        match self.groups.back_mut() {
            Some((last, keys)) if *last == seq => keys.push(key),
            _ => self.groups.push_back((seq, vec![key])),
        }
    }

    /// The dirty block in a slot.
    pub(crate) fn get(&self, stripe: u64, slot: u32) -> Option<&DirtyBlock> {
        self.blocks.get(&self.key(stripe, slot))
    }

    /// The dirty blocks among consecutive slots of a stripe, in order.
    pub(crate) fn range(
        &self,
        stripe: u64,
        slot: u32,
        count: u32,
    ) -> impl Iterator<Item = (u32, &DirtyBlock)> {
        let (base, first) = (self.key(stripe, 0), self.key(stripe, slot));
        let found = self.blocks.range(first..first + u64::from(count));
        found.map(move |(&key, block)| ((key - base) as u32, block))
    }

    /// Removes a block whose content of group `seq` is in its place; newer content stays.
    pub(crate) fn remove_destaged(&mut self, stripe: u64, slot: u32, seq: u64) {
        let key = self.key(stripe, slot);
        let newest = |block: &DirtyBlock| block.seq == seq || mutation::on(Mutation::DrainOutOfOrder);
        if self.blocks.get(&key).is_some_and(newest) {
            self.blocks.remove(&key);
            self.version += 1;
        }
    }

    /// Removes the blocks of a stripe that are in groups before this one.
    pub(super) fn remove_before(&mut self, stripe: u64, group: u64) {
        let old = |(slot, block): (u32, &DirtyBlock)| (block.seq < group).then_some(slot);
        let slots: Vec<u32> = self.range(stripe, 0, STRIPE_SLOTS as u32).filter_map(old).collect();
        for slot in slots {
            self.blocks.remove(&self.key(stripe, slot));
        }
        self.version += 1;
    }

    /// The oldest group that holds a dirty block.
    pub(crate) fn oldest(&mut self) -> Option<u64> {
        while let Some((seq, keys)) = self.groups.front() {
            if keys.iter().any(|key| self.blocks.get(key).is_some_and(|p| p.seq == *seq)) {
                return Some(*seq);
            }
            self.groups.pop_front();
        }
        None
    }

    /// Chooses slots to destage, by stripe: every block of the oldest group, then the other blocks of the same stripes, then
    /// more stripes, while at most `offsets_max` offsets need parity. Stripes that are `busy` are passed over.
    pub(super) fn choose(
        &self,
        chunk_blocks: u32,
        offsets_max: usize,
        stripes_max: usize,
        busy: &BTreeSet<u64>,
    ) -> BTreeMap<u64, Vec<u32>> {
        let place = |key: u64| (key / STRIPE_SLOTS, (key % STRIPE_SLOTS) as u32);
        let live = |key: &&u64, seq: u64| {
            !busy.contains(&place(**key).0) && self.blocks.get(key).is_some_and(|p| p.seq == seq)
        };
        let has_live = |(seq, keys): &(u64, Vec<u64>)| keys.iter().any(|key| live(&key, *seq));
        let Some(oldest) = self.groups.iter().position(has_live) else { return BTreeMap::new() };
        let mut chosen: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        let (seq, keys) = &self.groups[oldest];
        for key in keys.iter().filter(|key| live(key, *seq)) {
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
        for (&stripe, slots) in &mut chosen {
            // They need no more parity, and some of them may be all that is known of their places.
            let offsets: BTreeSet<u32> = slots.iter().map(|slot| slot % chunk_blocks).collect();
            let all = self.range(stripe, 0, STRIPE_SLOTS as u32).map(|(slot, _)| slot);
            slots.extend(all.filter(|slot| offsets.contains(&(slot % chunk_blocks))));
        }
        for stripe in chosen.keys().copied().collect::<Vec<_>>() {
            grow(&mut chosen, stripe);
        }
        'groups: for (seq, keys) in self.groups.iter().skip(oldest + 1) {
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

    /// Dirty blocks: group, stripe, slot.
    fn dirty<const N: usize>(blocks: [(u64, u64, u32); N]) -> DirtyBlocks {
        let mut dirty = DirtyBlocks::default();
        for (seq, stripe, slot) in blocks {
            dirty.insert(seq, stripe, slot, Buf::zeroed(BLOCK_BYTES));
        }
        dirty
    }

    #[test]
    fn newer_content_hides_older_and_outlives_its_destaging() {
        let mut dirty = dirty([(10, 1, 5), (12, 1, 5)]);
        assert_eq!(dirty.oldest(), Some(12));
        dirty.remove_destaged(1, 5, 10);
        assert_eq!(dirty.get(1, 5).map(|p| p.seq), Some(12));
        dirty.remove_destaged(1, 5, 12);
        assert!(dirty.is_empty() && dirty.oldest().is_none());
    }

    #[test]
    fn the_oldest_group_goes_first_and_neighbours_with_it() {
        let dirty = dirty([(10, 1, 5), (10, 7, 0), (11, 1, 21), (12, 9, 3)]);
        let idle = BTreeSet::new();
        // Slots 5 and 21 are at one offset of a chunk of 16.
        let chosen = dirty.choose(16, 2, 64, &idle);
        assert_eq!(chosen, BTreeMap::from([(1, vec![5, 21]), (7, vec![0])]));
        assert_eq!(dirty.choose(16, 3, 64, &idle).len(), 3);
        assert_eq!(dirty.choose(16, 3, 2, &idle).len(), 2);
        // The oldest group is chosen, however low the limit, with what shares its offsets.
        assert_eq!(dirty.choose(16, 0, 0, &idle), BTreeMap::from([(1, vec![5, 21]), (7, vec![0])]));
    }

    #[test]
    fn stripes_that_are_busy_are_passed_over() {
        let dirty = dirty([(10, 1, 5), (11, 1, 6), (11, 7, 0), (12, 9, 3)]);
        let without = |busy: &[u64]| dirty.choose(16, 1, 64, &busy.iter().copied().collect());
        assert_eq!(without(&[1]), BTreeMap::from([(7, vec![0])]), "of the oldest group with others");
        assert_eq!(without(&[1, 7]), BTreeMap::from([(9, vec![3])]));
        assert!(without(&[1, 7, 9]).is_empty());
    }
}
