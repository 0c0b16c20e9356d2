//! Elastic stripes: which stripe each unit belongs to, which units a parity covers. There is no time in here.
//!
//! A stripe lies within one row. Two stripes are open: one for the host's data, one for data that cleaning moves. A
//! stripe can get several parities while it is open; the newest whose units are all on flash is the valid one, and the
//! superseded ones stay where they are until the row is erased. A stripe is *settled* once it is closed and all of its
//! units are on flash. The order in which units entered is kept until then; afterwards the table of units is enough.

use std::collections::VecDeque;

use super::defect::{self, Defect};

/// The number of a unit that belongs to no stripe, within its row.
const NO_STRIPE: u32 = u32::MAX;

/// Whose data a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Data of the host.
    Host,
    /// Data that cleaning has moved.
    Mover,
}

/// A parity, and how many of the stripe's data units it covers, in the order of their entry.
#[derive(Clone, Copy, Debug)]
struct Parity {
    unit: u32,
    covers: u32,
}

/// A stripe that is not settled.
#[derive(Clone, Debug, Default)]
struct Stripe {
    data: Vec<u32>,
    parities: Vec<Parity>,
    /// Units that are not on flash yet.
    unprogrammed: u32,
    closed: bool,
}

impl Stripe {
    fn covered(&self) -> u32 {
        self.parities.last().map_or(0, |parity| parity.covers)
    }
}

/// The stripes of one side that are not settled, in the order of their opening.
#[derive(Clone, Debug, Default)]
struct Unsettled {
    stripes: VecDeque<Stripe>,
    /// The sequence number of the first.
    first: u32,
    /// Lists of settled stripes, for reuse.
    spare: Vec<Stripe>,
}

/// How the content of a unit can be computed from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// The units whose contents are to be combined.
    pub(super) units: Vec<u32>,
    /// The running parity of the open stripe of this side is a term too.
    pub(super) running: Option<Side>,
}

/// What must hold for a unit of a stripe to be a term.
pub(super) struct Available<'a> {
    /// Whether a unit is on flash.
    pub(super) programmed: &'a dyn Fn(u32) -> bool,
    /// Whether the contents of memory are left: of units that are not on flash, and the running parities.
    pub(super) powered: bool,
}

/// All stripes of a drive.
#[derive(Clone, Debug)]
pub(super) struct Stripes {
    /// Data units of a full stripe.
    data_units: usize,
    row_units: u32,
    /// Unit to the number of its stripe within its row.
    of: Vec<u32>,
    /// Row to its side.
    side: Vec<Side>,
    /// Row to the sequence number of its first stripe.
    row_first: Vec<u32>,
    unsettled: [Unsettled; 2],
}

impl Stripes {
    pub(super) fn new(units: u32, rows: u32, row_units: u32) -> Stripes {
        let all = (rows * row_units) as usize;
        Stripes {
            data_units: units as usize - 1,
            row_units,
            of: vec![NO_STRIPE; all],
            side: vec![Side::Host; rows as usize],
            row_first: vec![0; rows as usize],
            unsettled: Default::default(),
        }
    }

    /// A row has been opened; the stripe that was open has been closed.
    pub(super) fn open_row(&mut self, row: u32, side: Side) {
        let unsettled = &self.unsettled[side as usize];
        debug_assert!(unsettled.stripes.back().is_none_or(|stripe| stripe.closed));
        self.side[row as usize] = side;
        self.row_first[row as usize] = unsettled.first + unsettled.stripes.len() as u32;
    }

    /// A data unit has entered the open stripe of its side. Returns whether the stripe has all of its data now.
    #[inline]
    pub(super) fn join(&mut self, unit: u32) -> bool {
        let row = unit / self.row_units;
        let side = self.side[row as usize];
        let unsettled = &mut self.unsettled[side as usize];
        if unsettled.stripes.back().is_none_or(|stripe| stripe.closed) {
            let stripe = unsettled.spare.pop().unwrap_or_default();
            unsettled.stripes.push_back(stripe);
        }
        let sequence = unsettled.first + unsettled.stripes.len() as u32 - 1;
        self.of[unit as usize] = sequence - self.row_first[row as usize];
        let stripe = unsettled.stripes.back_mut().expect("a stripe is open");
        stripe.data.push(unit);
        stripe.unprogrammed += 1;
        // The defect takes a partial parity for one that covers all.
        if defect::has(Defect::ForgetLaterData)
            && let Some(last) = stripe.parities.last_mut()
        {
            last.covers += 1;
        }
        stripe.data.len() == self.data_units
    }

