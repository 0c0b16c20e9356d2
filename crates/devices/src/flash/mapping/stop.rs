//! The end of all cleaning, when a die has failed.

use super::Mapping;

impl Mapping {
    /// Ends all cleaning, unfinished. Some of the row that begins with `erasing` is erased.
    pub(in crate::flash) fn stop_cleaning(&mut self, erasing: Option<u32>) {
        self.space.stop_cleaning();
        self.slc.iter_mut().for_each(|slc| slc.stop());
        self.filled_units.iter_mut().for_each(Vec::clear);
        if let Some(rows) = &mut self.rows {
            rows.stop_cleaning();
        }
        if let (Some(moves), Some(unit)) = (&mut self.moves, erasing) {
            moves.erased(&self.geometry.granules_of(self.geometry.row_of_unit(unit) as u32));
        }
    }
}
