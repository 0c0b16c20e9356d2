//! Numbers of misplaced blocks: of each volume that moves to stripes of a class, those in stripes of another class.

use std::collections::BTreeMap;

use sinew_core::ids::VolumeId;
use sinew_format::model::stripe_form::StripeClass;

/// The misplaced blocks of one volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MisplacedCount {
    /// The class that the volume moves to.
    class: StripeClass,
    blocks: u64,
}

impl MisplacedCount {
    /// Counts blocks that have become live, in a stripe that stays mirrored or not.
    pub(super) fn add(&mut self, is_pinned: bool, count: u64) {
        self.blocks += if self.is_misplaced(is_pinned) { count } else { 0 };
    }

    /// Counts a block that was live and is not any more.
    pub(super) fn remove(&mut self, is_pinned: bool) {
        self.blocks -= u64::from(self.is_misplaced(is_pinned));
    }

    fn is_misplaced(&self, is_pinned: bool) -> bool {
        is_pinned != (self.class == StripeClass::Pinned)
    }
}

/// The counts of all volumes that move.
#[derive(Debug, Default)]
pub(crate) struct MisplacedCounts(BTreeMap<VolumeId, MisplacedCount>);

impl MisplacedCounts {
    /// Whether no volume moves.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The count of a volume that moves.
    pub(super) fn of(&mut self, volume: VolumeId) -> Option<&mut MisplacedCount> {
        self.0.get_mut(&volume)
    }

    /// Misplaced blocks of a volume; none if it does not move.
    pub(crate) fn blocks(&self, volume: VolumeId) -> u64 {
        self.0.get(&volume).map_or(0, |count| count.blocks)
    }

    /// Misplaced blocks of a volume that moves to pinned stripes; none if it does not.
    pub(super) fn blocks_to_pin(&self, volume: VolumeId) -> Option<u64> {
        self.0.get(&volume).filter(|count| count.class == StripeClass::Pinned).map(|count| count.blocks)
    }

    /// Counts for a volume from now on, which has this number of blocks in stripes of another class than this.
    pub(super) fn begin(&mut self, volume: VolumeId, class: StripeClass, blocks: u64) {
        self.0.insert(volume, MisplacedCount { class, blocks });
    }

    /// Ends counting for a volume.
    pub(super) fn end(&mut self, volume: VolumeId) {
        self.0.remove(&volume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_stripes_of_the_class_are_not_counted() {
        let mut counts = MisplacedCounts::default();
        counts.begin(VolumeId(1), StripeClass::Pinned, 5);
        let moving = counts.of(VolumeId(1)).unwrap();
        moving.add(true, 3);
        moving.add(false, 4);
        moving.remove(true);
        moving.remove(false);
        assert_eq!((counts.blocks(VolumeId(1)), counts.blocks(VolumeId(2))), (8, 0));
        counts.end(VolumeId(1));
        assert!(counts.is_empty());
    }
}
