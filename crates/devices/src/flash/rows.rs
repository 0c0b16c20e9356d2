//! Rows: the erase blocks of all dies with the same number, opened and erased as one.
//!
//! A row that is open gives out one unit after another. With stripes it gives them so that the data of a stripe and the
//! parity over it are on different dies, if the stripe has no more elements than there are dies.

use std::collections::VecDeque;

use super::config::Config;
use super::defect::{self, Defect};
use super::observe::{FlashEvent, Observer};
use super::stripes::{Side, Stripes};

/// An open row, and how far each die of it is filled.
#[derive(Clone, Debug)]
pub(super) struct OpenRow {
    /// Pages of an erase block that may be used.
    pages: u32,
    /// Pages given out, for each die.
    used: Vec<u32>,
    /// Whether a die has data of the open stripe, for each die; all `false` where a stripe may use a die again.
    in_stripe: Vec<bool>,
    /// Whether a stripe uses a die only once.
    once: bool,
    /// Whether there is a parity, for which room has to be left.
    parity: bool,
    /// The die after the last that was given out; breaks ties.
    next_die: u32,
}

impl OpenRow {
    /// No row: it has no room. `stripe` is the number of elements of a stripe, if there are stripes.
    pub(super) fn none(dies: u32, pages: u32, stripe: Option<u32>) -> OpenRow {
        OpenRow {
            pages,
            used: vec![pages; dies as usize],
            in_stripe: vec![false; dies as usize],
            once: stripe.is_some_and(|units| units <= dies),
            parity: stripe.is_some(),
            next_die: 0,
        }
    }

    /// A new row has been opened, of which this number of pages of each die may be used.
    pub(super) fn restart(&mut self, pages: u32) {
        self.pages = pages;
        self.used.fill(0);
        self.close_stripe();
    }

    /// The next unit begins a new stripe.
    #[inline]
    pub(super) fn close_stripe(&mut self) {
        self.in_stripe.fill(false);
    }

    fn may_take(&self, die: usize) -> bool {
        self.used[die] < self.pages && !self.in_stripe[die]
    }

    /// Whether a unit for data can be given out, with room left for the parity over it.
    pub(super) fn has_room(&self) -> bool {
        let dies = (0..self.used.len()).filter(|&die| self.may_take(die));
        if !self.parity {
            return dies.take(1).count() == 1;
        }
        if self.once {
            return dies.take(2).count() == 2;
        }
        dies.map(|die| self.pages - self.used[die]).sum::<u32>() >= 2
    }

    /// Gives out a unit for data, on the die that is filled least, then has the fewest programs before it; the rotation
    /// breaks ties. Returns the die and the page; [`OpenRow::has_room`] has said yes.
    #[inline]
    pub(super) fn take(&mut self, pending: impl Fn(u32) -> u32) -> (u32, u32) {
        let die = self.best(pending).expect("the row has room");
        self.in_stripe[die as usize] = self.once && !defect::has(Defect::ReuseDie);
        self.give(die)
    }

    /// Gives out a unit for the parity of the open stripe, as [`OpenRow::take`] for data.
    pub(super) fn take_parity(&mut self, pending: impl Fn(u32) -> u32) -> (u32, u32) {
        let die = self.best(pending).expect("room is left for the parity");
        self.give(die)
    }

    fn best(&self, pending: impl Fn(u32) -> u32) -> Option<u32> {
        let dies = self.used.len() as u32;
        let mut best = None;
        let mut least = (u32::MAX, u32::MAX);
        for step in 0..dies {
            let die =
                if self.next_die + step < dies { self.next_die + step } else { self.next_die + step - dies };
            if self.used[die as usize] > least.0 || !self.may_take(die as usize) {
                continue;
            }
            let load = (self.used[die as usize], pending(die));
            if load < least {
                (best, least) = (Some(die), load);
            }
        }
        best
    }

    fn give(&mut self, die: u32) -> (u32, u32) {
        let page = self.used[die as usize];
        self.used[die as usize] += 1;
        self.next_die = (die + 1) % self.used.len() as u32;
        (die, page)
    }
}

/// A unit that was opened in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    pub(super) unit: u32,
    /// The parity of a stripe that ended with its row; it has to be programmed before the unit.
    pub(super) parity: Option<u32>,
}

/// Parity units by the reason for writing them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ParityCounts {
    /// Of full stripes of the host's data.
    pub(super) full: u64,
    /// Of stripes to which no data came for P_wait.
    pub(super) partial: u64,
    /// Of stripes that ended with their row.
    pub(super) row_end: u64,
    /// Over data that cleaning moved.
    pub(super) cleaning: u64,
}

/// The unit that cleaning fills.
#[derive(Clone, Copy, Debug)]
pub(super) struct MoverUnit {
    pub(super) unit: u32,
    /// Granules that hold data.
    pub(super) used: u32,
}

/// Where units go on a drive that works with rows of all dies.
#[derive(Clone, Debug)]
pub(super) struct RowSpace {
    pages: u32,
    /// Pages of an erase block of the SLC cache.
    cached_pages: u32,
    row_units: u32,
    /// The numbers of the open rows.
    numbers: [u32; 2],
    open: [OpenRow; 2],
    pub(super) mover: Option<MoverUnit>,
    /// Units that cleaning has filled and that are not being programmed yet, for each die.
    filled: Vec<VecDeque<u32>>,
    /// Units that cleaning has filled and that are not on flash yet.
    pub(super) moving: u32,
    /// Dies that have got work.
    woken: Vec<u32>,
    pub(super) stripes: Option<Stripes>,
    pub(super) protected: bool,
    pub(super) counts: ParityCounts,
}

