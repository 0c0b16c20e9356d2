//! The same part of every column of a stripe, as far as it was read, and a column computed from the others.

use sinew_core::buf::Buf;
use sinew_format::model::mapped_geometry::MappedGeometry;
use sinew_members::stripe_columns::StripeColumns;

/// The same part of the columns of a parity stripe.
pub(crate) struct StripeRow<'a> {
    /// What was read of each column, data before parity.
    pub(crate) columns: &'a [Option<Buf>],
    /// Data columns that the stripe has.
    pub(crate) used: usize,
    pub(crate) geometry: &'a MappedGeometry,
}

impl StripeRow<'_> {
    /// The `wanted` column from the others without `left_out`, `None` when these are too few, or the stripe has no such column.
    /// It may be wrong where a column is silently wrong.
    pub(crate) fn recover(&self, wanted: usize, left_out: Option<usize>) -> Option<Buf> {
        let (k, m) = (self.geometry.data_columns, self.geometry.parity_columns());
        if (self.used..k).contains(&wanted) {
            // A last resort may have an older table of the stripe, which was narrower.
            return None;
        }
        let mut known = StripeColumns::new(k, m);
        (self.used..k).for_each(|column| known.set_absent(column));
        let read = self.columns.iter().enumerate().filter_map(|(i, buf)| Some((i, buf.as_ref()?)));
        let usable = read.filter(|&(i, _)| i != wanted && left_out != Some(i));
        let mut bytes = 0;
        for (column, buf) in usable {
            known.set(column, buf.bytes());
            bytes = buf.len();
        }
        known.recover_one(wanted, bytes).ok()
    }
}
