//! The change of a stripe's form: recording it, and which units each form needs.

use crate::marks::Mark;
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_format::model::form::Form;

use crate::stripe::Stripes;

impl<I: Io> Stripes<I> {
    /// Marks regions as untidy and dirty, durably, so that units of their stripes which no form uses yet may be written.
    ///
    /// # Errors
    /// As for [`Journal::flush`](crate::journal::Journal::flush).
    pub(crate) async fn mark_changing(&self, regions: &[usize]) -> Result<(), VolumeError> {
        if !regions.iter().all(|&region| self.bitmap.regions().is_untidy_marked(region)) {
            self.bitmap.mark_untidy_with_next_flush(regions);
            self.journal.flush().await?;
            self.bitmap.set_untidy_marked(regions);
        }
        self.mark_regions(regions).await
    }

    /// Records durably that stripes have a new form, and lets them have it. The caller holds their locks, and all that the new
    /// form needs is durable.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when the log cannot be written or flushed.
    pub(crate) async fn record_form(&self, to: Form, stripes: &[u64]) -> Result<(), VolumeError> {
        let group = self.journal.append_form(to, stripes).await?;
        let flushed = self.journal.flush().await;
        if flushed.is_err() {
            // The record is in the log, so replay may follow it or not: nothing may depend on it before a flush.
            self.state.mark(Mark::ArrayFormUnsure);
            self.forms.set_unsure(true);
        }
        for &stripe in stripes {
            self.forms.apply(stripe, to);
            self.forget_unplaced_units(stripe, to);
            if to == Form::Empty {
                self.journal.forget_before(stripe, group);
            }
        }
        self.state.mark(Mark::ArrayFormChanged);
        flushed
    }

    /// Whether a stripe of this form would be readable, and how much may be lost of it, given the members that there are: each
    /// unit of the form that can be written counts as right, unless its member is stale in the region.
    pub(crate) fn may_have_form(&self, stripe: u64, form: Form) -> bool {
        let layout = self.state.layout();
        match form {
            Form::Empty => true,
            Form::Parity => {
                let lost = layout.units(stripe, form).into_iter().filter(|&u| !self.is_readable(stripe, u));
                lost.count() <= layout.m
            }
            Form::Mirrored => (0..layout.k).all(|c| !self.readable_copies(stripe, c, &[]).is_empty()),
        }
    }

    /// Makes durable the records of all changes of forms that took effect without that.
    ///
    /// # Errors
    /// As for [`Journal::flush`](crate::journal::Journal::flush).
    pub(crate) async fn settle_forms(&self) -> Result<(), VolumeError> {
        if self.forms.is_unsure() {
            self.journal.flush().await?;
            self.forms.set_unsure(false);
        }
        Ok(())
    }

    /// Has the unused units of stripes discarded.
    pub(crate) fn tidy_later(&self, stripes: &[u64]) {
        self.forms.note_untidy(stripes.iter().copied());
    }
}
