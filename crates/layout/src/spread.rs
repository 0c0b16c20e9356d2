//! Growth of RAID 5 and RAID 6 that gives up a few stripes to widen the others.
//!
//! The idea is GSR's (Wu and He, "GSR: A Global Stripe-based Redistribution Approach to Accelerate RAID-5 Scaling",
//! ICPP 2012): keep most stripes where they are, and take a few apart. The arrangement within it is our own, chosen
//! so that **a stripe is always one row of the members**, whatever the history. docs/layouts.md compares it with
//! others.
//!
//! An addition of n members to m, with p parities, works in regions of L = m + n - p rows:
//!
//! - n rows are *taken apart*; their n (m - p) data chunks are
//! - the n more chunks that each of the m - p rows *kept* can have on the new members;
//! - the n rows taken apart are new space: stripes over all m + n members, with parity rotated left-symmetrically.
//!
//! A kept row's parity has to be updated (P' = P ^ what it gained; nothing else is read) and so written; in n of
//! m + n rows it is written to a new member, and the chunk that would have gone there takes its old place. That costs
//! nothing and keeps parity even. A data chunk's column never changes while it stays in its stripe, so Q, in which
//! columns have coefficients, stays as valid as P. Columns are powers of the generator, as in [`crate::geometry`].
//!
//! Rows at the end that make no whole region stay as narrow as they are, for good.

use std::ops::Range;

use crate::geometry::{Home, Role};
use crate::history::{Addition, History, HistoryError, check_rows};
use crate::moves::Move;
use crate::rotation::{Cell, Rotation, Stripes};

/// The fraction of the golden ratio, (√5 - 1) / 2, in units of 2^-64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A parity array that has grown, or the share of it that one shard has: rows and chunks are then the shard's.
#[derive(Clone, Debug)]
pub struct Spread {
    base: Stripes,
    rows: u32,
    share: Share,
    steps: Vec<Step>,
}

/// Which rows of the members the rows of a [`Spread`] are: all, or those that one of several shards has when runs of them
/// are dealt in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Rows of a run.
    pub run: u64,
    /// The shard.
    pub index: u64,
    /// Shards.
    pub shards: u64,
}

impl Share {
    /// All rows.
    pub const ALL: Share = Share { run: 1, index: 0, shards: 1 };

    /// The row of the members.
    pub fn whole(self, row: u64) -> u64 {
        (row / self.run * self.shards + self.index) * self.run + row % self.run
    }
}

/// One addition of members.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The stripes it makes; their columns are also the rows of a region.
    stripes: Stripes,
    added: u32,
    regions: u64,
    /// The first chunk that is new with this addition.
    first: u64,
}

/// Where a row is in the region of an addition.
enum Place {
    /// It was taken apart and is new, number `j` of its region.
    Apart { j: u32 },
    /// It was kept, number `c` of its region.
    Kept { c: u32 },
}

/// What one region of the last addition does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadRegion {
    /// Data that moves.
    pub moves: Vec<Move>,
    /// Parity that is updated with what its row gained, from where it is to where it goes; often the same place.
    ///
    /// The new place must be durable before a data chunk is moved to the old one.
    pub parity: Vec<Move>,
}

impl Step {
    fn region_rows(&self) -> u64 {
        u64::from(self.stripes.columns())
    }

    fn old(&self) -> u32 {
        self.stripes.width - self.added
    }

    fn old_columns(&self) -> u32 {
        self.stripes.columns() - self.added
    }

    /// Chunks of the array after this addition.
    fn chunks(&self) -> u64 {
        self.first + self.regions * u64::from(self.added) * u64::from(self.stripes.columns())
    }

    /// The row at `place` of a region. Regions turn by one, so that no parity position is always taken apart.
    fn row(&self, region: u64, place: u32) -> u64 {
        region * self.region_rows() + (region + u64::from(place)) % self.region_rows()
    }

    /// The region of a row, and its place in it; none for a row behind the last whole region.
    fn place(&self, row: u64) -> Option<(u64, Place)> {
        let region = row / self.region_rows();
        let turned = row % self.region_rows() + self.region_rows() - region % self.region_rows();
        let place = (turned % self.region_rows()) as u32;
        (region < self.regions).then(|| match place.checked_sub(self.added) {
            None => (region, Place::Apart { j: place }),
            Some(c) => (region, Place::Kept { c }),
        })
    }

