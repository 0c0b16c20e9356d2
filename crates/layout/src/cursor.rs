//! Sequential addressing: the addresses of consecutive blocks of a grown array, a batch at a time.
//!
//! Within a batch the steps of the history are the outer loop and the blocks the inner one, without a branch or a
//! division, so that the compiler vectorises it.

use crate::fastscale::{FastScale, Step};
use crate::geometry::Home;

/// Blocks of a batch.
const BATCH: usize = 128;
/// [`Divisor`] is exact for divisors up to this.
const WIDTH_MAX: u32 = 256;
const _: () = assert!(crate::MEMBERS_MAX <= WIDTH_MAX);

/// An iterator over the addresses of the blocks from a given block to the end of the array.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    array: &'a FastScale,
    /// The first block after the batches so far.
    next: u64,
    disks: [u16; BATCH],
    /// Rows of the batch, from its first.
    rows: [u16; BATCH],
    row_first: u32,
    at: usize,
    len: usize,
}

impl FastScale {
    /// Addresses the blocks from `first` on, in order; many times faster than one call for each block.
    pub fn cursor(&self, first: u64) -> Cursor<'_> {
        Cursor::new(self, first)
    }
}

impl<'a> Cursor<'a> {
    fn new(array: &'a FastScale, first: u64) -> Cursor<'a> {
        Cursor { array, next: first, disks: [0; BATCH], rows: [0; BATCH], row_first: 0, at: 0, len: 0 }
    }

    /// Addresses the next batch. Blocks of one batch were all new with the same addition.
    #[inline(never)]
    fn fill(&mut self) {
        let (array, block) = (self.array, self.next);
        let born = array.born(block);
        let end = array.steps().get(born).map_or(array.blocks(), |step| step.first);
        self.at = 0;
        self.len = (end - block).min(BATCH as u64) as usize;
        self.next += self.len as u64;
        match born.checked_sub(1).map(|i| &array.steps()[i]) {
            None => self.place_base(block),
            Some(step) => self.place_new(step, block - step.first),
        }
        for step in &array.steps()[born..] {
            self.after(step);
        }
    }

    fn place_base(&mut self, block: u64) {
        let base = self.array.history().base();
        let by = Divisor::new(base as u16);
        self.row_first = (block / u64::from(base)) as u32;
        let first = (block % u64::from(base)) as u16;
        for (i, (disk, row)) in self.disks.iter_mut().zip(&mut self.rows).enumerate() {
            (*row, *disk) = by.divide(first + i as u16);
        }
    }

    fn place_new(&mut self, step: &Step, new: u64) {
        let added = u64::from(step.added);
        self.row_first = (new / added) as u32;
        let first = (new % added) as u16;
        let (m, n) = (step.old as u16, step.added as u16);
        let (by_added, by_width) = (Divisor::new(n), Divisor::new(step.width() as u16));
        let e_first = step.place(self.row_first) as u16;
        for (i, (disk, row)) in self.disks.iter_mut().zip(&mut self.rows).enumerate() {
            let (quotient, rank) = by_added.divide(first + i as u16);
            let (_, e) = by_width.divide(e_first + quotient);
            // `Step::placed` without branches.
            let early = rank + if rank <= e { 0 } else { m };
            let late = (rank + e + 1).wrapping_sub(n);
            (*row, *disk) = (quotient, if e < n { early } else { late });
        }
    }

    /// Applies one addition to the batch.
    fn after(&mut self, step: &Step) {
        let (m, n, width) = (step.old as u16, step.added as u16, step.width() as u16);
        let first = step.place(self.row_first) as u16;
        let by = Divisor::new(width);
        let (low, high) = (m.min(n) as i16, m.max(n) as i16);
        // Branches on m > n belong outside of the loop: with `falls`, the shift is low..high of width - 1 - e.
        let falls = if m > n { u16::MAX } else { 0 };
        let begin = if m > n { width } else { 1 };
        for (disk, row) in self.disks.iter_mut().zip(&self.rows) {
            let (_, e) = by.divide(first + row);
            // `e ^ MAX` is -1 - e.
            let shift = (begin.wrapping_add(e ^ falls) as i16).max(low).min(high) as u16;
            let moves = e.wrapping_sub(*disk) < n;
            *disk += if moves { shift } else { 0 };
        }
    }
}

/// Divides small numbers by multiplying: 16 bits by 16 bits, of which vector units do eight at once or more.
#[derive(Clone, Copy)]
struct Divisor {
    by: u16,
    /// 2^16 / `by`, rounded up; not for 1, for which it does not fit.
    reciprocal: u16,
}

impl Divisor {
    fn new(by: u16) -> Divisor {
        Divisor { by, reciprocal: (65535 / u32::from(by) + 1) as u16 }
    }

    /// Quotient and remainder of a number less than `by` + [`BATCH`].
    #[inline(always)]
    fn divide(self, x: u16) -> (u16, u16) {
        let product = (u32::from(x) * u32::from(self.reciprocal)) >> 16;
        let quotient = if self.by == 1 { x } else { product as u16 };
        (quotient, x - quotient * self.by)
    }
}

impl Iterator for Cursor<'_> {
    type Item = Home;

    #[inline]
    fn next(&mut self) -> Option<Home> {
        if self.at == self.len {
            if self.next >= self.array.blocks() {
                return None;
            }
            self.fill();
        }
        let at = self.at;
        self.at += 1;
        Some(Home {
            member: u32::from(self.disks[at % BATCH]),
            chunk: u64::from(self.row_first) + u64::from(self.rows[at % BATCH]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_is_exact() {
        for by in 1..=WIDTH_MAX as u16 {
            for x in 0..by + BATCH as u16 {
                assert_eq!(Divisor::new(by).divide(x), (x / by, x % by), "{x} by {by}");
            }
        }
    }
}
