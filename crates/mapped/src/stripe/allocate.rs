//! Allocation of a new stripe: a number and chunks for it. A client's request waits for room.

use crate::marks::Mark;
use crate::store::chunk_allocator::{Purpose, StripeChunks};
use crate::stripe::Stripes;
use sinew_core::ids::{MemberId, StripeId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::model::stripe_form::StripeForm;

impl<I: Io> Stripes<I> {
    /// A stripe's number and chunks for new data; `None` when there is no room for `purpose`.
    pub(crate) fn allocate(
        &self,
        columns: usize,
        form: StripeForm,
        purpose: Purpose,
    ) -> Option<(StripeId, StripeChunks)> {
        let allocated = self.try_allocate(columns, form, purpose);
        self.store.wakeups().reclaim.kick();
        allocated
    }

    /// As `allocate`, for a client: waits for room until reclaim gives up. Calls `while_waiting` each time there is
    /// none yet.
    ///
    /// # Errors
    /// `NoSpace` once reclaim, asked again, has found nothing that would make room.
    pub(super) async fn allocate_waiting(
        &self,
        columns: usize,
        form: StripeForm,
        while_waiting: impl Fn(),
    ) -> Result<(StripeId, StripeChunks), VolumeError> {
        self.store.room().begin_wait();
        let given_up = self.store.room().given_up();
        let attempt = || match self.allocate(columns, form, Purpose::User) {
            Some(allocated) => Some(Ok(allocated)),
            None if self.store.room().given_up() > given_up => Some(Err(self.store.refuse_for_room())),
            None => {
                self.store.mark(Mark::RoomAwaited);
                while_waiting();
                None
            }
        };
        let allocated = self.store.room().changed().wait(attempt).await;
        self.store.room().end_wait();
        allocated
    }

    /// Waits until there is room for a stripe, as a client does; false when reclaim can make none.
    pub(crate) async fn await_room(&self, columns: usize, form: StripeForm) -> bool {
        match self.allocate_waiting(columns, form, || ()).await {
            Ok((id, chunks)) => {
                self.cancel_allocation(id, chunks);
                true
            }
            Err(_) => false,
        }
    }

    pub(crate) fn try_allocate(
        &self,
        columns: usize,
        form: StripeForm,
        purpose: Purpose,
    ) -> Option<(StripeId, StripeChunks)> {
        let id = self.store.take_stripe_id(purpose)?;
        let responds = |m| self.store.members().responds(m) && self.store.members().has_space(m);
        let burden = |m| self.burden(m);
        let chunks = self.store.allocator_mut().allocate_stripe(columns, form, purpose, responds, burden);
        self.note_allocated(id, chunks)
    }

    /// A stripe for small writes, without waiting, on members that all respond; `None` when there are too few.
    pub(crate) fn allocate_responsive(
        &self,
        columns: usize,
        form: StripeForm,
    ) -> Option<(StripeId, StripeChunks)> {
        let id = self.store.take_stripe_id(Purpose::User)?;
        let responds = |m| self.store.members().responds(m) && self.store.members().has_space(m);
        let burden = |m| self.burden(m);
        let chunks = self.store.allocator_mut().allocate_responsive(columns, form, responds, burden);
        self.note_allocated(id, chunks)
    }

    /// The load of a member, where new stripes go by that.
    fn burden(&self, member: MemberId) -> u32 {
        let members = self.store.members();
        if members.may_hedge() { members.load(member) } else { 0 }
    }

    fn note_allocated(&self, id: StripeId, chunks: Option<StripeChunks>) -> Option<(StripeId, StripeChunks)> {
        match chunks {
            Some(chunks) => {
                self.store.begin_opening(id);
                Some((id, chunks))
            }
            None => {
                self.store.return_stripe_id(id);
                None
            }
        }
    }

    /// Undoes an allocation that was not committed.
    pub(crate) fn cancel_allocation(&self, id: StripeId, chunks: StripeChunks) {
        self.store.end_opening(id);
        if !mutation::on(Mutation::LeakChunks) {
            self.store.allocator_mut().give_back(chunks.homes.into_iter().flatten());
        }
        self.store.return_stripe_id(id);
    }
}