    /// Which new member, if any, takes the parity of a kept row: P and Q, as numbers among the new.
    ///
    /// Row k has turn floor({k φ} (m + n)), with φ the golden ratio: multiples of an irrational number are spread
    /// evenly over whatever residues of k the parity of earlier additions has settled on (Weyl's equidistribution;
    /// Knuth, The Art of Computer Programming, volume 3, section 6.4, on multiplication by φ). A turn of k mod (m + n)
    /// would leave parity 13 % uneven after ten additions to RAID 6.
    fn parity_taken(&self, region: u64, c: u32) -> [Option<u32>; 2] {
        let kept = region * u64::from(self.old_columns()) + u64::from(c);
        let fraction = u128::from(kept.wrapping_mul(GOLDEN));
        let turn = ((fraction * u128::from(self.stripes.width)) >> 64) as u32;
        let q = if self.stripes.parities == 2 { turn.checked_sub(1) } else { None };
        [Some(turn), q].map(|i| i.filter(|&i| i < self.added))
    }
}

/// The place that a row's parity leaves for a new member, and the column that takes it.
#[derive(Clone, Copy)]
struct Vacated {
    member: u32,
    column: u32,
}

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is kept, and gets more columns.
    Kept,
    /// It is taken apart, and is then new.
    Apart,
}

/// Regions that are worked on together: first all their rows that are kept, then those that are taken apart.
const SET_REGIONS: u64 = 8;

/// The order in which the last addition changes rows. The number of a row in it is its *key*.
#[derive(Clone, Copy, Debug)]
pub struct Order(Step);

/// Regions that are worked on together.
#[derive(Clone, Debug)]
struct Set {
    regions: Range<u64>,
    /// The first key, which is also the first row.
    first: u64,
    /// The first key of a row taken apart.
    apart: u64,
}

impl Order {
    /// One more than the last key. Rows from there on stay as they are.
    pub fn end(&self) -> u64 {
        self.0.regions * self.0.region_rows()
    }

    fn set(&self, number: u64) -> Set {
        let first = number * SET_REGIONS;
        let regions = first..(first + SET_REGIONS).min(self.0.regions).max(first);
        let rows = first * self.0.region_rows();
        let apart = rows + (regions.end - regions.start) * u64::from(self.0.old_columns());
        Set { regions, first: rows, apart }
    }

    fn set_of(&self, row: u64) -> Set {
        self.set(row / self.0.region_rows() / SET_REGIONS)
    }

    /// The key of a row.
    pub fn key(&self, row: u64) -> u64 {
        let set = self.set_of(row);
        match self.0.place(row) {
            None => row,
            Some((region, Place::Kept { c })) => {
                set.first + (region - set.regions.start) * u64::from(self.0.old_columns()) + u64::from(c)
            }
            Some((region, Place::Apart { j })) => {
                set.apart + (region - set.regions.start) * u64::from(self.0.added) + u64::from(j)
            }
        }
    }

    /// The row of a key below the end, and what becomes of it.
    pub fn row(&self, key: u64) -> (u64, Fate) {
        let set = self.set_of(key);
        let (columns, added) = (self.0.old_columns(), self.0.added);
        match key.checked_sub(set.apart) {
            None => {
                let (region, c) = divide(key - set.first, columns);
                (self.0.row(set.regions.start + region, added + c), Fate::Kept)
            }
            Some(within) => {
                let (region, j) = divide(within, added);
                (self.0.row(set.regions.start + region, j), Fate::Apart)
            }
        }
    }

    /// What a row that is kept gains: its new columns, and the row and column that each comes from.
    pub fn gains(&self, row: u64) -> impl Iterator<Item = (u32, (u64, u32))> {
        let step = self.0;
        let place = match step.place(row) {
            Some((region, Place::Kept { c })) => Some((region, c)),
            _ => None,
        };
        place.into_iter().flat_map(move |(region, c)| {
            (0..step.added).map(move |j| (step.old_columns() + j, (step.row(region, j), c)))
        })
    }

    /// The rows that those with these keys have to do with, themselves included: a key of the range says so of all.
    pub fn rows(&self, key: u64) -> Range<u64> {
        let set = self.set_of(key);
        set.first..set.first + (set.regions.end - set.regions.start) * self.0.region_rows()
    }

    /// The first key behind `key` whose rows may be changed only once those before it are durable in their new places.
    pub fn stop(&self, key: u64) -> u64 {
        let set = self.set_of(key);
        if key < set.apart { set.apart } else { self.rows(key).end }
    }
}

/// A row on its way through the additions: which member has each parity.
#[derive(Clone, Copy)]
struct Row {
    /// The additions that widened it.
    widened: (usize, usize),
    stripes: Stripes,
    index: u64,
    parity: [u32; 2],
}

