//! Planning a new stripe: a number and homes for it, for clients after waiting for room.

use crate::shard::MappedShard;
use crate::store::chunk_allocator::{Purpose, StripePlan};
use sinew_core::coverage::Mark;
use sinew_core::ids::{MemberId, StripeId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::model::config::MemberState;

/// Stripe numbers kept back for compaction, which merges short stripes when there are too many.
const STRIPE_IDS_KEPT: u64 = 4;

impl<I: Io> MappedShard<I> {
    /// A stripe's number and homes for new data; `None` when there is no room for `purpose`.
    pub(crate) fn plan(
        &self,
        columns: usize,
        parity: bool,
        purpose: Purpose,
    ) -> Option<(StripeId, StripePlan)> {
        let planned = self.try_plan(columns, parity, purpose);
        self.keeper.kick();
        planned
    }

    /// As `plan`, for a client, waiting for room as long as there is hope; `while_waiting` is called when there is none
    /// yet.
    ///
    /// # Errors
    /// `NoSpace` once the keeper, asked again, has found nothing that would make room.
    pub(crate) async fn plan_in_time(
        &self,
        columns: usize,
        parity: bool,
        while_waiting: impl Fn(),
    ) -> Result<(StripeId, StripePlan), VolumeError> {
        self.waiting_for_room.set(self.waiting_for_room.get() + 1);
        let given_up = self.given_up.get();
        let plan = || match self.plan(columns, parity, Purpose::User) {
            Some(planned) => Some(Ok(planned)),
            None if self.given_up.get() > given_up => Some(Err(self.refuse())),
            None => {
                self.io.mark(Mark::RoomAwaited);
                while_waiting();
                None
            }
        };
        let planned = self.space_changed.wait(plan).await;
        self.waiting_for_room.set(self.waiting_for_room.get() - 1);
        planned
    }

    /// What a client is told when the keeper has given up. Up to the capacity it should not come to that while all
    /// members are there.
    pub(crate) fn refuse(&self) -> VolumeError {
        let all_there = self
            .members
            .ids()
            .all(|m| matches!(self.members.get(m).state, MemberState::Active | MemberState::Removed));
        if all_there && self.tables.borrow().live_blocks <= self.space.borrow().capacity_blocks() {
            self.refused_early.set(self.refused_early.get() + 1);
        }
        self.no_room()
    }

    /// What a client is told when there is no room.
    pub(crate) fn no_room(&self) -> VolumeError {
        if self.members.any_active() { VolumeError::NoSpace } else { VolumeError::Failed }
    }

    /// Whether the members that take something new have room without this one: for what is stored, and for the pages
    /// of as many stripes and parts of volumes as there may be by then.
    pub(crate) fn fits_without(&self, member: MemberId) -> bool {
        let g = &self.geometry;
        let tables = self.tables.borrow();
        let pages = |chunks: u64| {
            let stripes = g.stripes_max(chunks).max(u64::from(self.next_id.get()));
            let maps = g.map_pages_max(chunks).max(u64::from(tables.map.pages_end()));
            1 + stripes.div_ceil(g.stripes_per_page() as u64) + maps
        };
        self.space.borrow().fits_without(member, tables.live_blocks, pages)
    }

    pub(crate) fn try_plan(
        &self,
        columns: usize,
        parity: bool,
        purpose: Purpose,
    ) -> Option<(StripeId, StripePlan)> {
        let id = self.take_stripe_id(purpose)?;
        let chooses = self.members.may_hedge();
        let burden = |m| if chooses { self.members.in_flight(m) } else { 0 };
        let responds = |m| self.members.responds(m);
        let plan = self.space.borrow_mut().plan_stripe(columns, parity, purpose, responds, burden);
        self.take_plan(id, plan)
    }

    /// A stripe for small writes at once, on members that all respond; none where that cannot be.
    pub(crate) fn plan_around(&self, columns: usize) -> Option<(StripeId, StripePlan)> {
        let id = self.take_stripe_id(Purpose::User)?;
        let plan = self.space.borrow_mut().plan_around(columns, |m| self.members.responds(m));
        self.take_plan(id, plan)
    }

    fn take_plan(&self, id: StripeId, plan: Option<StripePlan>) -> Option<(StripeId, StripePlan)> {
        match plan {
            Some(plan) => {
                self.opening.borrow_mut().insert(id, self.members.version());
                Some((id, plan))
            }
            None => {
                self.free_ids.borrow_mut().insert(id);
                None
            }
        }
    }

    fn take_stripe_id(&self, purpose: Purpose) -> Option<StripeId> {
        let next = self.next_id.get();
        let unused =
            self.geometry.stripes_max(self.space.borrow().all_chunks()).saturating_sub(u64::from(next));
        let left = unused + self.free_ids.borrow().len() as u64;
        if purpose != Purpose::Internal && left <= STRIPE_IDS_KEPT {
            return None;
        }
        // The keeper may still hold a stripe that it has freed together with others.
        let free = self.free_ids.borrow().iter().copied().find(|&id| !self.in_use(id));
        if let Some(id) = free {
            self.free_ids.borrow_mut().remove(&id);
            return Some(id);
        }
        (unused > 0).then(|| {
            self.next_id.set(next + 1);
            StripeId(next)
        })
    }

    /// Undoes a plan that was not committed.
    pub(crate) fn unplan(&self, id: StripeId, plan: StripePlan) {
        self.opening.borrow_mut().remove(&id);
        if !mutation::on(Mutation::LeakChunks) {
            self.space.borrow_mut().give_back(plan.homes.into_iter().flatten());
        }
        self.free_ids.borrow_mut().insert(id);
    }
}
