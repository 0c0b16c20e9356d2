//! The forms of the rows of an elastic array while they are changed.
//!
//! The copies of a mirrored row go around its members, so in a wider row they lie elsewhere. A row that holds something is
//! therefore given parity before it is changed, which then changes as in every array with parity. A row that holds nothing, and
//! gets nothing, stays empty: only the record says that it is wider. Rows that were taken apart become empty, too, instead of
//! being filled with zeros.
//!
//! All of this happens behind the barrier: no request gives the rows another form meanwhile, and no task gives them copies.

use std::collections::BTreeSet;

use crate::marks::Mark;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::model::array_shard_layout::ShardLayout;
use sinew_format::model::form::Form;
use sinew_layout::rows::Change;

use crate::reshape::Reshape;

/// Rows that get parity together, with one record.
const ROWS_AT_ONCE: usize = 64;

impl<I: Io> Reshape<I> {
    /// Whether a row will hold something once it has changed.
    pub(super) fn fills(&self, change: &Change) -> bool {
        let holds = |row: u64| self.stripes.form(row) != Form::Empty;
        holds(change.row) || change.gains.iter().any(|(_, from)| holds(from.row))
    }

    /// Gives rows behind the barrier the forms in which they can be changed. The caller holds no lock.
    ///
    /// # Errors
    /// [`VolumeError::NoSpace`] when a member has no space for parity; [`VolumeError::Failed`] when the array has failed.
    pub(super) async fn settle_rows(&self, changes: &[Change], clears: bool) -> Result<(), VolumeError> {
        if !self.state.layout().is_elastic() {
            return Ok(());
        }
        if clears {
            let rows: BTreeSet<u64> = changes.iter().map(|change| change.row).collect();
            self.state.mark(Mark::ArrayMoveEmptied);
            return self.stripes.make_empty(&rows.into_iter().collect::<Vec<_>>()).await;
        }
        let filled: BTreeSet<u64> =
            changes.iter().filter(|change| self.fills(change)).map(|change| change.row).collect();
        let of_form = |form: Form| -> Vec<u64> {
            filled.iter().copied().filter(|&row| self.stripes.form(row) == form).collect()
        };
        let mirrored = of_form(Form::Mirrored);
        if !mirrored.is_empty() && !mutation::on(Mutation::GrowMirrored) {
            self.state.mark(Mark::ArrayMoveDemoted);
            for some in mirrored.chunks(ROWS_AT_ONCE) {
                self.stripes.convert(some, Form::Parity, false).await?;
            }
        }
        let empty = of_form(Form::Empty);
        if !empty.is_empty() && !mutation::on(Mutation::GrowUnfilled) {
            self.state.mark(Mark::ArrayMoveFilled);
            for some in empty.chunks(ROWS_AT_ONCE) {
                self.stripes.fill_empty(some).await?;
            }
        }
        Ok(())
    }

    /// Checks, under the locks of the rows, that those that will hold something have parity.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when a row has none for now: a member went out or is full, something of the row is lost, or the
    /// row was just being given copies.
    pub(super) fn require_parity(&self, changes: &[Change]) -> Result<(), VolumeError> {
        let mut filled = changes.iter().filter(|change| self.fills(change));
        let has_parity = filled.all(|change| self.stripes.form(change.row) == Form::Parity);
        if has_parity || mutation::on(Mutation::GrowMirrored) || mutation::on(Mutation::GrowUnfilled) {
            return Ok(());
        }
        self.state.mark(Mark::ArrayMoveWithoutForm);
        Err(VolumeError::Failed)
    }

    /// Has the places tidied that rows behind the end of the growth do not use: the new members may have held something there.
    ///
    /// # Errors
    /// As for [`Journal::flush`](crate::journal::Journal::flush).
    pub(super) async fn tidy_rows_from(&self, layout: &ShardLayout, first: u64) -> Result<(), VolumeError> {
        if layout.is_elastic() {
            drop(self.stripes.begin_widening((first..layout.stripes).collect()).await?);
        }
        Ok(())
    }
}
