//! Trimming: members' devices are told what is free, so that SSDs need not keep it when they clean.
//!
//! It waits until much is free that they do not know of, and then tells them in ranges as long as can be had. What a device is
//! being told of is nobody's meanwhile. Reading it afterwards gives anything, and perhaps something else each time: so slots
//! that nobody ever wrote are written with zeros before parity is computed over them (`convert`).

use std::rc::Rc;

use crate::shard::MappedShard;
use sinew_core::coverage::Mark;
use sinew_core::ids::{Home, MemberId};
use sinew_core::io::Io;
use sinew_core::sync::join_all;
use sinew_format::model::mapped_geometry::CHUNK_BYTES;

impl<I: Io> MappedShard<I> {
    /// Trims whenever there is enough of it, for ever.
    pub(crate) async fn run_trimmer(self: Rc<Self>) {
        loop {
            self.trimmer.kicked().await;
            let is_worth = |&member: &MemberId| self.space.borrow().is_worth_trimming(member);
            let members: Vec<MemberId> = self.members.ids().filter(is_worth).collect();
            // All at the same time, or placement would find some of them fuller than others meanwhile.
            join_all(members.into_iter().map(|member| self.trim(member))).await;
        }
    }

    /// Tells one member's device.
    async fn trim(self: &Rc<Self>, member: MemberId) {
        let may = || self.policy.get().discard && self.members.takes_new(member) && !self.is_pressed();
        while self.members.takes_discards(member) && may() {
            let Some(range) = self.space.borrow_mut().take_untold(member) else { return };
            self.step_back_on(&[member], CHUNK_BYTES).await;
            let first = Home { member, chunk: range.start };
            let result = self.members.discard(first, range.len() as u64).await;
            self.space.borrow_mut().give_back_told(member, range);
            self.space_changed.notify();
            if result.is_err() {
                // Nothing is lost by it. Who fails a write will be found by that.
                self.io.mark(Mark::TrimFailed);
                return;
            }
            self.io.mark(Mark::Trimmed);
        }
    }
}
