//! How granules, units, erase blocks, rows and plots are numbered: each is a range of those before it.

use std::ops::Range;

use super::config::Config;
use super::divisor::Divisor;
use crate::BLOCK_BYTES;

/// The granules of a block, one after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The first granule.
    pub(super) at: u32,
    /// The number of granules.
    pub(super) count: u32,
}

/// The numbering of a drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    /// Plots, and the dies of each.
    pub(super) plots: u32,
    pub(super) plot_dies: u32,
    plot_rows: u32,
    pub(super) row_granules: u32,
    pub(super) row_units: u32,
    pub(super) unit_granules: u32,
    pub(super) granule_bytes: u32,
    by_row: Divisor,
    /// By the units of a row.
    by_row_units: Divisor,
    by_unit: Divisor,
    /// By the units of an erase block.
    by_block: Divisor,
    /// By the rows of a plot.
    by_plot: Divisor,
}

impl Geometry {
    pub(super) fn new(config: &Config) -> Geometry {
        let granule_bytes = config.granule_bytes();
        let unit_granules = config.unit_blocks() * (BLOCK_BYTES / granule_bytes);
        let dies = config.all_dies();
        let (plot_dies, plots) = if config.works_with_rows() { (dies, 1) } else { (1, dies) };
        let row_granules = plot_dies * config.pages * unit_granules;
        Geometry {
            plots,
            plot_dies,
            plot_rows: config.erase_blocks,
            row_granules,
            row_units: row_granules / unit_granules,
            unit_granules,
            granule_bytes,
            by_row: Divisor::new(row_granules),
            by_row_units: Divisor::new(row_granules / unit_granules),
            by_unit: Divisor::new(unit_granules),
            by_block: Divisor::new(config.pages),
            by_plot: Divisor::new(config.erase_blocks),
        }
    }

    /// Rows of the drive.
    pub(super) fn rows(&self) -> u32 {
        self.plots * self.plot_rows
    }

    /// Units of the drive.
    pub(super) fn units(&self) -> u32 {
        self.rows() * self.row_units
    }

    /// The unit of a granule.
    #[inline]
    pub(super) fn unit_of(&self, at: u32) -> u32 {
        self.by_unit.divide(at)
    }

    /// The row of a granule.
    #[inline]
    pub(super) fn row_of(&self, at: u32) -> usize {
        self.by_row.divide(at) as usize
    }

    /// The row of a unit.
    #[inline]
    pub(super) fn row_of_unit(&self, unit: u32) -> usize {
        self.by_row_units.divide(unit) as usize
    }

    /// The die of a unit.
    #[inline]
    pub(super) fn die_of(&self, unit: u32) -> u32 {
        let block = self.by_block.divide(unit);
        if self.plot_dies == 1 { self.by_plot.divide(block) } else { block % self.plot_dies }
    }

    /// The plot of a die.
    #[inline]
    pub(super) fn plot_of(&self, die: u32) -> usize {
        if self.plot_dies == 1 { die as usize } else { 0 }
    }

    /// The granules of a row.
    pub(super) fn granules_of(&self, row: u32) -> Range<u32> {
        row * self.row_granules..(row + 1) * self.row_granules
    }

    /// The units of a row.
    pub(super) fn units_of(&self, row: u32) -> Range<u32> {
        row * self.row_units..(row + 1) * self.row_units
    }
}
