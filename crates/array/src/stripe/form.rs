//! The change of a stripe's form: recording it, and which units each form needs.

use crate::marks::Mark;
use sinew_core::buf::Buf;
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_format::model::form::Form;
use sinew_layout::parity;

use crate::forms::FormChange;
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

    /// Begins to make stripes wider, which ascend: until the result is dropped their regions stay untidy, and then they are
    /// tidied.
    ///
    /// # Errors
    /// As for [`Journal::flush`](crate::journal::Journal::flush).
    pub(crate) async fn begin_widening(&self, stripes: Vec<u64>) -> Result<FormChange<'_, I>, VolumeError> {
        let change = self.forms.begin_change(stripes);
        self.mark_changing(change.regions()).await?;
        Ok(change)
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
            Form::Mirrored => self.has_copy_of_each(stripe, &[]),
        }
    }

    /// The units that a stripe with this content of its columns has besides them in the form `to`: parity, or copies.
    pub(super) fn redundancy(&self, stripe: u64, columns: &[Buf], to: Form) -> Vec<(usize, Buf)> {
        let layout = self.state.layout();
        match to {
            Form::Empty => Vec::new(),
            Form::Parity => {
                let parity = parity_of(columns, layout.m);
                parity.into_iter().enumerate().map(|(p, buf)| (columns.len() + p, buf)).collect()
            }
            Form::Mirrored => {
                let copies = |(column, buf): (usize, &Buf)| {
                    let buf = buf.clone();
                    layout.column_units(stripe, column).skip(1).map(move |unit| (unit, buf.clone()))
                };
                columns.iter().enumerate().flat_map(copies).collect()
            }
        }
    }

    /// Has the unused units of stripes discarded.
    pub(crate) fn tidy_later(&self, stripes: &[u64]) {
        self.forms.note_untidy(stripes.iter().copied());
    }
}

/// The parity of whole columns.
pub(super) fn parity_of(columns: &[Buf], m: usize) -> Vec<Buf> {
    let mut units: Vec<Buf> = (0..m).map(|_| Buf::stale(columns[0].len())).collect();
    let data: Vec<Option<&[u8]>> = columns.iter().map(|column| Some(column.bytes())).collect();
    let mut places: Vec<&mut [u8]> = units.iter_mut().map(Buf::bytes_mut).collect();
    parity::compute(&data, &mut places);
    units
}
