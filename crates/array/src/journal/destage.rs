//! Requests to the destager, and waiting for it: for blocks to reach their stripes, and for the tail of the log to follow.

use std::collections::{BTreeMap, BTreeSet};

use crate::marks::Mark;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;

use crate::journal::Journal;
use crate::journal::dirty_blocks::DirtyBlock;

impl<I: Io> Journal<I> {
    /// A member's state has changed: older groups may be on too few members, so the tail is to move past them.
    pub(crate) fn note_member_change(&self) {
        self.log.set_stuck(None);
        if !mutation::on(Mutation::ForgetMetadataCopies) {
            self.want_tail_past_now();
        }
        self.wake_destager();
    }

    /// Has every task that waits in the journal look again.
    pub(crate) fn wake_waiters(&self) {
        self.flushes.changed().notify();
        self.progress.notify();
        self.log.notify_room();
    }

    /// The error for what finds no room in the log: members are full, or too many are out.
    pub(super) fn room_error(&self) -> VolumeError {
        let is_full = self.pinned.has_unplaced() || self.log.stuck_by() == Some(VolumeError::NoSpace);
        let is_full = is_full && !self.state.has_failed();
        if is_full { VolumeError::NoSpace } else { VolumeError::Failed }
    }

    /// Wakes the destager.
    pub(crate) fn wake_destager(&self) {
        self.requests.wake.kick();
    }

    /// Has the destager bring all blocks to their places: the credit counts those in the journal as if they took new space.
    pub(crate) fn destage_for_space(&self) {
        if !self.dirty.borrow().is_empty() {
            self.requests.space_wanted.set(true);
            self.requests.wake.kick();
        }
    }

    /// Resolves when the destager is to look for work.
    pub(crate) async fn wait_for_destage_request(&self) {
        self.requests.wake.kicked().await;
    }

    /// The destager has made progress.
    pub(crate) fn note_destage_success(&self) {
        self.log.set_stuck(None);
    }

    /// The destager can do nothing now: requests that wait for room in the log are refused.
    pub(crate) fn note_destage_failure(&self, error: VolumeError) {
        self.requests.all_wanted.set(false);
        self.log.set_stuck(Some(error));
        self.log.notify_room();
    }

    /// The destager stops until it is woken.
    pub(crate) fn end_destaging(&self) {
        self.requests.space_wanted.set(false);
        self.requests.done.notify();
    }

    /// Asks for the tail to move past every group that there is now.
    pub(crate) fn want_tail_past_now(&self) {
        self.requests.tail_wanted.set(self.log.next());
    }

    /// The group that the tail is to move past.
    pub(crate) fn tail_wanted(&self) -> u64 {
        self.requests.tail_wanted.get()
    }

    /// Whether groups that may be on too few members are still needed.
    pub(crate) fn has_exposed_groups(&self) -> bool {
        self.log.tail_durable() < self.requests.tail_wanted.get()
    }

    /// Whether the tail is to move: groups that may be on too few members are needed, or the log is crowded.
    pub(crate) fn wants_tail(&self) -> bool {
        self.has_exposed_groups() || self.log.is_crowded()
    }

    /// Whether blocks are to go to their places. `behind_barrier` tells whether there are blocks of rows that requests wait for.
    pub(crate) fn wants_destage(&self, behind_barrier: impl Fn() -> bool) -> bool {
        let asked = self.requests.all_wanted.get() || self.requests.space_wanted.get();
        let wanted = asked || self.wants_tail() || self.log.is_filling() || behind_barrier();
        wanted && !self.dirty.borrow().is_empty()
    }

    /// Waits until every block has reached its place, those that come meanwhile as well.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when the destager can do nothing.
    async fn wait_until_destaged(&self) -> Result<(), VolumeError> {
        while !self.dirty.borrow().is_empty() {
            self.requests.all_wanted.set(true);
            self.requests.wake.kick();
            self.requests.done.wait_once().await;
            if self.log.is_stuck() {
                return Err(self.room_error());
            }
        }
        self.requests.all_wanted.set(false);
        Ok(())
    }

    /// Brings every block to its place and records that no region is dirty and no group needed.
    ///
    /// # Errors
    /// As for [`Journal::flush`]; also when the destager can do nothing.
    pub(crate) async fn destage_all(&self) -> Result<(), VolumeError> {
        self.wait_until_destaged().await?;
        self.flush().await?;
        self.bitmap.clear_idle(true);
        self.record_tail().await
    }

    /// Whether the tail is at a block that is not in its place, so that it cannot move.
    pub(crate) fn is_tail_dirty(&self) -> bool {
        self.dirty.borrow_mut().oldest().is_some_and(|oldest| oldest <= self.log.tail_durable())
    }