impl Spread {
    /// An array with this history and number of rows, whose first layout has this rotation and one or two parities.
    ///
    /// # Errors
    /// When the array begins with too few members, or `rows` is 0 or more than can be addressed.
    pub fn new(
        history: &History,
        rows: u32,
        rotation: Rotation,
        parities: u32,
    ) -> Result<Spread, HistoryError> {
        assert!((1..=2).contains(&parities), "{parities} parities; one or two are possible");
        check_rows(rows)?;
        // A kept row takes a new chunk per new member: the members it had must hold more than parity.
        if history.base() < 2 * parities {
            return Err(HistoryError::TooFew { min: 2 * parities, members: history.base() });
        }
        let base = Stripes { rotation, width: history.base(), parities };
        let (mut usable, mut first) = (u64::from(rows), u64::from(rows) * u64::from(base.columns()));
        let mut steps = Vec::new();
        for Addition { old, width } in history.steps() {
            let stripes = Stripes { rotation: Rotation::LeftSymmetric, width, parities };
            let regions = usable / u64::from(stripes.columns());
            let step = Step { stripes, added: width - old, regions, first };
            (usable, first) = (regions * step.region_rows(), step.chunks());
            steps.push(step);
        }
        Ok(Spread { base, rows, share: Share::ALL, steps })
    }

    /// The same of a shard, to which the rows given to `new` belong.
    pub fn of_share(self, share: Share) -> Spread {
        Spread { share, ..self }
    }

    /// The same before its last addition.
    pub fn before_last(&self) -> Spread {
        Spread { steps: self.steps[..self.steps.len().saturating_sub(1)].to_vec(), ..*self }
    }

    /// Data columns of a stripe.
    pub fn columns(&self, stripe: u64) -> u32 {
        let reached = self.reached(stripe);
        reached.checked_sub(1).map_or(self.base.columns(), |last| self.steps[last].stripes.columns())
    }

    /// Members now.
    pub fn members(&self) -> u32 {
        self.steps.last().map_or(self.base.width, |step| step.stripes.width)
    }

    /// Rows, which are also stripes.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Logical chunks of the array.
    pub fn data_chunks(&self) -> u64 {
        let base = u64::from(self.rows) * u64::from(self.base.columns());
        self.steps.last().map_or(base, Step::chunks)
    }

    /// The stripe (row) and column of a logical chunk; the column is also its power of the generator in Q.
    pub fn stripe_column(&self, logical: u64) -> (u64, u32) {
        assert!(logical < self.data_chunks(), "chunk {logical} is beyond the array");
        let born = self.steps.iter().take_while(|step| logical >= step.first).count();
        let (mut row, mut column) = match born.checked_sub(1).map(|i| &self.steps[i]) {
            None => {
                let (row, position) = divide(logical, self.base.columns());
                (row, self.base.power(self.share.whole(row), position))
            }
            Some(step) => {
                let (index, column) = divide(logical - step.first, step.stripes.columns());
                let (region, j) = divide(index, step.added);
                (step.row(region, j), column)
            }
        };
        for step in &self.steps[born..] {
            match step.place(row) {
                None => break,
                Some((_, Place::Kept { .. })) => {}
                Some((region, Place::Apart { j })) => {
                    row = step.row(region, step.added + column);
                    column = step.old_columns() + j;
                }
            }
        }
        (row, column)
    }

    /// Where a logical chunk is.
    pub fn home(&self, logical: u64) -> Home {
        let (row, column) = self.stripe_column(logical);
        Home { member: self.member(row, column), chunk: row }
    }

    /// P and then Q of a stripe.
    pub fn parity(&self, stripe: u64) -> impl Iterator<Item = Home> {
        let mut row = self.row(stripe);
        while self.widen(&mut row, stripe).is_some() {}
        (0..self.base.parities as usize).map(move |i| Home { member: row.parity[i], chunk: stripe })
    }

    /// What a place is for. Only rows behind the last whole region have unused places.
    pub fn role(&self, home: Home) -> Role {
        let stripe = home.chunk;
        match self.cell(stripe, home.member) {
            None => Role::Unused,
            Some(Cell::P) => Role::P { stripe },
            Some(Cell::Q) => Role::Q { stripe },
            Some(Cell::Data(column)) => Role::Data { logical: self.logical(stripe, column), copy: 0 },
        }
    }

    /// What each region of the last addition does; none if there was none.
    ///
    /// The moves of a region read rows that the next history writes new data to only afterwards, and write where
    /// nothing was, but for the old places of parity.
    pub fn regions(&self) -> impl Iterator<Item = SpreadRegion> {
        let before = self.before_last();
        let step = self.steps.last().copied();
        let regions = step.map_or(0, |step| step.regions);
        (0..regions).filter_map(move |region| step.map(|step| self.region(&before, step, region)))
    }

    /// The order in which the last addition changes rows; none if there was no addition.
    pub fn order(&self) -> Option<Order> {
        self.steps.last().copied().map(Order)
    }

