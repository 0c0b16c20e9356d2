//! The cleaning of a row: what each die does next. There is no time in here.
//!
//! All dies read the live units of their part of the victim at the same time. What they read goes to the open row of
//! cleaning, whose units any die may have to program. Once everything that was moved is on flash, with a parity over it
//! that is on flash if there are stripes, all dies erase their part.

use super::mapping::Mapping;

/// What a die has to do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Program a unit that cleaning has filled.
    Program(u32),
    /// Read a unit; [`RowCleaning::unit_read`] follows.
    Sense(u32),
    /// Erase the die's part of the row that begins with this unit; [`RowCleaning::erased`] follows.
    Erase(u32),
    /// Units of the victim have to be programmed before it is erased.
    BufferedUnits,
    /// Nothing now.
    Wait,
    /// Nothing: the cleaning has ended.
    Ended,
}

/// A row that is being cleaned.
#[derive(Clone, Debug)]
struct Victim {
    first_unit: u32,
    /// The unit that each die looks at next, from the beginning of its part.
    next: Vec<u32>,
    /// Units that are being read.
    reading: u32,
    /// All of it has been read, and units of it are still in the buffer.
    drains: bool,
    /// Dies that have not yet begun to erase; empty while there is something to read or program.
    to_erase: Vec<u32>,
    /// Dies that have not yet erased.
    unerased: u32,
    /// A die has begun to erase.
    erasing: bool,
}

/// The cleaning of a drive that works with rows.
#[derive(Clone, Debug)]
pub(super) struct RowCleaning {
    dies: u32,
    pages: u32,
    victim: Option<Victim>,
    /// Dies look for work since a victim was chosen or may be erased.
    wakes_all: bool,
    pub(super) moved_granules: u64,
}

impl RowCleaning {
    pub(super) fn new(dies: u32, pages: u32) -> RowCleaning {
        RowCleaning { dies, pages, victim: None, wakes_all: false, moved_granules: 0 }
    }

    /// Whether all dies should look for work since the last call.
    pub(super) fn take_wakes_all(&mut self) -> bool {
        std::mem::take(&mut self.wakes_all)
    }

    /// What a die does next.
    pub(super) fn step(&mut self, die: u32, mapping: &mut Mapping) -> Step {
        if let Some(unit) = mapping.take_filled_unit(die) {
            return Step::Program(unit);
        }
        if self.victim.is_none() {
            let is_cleaning = mapping.is_cleaning(die);
            let chosen = if is_cleaning { mapping.choose_victim(die) } else { mapping.fold_victim(die) };
            let Some(units) = chosen else {
                return if is_cleaning { Step::Ended } else { Step::Wait };
            };
            self.wakes_all = true;
            self.victim = Some(Victim {
                first_unit: units.start,
                next: vec![0; self.dies as usize],
                reading: 0,
                drains: false,
                to_erase: Vec::new(),
                unerased: self.dies,
                erasing: false,
            });
        }
        self.go_on(die, mapping)
    }

    fn go_on(&mut self, die: u32, mapping: &mut Mapping) -> Step {
        let victim = self.victim.as_mut().expect("a row is being cleaned");
        while victim.next[die as usize] < self.pages {
            let unit = victim.first_unit + die * self.pages + victim.next[die as usize];
            victim.next[die as usize] += 1;
            if mapping.live_in(unit) == 0 {
                continue;
            }
            if !mapping.is_buffered(unit) {
                victim.reading += 1;
                return Step::Sense(unit);
            }
            self.moved_granules += u64::from(mapping.move_unit(die, unit));
        }
        if let Some(place) = victim.to_erase.iter().position(|&other| other == die) {
            victim.to_erase.swap_remove(place);
            return Step::Erase(victim.first_unit + die * self.pages);
        }
        let reads_are_left = victim.reading > 0 || victim.next.iter().any(|&next| next < self.pages);
        if reads_are_left || victim.unerased < self.dies || !victim.to_erase.is_empty() {
            return self.program_or_wait(die, mapping);
        }
        if mapping.has_buffered_units(victim.first_unit) {
            self.wakes_all |= !std::mem::replace(&mut victim.drains, true);
            return Step::BufferedUnits;
        }
        mapping.finish_moving();
        if mapping.rows().is_some_and(|rows| rows.moving > 0) {
            return self.program_or_wait(die, mapping);
        }
        victim.to_erase = (0..self.dies).filter(|&other| other != die).collect();
        victim.erasing = true;
        self.wakes_all = true;
        Step::Erase(victim.first_unit + die * self.pages)
    }

    fn program_or_wait(&self, die: u32, mapping: &mut Mapping) -> Step {
        mapping.take_filled_unit(die).map_or(Step::Wait, Step::Program)
    }

    /// A unit of the victim has been read.
    pub(super) fn unit_read(&mut self, die: u32, unit: u32, mapping: &mut Mapping) {
        self.moved_granules += u64::from(mapping.move_unit(die, unit));
        self.victim.as_mut().expect("a row is being cleaned").reading -= 1;
    }

    /// Gives up the cleaning, unfinished. Returns the first unit of the row if some of that is erased.
    pub(super) fn stop(&mut self) -> Option<u32> {
        self.wakes_all = false;
        self.victim.take().filter(|victim| victim.erasing).map(|victim| victim.first_unit)
    }

    /// A die has erased its part; the last one frees the row.
    pub(super) fn erased(&mut self, mapping: &mut Mapping) {
        let victim = self.victim.as_mut().expect("a row is being cleaned");
        victim.unerased -= 1;
        if victim.unerased == 0 {
            mapping.erase(victim.first_unit);
            self.victim = None;
            self.wakes_all = true;
        }
    }
}
