//! Damage: ranges of volumes whose blocks had no good copy when they were read. A range is kept until it is overwritten,
//! discarded, or read well.

use sinew_core::ids::VolumeId;

/// Ranges of one volume at most. Beyond that, the two that are nearest to each other become one, with what is between them.
const RANGES_MAX: usize = 128;

/// Consecutive blocks of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    /// The first block.
    pub first: u64,
    /// How many.
    pub blocks: u64,
    /// When it was found, in seconds since 1970; 0 while that is not known.
    pub since_s: u64,
}

impl DamagedRange {
    fn end(&self) -> u64 {
        self.first + self.blocks
    }
}

/// The damaged ranges of a volume: in order, apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamagedRanges(Vec<DamagedRange>);

impl DamagedRanges {
    /// The ranges, in order.
    pub fn ranges(&self) -> &[DamagedRange] {
        &self.0
    }

    /// Ranges as they were stored; `None` if they are not in order.
    pub fn from_stored(ranges: Vec<DamagedRange>) -> Option<DamagedRanges> {
        let mut end = 0;
        for range in &ranges {
            if range.blocks == 0 || range.first < end {
                return None;
            }
            end = range.first.checked_add(range.blocks)?;
        }
        Some(DamagedRanges(ranges))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds blocks; those that are in already keep their time. Returns whether any was not.
    pub fn add(&mut self, first: u64, blocks: u64, since_s: u64) -> bool {
        let end = first + blocks;
        let mut new = Vec::new();
        let mut at = first;
        for range in self.0.iter().filter(|range| range.first < end && range.end() > first) {
            if at < range.first {
                new.push(DamagedRange { first: at, blocks: range.first - at, since_s });
            }
            at = range.end();
        }
        if at < end {
            new.push(DamagedRange { first: at, blocks: end - at, since_s });
        }
        let is_new = !new.is_empty();
        self.0.extend(new);
        self.0.sort_unstable_by_key(|range| range.first);
        self.0.dedup_by(|next, before| {
            let touches = before.end() == next.first && before.since_s == next.since_s;
            before.blocks += if touches { next.blocks } else { 0 };
            touches
        });
        self.limit();
        is_new
    }

    fn limit(&mut self) {
        while self.0.len() > RANGES_MAX {
            let gaps = self.0.windows(2).enumerate().map(|(i, pair)| (pair[1].first - pair[0].end(), i));
            let (_, i) = gaps.min().expect("there are several");
            let next = self.0.remove(i + 1);
            self.0[i].blocks = next.end() - self.0[i].first;
            self.0[i].since_s = self.0[i].since_s.min(next.since_s);
        }
    }

    /// Removes blocks. Returns whether any was in.
    pub fn remove(&mut self, first: u64, blocks: u64) -> bool {
        let end = first.saturating_add(blocks);
        let before = std::mem::take(&mut self.0);
        let mut removed = false;
        for range in before {
            if range.first >= end || range.end() <= first {
                self.0.push(range);
                continue;
            }
            removed = true;
            if range.first < first {
                self.0.push(DamagedRange { blocks: first - range.first, ..range });
            }
            if range.end() > end {
                self.0.push(DamagedRange { first: end, blocks: range.end() - end, ..range });
            }
        }
        removed
    }

    /// Gives ranges without a time this one.
    pub fn stamp(&mut self, now_s: u64) {
        self.0.iter_mut().filter(|range| range.since_s == 0).for_each(|range| range.since_s = now_s);
    }

    /// The blocks that are in these ranges and not in others.
    pub fn without(&self, others: &DamagedRanges) -> DamagedRanges {
        let mut left = self.clone();
        for range in &others.0 {
            left.remove(range.first, range.blocks);
        }
        left
    }
}

/// The damage of one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeDamage {
    /// The volume.
    pub volume: VolumeId,
    /// Its damaged ranges; there is at least one.
    pub ranges: DamagedRanges,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn ranges(list: &[(u64, u64, u64)]) -> Vec<DamagedRange> {
        list.iter().map(|&(first, blocks, since_s)| DamagedRange { first, blocks, since_s }).collect()
    }

    proptest! {
        /// As a map from each damaged block to its time does.
        #[test]
        fn blocks_are_in_from_when_they_were_added_until_they_are_removed(
            steps in prop::collection::vec((0..200u64, 1..40u64, prop::option::of(1..5u64)), 1..60),
        ) {
            let mut damage = DamagedRanges::default();
            let mut model: BTreeMap<u64, u64> = BTreeMap::new();
            for (first, blocks, since_s) in steps {
                let all = first..first + blocks;
                match since_s {
                    Some(since_s) => {
                        let is_new = all.clone().any(|block| !model.contains_key(&block));
                        all.for_each(|block| { model.entry(block).or_insert(since_s); });
                        prop_assert_eq!(damage.add(first, blocks, since_s), is_new);
                    }
                    None => {
                        let was_in = all.clone().any(|block| model.contains_key(&block));
                        all.for_each(|block| { model.remove(&block); });
                        prop_assert_eq!(damage.remove(first, blocks), was_in);
                    }
                }
                let told = damage.ranges().iter().flat_map(|r| (r.first..r.end()).map(|b| (b, r.since_s)));
                prop_assert_eq!(told.collect::<BTreeMap<u64, u64>>(), model.clone());
                prop_assert_eq!(DamagedRanges::from_stored(damage.ranges().to_vec()), Some(damage.clone()));
            }
        }
    }

    #[test]
    fn there_are_never_too_many_ranges_and_no_block_is_forgotten() {
        let mut damage = DamagedRanges::default();
        for i in 0..1000 {
            damage.add(i * i, 1, 7);
        }
        assert_eq!(damage.ranges().len(), RANGES_MAX);
        let is_in = |block: &u64| damage.ranges().iter().any(|r| r.first <= *block && *block < r.end());
        assert!((0..1000).map(|i| i * i).all(|block| is_in(&block)));
    }

    #[test]
    fn times_and_differences() {
        let mut damage = DamagedRanges::default();
        damage.add(10, 4, 0);
        damage.stamp(5);
        damage.add(12, 4, 0);
        assert_eq!(damage.ranges(), ranges(&[(10, 4, 5), (14, 2, 0)]));
        let mut others = DamagedRanges::default();
        others.add(0, 11, 1);
        assert_eq!(damage.without(&others).ranges(), ranges(&[(11, 3, 5), (14, 2, 0)]));
        assert_eq!(DamagedRanges::from_stored(ranges(&[(5, 2, 0), (6, 1, 0)])), None);
        assert_eq!(DamagedRanges::from_stored(ranges(&[(5, u64::MAX, 0)])), None);
        assert_eq!(DamagedRanges::from_stored(ranges(&[(5, 0, 0)])), None);
    }
}
