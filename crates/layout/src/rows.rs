//! The rows of an array with parity, each of which is a stripe, while an addition of members is under way and after it.
//!
//! Rows change one after the other in the order of their *keys*: those below some key are as they will be, the others as
//! they were. So one number says what is where, and a row is never something in between. Columns are powers of the
//! generator, as in [`crate::geometry`]; a chunk keeps its column as long as it stays in its row.

use std::ops::Range;

use crate::geometry::Geometry;
use crate::spread::{Fate, Order, Spread};

/// Where chunks are in an array with parity that grows or has grown.
#[derive(Clone, Debug)]
pub struct Rows(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// Grown by spread.
    Spread(Spread),
    /// Growing by spread.
    Spreading { before: Spread, after: Spread, order: Order },
    /// Growing by restripe, in the order of the rows.
    Restriping { before: Geometry, after: Geometry },
}

/// A data column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The row.
    pub row: u64,
    /// The column.
    pub column: u32,
}

/// What is done to one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The row.
    pub row: u64,
    /// Its columns stay, and it gets others. Else it is made anew, and columns that nothing comes to are zeros.
    pub keeps: bool,
    /// Columns that come from elsewhere, and from where.
    pub gains: Vec<(u32, Cell)>,
}

/// Whether a row is asked for as it was or as it will be.
enum Row<'a> {
    Spread(&'a Spread),
    Standard(&'a Geometry),
}

impl Row<'_> {
    fn columns(&self, row: u64) -> u32 {
        match self {
            Row::Spread(spread) => spread.columns(row),
            Row::Standard(geometry) => geometry.members() - geometry.parities(),
        }
    }

    fn cell(&self, chunk: u64) -> Cell {
        let (row, column) = match self {
            Row::Spread(spread) => spread.stripe_column(chunk),
            Row::Standard(geometry) => (geometry.stripe_of(chunk), geometry.column_of(chunk)),
        };
        Cell { row, column }
    }

    fn chunk(&self, cell: Cell) -> u64 {
        match self {
            Row::Spread(spread) => spread.logical(cell.row, cell.column),
            Row::Standard(geometry) => geometry.chunk_in(cell.row, cell.column),
        }
    }

    fn member(&self, cell: Cell) -> u32 {
        match self {
            Row::Spread(spread) => spread.member(cell.row, cell.column),
            Row::Standard(geometry) => geometry.column_home(cell.row, cell.column).member,
        }
    }

    fn parity(&self, row: u64, which: usize) -> u32 {
        let home = match self {
            Row::Spread(spread) => spread.parity(row).nth(which),
            Row::Standard(geometry) => geometry.parity(row).nth(which),
        };
        home.expect("a parity of the array").member
    }

    fn members(&self) -> u32 {
        match self {
            Row::Spread(spread) => spread.members(),
            Row::Standard(geometry) => geometry.members(),
        }
    }
}

impl Rows {
    /// An array that has grown by spread.
    pub fn spread(spread: Spread) -> Rows {
        Rows(Kind::Spread(spread))
    }

    /// An array in the last addition of its history, by spread.
    ///
    /// # Panics
    /// When there was no addition.
    pub fn spreading(after: Spread) -> Rows {
        let order = after.order().expect("an addition");
        Rows(Kind::Spreading { before: after.before_last(), after, order })
    }

    /// An array that is being restriped.
    pub fn restriping(before: Geometry, after: Geometry) -> Rows {
        Rows(Kind::Restriping { before, after })
    }

