//! Discarding: whole stripes of an elastic array become empty, and their units take no physical space any more.

use crate::marks::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::{Discards, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::model::form::Form;
use sinew_layout::Home;

use crate::stripe::Stripes;

impl<I: Io> Stripes<I> {
    /// Makes stripes empty: they read as zeros, and what was written to them before is gone, durably. `stripes` ascend.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when the array has failed.
    pub(crate) async fn make_empty(&self, stripes: &[u64]) -> Result<(), VolumeError> {
        let stored =
            |stripe: &u64| self.form(*stripe) != Form::Empty || self.journal.dirty().has_stripe(*stripe);
        let stripes: Vec<u64> = stripes.iter().copied().filter(stored).collect();
        if stripes.is_empty() {
            return Ok(());
        }
        let change = self.forms.begin_change(stripes.clone());
        self.mark_changing(change.regions()).await?;
        let mut locks = Vec::with_capacity(stripes.len());
        for &stripe in &stripes {
            locks.push(self.locks.exclusive(stripe).await);
        }
        self.record_form(Form::Empty, &stripes).await?;
        drop(locks);
        self.state.mark(Mark::ArrayStripesEmptied);
        self.state.counters().stripes_emptied.add(stripes.len() as u64);
        Ok(())
    }

    /// Discards the places that the forms of stripes do not use, neighbouring ones together; false when a member could not.
    /// `stripes` ascend.
    pub(crate) async fn tidy(&self, stripes: &[u64]) -> bool {
        let mut locks = Vec::with_capacity(stripes.len());
        for &stripe in stripes {
            locks.push(self.locks.exclusive(stripe).await);
        }
        // The form of others has changed since the reads were waited for: another round discards.
        let may_tidy =
            |stripe: &u64| !self.forms.is_stripe_untidy(*stripe) || mutation::on(Mutation::TrimUnderReaders);
        let stripes = stripes.iter().copied().filter(may_tidy);
        self.discard_unused(stripes.map(|stripe| (stripe, self.form(stripe)))).await
    }

    /// Counts the places that the form of a stripe does not use and that hold something else than zeros, on members whose
    /// discarded blocks read as zeros. The caller holds the stripe's lock.
    pub(crate) async fn unused_in_use(&self, stripe: u64) -> u64 {
        let (layout, members) = (self.state.layout(), self.state.members());
        let can_tell = |member: &MemberId| {
            members.is_active(*member)
                && matches!(members.discards(*member), Discards::Zeros | Discards::Holes)
        };
        let places = layout.unused_places(stripe, self.form(stripe)).into_iter();
        let places = places.map(|place| layout.place_of(place)).filter(|(member, _)| can_tell(member));
        let bytes = layout.chunk_bytes() as usize;
        let reads = places.map(|(member, offset)| async move {
            let read = members.read_at(member, offset, bytes).await;
            read.is_ok_and(|buf| buf.bytes().iter().any(|&byte| byte != 0))
        });
        join_all(reads).await.into_iter().map(u64::from).sum()
    }

    /// Discards the places that these forms of stripes do not use; false when a member could not. The caller holds the stripes'
    /// locks.
    pub(super) async fn discard_unused(&self, stripes: impl Iterator<Item = (u64, Form)>) -> bool {
        let layout = self.state.layout();
        let mut places: Vec<Home> =
            stripes.flat_map(|(stripe, form)| layout.unused_places(stripe, form)).collect();
        places.sort_unstable();
        let chunk_bytes = layout.chunk_bytes();
        let is_next = |a: &Home, b: &Home| a.member == b.member && a.chunk + 1 == b.chunk;
        let discards = places.chunk_by(is_next).map(|run| async {
            let (member, offset) = layout.place_of(run[0]);
            if !self.state.members().is_active(member) || mutation::on(Mutation::LeakSlots) {
                return true;
            }
            // A failed discard harms nothing but the space.
            let bytes = run.len() as u64 * chunk_bytes;
            self.state.members().discard_at(member, offset, bytes).await.is_ok()
        });
        join_all(discards).await.into_iter().all(|discarded| discarded)
    }
}
