//! The columns of a stripe that were read, and the lost ones computed from them.

use sinew_core::buf::Buf;
use sinew_layout::parity::{self, Column, TooManyLost};

/// The data columns of a stripe and, after them, its parity columns, or the same part of each. A column is lost until it is
/// set.
pub struct StripeColumns<'a> {
    data_columns: usize,
    columns: Vec<Column<'a>>,
}

impl<'a> StripeColumns<'a> {
    /// A stripe of which nothing is known.
    pub fn new(data_columns: usize, parity_columns: usize) -> StripeColumns<'a> {
        StripeColumns { data_columns, columns: vec![Column::Lost; data_columns + parity_columns] }
    }

    /// Sets the content of a column.
    pub fn set(&mut self, column: usize, content: &'a [u8]) {
        self.columns[column] = Column::Present(content);
    }

    /// The stripe was written without this data column.
    pub fn set_absent(&mut self, column: usize) {
        self.columns[column] = Column::Absent;
    }

    /// Computes lost columns of `bytes` bytes, in the order of `wanted`.
    ///
    /// # Errors
    /// [`TooManyLost`].
    pub fn recover(&self, wanted: &[usize], bytes: usize) -> Result<Vec<Buf>, TooManyLost> {
        let mut found: Vec<Buf> = wanted.iter().map(|_| Buf::stale(bytes)).collect();
        let mut out: Vec<&mut [u8]> = found.iter_mut().map(Buf::bytes_mut).collect();
        let parity_columns = self.columns.len() - self.data_columns;
        parity::reconstruct(&self.columns, self.data_columns, parity_columns, wanted, &mut out)?;
        Ok(found)
    }

    /// Computes one lost column of `bytes` bytes.
    ///
    /// # Errors
    /// [`TooManyLost`].
    pub fn recover_one(&self, wanted: usize, bytes: usize) -> Result<Buf, TooManyLost> {
        Ok(self.recover(&[wanted], bytes)?.swap_remove(0))
    }
}
