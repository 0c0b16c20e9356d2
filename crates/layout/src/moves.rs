//! The copies of one addition to a FastScale array, as few long accesses.
//!
//! "Access aggregation" (FAST '11, section 3.1): within a region of m + n rows, the blocks that leave an old disk are
//! consecutive rows of it, and the blocks that come to a new disk are consecutive rows of that. So m reads and n
//! writes carry the m * n blocks of a whole region. Blocks never overwrite live ones, so regions can be copied in
//! any order, and a crash before the new history is recorded loses nothing.

use crate::fastscale::{FastScale, Step};
use crate::geometry::Home;

/// Consecutive rows of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its first block.
    pub first: Home,
    /// The number of blocks.
    pub len: u32,
}

/// The move of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its address before.
    pub from: Home,
    /// Its address after.
    pub to: Home,
}

/// A region of the last addition: m + n rows, fewer at either end of the disks.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    step: Step,
    first: u32,
    len: u32,
    /// The number of its first row in the region; not 0 only for a region that is cut off at the top.
    e: u32,
}

impl FastScale {
    /// The regions of the last addition, from the first row to the last; none if there was no addition.
    ///
    /// Addressing before it is the same array without its last addition.
    pub fn regions(&self) -> impl Iterator<Item = Region> {
        let (step, rows) = (self.steps().last().copied(), self.rows());
        let mut next = 0;
        std::iter::from_fn(move || {
            let step = step.filter(|_| next < rows)?;
            let e = step.place(next);
            let len = (step.width() - e).min(rows - next);
            let region = Region { step, first: next, len, e };
            next += len;
            Some(region)
        })
    }

    /// The end of the region of the last addition that contains a row, or the number of rows if that is smaller.
    pub fn region_end(&self, row: u64) -> u64 {
        let end = self
            .steps()
            .last()
            .map_or(u64::from(self.rows()), |step| row + u64::from(step.width() - step.place(row as u32)));
        end.min(u64::from(self.rows()))
    }
}

impl Region {
    /// The rows that it spans.
    pub fn rows(&self) -> std::ops::Range<u64> {
        u64::from(self.first)..u64::from(self.first + self.len)
    }

    /// The reads: one run of each old disk from which blocks move.
    pub fn reads(&self) -> impl Iterator<Item = Run> {
        let region = *self;
        (0..self.step.old).filter_map(move |disk| region.run(disk, disk, region.step.added))
    }

    /// The writes: one run of each new disk that receives blocks.
    pub fn writes(&self) -> impl Iterator<Item = Run> {
        let region = *self;
        (0..self.step.added).filter_map(move |i| region.run(region.step.old + i, i, region.step.old))
    }

    /// The move of each block, in the order of [`Region::reads`].
    pub fn moves(&self) -> impl Iterator<Item = Move> {
        let region = *self;
        self.reads().flat_map(move |run| {
            (0..run.len).map(move |i| {
                let from = Home { member: run.first.member, chunk: run.first.chunk + u64::from(i) };
                let e = region.e + (from.chunk as u32 - region.first);
                Move { from, to: Home { member: region.step.after(from.member, e), chunk: from.chunk } }
            })
        })
    }

    /// Rows `e` to `e + len` of the region on a disk, as far as they exist.
    fn run(&self, disk: u32, e: u32, len: u32) -> Option<Run> {
        let (from, to) = (e.max(self.e), (e + len).min(self.e + self.len));
        let chunk = u64::from(self.first) + u64::from(from.checked_sub(self.e)?);
        (from < to).then(|| Run { first: Home { member: disk, chunk }, len: to - from })
    }
}
