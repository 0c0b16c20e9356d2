//! Which die takes the next unit of the host's data.
//!
//! This file is where a redundancy inside the drive plugs in. [`Placement::place_unit`] is the only place that opens a
//! unit for a request, and the drive passes each programmed unit on in one place, after which parity could follow.

use super::dies::Dies;
use super::mapping::Mapping;
use crate::Ns;

/// A unit that takes the host's data, and its granules.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenUnit {
    pub(super) unit: u32,
    /// The first granule of the unit.
    first: u32,
    /// The first free granule.
    next: u32,
    /// The granule after the last of the unit.
    end: u32,
}

impl OpenUnit {
    #[inline]
    pub(super) fn new(unit: u32, mapping: &Mapping) -> OpenUnit {
        let first = unit * mapping.unit_granules();
        OpenUnit { unit, first, next: first, end: first + mapping.unit_granules() }
    }

    /// Takes the next `count` granules, which must be free; returns the first of them.
    #[inline]
    pub(super) fn take(&mut self, count: u32) -> u32 {
        debug_assert!(count <= self.free());
        let at = self.next;
        self.next += count;
        at
    }

    /// Granules that hold data.
    #[inline]
    pub(super) fn filled(&self) -> u32 {
        self.next - self.first
    }

    /// Granules that are free.
    #[inline]
    pub(super) fn free(&self) -> u32 {
        self.end - self.next
    }
}

/// Spreads units over the dies in rotation.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    dies: u32,
    next_die: u32,
}

impl Placement {
    /// Placement on this number of dies.
    pub(super) fn new(dies: u32) -> Placement {
        Placement { dies, next_die: 0 }
    }

    /// Opens a unit on the die that has the fewest programs before it and can take one; the rotation breaks ties.
    /// Returns `None` while no die can.
    #[inline]
    pub(super) fn place_unit(&mut self, now: Ns, dies: &mut Dies) -> Option<OpenUnit> {
        if dies.mapping().rows().is_some() {
            let unit = dies.open_row_unit(now)?;
            return Some(OpenUnit::new(unit, dies.mapping()));
        }
        let die = self.least_pending(dies)?;
        self.next_die = if die + 1 < self.dies { die + 1 } else { 0 };
        let unit = dies.open_unit(now, die);
        Some(OpenUnit::new(unit, dies.mapping()))
    }

    /// The die with the fewest programs before it of those that can take a unit; the first of these in the rotation.
    #[inline]
    fn least_pending(&self, dies: &Dies) -> Option<u32> {
        let (mut best, mut least) = (None, u32::MAX);
        let (before, from) = dies.programs_pending().split_at(self.next_die as usize);
        for (first, pending) in [(self.next_die, from), (0, before)] {
            for (die, &queued) in (first..).zip(pending) {
                if queued < least && dies.mapping().can_open(die) {
                    if queued == 0 {
                        return Some(die);
                    }
                    (best, least) = (Some(die), queued);
                }
            }
        }
        best
    }

    /// The next die in rotation, for writes that take no time.
    pub(super) fn next_in_rotation(&mut self) -> u32 {
        let die = self.next_die;
        self.next_die = (die + 1) % self.dies;
        die
    }
}
