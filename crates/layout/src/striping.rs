//! A striped array that can grow: one of three addressings, and the way from one to the next while it is in use.
//!
//! Disks here are sets of members that hold the same, or single members where there are no copies. Every block of the
//! array has a *key*, and blocks move in the order of their keys: those below some key are where the new addressing has
//! them, the others where the old one has them. So one number says how far it is.

use std::ops::Range;

use crate::fastscale::FastScale;
use crate::geometry::Home;
use crate::history::{History, HistoryError};
use crate::moves::Move;
use crate::round_robin::{RoundRobin, SemiRoundRobin};

/// How an array is striped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripingKind {
    /// As a new array of as many disks would be.
    RoundRobin,
    /// [`SemiRoundRobin`].
    SemiRoundRobin,
    /// [`FastScale`].
    FastScale,
}

/// Where the blocks of a striped array are.
#[derive(Clone, Debug)]
pub enum Striping {
    /// Over the last number of disks of its history, whatever the others were.
    RoundRobin(RoundRobin),
    /// Least moves, no new space.
    SemiRoundRobin(SemiRoundRobin),
    /// Least moves.
    FastScale(FastScale),
}

/// One addition of disks under way.
#[derive(Clone, Debug)]
pub struct Growth {
    from: Striping,
    to: Striping,
    rows: u32,
    /// Blocks of the array before.
    blocks: u64,
    /// Disks before and after.
    disks: (u32, u32),
}

impl Striping {
    /// The addressing of an array of this kind and history, with `rows` rows.
    ///
    /// # Errors
    /// When FastScale cannot address `rows`.
    pub fn new(kind: StripingKind, history: History, rows: u32) -> Result<Striping, HistoryError> {
        Ok(match kind {
            StripingKind::RoundRobin => Striping::RoundRobin(RoundRobin::new(history.width())),
            StripingKind::SemiRoundRobin => Striping::SemiRoundRobin(SemiRoundRobin::new(history)),
            StripingKind::FastScale => Striping::FastScale(FastScale::new(history, rows)?),
        })
    }

    /// Where a block is.
    #[inline]
    pub fn home(&self, block: u64) -> Home {
        match self {
            Striping::RoundRobin(striping) => striping.home(block),
            Striping::SemiRoundRobin(striping) => striping.home(block),
            Striping::FastScale(striping) => striping.home(block),
        }
    }

    /// The block whose place this is, should the array be large enough to have it.
    fn block_at(&self, home: Home) -> Option<u64> {
        match self {
            Striping::RoundRobin(striping) => Some(striping.block_at(home)),
            Striping::SemiRoundRobin(striping) => striping.block_at(home),
            Striping::FastScale(striping) => Some(striping.block_at(home)),
        }
    }
}

/// Blocks of an array of this kind and history, with `rows` rows.
pub fn blocks(kind: StripingKind, history: &History, rows: u32) -> u64 {
    let disks = if kind == StripingKind::SemiRoundRobin { history.base() } else { history.width() };
    u64::from(disks) * u64::from(rows)
}

impl Growth {
    /// The last addition of a history. `from` and `to` are the kinds before and after it: round-robin becomes anything, the
    /// others only go on.
    ///
    /// # Errors
    /// When FastScale cannot address `rows`.
    ///
    /// # Panics
    /// When there was no addition, or the kinds do not go together.
    pub fn new(
        from: StripingKind,
        to: StripingKind,
        history: &History,
        rows: u32,
    ) -> Result<Growth, HistoryError> {
        assert!(from == to || from == StripingKind::RoundRobin, "{from:?} does not become {to:?}");
        let before = history.before_last().expect("a growth has an addition");
        let disks = (before.width(), history.width());
        let blocks = blocks(from, &before, rows);
        // What round-robin has left counts as new: where it began is where the others begin.
        let after = match from {
            StripingKind::RoundRobin => History::new(disks.0)?.with(disks.1 - disks.0)?,
            _ => history.clone(),
        };
        let (from, to) = (Striping::new(from, before, rows)?, Striping::new(to, after, rows)?);
        Ok(Growth { from, to, rows, blocks, disks })
    }

    /// One more than the last key.
    pub fn end(&self) -> u64 {
        if self.by_rows() { u64::from(self.rows) } else { self.blocks }
    }

    /// FastScale goes through the rows, which keeps long runs together; the others through the blocks, which is the only
    /// order in which round-robin overwrites nothing that is still needed.
    fn by_rows(&self) -> bool {
        matches!(self.to, Striping::FastScale(_))
    }

    /// The key of a block.
    #[inline]
    pub fn key(&self, block: u64) -> u64 {
        if self.by_rows() { self.from.home(block).chunk } else { block }
    }

    /// Where a block is when everything below the key `done` has moved.
    #[inline]
    pub fn home(&self, block: u64, done: u64) -> Home {
        // In FastScale a block stays in its row.
        let before = self.from.home(block);
        let key = if self.by_rows() { before.chunk } else { block };
        if key < done { self.to.home(block) } else { before }
    }