impl RowSpace {
    pub(super) fn new(config: &Config) -> RowSpace {
        let dies = config.all_dies();
        let row_units = dies * config.pages;
        let striping = config.redundancy.striping();
        let units = striping.map(|striping| striping.units);
        let none = OpenRow::none(dies, config.pages, units);
        RowSpace {
            pages: config.pages,
            cached_pages: config.cached_pages(),
            row_units,
            numbers: [0; 2],
            open: [none.clone(), none],
            mover: None,
            filled: vec![VecDeque::new(); dies as usize],
            moving: 0,
            woken: Vec::new(),
            stripes: units.map(|units| Stripes::new(units, config.erase_blocks, row_units)),
            protected: striping.is_some_and(|striping| striping.protected_buffer),
            counts: ParityCounts::default(),
        }
    }

    /// Whether the open row of a side has room for a unit of data.
    pub(super) fn has_room(&self, side: Side) -> bool {
        self.open[side as usize].has_room()
    }

    /// Whether the open row of a side has room once its open stripe is closed.
    pub(super) fn has_room_for_a_new_stripe(&self, side: Side) -> bool {
        let open = &self.open[side as usize];
        let mut after = open.clone();
        if self.is_uncovered(side) {
            after.take_parity(|_| 0);
        }
        after.close_stripe();
        after.has_room()
    }

    pub(super) fn open_row(&mut self, side: Side, row: u32) {
        self.open_pages(side, row, self.pages);
    }

    /// Opens a row of the SLC cache for the host's data.
    pub(super) fn open_cached_row(&mut self, row: u32) {
        self.open_pages(Side::Host, row, self.cached_pages);
    }

    fn open_pages(&mut self, side: Side, row: u32, pages: u32) {
        self.numbers[side as usize] = row;
        self.open[side as usize].restart(pages);
        if let Some(stripes) = &mut self.stripes {
            stripes.open_row(row, side);
        }
    }

    /// Gives out a unit for the host's data, in the open row of that, which has room.
    #[inline]
    pub(super) fn take(&mut self, pending: impl Fn(u32) -> u32) -> u32 {
        let (die, page) = self.open[Side::Host as usize].take(pending);
        self.unit(Side::Host, die, page)
    }

    /// Gives out a unit for data that cleaning moves, in the open row of that, which has room.
    #[inline]
    pub(super) fn take_for_moved(&mut self) -> u32 {
        let filled = &self.filled;
        let (die, page) = self.open[Side::Mover as usize].take(|die| filled[die as usize].len() as u32);
        self.unit(Side::Mover, die, page)
    }

    fn unit(&self, side: Side, die: u32, page: u32) -> u32 {
        self.numbers[side as usize] * self.row_units + die * self.pages + page
    }

    fn take_parity(&mut self, side: Side) -> u32 {
        let filled = &self.filled;
        let (die, page) = self.open[side as usize].take_parity(|die| filled[die as usize].len() as u32);
        self.unit(side, die, page)
    }

    pub(super) fn is_uncovered(&self, side: Side) -> bool {
        self.stripes.as_ref().is_some_and(|stripes| stripes.is_uncovered(side))
    }

    /// A unit of data has its content. Returns whether its stripe is full.
    #[inline]
    pub(super) fn join(&mut self, side: Side, unit: u32, observer: &mut Observer) -> bool {
        let Some(stripes) = &mut self.stripes else { return false };
        observer.tell(|| FlashEvent::Joined { side, unit });
        stripes.join(unit)
    }

    /// Forms the parity of the data that the open stripe of a side has.
    pub(super) fn form_parity(&mut self, side: Side, observer: &mut Observer) -> u32 {
        let unit = self.take_parity(side);
        let stripes = self.stripes.as_mut().expect("there are stripes");
        observer.tell(|| {
            let data = stripes.open_data(side);
            let early = usize::from(defect::has(Defect::FormParityEarly));
            FlashEvent::ParityFormed { unit, terms: data[..data.len() - early].to_vec() }
        });
        stripes.add_parity(side, unit);
        unit
    }

    /// Closes the open stripe of a side, which is covered.
    pub(super) fn close_stripe(&mut self, side: Side, observer: &mut Observer) {
        self.open[side as usize].close_stripe();
        if let Some(stripes) = &mut self.stripes {
            stripes.close(side);
            observer.tell(|| FlashEvent::StripeClosed { side });
        }
    }

    /// Cleaning has filled a unit, or has formed a parity.
    pub(super) fn add_filled(&mut self, unit: u32) {
        let die = unit / self.pages % self.filled.len() as u32;
        self.filled[die as usize].push_back(unit);
        self.moving += 1;
        self.woken.push(die);
    }

    pub(super) fn take_filled(&mut self, die: u32) -> Option<u32> {
        self.filled[die as usize].pop_front()
    }

    /// Cleaning has nothing to program any more.
    pub(super) fn stop_cleaning(&mut self) {
        self.filled.iter_mut().for_each(VecDeque::clear);
        self.woken.clear();
    }

    /// A die that has got a unit to program since the last call.
    pub(super) fn take_woken(&mut self) -> Option<u32> {
        self.woken.pop()
    }
}
