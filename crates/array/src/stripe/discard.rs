//! Discarding: whole stripes of an elastic array become empty, and their units take no physical space any more.

use crate::marks::Mark;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::model::form::Form;

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

    /// Discards the units that a stripe's form does not use; false when a member could not.
    pub(crate) async fn tidy(&self, stripe: u64) -> bool {
        let _lock = self.locks.exclusive(stripe).await;
        if self.forms.is_stripe_untidy(stripe) && !mutation::on(Mutation::TrimUnderReaders) {
            // Its form has changed since the reads were waited for: another round discards.
            return true;
        }
        let layout = self.state.layout();
        let bytes = u64::from(layout.chunk_blocks) * BLOCK_BYTES as u64;
        let mut tidied = true;
        for unit in layout.unused_units(self.form(stripe)) {
            let (member, offset) = self.place(stripe, unit, 0);
            if !self.state.members().is_active(member) || mutation::on(Mutation::LeakSlots) {
                continue;
            }
            // A failed discard harms nothing but the space.
            tidied &= self.state.members().discard_at(member, offset, bytes).await.is_ok();
        }
        tidied
    }
}
