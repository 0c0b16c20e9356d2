//! Sequential addressing: the homes of consecutive blocks of a grown array, a batch at a time.
//!
//! Within a batch the steps of the history are the outer loop and the blocks the inner one, without a branch or a
//! division, so that the compiler makes vectors of it.

use crate::fastscale::{FastScale, Step};
use crate::geometry::Home;

/// Blocks of a batch.
const BATCH: usize = 64;
/// 2^16 / width, rounded up, divides numbers below width + [`BATCH`] exactly for every width up to this.
const WIDTH_MAX: u32 = 256;
const _: () = assert!(crate::MEMBERS_MAX <= WIDTH_MAX);

/// Gives the homes of the blocks from some block to the end of the array.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    array: &'a FastScale,
    /// The first block that no batch has had yet.
    next: u64,
    disks: [u16; BATCH],
    /// Rows of the batch, from its first.
    rows: [u16; BATCH],
    row_first: u32,
    at: usize,
    len: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(array: &'a FastScale, first: u64) -> Cursor<'a> {
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
        let base = self.array.history().base() as u16;
        let mut disk = (block % u64::from(base)) as u16;
        self.row_first = (block / u64::from(base)) as u32;
        let mut row = 0;
        for (d, r) in self.disks.iter_mut().zip(&mut self.rows) {
            (*d, *r) = (disk, row);
            disk += 1;
            if disk == base {
                (disk, row) = (0, row + 1);
            }
        }
    }

    fn place_new(&mut self, step: &Step, new: u64) {
        let added = u64::from(step.added);
        let mut rank = (new % added) as u32;
        self.row_first = (new / added) as u32;
        let (mut row, mut e) = (0, step.place(self.row_first));
        for (d, r) in self.disks.iter_mut().zip(&mut self.rows) {
            (*d, *r) = (step.placed(e, rank) as u16, row);
            rank += 1;
            if rank == step.added {
                (rank, row, e) = (0, row + 1, if e + 1 == step.width() { 0 } else { e + 1 });
            }
        }
    }

    /// Takes the batch through one addition.
    fn after(&mut self, step: &Step) {
        let (m, n, width) = (step.old as u16, step.added as u16, step.width() as u16);
        let first = step.place(self.row_first) as u16;
        let reciprocal = reciprocal(width);
        let (low, high) = (m.min(n), m.max(n));
        // Branches on m > n belong outside of the loop: with `falls`, the shift is low..high of width - 1 - e.
        let falls = if m > n { u16::MAX } else { 0 };
        let begin = if m > n { width } else { 1 };
        for (disk, row) in self.disks.iter_mut().zip(&self.rows) {
            let e = remainder(first + row, width, reciprocal);
            // `e ^ MAX` is -1 - e.
            let shift = begin.wrapping_add(e ^ falls).clamp(low, high);
            let moves = e.wrapping_sub(*disk) < n;
            *disk += if moves { shift } else { 0 };
        }
    }
}

fn reciprocal(width: u16) -> u16 {
    (65535 / u32::from(width) + 1) as u16
}

#[inline]
fn remainder(x: u16, width: u16, reciprocal: u16) -> u16 {
    let quotient = ((u32::from(x) * u32::from(reciprocal)) >> 16) as u16;
    x - quotient * width
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
    fn the_reciprocal_divides_exactly() {
        for width in 2..=WIDTH_MAX as u16 {
            for x in 0..width + BATCH as u16 {
                assert_eq!(remainder(x, width, reciprocal(width)), x % width, "{x} mod {width}");
            }
        }
    }
}