    fn before(&self) -> Row<'_> {
        match &self.0 {
            Kind::Spread(spread) | Kind::Spreading { before: spread, .. } => Row::Spread(spread),
            Kind::Restriping { before, .. } => Row::Standard(before),
        }
    }

    fn after(&self) -> Row<'_> {
        match &self.0 {
            Kind::Spread(spread) | Kind::Spreading { after: spread, .. } => Row::Spread(spread),
            Kind::Restriping { after, .. } => Row::Standard(after),
        }
    }

    /// How a row is when those below the key `done` have changed.
    fn now(&self, row: u64, done: u64) -> Row<'_> {
        if self.key(row) < done { self.after() } else { self.before() }
    }

    /// Whether an addition is under way.
    pub fn grows(&self) -> bool {
        !matches!(self.0, Kind::Spread(_))
    }

    /// One more than the last key; 0 when no addition is under way.
    pub fn end(&self) -> u64 {
        match &self.0 {
            Kind::Spread(_) => 0,
            Kind::Spreading { order, .. } => order.end(),
            Kind::Restriping { after, .. } => after.stripes(),
        }
    }

    /// The key of a row.
    pub fn key(&self, row: u64) -> u64 {
        match &self.0 {
            Kind::Spread(_) | Kind::Restriping { .. } => row,
            Kind::Spreading { order, .. } => order.key(row),
        }
    }

    /// Chunks that there is room for: before the addition under way, if there is one.
    pub fn chunks(&self) -> u64 {
        match &self.0 {
            Kind::Spread(spread) | Kind::Spreading { before: spread, .. } => spread.data_chunks(),
            Kind::Restriping { before, .. } => before.data_chunks(),
        }
    }

    /// Data columns of a row.
    pub fn columns(&self, row: u64, done: u64) -> u32 {
        self.now(row, done).columns(row)
    }

    /// Where a chunk is.
    pub fn cell(&self, chunk: u64, done: u64) -> Cell {
        if self.grows() && chunk < self.chunks() {
            let after = self.after().cell(chunk);
            if self.key(after.row) < done { after } else { self.before().cell(chunk) }
        } else {
            self.after().cell(chunk)
        }
    }

    /// The chunk in a data column of a row; `None` where that holds none, or none any more.
    pub fn chunk(&self, cell: Cell, done: u64) -> Option<u64> {
        Some(self.now(cell.row, done).chunk(cell)).filter(|&chunk| self.cell(chunk, done) == cell)
    }

    /// The member that has a data column.
    pub fn member(&self, cell: Cell, done: u64) -> u32 {
        self.now(cell.row, done).member(cell)
    }

    /// The member that has P, or Q, of a row.
    pub fn parity(&self, row: u64, which: usize, done: u64) -> u32 {
        self.now(row, done).parity(row, which)
    }

    /// Members that rows had before the addition under way.
    pub fn members_before(&self) -> u32 {
        self.before().members()
    }

    /// What is done to the row of a key.
    pub fn change(&self, key: u64) -> Change {
        match &self.0 {
            Kind::Spread(_) => unreachable!("no addition is under way"),
            Kind::Spreading { order, .. } => {
                let (row, fate) = order.row(key);
                let gains =
                    order.gains(row).map(|(column, (row, from))| (column, Cell { row, column: from }));
                Change { row, keeps: fate == Fate::Kept, gains: gains.collect() }
            }
            Kind::Restriping { before, after } => {
                let columns = u64::from(self.after().columns(key));
                let chunks = key * columns..((key + 1) * columns).min(before.data_chunks());
                let gains = chunks.map(|chunk| (after.column_of(chunk), self.before().cell(chunk)));
                Change { row: key, keeps: false, gains: gains.collect() }
            }
        }
    }

    /// Whether something that the row of this key holds as it was is still needed, when rows below the key `done` are
    /// durable as they will be.
    pub fn is_needed(&self, key: u64, done: u64) -> bool {
        match &self.0 {
            Kind::Spread(_) => true,
            Kind::Spreading { order, .. } => order.row(key).1 == Fate::Kept,
            Kind::Restriping { .. } => key >= self.free(done),
        }
    }

    /// The first row that is still needed when `done` rows are restriped.
    fn free(&self, done: u64) -> u64 {
        let (old, new) = (u64::from(self.before().columns(0)), u64::from(self.after().columns(0)));
        if done * new >= self.chunks() { self.end() } else { done * new / old }
    }

    /// Where what begins at the key `from` must end at the latest: rows behind it may be changed only once those before it
    /// are durable.
    pub fn stop(&self, from: u64) -> u64 {
        match &self.0 {
            Kind::Spread(_) => from,
            Kind::Spreading { order, .. } => order.stop(from),
            Kind::Restriping { .. } => self.free(from).clamp(from + 1, self.end()),
        }
    }

    /// All rows that have to do with changes from one key up to another, neither behind the same `stop`: those changed and
    /// those that something comes from.
    pub fn involved(&self, keys: Range<u64>) -> [Range<u64>; 2] {
        match &self.0 {
            Kind::Spread(_) => [0..0, 0..0],
            Kind::Spreading { order, .. } => [order.rows(keys.start), 0..0],
            Kind::Restriping { before, .. } => {
                let (old, new) = (u64::from(self.before().columns(0)), u64::from(self.after().columns(0)));
                let end = (keys.end * new).div_ceil(old).min(before.stripes());
                let start = (keys.start * new / old).min(end);
                [keys, start..end]
            }
        }
    }

    /// About how many chunks of data still have to move.
    pub fn left(&self, done: u64) -> u64 {
        let keys = self.end().saturating_sub(done);
        match &self.0 {
            Kind::Spread(_) => 0,
            Kind::Spreading { .. } if keys == 0 => 0,
            Kind::Spreading { before, after, .. } => {
                let (n, columns) = (after.members() - before.members(), after.columns(0));
                (keys * u64::from(n) * u64::from(columns - n)).div_ceil(u64::from(columns))
            }
            Kind::Restriping { before, .. } => {
                let moved = done * u64::from(self.after().columns(0));
                before.data_chunks().saturating_sub(moved)
            }
        }
    }
}
