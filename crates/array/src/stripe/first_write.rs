//! The first write to an empty stripe of an elastic array: the stripe gets a form.
//!
//! All its blocks are written, with zeros where there is no data, since what the members have there may be anything. Nothing
//! reads these places before the record of the form is durable, as in a conversion.

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::model::form::Form;

use crate::stripe::Stripes;

/// Stripes written for the first time at once.
const STRIPES_AT_ONCE: usize = 8;

impl<I: Io> Stripes<I> {
    /// The form of stripes that are written for the first time.
    pub(crate) fn first_form(&self) -> Form {
        self.forms.first()
    }

    /// Writes empty stripes for the first time, with these slots, and gives them the form `to`. The caller holds their locks.
    /// If members are out for which that form lacks too much, they get the other one. Returns false if members came or went
    /// meanwhile; the stripes are still empty then. The data stays in the journal until it is forgotten there.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when too many members are out; [`VolumeError::NoSpace`] when one is full.
    pub(crate) async fn write_first_of(
        &self,
        stripes: &[(u64, Vec<(u32, Buf)>)],
        to: Form,
    ) -> Result<bool, VolumeError> {
        let possible = |form: &Form| stripes.iter().all(|(stripe, _)| self.may_have_form(*stripe, *form));
        let to = [to, Form::Mirrored, Form::Parity].into_iter().find(possible).ok_or(VolumeError::Failed)?;
        let numbers: Vec<u64> = stripes.iter().map(|(stripe, _)| *stripe).collect();
        let mut change = self.forms.begin_change(numbers.clone());
        let _uses: Vec<_> = change.regions().iter().map(|&region| self.bitmap.use_region(region)).collect();
        self.mark_changing(change.regions()).await?;
        let version = self.state.members().version();
        for some in stripes.chunks(STRIPES_AT_ONCE) {
            let writes = some.iter().map(|(stripe, blocks)| self.write_first(*stripe, blocks, to));
            let written: Result<(), VolumeError> = join_all(writes).await.into_iter().collect();
            if self.state.members().version() != version {
                self.state.mark(Mark::ArrayFirstWriteVoid);
                return Ok(false);
            }
            written?;
        }
        self.journal.flush().await?;
        if self.state.members().version() != version {
            self.state.mark(Mark::ArrayFirstWriteVoid);
            return Ok(false);
        }
        self.state.mark(Mark::ArrayFirstWritten);
        self.record_form(to, &numbers).await?;
        change.leaves_nothing();
        Ok(true)
    }

    /// Gives empty stripes parity, with zeros everywhere. Stripes of another form are passed over. `stripes` ascend.
    ///
    /// # Errors
    /// As for [`Stripes::write_first_of`].
    pub(crate) async fn fill_empty(&self, stripes: &[u64]) -> Result<bool, VolumeError> {
        let mut locks = Vec::with_capacity(stripes.len());
        for &stripe in stripes {
            locks.push(self.locks.exclusive(stripe).await);
        }
        let empty = |&stripe: &u64| (self.form(stripe) == Form::Empty).then(|| (stripe, Vec::new()));
        let stripes: Vec<(u64, Vec<(u32, Buf)>)> = stripes.iter().filter_map(empty).collect();
        self.write_first_of(&stripes, Form::Parity).await
    }

    /// Writes all units that an empty stripe has in the form `to`; `blocks` are its slots with data.
    ///
    /// # Errors
    /// As for [`Stripes::write_units`].
    async fn write_first(&self, stripe: u64, blocks: &[(u32, Buf)], to: Form) -> Result<(), VolumeError> {
        let layout = self.state.layout();
        let chunk_bytes = layout.chunk_blocks as usize * BLOCK_BYTES;
        let mut columns: Vec<Buf> = (0..layout.columns(stripe)).map(|_| Buf::zeroed(chunk_bytes)).collect();
        for (slot, data) in blocks {
            let (column, offset) = (slot / layout.chunk_blocks, slot % layout.chunk_blocks);
            let from = offset as usize * BLOCK_BYTES;
            columns[column as usize].bytes_mut()[from..from + BLOCK_BYTES].copy_from_slice(data.bytes());
        }
        let mut units: Vec<(usize, Buf)> = columns.iter().cloned().enumerate().collect();
        if mutation::on(Mutation::EmptyUnfilled) {
            units.retain(|(column, _)| {
                blocks.iter().any(|(slot, _)| (slot / layout.chunk_blocks) as usize == *column)
            });
        }
        units.append(&mut self.redundancy(stripe, &columns, to));
        self.write_units(stripe, units).await
    }
}
