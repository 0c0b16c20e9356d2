//! Which rows are free, open or filled, how much of each is live, and which one is cleaned.
//!
//! Space is divided into *plots* of equal size. Each has its own free rows and is cleaned on its own.

use std::collections::VecDeque;

use super::config::{Config, Policy, RESERVED};
use super::divisor::Divisor;
use super::victim::{self, Bounds, NO_VICTIM};
use super::wear::{self, Levelling};
use crate::{BLOCK_BYTES, Rng};

/// No row.
const NO_ROW: u32 = u32::MAX;

/// The row that is being filled: its number, and the next granule in it where rows are filled in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    pub(super) row: u32,
    pub(super) next: u32,
}

/// The rows of one plot.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    free: VecDeque<u32>,
    /// Where the host's data goes.
    pub(super) host: Front,
    /// Where cleaning moves live data.
    pub(super) mover: Front,
    /// Where wear levelling moves cold data: in rows of its own, since cold data between data that changes would keep what dies
    /// there from being reclaimed. While such a row is cleaned, this front and `mover` are exchanged.
    cold: Front,
    /// The row that is cleaned for its wear.
    levelled: Option<u32>,
    live: u32,
    bounds: Bounds,
    cleaning: bool,
}

/// All rows.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) plots: Vec<Plot>,
    plot_rows: u32,
    /// Rows of a plot that are opened and cleaned here; the others belong to an SLC cache.
    main_rows: u32,
    by_plot: Divisor,
    /// Row to live granules.
    live: Vec<u32>,
    erases: Vec<u32>,
    /// Row to the number of rows opened before it.
    filled: Vec<u32>,
    opened: u32,
    policy: Policy,
    rng: Rng,
    low: usize,
    high: usize,
    mover_rows: usize,
    /// Free rows beside those for cleaning that the host leaves to the folding of an SLC cache.
    fold_rows: usize,
    /// Live granules that a plot may hold at most.
    plot_live_max: u32,
    /// Live granules from which cleaning a row gains nothing.
    full: u32,
    levelling: Option<Levelling>,
    /// Live granules of the rows chosen for cleaning.
    pub(super) victim_live: u64,
}

impl Space {
    /// The space of a drive with `plots` plots of rows of `row_granules`.
    pub(super) fn new(config: &Config, plots: u32, row_granules: u32, seed: u64) -> Space {
        let (plot_rows, main_rows) = (config.erase_blocks, config.main_erase_blocks());
        let per_block = BLOCK_BYTES / config.granule_bytes();
        let closed = Front { row: NO_ROW, next: row_granules };
        let plot = |plot: u32| Plot {
            free: (plot * plot_rows..plot * plot_rows + main_rows).collect(),
            host: closed,
            mover: closed,
            cold: closed,
            levelled: None,
            live: 0,
            bounds: Bounds::new(plot_rows as usize),
            cleaning: false,
        };
        let rows = (plots * plot_rows) as usize;
        // A compressed block never straddles two units, so up to per_block - 1 granules of each may stay empty.
        let unit_granules = config.unit_blocks() * per_block;
        let usable = u64::from(unit_granules - (per_block - 1));
        let usable_rows =
            main_rows + 1 - RESERVED - config.cold_rows() - config.mover_rows() - config.fold_rows();
        let plot_live_max = config.data_of(u64::from(usable_rows * (row_granules / unit_granules))) * usable;
        Space {
            plots: (0..plots).map(plot).collect(),
            plot_rows,
            main_rows,
            by_plot: Divisor::new(plot_rows),
            live: vec![NO_VICTIM; rows],
            erases: vec![0; rows],
            filled: vec![0; rows],
            opened: 0,
            policy: config.policy,
            rng: Rng::new(seed),
            low: config.cleaning_low() as usize,
            high: config.cleaning_high() as usize,
            mover_rows: config.mover_rows() as usize,
            fold_rows: config.fold_rows() as usize,
            plot_live_max: plot_live_max as u32,
            full: config.worth_cleaning() * per_block,
            levelling: config.wear_levelling.map(Levelling::new),
            victim_live: 0,
        }
    }

