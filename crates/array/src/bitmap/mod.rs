//! The write-intent bitmap: which regions of the array may differ from what they should be.
//!
//! It is changed in memory here; the journal brings it to the members, in state groups of the log.

mod given_up;
pub(crate) mod regions;

use std::cell::{Ref, RefCell};
use std::ops::Range;
use std::rc::Rc;

use sinew_core::io::Io;
use sinew_core::sync::Kick;

use crate::bitmap::regions::{LongWork, Regions};
use crate::state::ShardState;

/// The bitmap of a shard.
pub(crate) struct Bitmap<I> {
    state: Rc<ShardState<I>>,
    regions: RefCell<Regions>,
    /// Wakes the task that clears dirty bits.
    clear_wanted: Kick,
}

/// A region with a write under way; dropping it ends the write.
pub(crate) struct RegionUse<'a> {
    regions: &'a RefCell<Regions>,
    region: usize,
}

impl Drop for RegionUse<'_> {
    fn drop(&mut self) {
        self.regions.borrow_mut().end(self.region);
    }
}

impl<I: Io> Bitmap<I> {
    /// The bitmap as recovery found it.
    pub(crate) fn new(state: &Rc<ShardState<I>>, regions: Regions) -> Bitmap<I> {
        Bitmap { state: Rc::clone(state), regions: RefCell::new(regions), clear_wanted: Kick::default() }
    }

    /// The regions, to be read.
    pub(crate) fn regions(&self) -> Ref<'_, Regions> {
        self.regions.borrow()
    }

    /// Counts a write to the stripe's region as under way.
    pub(crate) fn use_region_of(&self, stripe: u64) -> RegionUse<'_> {
        self.use_region(self.state.layout().region(stripe))
    }

    /// Counts a write to the region as under way.
    pub(crate) fn use_region(&self, region: usize) -> RegionUse<'_> {
        self.regions.borrow_mut().begin(region);
        RegionUse { regions: &self.regions, region }
    }

    /// Keeps a region dirty until [`Bitmap::release_region`]: content for it is not in its place.
    pub(crate) fn hold_region(&self, region: usize) {
        self.regions.borrow_mut().begin(region);
    }

    /// Ends [`Bitmap::hold_region`].
    pub(crate) fn release_region(&self, region: usize) {
        self.regions.borrow_mut().end(region);
    }

    /// Marks regions that are not marked yet. The marks count once a flush has made them durable for the present members.
    pub(crate) fn mark_with_next_flush(&self, regions: &[usize]) {
        let mut marks = self.regions.borrow_mut();
        for &region in regions {
            if !marks.is_marked(region) {
                marks.mark(region, self.state.members_out());
                self.clear_wanted.kick();
            }
        }
    }

    /// The marks that [`Bitmap::mark_with_next_flush`] made are durable.
    pub(crate) fn set_marked(&self, regions: &[usize]) {
        regions.iter().for_each(|&region| self.regions.borrow_mut().set_marked(region));
    }

    /// Marks a region, whether it is marked or not; the caller has the mark made durable.
    pub(crate) fn mark_region(&self, region: usize) {
        self.regions.borrow_mut().mark(region, self.state.members_out());
    }

    /// Resolves when there are dirty regions to be cleared, perhaps.
    pub(crate) async fn wait_for_dirty(&self) {
        self.clear_wanted.kicked().await;
    }

    /// Wakes the task that clears dirty bits.
    pub(crate) fn wake_clearing(&self) {
        self.clear_wanted.kick();
    }

    /// Clears the dirty bits of regions that are durable and not in use; unless `all`, only of those that were not written
    /// since the last call.
    pub(crate) fn clear_idle(&self, all: bool) {
        self.regions.borrow_mut().clear_idle(all);
    }

    /// A member's state has changed: marks made for the former members do not count for the present ones.
    pub(crate) fn unmark(&self) {
        self.regions.borrow_mut().unmark();
    }

    /// A member went out: it may lack everything that was not flushed.
    pub(crate) fn note_lost(&self, member: usize) {
        self.regions.borrow_mut().note_lost(member);
    }

    /// Nothing on the member is up to date.
    pub(crate) fn set_all_stale(&self, member: usize) {
        self.regions.borrow_mut().set_all_stale(member);
    }

    /// The region is up to date on the member.
    pub(crate) fn set_up_to_date(&self, member: usize, region: usize) {
        self.regions.borrow_mut().set_up_to_date(member, region);
    }

    /// A crash has interrupted writes in the dirty regions.
    pub(crate) fn doubt_dirty(&self) {
        self.regions.borrow_mut().doubt_dirty();
    }

    /// The region is resynced after a crash.
    pub(crate) fn end_doubt(&self, region: usize) {
        self.regions.borrow_mut().end_doubt(region);
    }

    /// The region has had its first resync.
    pub(crate) fn set_synced(&self, region: usize) {
        self.regions.borrow_mut().set_synced(region);
    }

    /// Marks regions as untidy; the next flush makes that durable.
    pub(crate) fn mark_untidy_with_next_flush(&self, regions: &[usize]) {
        regions.iter().for_each(|&region| self.regions.borrow_mut().set_untidy(region));
    }

    /// The untidy marks of these regions are durable.
    pub(crate) fn set_untidy_marked(&self, regions: &[usize]) {
        regions.iter().for_each(|&region| self.regions.borrow_mut().set_untidy_marked(region));
    }

    /// The regions' unused units hold nothing.
    pub(crate) fn set_tidy(&self, regions: impl Iterator<Item = usize>) {
        regions.for_each(|region| self.regions.borrow_mut().set_tidy(region));
    }

    /// Gives up blocks; the next flush makes that durable. False if there are too many.
    pub(crate) fn give_up(&self, blocks: &[u64]) -> bool {
        self.regions.borrow_mut().give_up(blocks)
    }

    /// Blocks have content again, in case they were given up. Their content is durable with every state that comes from here on.
    pub(crate) fn restore(&self, blocks: Range<u64>) {
        self.regions.borrow_mut().restore(blocks);
    }

    /// Something that the next state group carries has changed.
    pub(crate) fn touch(&self) {
        self.regions.borrow_mut().touch();
    }

    /// A growth has brought more regions or members.
    pub(crate) fn extend(&self, regions: usize, members: usize) {
        self.regions.borrow_mut().extend(regions, members, self.state.has_redundancy());
    }

    /// The content of a state group.
    pub(crate) fn encode(&self, work: LongWork) -> Vec<u8> {
        self.regions.borrow_mut().encode(work)
    }

    /// A state group with this many changes is on the members.
    pub(crate) fn set_written(&self, changes: u64) {
        self.regions.borrow_mut().set_written(changes);
    }

    /// A flush of the members begins.
    pub(crate) fn begin_flush(&self) {
        self.regions.borrow_mut().begin_flush();
    }

    /// The flush has made durable every write from before it began.
    pub(crate) fn end_flush(&self) {
        self.regions.borrow_mut().end_flush();
    }
}
