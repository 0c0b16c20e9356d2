//! FastScale: striping that moves the fewest blocks when it grows, with computed addresses.
//!
//! Zheng and Zhang, "FastScale: Accelerate RAID Scaling by Minimizing Data Migration", FAST '11. An addition of n
//! disks to m moves, in every *region* of m + n rows, a parallelogram of n blocks of each old disk to the new disks,
//! each within its row. The vacated cells of the old disks, and the cells of the new disks that receive no moved block, are for new blocks.
//!
//! Let e be the number of a row in its region. The three tables of the paper amount to these rules, which the tests
//! compare with the printed tables:
//!
//! - a block of old disk d moves if 0 <= e - d < n (Table 1, line 8);
//! - it moves by `shift(e)` disks, whatever d is (Table 2);
//! - a cell of any disk d, old or new, is for new blocks exactly if (e - d) mod (m + n) < n (Table 3).
//!
//! The inverse mapping, which the paper omits, follows from them.

use crate::geometry::Home;
use crate::history::{Addition, History, HistoryError, check_rows};

/// The addressing of a striped array that has grown. For mirrors see [`FastScale::mirrored`].
#[derive(Clone, Debug)]
pub struct FastScale {
    history: History,
    rows: u32,
    steps: Vec<Step>,
}

/// One addition of members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Disks before: m.
    pub(crate) old: u32,
    /// Disks added: n.
    pub(crate) added: u32,
    /// The first block that is new with this addition: m times the rows.
    pub(crate) first: u64,
    /// Added to a row before it is taken modulo m + n, so that regions begin at θ = m - H[0] (Table 1, line 4).
    pub(crate) turn: u32,
    /// 2^64 / (m + n), rounded up.
    reciprocal: u64,
}

impl Step {
    fn new(Addition { old, width }: Addition, base: u32, rows: u32) -> Step {
        let theta = old - base;
        Step {
            old,
            added: width - old,
            first: u64::from(old) * u64::from(rows),
            turn: (width - theta % width) % width,
            reciprocal: u64::MAX / u64::from(width) + 1,
        }
    }

    /// Disks after: m + n, which is also the rows of a region.
    pub(crate) fn width(&self) -> u32 {
        self.old + self.added
    }

    /// The number of a row in its region: e = (row - θ) mod (m + n).
    ///
    /// By multiplication with the reciprocal, exact for 32-bit numbers: Lemire, Kaser and Kurz, "Faster remainder by
    /// direct computation", Software: Practice and Experience 49(6), 2019.
    #[inline]
    pub(crate) fn place(&self, row: u32) -> u32 {
        let fraction = self.reciprocal.wrapping_mul(u64::from(row + self.turn));
        ((u128::from(fraction) * u128::from(self.width())) >> 64) as u32
    }

    /// The number of disks by which a block of place e moves, if it moves (Table 2).
    #[inline]
    pub(crate) fn shift(&self, e: u32) -> u32 {
        let (m, n) = (self.old, self.added);
        if m > n { (m + n - 1).wrapping_sub(e).clamp(n, m) } else { (e + 1).clamp(m, n) }
    }

    /// The disk, after the addition, of a block of an old disk.
    #[inline]
    pub(crate) fn after(&self, disk: u32, e: u32) -> u32 {
        if e.wrapping_sub(disk) < self.added { disk + self.shift(e) } else { disk }
    }

    /// The disk of the new block that is number `rank` in its row (Table 3).
    #[inline]
    pub(crate) fn placed(&self, e: u32, rank: u32) -> u32 {
        match e < self.added {
            true if rank <= e => rank,
            true => rank + self.old,
            false => rank + e + 1 - self.added,
        }
    }

    /// The number of a cell among those for new blocks in its row; `None` if it is not for a new block.
    fn rank(&self, disk: u32, e: u32) -> Option<u32> {
        let behind = if e >= disk { e - disk } else { e + self.width() - disk };
        if behind >= self.added {
            return None;
        }
        Some(match e < self.added {
            true if disk <= e => disk,
            true => disk - self.old,
            false => disk + self.added - 1 - e,
        })
    }