    /// Rows that were cleaned for their wear.
    pub(super) fn levelled_rows(&self) -> u64 {
        self.levelling.map_or(0, |levelling| levelling.chosen)
    }

    /// Starts counting anew.
    pub(super) fn reset_counts(&mut self) {
        self.victim_live = 0;
        self.levelling.iter_mut().for_each(|levelling| levelling.chosen = 0);
    }

    /// Erases of each row.
    #[inline]
    pub(super) fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// The live granules of each row; `None` for one that is erased.
    pub(super) fn live_of_rows(&self) -> impl Iterator<Item = Option<u32>> {
        self.live.iter().map(|&live| (live != NO_VICTIM).then_some(live))
    }

    /// Granules that live data may take.
    #[inline]
    pub(super) fn live_max(&self) -> u64 {
        u64::from(self.plot_live_max) * self.plots.len() as u64
    }

    /// Granules that live data takes.
    #[inline]
    pub(super) fn live(&self) -> u64 {
        self.plots.iter().map(|plot| u64::from(plot.live)).sum()
    }

    #[inline]
    fn plot_of(&self, row: usize) -> usize {
        self.by_plot.divide(row as u32) as usize
    }

    /// Granules of a row have become live.
    #[inline]
    pub(super) fn add_live(&mut self, row: usize, count: u32) {
        self.live[row] += count;
        let plot = self.plot_of(row);
        self.plots[plot].live += count;
    }

    /// Granules of a row are no longer live.
    #[inline]
    pub(super) fn remove_live(&mut self, row: usize, count: u32) {
        self.live[row] -= count;
        let number = self.plot_of(row);
        let plot = &mut self.plots[number];
        plot.live -= count;
        plot.bounds.lower(row - number * self.plot_rows as usize, self.live[row]);
    }

    /// Live granules have been moved into a row of the same plot; [`Space::moved_away`] updates the victim.
    #[inline]
    pub(super) fn moved_to(&mut self, row: usize, count: u32) {
        self.live[row] += count;
    }

    /// Live granules have been moved away from a victim.
    #[inline]
    pub(super) fn moved_away(&mut self, row: usize, count: u32) {
        self.live[row] -= count;
    }

    /// Whether a plot may hold more of the host's data, given whether its open row has room.
    #[inline]
    pub(super) fn can_open(&self, plot: usize, has_room: bool, unit_granules: u32) -> bool {
        let plot = &self.plots[plot];
        // A unit more, so that a drive filled to the brim can still be overwritten.
        let is_free = plot.free.len() > self.mover_rows + self.fold_rows;
        (has_room || is_free) && plot.live < self.plot_live_max + unit_granules
    }

    /// Opens a free row of a plot in place of one of its fronts; cleaning starts if too few are left.
    #[inline]
    pub(super) fn open_row(&mut self, number: usize) -> Front {
        let plot = &mut self.plots[number];
        let row = match plot.levelled {
            None => plot.free.pop_front(),
            Some(_) => wear::take_most_worn(&mut plot.free, &self.erases),
        };
        let row = row.expect("cleaning keeps free rows for itself");
        plot.cleaning |= plot.free.len() < self.low;
        // One of the two fronts leaves its row, which may be cleaned from now on.
        for left in [plot.host.row, plot.mover.row].into_iter().filter(|&left| left != NO_ROW) {
            plot.bounds.lower((left - number as u32 * self.plot_rows) as usize, self.live[left as usize]);
        }
        self.live[row as usize] = 0;
        self.filled[row as usize] = self.opened;
        self.opened += 1;
        Front { row, next: 0 }
    }

    /// Whether a plot has a free row beyond those that are kept for cleaning.
    pub(super) fn has_free_row(&self, plot: usize) -> bool {
        self.plots[plot].free.len() > self.mover_rows
    }

