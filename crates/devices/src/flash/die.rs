//! One die and one channel: the work of each now, and the work that waits for it.

use std::collections::VecDeque;
use std::ops::Range;

use super::jobs::Queue;
use crate::Ns;

/// What a die is doing; jobs and units by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Idle,
    Sense(u32),
    SendOut(u32),
    TakeIn(u32),
    Program(u32),
    CleanSense(u32),
    CleanSendOut(u32),
    CleanTakeIn(u32),
    CleanProgram(u32),
    Erase(u32),
    Suspend,
}

/// Work that was interrupted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspended {
    pub(super) work: Work,
    /// For how long the cells will be busy with it yet.
    pub(super) left_ns: Ns,
}

/// The erase block that a die cleans.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    pub(super) first_unit: u32,
    /// The unit to look at next.
    pub(super) next_unit: u32,
    pub(super) end_unit: u32,
}

impl Victim {
    /// An erase block of these units, of which none has been looked at.
    pub(super) fn of(units: Range<u32>) -> Victim {
        Victim { first_unit: units.start, next_unit: units.start, end_unit: units.end }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Die {
    pub(super) channel: u32,
    pub(super) work: Work,
    /// From when to when the cells are busy with the work, unless it is suspended.
    pub(super) cells: Range<Ns>,
    pub(super) suspended: Option<Suspended>,
    pub(super) reads: Queue,
    pub(super) programs: Queue,
    pub(super) victim: Option<Victim>,
    /// Whether the host had the last turn, so that cleaning has the next.
    pub(super) host_had_turn: bool,
    /// Since when the die is not idle.
    pub(super) busy_since: Ns,
}

impl Die {
    pub(super) fn new(channel: u32) -> Die {
        Die {
            channel,
            work: Work::Idle,
            cells: 0..0,
            suspended: None,
            reads: Queue::EMPTY,
            programs: Queue::EMPTY,
            victim: None,
            host_had_turn: false,
            busy_since: 0,
        }
    }

    /// The die does something from now on.
    #[inline(always)]
    pub(super) fn begin(&mut self, now: Ns, work: Work) {
        if self.work == Work::Idle {
            self.busy_since = now;
        }
        self.work = work;
    }

    /// How long the die has not been idle.
    #[inline]
    pub(super) fn busy_for(&self, now: Ns) -> Ns {
        if self.work == Work::Idle { 0 } else { now - self.busy_since }
    }
}

/// A bus and the dies that wait for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// The die it serves.
    pub(super) serves: Option<u32>,
    pub(super) waiting: VecDeque<u32>,
}