    /// Whether the tail is at images of rows that a growth is changing, so that it cannot move.
    pub(crate) fn is_tail_changing(&self) -> bool {
        self.pinned.is_changing(self.log.tail_durable())
    }

    /// Moves the tail up to the oldest group that is still needed, so that the blocks before it become free.
    ///
    /// # Errors
    /// As for [`Journal::flush`].
    pub(crate) async fn advance_tail(&self) -> Result<(), VolumeError> {
        self.flush().await?;
        self.record_tail().await
    }

    /// The log has images of these rows, none of them in a group to come.
    pub(crate) fn note_images(&self, rows: impl IntoIterator<Item = u64>) {
        if !self.state.layout().geometry.journal {
            self.imaged_rows.note(rows, self.log.next());
        }
    }

    /// To be called before a stripe is written in place in an array without a journal: replay is not to put images over it. The
    /// caller holds its lock.
    ///
    /// # Errors
    /// As for [`Journal::flush`]; [`VolumeError::NoSpace`] while images are needed, because members have no space for their
    /// content, and [`VolumeError::Failed`] while the growth that made them has not come to an end with the row.
    pub(crate) async fn void_images_of(&self, stripe: u64) -> Result<(), VolumeError> {
        let has_images = || self.imaged_rows.contains(stripe, self.log.tail_durable());
        if !has_images() || mutation::on(Mutation::KeepImages) {
            return Ok(());
        }
        if self.pinned.has_unplaced() {
            return Err(VolumeError::NoSpace);
        }
        self.state.mark(Mark::ArrayImagesVoided);
        self.advance_tail().await?;
        self.imaged_rows.forget_before(self.log.tail_durable());
        if has_images() { Err(VolumeError::Failed) } else { Ok(()) }
    }

    async fn record_tail(&self) -> Result<(), VolumeError> {
        self.write_form_pages().await?;
        self.log.write_state().await?;
        self.flush().await
    }

    /// Waits until the log needs no group from before the last change of members; false when that fails for now.
    pub(crate) async fn wait_for_tail_past_changes(&self) -> bool {
        while self.state.has_log() && self.has_exposed_groups() {
            if !self.wait_for_destager().await {
                return false;
            }
        }
        true
    }

    /// Waits until the destager has finished its present work; false when it can do nothing.
    pub(crate) async fn wait_for_destager(&self) -> bool {
        self.requests.wake.kick();
        self.requests.done.wait_once().await;
        !self.log.is_stuck() && !self.state.has_failed()
    }

    /// Whether work may begin now that has states written, and that nothing else waits for.
    pub(crate) fn has_room_for_states(&self) -> bool {
        let has_room = !self.state.has_log() || self.log.has_room_for_states();
        if !has_room {
            self.state.mark(Mark::ArrayStateAwaitsRoom);
        }
        has_room
    }

    /// Waits until work may begin that has states written. The destager makes room, and needs room for states itself, so the
    /// caller holds nothing that the destager waits for.
    ///
    /// # Errors
    /// [`VolumeError::NoSpace`] when the destager can do nothing because members are full; [`VolumeError::Failed`] when too many are out.
    pub(crate) async fn wait_for_state_room(&self) -> Result<(), VolumeError> {
        let is_hopeless = || self.state.has_failed() || self.log.is_stuck();
        self.log.room.wait(|| (self.has_room_for_states() || is_hopeless()).then_some(())).await;
        if self.has_room_for_states() { Ok(()) } else { Err(self.room_error()) }
    }

    /// Chooses slots to destage, by stripe, as [`DirtyBlocks::choose`](crate::journal::dirty_blocks::DirtyBlocks::choose).
    pub(crate) fn choose_to_destage(
        &self,
        chunk_blocks: u32,
        offsets_max: usize,
        stripes_max: usize,
        busy: &BTreeSet<u64>,
    ) -> BTreeMap<u64, Vec<u32>> {
        self.dirty.borrow().choose(chunk_blocks, offsets_max, stripes_max, busy)
    }

    /// The present content of slots, for an after-image. The caller pins their groups.
    pub(crate) fn content_to_destage(&self, stripe: u64, slots: &[u32]) -> Vec<(u32, DirtyBlock)> {
        let dirty = self.dirty.borrow();
        let found = |&slot: &u32| Some((slot, dirty.get(stripe, slot)?.clone()));
        slots.iter().filter_map(found).collect()
    }

    /// A block's content of group `seq` is in its place; newer content stays in the journal.
    pub(crate) fn forget_destaged(&self, stripe: u64, slot: u32, seq: u64) {
        self.dirty.borrow_mut().remove_destaged(stripe, slot, seq);
    }
}