    /// The host's data does not go to its row any more, but to one that is not in the care of the plot.
    pub(super) fn leave_host_row(&mut self, number: usize) {
        let plot = &mut self.plots[number];
        let left = std::mem::replace(&mut plot.host.row, NO_ROW);
        if left != NO_ROW {
            plot.bounds.lower((left - number as u32 * self.plot_rows) as usize, self.live[left as usize]);
        }
    }

    /// A row that is not in the care of its plot is being filled from now on.
    pub(super) fn open_elsewhere(&mut self, row: usize) {
        self.live[row] = 0;
    }

    /// Such a row has been erased; nothing in it is live.
    pub(super) fn erased_elsewhere(&mut self, row: usize) {
        debug_assert_eq!(self.live[row], 0);
        self.live[row] = NO_VICTIM;
        self.erases[row] += 1;
    }

    #[inline]
    pub(super) fn is_cleaning(&self, plot: usize) -> bool {
        self.plots[plot].cleaning
    }

    /// Starts cleaning a plot that has not as many free rows as it should.
    #[inline]
    pub(super) fn start_cleaning(&mut self, plot: usize) {
        let plot = &mut self.plots[plot];
        plot.cleaning |= plot.free.len() < self.high;
    }

    /// Ends all cleaning.
    pub(super) fn stop_cleaning(&mut self) {
        self.plots.iter_mut().for_each(|plot| plot.cleaning = false);
    }

    /// Picks a row of a plot to clean. Ends the cleaning when none is worth it.
    #[inline]
    pub(super) fn choose_victim(&mut self, number: usize) -> Option<u32> {
        let plot = &mut self.plots[number];
        let first = number as u32 * self.plot_rows;
        let range = first as usize..(first + self.main_rows) as usize;
        let live = &mut self.live[range.clone()];
        let open = [plot.host.row, plot.mover.row, plot.cold.row]
            .map(|row| (row != NO_ROW).then(|| (row - first) as usize));
        let counts = open.map(|row| row.map(|row| std::mem::replace(&mut live[row], NO_VICTIM)));
        let (policy, full) = (self.policy, self.full);
        let worn = self.levelling.as_mut().and_then(|wear| wear.victim(live, &self.erases[range.clone()]));
        let victim = worn.or_else(|| {
            victim::choose(policy, live, &mut plot.bounds, &self.filled[range], full, &mut self.rng)
        });
        for (row, count) in open.into_iter().zip(counts) {
            if let (Some(row), Some(count)) = (row, count) {
                live[row] = count;
                plot.bounds.lower(row, count);
            }
        }
        plot.cleaning = victim.is_some();
        let row = first + victim? as u32;
        if worn.is_some() {
            plot.levelled = Some(row);
            std::mem::swap(&mut plot.mover, &mut plot.cold);
        }
        self.victim_live += u64::from(self.live[row as usize]);
        Some(row)
    }

    /// A row has been erased; nothing in it is live. Ends the cleaning of its plot when enough is free.
    #[inline]
    pub(super) fn erased(&mut self, row: usize) {
        debug_assert_eq!(self.live[row], 0);
        self.live[row] = NO_VICTIM;
        self.erases[row] += 1;
        let plot = self.plot_of(row);
        let plot = &mut self.plots[plot];
        if plot.levelled.take_if(|levelled| *levelled == row as u32).is_some() {
            std::mem::swap(&mut plot.mover, &mut plot.cold);
        }
        plot.free.push_back(row as u32);
        if plot.free.len() >= self.high {
            plot.cleaning = false;
        }
    }

    /// Panics unless the counts agree with the live granules of each row.
    #[cfg(test)]
    pub(super) fn verify(&self, live: &[u32]) {
        for (row, &count) in live.iter().enumerate() {
            let known = self.live[row];
            assert_eq!(count, if known == NO_VICTIM { 0 } else { known }, "row {row}");
        }
        for (number, plot) in self.plots.iter().enumerate() {
            let first = number * self.plot_rows as usize;
            assert_eq!(plot.live, live[first..first + self.plot_rows as usize].iter().sum::<u32>());
            assert!(plot.free.iter().all(|&row| self.live[row as usize] == NO_VICTIM));
        }
    }
}