    /// Blocks that move, with keys in this range, and their ways.
    pub fn moves(&self, keys: Range<u64>) -> impl Iterator<Item = (u64, Move)> + '_ {
        let cells = if self.by_rows() { u64::from(self.disks.0) } else { 1 };
        let cells = keys.start * cells..keys.end * cells;
        cells.filter_map(move |cell| {
            let block = if self.by_rows() {
                let home = Home {
                    member: (cell % u64::from(self.disks.0)) as u32,
                    chunk: cell / u64::from(self.disks.0),
                };
                self.from.block_at(home)?
            } else {
                cell
            };
            let (from, to) = (self.from.home(block), self.to.home(block));
            (from != to).then_some((block, Move { from, to }))
        })
    }

    /// About how many blocks still have to move when everything below a key has.
    pub fn left(&self, done: u64) -> u64 {
        let (m, n) = (u64::from(self.disks.0), u64::from(self.disks.1 - self.disks.0));
        let keys = self.end().saturating_sub(done);
        match &self.to {
            Striping::FastScale(_) => (keys * m * n).div_ceil(m + n),
            Striping::SemiRoundRobin(_) => (keys * n).div_ceil(m + n),
            Striping::RoundRobin(_) => keys,
        }
    }

    /// The key at which a batch that begins at `from` and spans at least `keys` keys should end: of FastScale, with the
    /// region.
    pub fn batch_end(&self, from: u64, keys: u64) -> u64 {
        let end = (from + keys).min(self.end());
        match &self.to {
            Striping::FastScale(to) => to.region_end(end.saturating_sub(1)).min(self.end()),
            _ => end,
        }
    }

    /// The key of the block that was at a place before the growth, if any was.
    pub fn key_before(&self, home: Home) -> Option<u64> {
        let was = home.member < self.disks.0;
        let block = was.then(|| self.from.block_at(home)).flatten().filter(|&block| block < self.blocks)?;
        Some(self.key(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const ROWS: u32 = 61;

    fn ways() -> Vec<(StripingKind, StripingKind, History)> {
        use StripingKind::*;
        let history = |base, added: &[u32]| {
            added.iter().fold(History::new(base).unwrap(), |history, &n| history.with(n).unwrap())
        };
        vec![
            (RoundRobin, RoundRobin, history(4, &[2])),
            (RoundRobin, RoundRobin, history(1, &[1])),
            (RoundRobin, SemiRoundRobin, history(3, &[2])),
            (SemiRoundRobin, SemiRoundRobin, history(3, &[2, 1, 4])),
            (RoundRobin, FastScale, history(4, &[2])),
            (FastScale, FastScale, history(2, &[3, 1, 1])),
        ]
    }

    /// Contents follow the moves in batches; nothing is overwritten that is not known to have moved, and each block is
    /// where `home` says at every key.
    #[test]
    fn content_follows_the_plan() {
        for (from, to, history) in ways() {
            let growth = Growth::new(from, to, &history, ROWS).unwrap();
            let mut content: BTreeMap<Home, u64> =
                (0..growth.blocks).map(|block| (growth.home(block, 0), block)).collect();
            assert_eq!(content.len() as u64, growth.blocks, "no two blocks share a place");
            let (mut done, mut moved) = (0, 0);
            while done < growth.end() {
                let upto = growth.batch_end(done, 3);
                // Batches may have to be cut where they would overwrite what has not moved yet.
                let blocked = growth.moves(done..upto).find_map(|(block, way)| {
                    let blocked = growth.key_before(way.to).is_some_and(|key| key >= done);
                    blocked.then(|| growth.key(block))
                });
                let upto = blocked.unwrap_or(upto);
                assert!(upto > done, "{from:?} to {to:?}: stuck at {done}");
                for (block, way) in growth.moves(done..upto) {
                    assert_eq!(content.get(&way.from), Some(&block));
                    content.insert(way.to, block);
                    moved += 1;
                }
                done = upto;
                for block in 0..growth.blocks {
                    assert_eq!(
                        content.get(&growth.home(block, done)),
                        Some(&block),
                        "{from:?} to {to:?} at {done}"
                    );
                }
            }
            let (m, n) = (growth.disks.0, growth.disks.1 - growth.disks.0);
            let least = growth.blocks as f64 * f64::from(n) / f64::from(m + n);
            if to != StripingKind::RoundRobin {
                assert!(
                    (f64::from(moved) - least).abs() <= f64::from(2 * (m + n)),
                    "{moved} moved, {least} expected"
                );
            }
        }
    }

    #[test]
    fn what_has_grown_is_addressed_as_it_was_while_growing() {
        for (from, to, history) in ways() {
            let growth = Growth::new(from, to, &history, ROWS).unwrap();
            let settled = match to {
                StripingKind::RoundRobin => History::new(history.width()).unwrap(),
                _ => history.clone(),
            };
            let striping = Striping::new(to, settled.clone(), ROWS).unwrap();
            for block in 0..growth.blocks {
                let home = growth.home(block, growth.end());
                assert_eq!(striping.home(block), home);
                assert_eq!(striping.block_at(home), Some(block));
            }
            let all = blocks(to, &settled, ROWS);
            let places: std::collections::BTreeSet<Home> =
                (0..all).map(|block| striping.home(block)).collect();
            assert_eq!(places.len() as u64, all);
            assert!(places.iter().all(|home| home.chunk < u64::from(ROWS) && home.member < history.width()));
        }
    }
}
