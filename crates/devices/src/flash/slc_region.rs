//! The erase blocks of each die that are programmed with one bit per cell: which are free, open, or filled.
//!
//! They are the last rows of each plot, and never chosen by cleaning. What is live in them is counted with the other rows.
//! Units of a die that is a plot are opened here; on a drive that works with rows of all dies, only whole rows are.

use std::collections::VecDeque;

use super::features::SlcCache;

/// The cache of one die.
#[derive(Clone, Debug)]
struct DieCache {
    free: VecDeque<u32>,
    /// The row that is being filled.
    open: Option<OpenRow>,
    /// Filled rows, the oldest first.
    filled: VecDeque<u32>,
}

#[derive(Clone, Copy, Debug)]
struct OpenRow {
    row: u32,
    /// Units that are in use.
    used: u32,
}

/// A unit of the cache that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheUnit {
    pub(super) row: u32,
    /// The number of the unit within its row.
    pub(super) unit: u32,
    /// Whether the row was free before.
    pub(super) opens_row: bool,
}

/// The cache of a drive.
#[derive(Clone, Debug)]
pub(super) struct SlcRegion {
    plot_rows: u32,
    /// The first row of the cache within a plot.
    first: u32,
    /// Units of a row, from its beginning, that may be in use.
    row_units: u32,
    dies: Vec<DieCache>,
    /// The host is silent: everything is folded.
    pub(super) is_idle: bool,
    /// Writes that take no time pass the cache by: no row of all dies is opened.
    pub(super) is_passed_by: bool,
    /// Nothing is folded any more.
    is_stopped: bool,
    /// Units opened since the last reset.
    pub(super) units: u64,
    /// Rows folded since the last reset.
    pub(super) folded: u64,
}

impl SlcRegion {
    /// The cache of a drive with this number of plots and of rows in each; of the units of a row, `row_units` may be in use.
    pub(super) fn new(parameters: SlcCache, plots: u32, plot_rows: u32, row_units: u32) -> SlcRegion {
        let first = plot_rows - parameters.erase_blocks;
        let die = |die: u32| DieCache {
            free: (die * plot_rows + first..(die + 1) * plot_rows).collect(),
            open: None,
            filled: VecDeque::new(),
        };
        SlcRegion {
            plot_rows,
            first,
            row_units,
            dies: (0..plots).map(die).collect(),
            is_idle: false,
            is_passed_by: false,
            is_stopped: false,
            units: 0,
            folded: 0,
        }
    }

    /// Whether a row belongs to the cache.
    pub(super) fn has(&self, row: u32) -> bool {
        row % self.plot_rows >= self.first
    }

    /// Whether a die can take a unit.
    pub(super) fn has_room(&self, die: u32) -> bool {
        let cache = &self.dies[die as usize];
        cache.open.is_some() || !cache.free.is_empty()
    }

    /// Opens the next unit of a die, if it can take one.
    pub(super) fn open(&mut self, die: u32) -> Option<CacheUnit> {
        let cache = &mut self.dies[die as usize];
        let opens_row = cache.open.is_none();
        let mut open = match cache.open.take() {
            Some(open) => open,
            None => OpenRow { row: cache.free.pop_front()?, used: 0 },
        };
        let unit = CacheUnit { row: open.row, unit: open.used, opens_row };
        open.used += 1;
        if open.used < self.row_units {
            cache.open = Some(open);
        } else {
            cache.filled.push_back(open.row);
        }
        self.units += 1;
        Some(unit)
    }

    /// Opens the next row, on a drive that works with rows, if one is free. The row before has to be left first.
    pub(super) fn open_row(&mut self) -> Option<u32> {
        if self.is_passed_by {
            return None;
        }
        let cache = &mut self.dies[0];
        debug_assert!(cache.open.is_none());
        let row = cache.free.pop_front()?;
        cache.open = Some(OpenRow { row, used: 0 });
        Some(row)
    }

    /// Nothing more goes to the open row, on a drive that works with rows, if one of the cache is open.
    pub(super) fn leave_row(&mut self) {
        let cache = &mut self.dies[0];
        cache.filled.extend(cache.open.take().map(|open| open.row));
    }

    /// Whether a row is free, on a drive that works with rows.
    pub(super) fn has_free_row(&self) -> bool {
        !self.is_passed_by && !self.dies[0].free.is_empty()
    }

    /// The row of a die that is folded next, if one is to be: the oldest, if the cache of the die is full or the host is silent.
    /// Returns it with the number of its units. A row that is open is folded only where units are opened here.
    pub(super) fn victim(&mut self, die: u32, with_open: bool) -> Option<(u32, u32)> {
        let cache = &mut self.dies[die as usize];
        if with_open && self.is_idle && cache.filled.is_empty() {
            // Units of an open row that are not in use stay empty.
            let open = cache.open.take();
            cache.filled.extend(open.map(|open| open.row));
        }
        let wanted = !self.is_stopped && (self.is_idle || cache.free.is_empty());
        let row = cache.filled.front().copied().filter(|_| wanted)?;
        Some((row, self.row_units))
    }

    /// Nothing is folded any more.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// A row has been folded and erased.
    pub(super) fn erased(&mut self, row: u32) {
        let cache = &mut self.dies[(row / self.plot_rows) as usize];
        debug_assert_eq!(cache.filled.front(), Some(&row));
        cache.filled.pop_front();
        cache.free.push_back(row);
        self.folded += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fill_in_order_and_fold_when_none_is_free_or_the_host_is_silent() {
        let parameters = SlcCache { erase_blocks: 2, bits: 3, sense_ns: 0, program_ns: 0, fold_after_ns: 0 };
        let mut region = SlcRegion::new(parameters, 2, 10, 2);
        let opened: Vec<_> =
            std::iter::from_fn(|| region.open(1)).map(|unit| (unit.row, unit.unit)).collect();
        assert_eq!(opened, [(18, 0), (18, 1), (19, 0), (19, 1)]);
        assert!(region.has_room(0) && !region.has_room(1) && region.has(18) && !region.has(17));
        assert_eq!((region.victim(0, true), region.victim(1, true)), (None, Some((18, 2))));
        region.erased(18);
        assert_eq!(region.victim(1, true), None, "a row is free");
        region.open(1);
        region.is_idle = true;
        assert_eq!(region.victim(1, true), Some((19, 2)));
        region.erased(19);
        assert_eq!(region.victim(1, true), Some((18, 2)), "the row that is open is folded too");
    }
}
