//! Discard (TRIM): members' devices are told which chunks are free, so that SSDs need not preserve them when they clean.
//!
//! It waits until many chunks are free that a device does not know of, and then discards ranges as long as possible. Nothing
//! is stored in a range while it is being discarded. Reading a discarded block gives any content, and perhaps a different
//! one each time: so slots never written are written with zeros before parity is computed over them (`convert`).

use std::rc::Rc;

use crate::background::io_priority::IoPriority;
use crate::marks::Mark;
use crate::store::Store;
use crate::stripe::Stripes;
use sinew_core::ids::{ChunkAddr, MemberId};
use sinew_core::io::{Discards, Io};
use sinew_core::sync::join_all;
use sinew_format::model::mapped_geometry::CHUNK_BYTES;
use sinew_members::io_priority::BackgroundWork;

/// Times that `settle` looks for chunks that are not discarded yet, and its pause between two looks.
const LOOKS: u32 = 20;
const LOOK_NS: u64 = 1_000_000;

/// Discards of free chunks.
pub(crate) struct Discarder<I> {
    store: Rc<Store<I>>,
    stripes: Rc<Stripes<I>>,
    priority: Rc<IoPriority<I>>,
}

impl<I: Io> Discarder<I> {
    pub(crate) fn new(stripes: Rc<Stripes<I>>, priority: Rc<IoPriority<I>>) -> Discarder<I> {
        Discarder { store: Rc::clone(stripes.store()), stripes, priority }
    }

    /// The task that discards whenever enough chunks are free. It never ends.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.store.wakeups().discard.kicked().await;
            let members: Vec<MemberId> = self.store.members().ids().filter(|&m| self.has_work(m)).collect();
            // All at the same time, or placement would find some of them fuller than others meanwhile.
            join_all(members.into_iter().map(|member| self.discard(member))).await;
        }
    }

    /// Whether free chunks of a member are discarded at this time.
    fn may_discard(&self, member: MemberId) -> bool {
        let (members, is_low) = (self.store.members(), self.store.is_low_on_space());
        // Holes give space back, and no more.
        let gains = members.takes_discards(member) || members.discards(member) == Discards::Holes && is_low;
        let has_time = is_low || !self.priority.is_urgent();
        gains && has_time && self.stripes.policy().discard && members.takes_new(member)
    }

    /// Whether enough chunks of a member are free that its device does not know of.
    fn has_work(&self, member: MemberId) -> bool {
        let is_low = self.store.is_low_on_space();
        self.may_discard(member) && self.store.allocator().is_worth_discarding(member, is_low)
    }

    /// Waits until what was freed is discarded, for some milliseconds at most.
    pub(super) async fn settle(&self) {
        for _ in 0..LOOKS {
            self.store.free_released();
            let is_releasing = self.store.allocator().releasing() > 0;
            if !is_releasing && !self.store.members().ids().any(|m| self.has_work(m)) {
                return;
            }
            self.store.wakeups().discard.kick();
            self.store.io().sleep(LOOK_NS).await;
        }
    }

    /// Tells one member's device.
    async fn discard(&self, member: MemberId) {
        while self.may_discard(member) {
            let Some(range) = self.store.allocator_mut().take_undiscarded(member) else { return };
            self.priority.yield_to_clients(&[member], CHUNK_BYTES).await;
            let first = ChunkAddr { member, chunk: range.start };
            let result = self.store.members().discard(first, range.len() as u64).await;
            self.store.allocator_mut().give_back_discarded(member, range);
            self.store.room().changed().notify();
            if result.is_err() {
                // Nothing is lost by a failed discard. A member that fails will be found by its failed writes.
                self.store.mark(Mark::TrimFailed);
                return;
            }
            self.store.mark(Mark::Trimmed);
        }
    }
}
