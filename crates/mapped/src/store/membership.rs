//! Members that leave: what the store forgets at once, and when nothing is left on a member.

use sinew_core::io::DeviceId;
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_geometry::MemberLayout;
use std::rc::Rc;

use crate::marks::Mark;
use crate::store::Store;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;

impl<I: Io> Store<I> {
    pub(crate) fn lose_member(self: &Rc<Self>, member: MemberId) {
        let slots = self.tables.borrow_mut().pages.forget_member(member);
        self.allocator.borrow_mut().free_page_slots(slots);
        if mutation::on(Mutation::ForgetStale) {
            return;
        }
        let missed = self.stale_records(member);
        if !missed.is_empty() {
            self.io.mark(Mark::MembersMissed);
        }
        self.commit_marks(missed);
    }

    /// Whether nothing of the shard is on a member that takes nothing new, whatever happens from here on.
    pub(crate) async fn holds_nothing_on(self: &Rc<Self>, member: MemberId) -> Result<bool, VolumeError> {
        self.flush().await?;
        self.free_released();
        let is_rid = self.allocator.borrow().is_empty(member) && !self.journal.is_late(member);
        Ok(is_rid && !self.needs_redundancy())
    }

    /// Takes note of a member's new state, or of a new member. Returns whether it was active before.
    pub(crate) fn set_member(
        &self,
        member: MemberId,
        state: MemberState,
        device: Option<DeviceId>,
        layout: MemberLayout,
        weight: u8,
    ) -> bool {
        let is_new = usize::from(member.0) == self.members.count();
        let was_active = !is_new && self.members.is_active(member);
        self.members.set(member, state, device, layout);
        self.allocator.borrow_mut().set_member(member, layout, state, weight);
        was_active
    }

    /// Has everything that waits look at the members again.
    pub(crate) fn notify_members_changed(&self) {
        self.journal.room.notify();
        self.room.changed().notify();
        self.group_flush.changed().notify();
    }
}
