//! What the tables count.

use super::Mapping;
use crate::flash::rows::ParityCounts;
use crate::flash::stats::Stats;

impl Mapping {
    /// Counts of padding by cleaning, of victims, and of parities, since the last reset.
    pub(in crate::flash) fn stats(&self) -> Stats {
        let parity = self.rows.as_ref().map_or_else(ParityCounts::default, |rows| rows.counts);
        let unit = u64::from(self.geometry.unit_granules);
        Stats {
            padded_granules: self.padded,
            victim_granules: self.space.victim_live,
            levelled_rows: self.space.levelled_rows(),
            folded_rows: self.slc.as_ref().map_or(0, |slc| slc.folded),
            slc_granules: self.slc.as_ref().map_or(0, |slc| slc.units) * unit,
            parity_granules: parity.full * unit,
            partial_parity_granules: parity.partial * unit,
            row_end_parity_granules: parity.row_end * unit,
            cleaning_parity_granules: parity.cleaning * unit,
            ..Stats::default()
        }
    }

    pub(in crate::flash) fn reset_counts(&mut self) {
        self.padded = 0;
        self.space.reset_counts();
        self.slc.iter_mut().for_each(|slc| (slc.units, slc.folded) = (0, 0));
        if let Some(rows) = &mut self.rows {
            rows.counts = ParityCounts::default();
        }
    }
}