    /// `unit` is the parity of all data that the open stripe of `side` has.
    pub(super) fn add_parity(&mut self, side: Side, unit: u32) {
        let row = unit / self.row_units;
        let unsettled = &mut self.unsettled[side as usize];
        let sequence = unsettled.first + unsettled.stripes.len() as u32 - 1;
        let stripe = unsettled.stripes.back_mut().expect("a stripe is open");
        debug_assert!(!stripe.closed);
        stripe.parities.push(Parity { unit, covers: stripe.data.len() as u32 });
        stripe.unprogrammed += 1;
        self.of[unit as usize] = sequence - self.row_first[row as usize];
    }

    /// The data units of the open stripe; none if no stripe is open.
    pub(super) fn open_data(&self, side: Side) -> &[u32] {
        let open = self.unsettled[side as usize].stripes.back().filter(|stripe| !stripe.closed);
        open.map_or(&[], |stripe| &stripe.data)
    }

    /// Whether the open stripe of a side has data that no parity covers.
    #[inline]
    pub(super) fn is_uncovered(&self, side: Side) -> bool {
        let open = self.unsettled[side as usize].stripes.back().filter(|stripe| !stripe.closed);
        open.is_some_and(|stripe| stripe.covered() < stripe.data.len() as u32)
    }

    /// Closes the open stripe of a side; its parity covers it.
    pub(super) fn close(&mut self, side: Side) {
        debug_assert!(!self.is_uncovered(side));
        if let Some(stripe) = self.unsettled[side as usize].stripes.back_mut() {
            stripe.closed = true;
        }
        self.settle(side);
    }

    /// A unit of a stripe is on flash.
    #[inline]
    pub(super) fn programmed(&mut self, unit: u32) {
        let row = (unit / self.row_units) as usize;
        let side = self.side[row];
        let unsettled = &mut self.unsettled[side as usize];
        let sequence = self.row_first[row] + self.of[unit as usize];
        unsettled.stripes[(sequence - unsettled.first) as usize].unprogrammed -= 1;
        self.settle(side);
    }

    fn settle(&mut self, side: Side) {
        let unsettled = &mut self.unsettled[side as usize];
        while let Some(Stripe { closed: true, unprogrammed: 0, .. }) = unsettled.stripes.front() {
            let mut stripe = unsettled.stripes.pop_front().expect("it is there");
            unsettled.first += 1;
            stripe.parities.pop();
            for superseded in stripe.parities.drain(..) {
                self.of[superseded.unit as usize] = NO_STRIPE;
            }
            stripe.data.clear();
            stripe.closed = false;
            unsettled.spare.push(stripe);
        }
    }

    /// A row is erased: nothing in it belongs to a stripe any more.
    pub(super) fn erased(&mut self, row: u32) {
        for unit in row * self.row_units..(row + 1) * self.row_units {
            self.of[unit as usize] = NO_STRIPE;
        }
    }

    /// How the content of a data unit can be computed. `None` if no parity covers it, or if it belongs to no stripe.
    pub(super) fn terms(&self, unit: u32, available: &Available<'_>) -> Option<Terms> {
        let number = self.of[unit as usize];
        if number == NO_STRIPE {
            return None;
        }
        let row = unit / self.row_units;
        let side = self.side[row as usize];
        let unsettled = &self.unsettled[side as usize];
        let sequence = self.row_first[row as usize] + number;
        let others = |units: &[u32]| units.iter().copied().filter(|&other| other != unit).collect::<Vec<_>>();
        let Some(index) = sequence.checked_sub(unsettled.first) else {
            let all: Vec<u32> = (row * self.row_units..(row + 1) * self.row_units)
                .filter(|&other| self.of[other as usize] == number)
                .collect();
            return Some(Terms { units: others(&all), running: None });
        };
        let stripe = &unsettled.stripes[index as usize];
        let on_flash = |unit: &u32| available.powered || (available.programmed)(*unit);
        if !stripe.closed && available.powered {
            return Some(Terms { units: others(&stripe.data), running: Some(side) });
        }
        let position = stripe.data.iter().position(|&other| other == unit)? as u32;
        let valid = stripe.parities.iter().rev().find(|parity| {
            let covered = &stripe.data[..parity.covers as usize];
            position < parity.covers && on_flash(&parity.unit) && covered.iter().all(on_flash)
        })?;
        let mut units = others(&stripe.data[..valid.covers as usize]);
        units.push(valid.unit);
        Some(Terms { units, running: None })
    }
}
