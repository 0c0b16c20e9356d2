//! Groups of the log that replay still needs, though no block that is read from the journal is in them.

use std::cell::Cell;

use sinew_core::mutation::{self, Mutation};

/// The oldest such group, for each reason. The tail of the log stays before all of them.
#[derive(Default)]
pub(crate) struct PinnedGroups {
    /// After-images are being made of this one, for the destage round that is to follow the one under way.
    gathered: Cell<Option<u64>>,
    /// The destage round under way brings content of it to its place.
    destaging: Cell<Option<u64>>,
    /// Images of rows that a growth changes in place, until they are there.
    changing: Cell<Option<u64>>,
    /// Something of it is not in its place, because a member has no space for it.
    unplaced: Cell<Option<u64>>,
    /// Something of it is in its place, but not durable there: since the last flush began,
    unflushed: Cell<Option<u64>>,
    /// and as covered by the flush under way.
    flushing: Cell<Option<u64>>,
}

/// The groups of a destage round that is not under way yet; dropping it gives the round up.
pub(crate) struct GatheredGroups<'a>(&'a PinnedGroups);

impl Drop for GatheredGroups<'_> {
    fn drop(&mut self) {
        self.0.gathered.set(None);
    }
}

fn older(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    [one, other].into_iter().flatten().min()
}

impl PinnedGroups {
    /// The oldest of them, or `first` if that is older.
    pub(crate) fn oldest_or(&self, first: u64) -> u64 {
        let all = [
            &self.gathered,
            &self.destaging,
            &self.changing,
            &self.unplaced,
            &self.unflushed,
            &self.flushing,
        ];
        all.into_iter().filter_map(Cell::get).fold(first, u64::min)
    }

    /// After-images are about to be made of these groups, for one round.
    pub(crate) fn gather(&self, groups: impl Iterator<Item = u64>) -> GatheredGroups<'_> {
        let pin = if mutation::on(Mutation::PinTogether) { &self.destaging } else { &self.gathered };
        pin.set(older(pin.get(), groups.min()));
        GatheredGroups(self)
    }

    /// The destage round of these groups begins to write.
    pub(crate) fn begin_destaging(&self, groups: GatheredGroups<'_>) {
        self.destaging.set(older(self.gathered.get(), self.destaging.get()));
        drop(groups);
    }

    /// The destage round has written its stripes, which are not durable yet.
    pub(crate) fn end_destaging(&self) {
        let oldest = older(self.destaging.take(), self.unflushed.get());
        if !mutation::on(Mutation::SettleEarly) {
            self.unflushed.set(oldest);
        }
    }

    /// Images of rows are about to be appended, in this group at the earliest.
    pub(crate) fn pin_changing(&self, group: u64) {
        self.changing.set(Some(group));
    }

    /// Whether rows are being changed whose images are in this group or before it.
    pub(crate) fn is_changing(&self, group: u64) -> bool {
        self.changing.get().is_some_and(|oldest| oldest <= group)
    }

    /// The rows are written, and not durable yet.
    pub(crate) fn end_changing(&self) {
        self.unflushed.set(older(self.changing.take(), self.unflushed.get()));
    }

    /// Content of the groups that are being brought to their places could not be written there.
    pub(crate) fn pin_unplaced(&self) {
        let oldest = older(self.destaging.get(), self.changing.get());
        self.unplaced.set(older(self.unplaced.get(), oldest));
    }

    /// As [`PinnedGroups::pin_unplaced`], of content that recovery has found in this group or later.
    pub(crate) fn pin_recovered(&self, group: u64) {
        self.unplaced.set(older(self.unplaced.get(), Some(group)));
    }

    /// Everything is in its place, and not durable yet.
    pub(crate) fn end_unplaced(&self) {
        self.unflushed.set(older(self.unplaced.take(), self.unflushed.get()));
    }

    /// Whether groups are kept because members have no space for their content.
    pub(crate) fn has_unplaced(&self) -> bool {
        self.unplaced.get().is_some()
    }

    /// A flush of the members begins.
    pub(crate) fn begin_flush(&self) {
        self.flushing.set(older(self.flushing.get(), self.unflushed.take()));
    }

    /// The flush has made durable every write from before it began.
    pub(crate) fn end_flush(&self) {
        self.flushing.set(None);
    }
}