    fn region(&self, before: &Spread, step: Step, region: u64) -> SpreadRegion {
        let (mut moves, mut parity) = (Vec::new(), Vec::new());
        for c in 0..step.old_columns() {
            let kept = step.row(region, step.added + c);
            for j in 0..step.added {
                let apart = step.row(region, j);
                let from = Home { member: before.member(apart, c), chunk: apart };
                let to = Home { member: self.member(kept, step.old_columns() + j), chunk: kept };
                moves.push(Move { from, to });
            }
            parity.extend(before.parity(kept).zip(self.parity(kept)).map(|(from, to)| Move { from, to }));
        }
        SpreadRegion { moves, parity }
    }

    /// How many additions have reached a row: those after them left it as it was, behind their last region.
    fn reached(&self, row: u64) -> usize {
        assert!(row < u64::from(self.rows), "row {row} is beyond the array");
        self.steps.iter().take_while(|step| row < step.regions * step.region_rows()).count()
    }

    /// A row as it was when it was last new.
    fn row(&self, row: u64) -> Row {
        let reached = self.reached(row);
        let new =
            self.steps[..reached].iter().enumerate().rev().find_map(|(i, step)| match step.place(row) {
                Some((region, Place::Apart { j })) => {
                    Some((i + 1, step.stripes, region * u64::from(step.added) + u64::from(j)))
                }
                _ => None,
            });
        let (born, stripes, index) = new.unwrap_or((0, self.base, self.share.whole(row)));
        let parity = [stripes.p(index), if stripes.parities == 2 { stripes.q(index) } else { u32::MAX }];
        Row { widened: (born, reached), stripes, index, parity }
    }

    /// Takes a row through its next addition; gives that and what P and Q left.
    fn widen(&self, row: &mut Row, number: u64) -> Option<(Step, [Option<Vacated>; 2])> {
        let (next, end) = row.widened;
        let step = *self.steps[..end].get(next)?;
        row.widened.0 += 1;
        let Some((region, Place::Kept { c })) = step.place(number) else {
            unreachable!("a row is last new before it is only kept")
        };
        let mut vacated = [None; 2];
        for (i, taken) in step.parity_taken(region, c).into_iter().enumerate() {
            if let Some(taken) = taken {
                vacated[i] = Some(Vacated { member: row.parity[i], column: step.old_columns() + taken });
                row.parity[i] = step.old() + taken;
            }
        }
        Some((step, vacated))
    }

    /// The member that holds a data column of a row.
    pub fn member(&self, number: u64, column: u32) -> u32 {
        let mut row = self.row(number);
        let mut member =
            (column < row.stripes.columns()).then(|| row.stripes.member_of_power(row.index, column));
        while let Some((step, vacated)) = self.widen(&mut row, number) {
            if (step.old_columns()..step.stripes.columns()).contains(&column) {
                let swapped = vacated.iter().flatten().find(|left| left.column == column);
                member = Some(swapped.map_or(step.old() + column - step.old_columns(), |left| left.member));
            }
        }
        member.expect("a column of the row")
    }

    fn cell(&self, number: u64, member: u32) -> Option<Cell> {
        assert!(member < self.members(), "member {member} is beyond the array");
        let mut row = self.row(number);
        let mut cell = (member < row.stripes.width).then(|| match row.stripes.cell(row.index, member) {
            Cell::Data(position) => Cell::Data(row.stripes.power(row.index, position)),
            parity => parity,
        });
        while let Some((step, vacated)) = self.widen(&mut row, number) {
            if let Some(left) = vacated.iter().flatten().find(|left| left.member == member) {
                cell = Some(Cell::Data(left.column));
            } else if (step.old()..step.stripes.width).contains(&member) {
                let data = Cell::Data(step.old_columns() + member - step.old());
                let parity = row.parity.iter().position(|&parity| parity == member);
                cell = Some(parity.map_or(data, |i| [Cell::P, Cell::Q][i]));
            }
        }
        cell
    }

    /// The logical chunk in a column of a row: the additions backwards.
    pub(crate) fn logical(&self, mut row: u64, mut column: u32) -> u64 {
        for step in self.steps.iter().rev() {
            match step.place(row) {
                Some((region, Place::Apart { j })) => {
                    let index = region * u64::from(step.added) + u64::from(j);
                    return step.first + index * u64::from(step.stripes.columns()) + u64::from(column);
                }
                Some((region, Place::Kept { c })) if column >= step.old_columns() => {
                    row = step.row(region, column - step.old_columns());
                    column = c;
                }
                _ => {}
            }
        }
        let position = self.base.position(self.share.whole(row), column);
        row * u64::from(self.base.columns()) + u64::from(position)
    }
}

fn divide(x: u64, by: u32) -> (u64, u32) {
    (x / u64::from(by), (x % u64::from(by)) as u32)
}
