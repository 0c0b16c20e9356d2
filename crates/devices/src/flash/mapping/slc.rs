//! Units and rows of the SLC cache, on a drive that has one.

use std::ops::Range;

use super::{Mapping, Opened};
use crate::flash::defect::{self, Defect};
use crate::flash::slc_region::CacheUnit;
use crate::flash::stripes::Side;

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

    /// The next unit for the host's data, on the die that is filled least, then has the fewest programs `pending`;
    /// [`Mapping::can_open`] has said yes.
    pub(in crate::flash) fn open_row_unit(&mut self, pending: impl Fn(u32) -> u32) -> Opened {
        let opened = self.open_unit_of(Side::Host, |rows| rows.take(pending));
        self.count_cached(opened.unit);
        opened
    }

    /// Counts a unit of the host's data that was opened in a row of all dies, if that is one of the SLC cache.
    #[inline]
    fn count_cached(&mut self, unit: u32) {
        if self.slc.is_some() && self.is_slc(unit) {
            self.slc.iter_mut().for_each(|slc| slc.units += 1);
        }
    }

    /// Whether a unit is programmed with one bit per cell.
    pub(in crate::flash) fn is_slc(&self, unit: u32) -> bool {
        let row = self.geometry.row_of_unit(unit) as u32;
        self.slc.as_ref().is_some_and(|slc| slc.has(row))
    }

    /// The units of the row of the SLC cache of a die that is to be folded, if the other rows have space for it.
    pub(in crate::flash) fn fold_victim(&mut self, die: u32) -> Option<Range<u32>> {
        let slc = self.slc.as_mut()?;
        let plot = self.geometry.plot_of(die);
        if !self.space.has_free_row(plot) {
            return None;
        }
        let (row, units) = slc.victim(plot as u32, self.rows.is_none())?;
        // A unit of it may still be filled, and get data after it was looked at.
        if self.buffered_units[row as usize] > 0 && !defect::has(Defect::FoldUnfilled) {
            return None;
        }
        let first = row * self.geometry.row_units;
        Some(first..first + units)
    }

    /// Writes that take no time begin or have ended; they pass the cache by.
    pub(in crate::flash) fn pass_cache_by(&mut self, is_passed_by: bool) {
        self.slc.iter_mut().for_each(|slc| slc.is_passed_by = is_passed_by);
    }

    /// The host is silent, or not any more.
    pub(in crate::flash) fn set_idle(&mut self, is_idle: bool) {
        self.slc.iter_mut().for_each(|slc| slc.is_idle = is_idle);
    }
}
