//! Rows whose images in the log replay would write to their places, in an array without a journal.
//!
//! What clients write there goes to its place, and not to the log: replay would put the older images over it. So before a row
//! is written for the first time after a growth has changed it, the tail of the log passes its images.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// The rows with images, and the log's block after these.
#[derive(Default)]
pub(super) struct ImagedRows(RefCell<BTreeMap<u64, u64>>);

impl ImagedRows {
    /// The log has images of these rows, all of them before the block `end`.
    pub(super) fn note(&self, rows: impl IntoIterator<Item = u64>, end: u64) {
        self.0.borrow_mut().extend(rows.into_iter().map(|row| (row, end)));
    }

    /// Whether a log that begins at `tail` has images of the row.
    pub(super) fn contains(&self, row: u64, tail: u64) -> bool {
        self.0.borrow().get(&row).is_some_and(|&end| end > tail)
    }

    /// The log begins at `tail` now: rows whose images are before it have none.
    pub(super) fn forget_before(&self, tail: u64) {
        self.0.borrow_mut().retain(|_, end| *end > tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_images_until_the_tail_has_passed_the_last_one() {
        let rows = ImagedRows::default();
        rows.note([3, 4], 10);
        rows.note([4, 5], 20);
        assert!(rows.contains(3, 9) && !rows.contains(3, 10) && !rows.contains(6, 0));
        rows.forget_before(10);
        assert!(!rows.contains(3, 0));
        assert!(rows.contains(4, 10) && rows.contains(5, 19), "a batch whose images are still needed");
        rows.forget_before(20);
        assert!(!rows.contains(4, 0) && !rows.contains(5, 0));
    }
}
