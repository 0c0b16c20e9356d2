//! Units and rows of the SLC cache, on a drive that has one.

use std::ops::Range;

use super::Mapping;
use crate::flash::slc_region::CacheUnit;

impl Mapping {
    /// As [`Mapping::open_unit`], in the SLC cache of the die while that has room.
    #[inline]
    pub(in crate::flash) fn open_cached_unit(&mut self, die: u32) -> u32 {
        let opened = match &mut self.slc {
            None => None,
            Some(slc) => slc.open(die),
        };
        let Some(CacheUnit { row, unit, opens_row }) = opened else { return self.open_unit(die) };
        if opens_row {
            self.space.open_elsewhere(row as usize);
        }
        let unit = row * self.geometry.row_units + unit;
        self.buffer(unit);
        unit
    }

    /// Whether a unit is programmed with one bit per cell.
    pub(in crate::flash) fn is_slc(&self, unit: u32) -> bool {
        let row = self.geometry.row_of_unit(unit) as u32;
        self.slc.as_ref().is_some_and(|slc| slc.has(row))
    }

    /// The units of the row of the SLC cache of a die that is to be folded, if the other rows have space for it.
    pub(in crate::flash) fn fold_victim(&mut self, die: u32) -> Option<Range<u32>> {
        let slc = self.slc.as_mut()?;
        if !self.space.has_free_row(die as usize) {
            return None;
        }
        let (row, units) = slc.victim(die)?;
        let first = row * self.geometry.row_units;
        Some(first..first + units)
    }

    /// The host is silent, or not any more.
    pub(in crate::flash) fn set_idle(&mut self, is_idle: bool) {
        self.slc.iter_mut().for_each(|slc| slc.is_idle = is_idle);
    }
}