    /// The disk of the block of a cell before the addition.
    fn before(&self, disk: u32, e: u32) -> u32 {
        if disk < self.old { disk } else { disk - self.shift(e) }
    }
}

impl FastScale {
    /// An array with this history and `rows` rows (blocks of each disk).
    ///
    /// # Errors
    /// When `rows` is 0 or more than can be addressed.
    pub fn new(history: History, rows: u32) -> Result<FastScale, HistoryError> {
        check_rows(rows)?;
        let steps = history.steps().map(|step| Step::new(step, history.base(), rows)).collect();
        Ok(FastScale { history, rows, steps })
    }

    /// The history.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Blocks of each disk.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Blocks of the array.
    pub fn blocks(&self) -> u64 {
        u64::from(self.history.width()) * u64::from(self.rows)
    }

    /// The address of a block (Table 1).
    #[inline]
    pub fn home(&self, block: u64) -> Home {
        assert!(block < self.blocks(), "block {block} is beyond the array");
        let born = self.born(block);
        let (mut disk, row) = self.birth_place(born, block);
        for step in &self.steps[born..] {
            disk = step.after(disk, step.place(row));
        }
        Home { member: disk, chunk: u64::from(row) }
    }

    /// The block at an address. Every address has one.
    pub fn block_at(&self, home: Home) -> u64 {
        assert!(
            home.member < self.history.width() && home.chunk < u64::from(self.rows),
            "{home:?}: beyond the array"
        );
        let (mut disk, row) = (home.member, home.chunk as u32);
        for step in self.steps.iter().rev() {
            let e = step.place(row);
            if let Some(rank) = step.rank(disk, e) {
                return step.first + u64::from(row) * u64::from(step.added) + u64::from(rank);
            }
            disk = step.before(disk, e);
        }
        u64::from(row) * u64::from(self.history.base()) + u64::from(disk)
    }

    /// The same array with a set of `copies` members for every disk: RAID 10 that grows by whole sets.
    pub fn mirrored(self, copies: u32) -> Mirrored {
        assert!(
            copies > 0 && self.history.width() * copies <= crate::MEMBERS_MAX,
            "{copies} copies are too many"
        );
        Mirrored { sets: self, copies }
    }

    /// The number of additions before a block existed.
    #[inline]
    pub(crate) fn born(&self, block: u64) -> usize {
        self.steps.iter().map(|step| usize::from(block >= step.first)).sum()
    }

    /// The first disk and row of a block.
    #[inline]
    pub(crate) fn birth_place(&self, born: usize, block: u64) -> (u32, u32) {
        let Some(step) = born.checked_sub(1).map(|i| &self.steps[i]) else {
            let base = u64::from(self.history.base());
            return ((block % base) as u32, (block / base) as u32);
        };
        let (new, added) = (block - step.first, u64::from(step.added));
        let row = (new / added) as u32;
        (step.placed(step.place(row), (new % added) as u32), row)
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// RAID 10 that grows: FastScale over sets of members that hold the same.
///
/// The paper claims support of RAID 10 and RAID 01 without details (section 1). Set d is members d * copies to
/// d * copies + copies - 1, which for a history without additions is md's near layout.
#[derive(Clone, Debug)]
pub struct Mirrored {
    sets: FastScale,
    copies: u32,
}

impl Mirrored {
    /// The addressing of the sets.
    pub fn sets(&self) -> &FastScale {
        &self.sets
    }

    /// Members of a set.
    pub fn copies(&self) -> u32 {
        self.copies
    }

    /// The addresses of all copies of a block.
    pub fn homes(&self, block: u64) -> impl Iterator<Item = Home> {
        let (set, copies) = (self.sets.home(block), self.copies);
        (0..copies).map(move |copy| Home { member: set.member * copies + copy, chunk: set.chunk })
    }

    /// The block at an address, and the number of its copy.
    pub fn block_at(&self, home: Home) -> (u64, u32) {
        let set = Home { member: home.member / self.copies, chunk: home.chunk };
        (self.sets.block_at(set), home.member % self.copies)
    }
}
