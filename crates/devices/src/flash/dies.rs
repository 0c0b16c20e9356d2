//! What each die and each channel does, and when.
//!
//! A die does one thing at a time: it senses a unit and waits for its channel to take the data away, or it waits for
//! the channel to bring data and programs it, or it erases. Reads of the host go first, and interrupt programs and
//! erases where the flash can suspend them; programs of the host and the steps of cleaning take turns, so a die that runs
//! out of free space gives cleaning half of its steps, and all of them once the host has no room left.

use std::collections::VecDeque;

use super::mapping::NONE;
use super::ssd::Ssd;
use crate::{BLOCK_BYTES, Ns};

/// A page to be read for the host or a unit to be programmed for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) unit: u32,
    /// Granules wanted, or filled.
    pub(super) granules: u32,
    /// The request that waits for it, if any.
    pub(super) request: u32,
    /// Which flush covers a program.
    pub(super) epoch: u32,
    /// The next job in a queue or in the list of free ones.
    pub(super) next: u32,
}

/// Jobs in order, linked through [`Job::next`].
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

impl Queue {
    const EMPTY: Queue = Queue { first: NONE, last: NONE };

    fn push(&mut self, jobs: &mut [Job], job: u32) {
        jobs[job as usize].next = NONE;
        if self.first == NONE {
            self.first = job;
        } else {
            jobs[self.last as usize].next = job;
        }
        self.last = job;
    }

    fn is_empty(&self) -> bool {
        self.first == NONE
    }

    fn pop(&mut self, jobs: &[Job]) -> Option<u32> {
        let job = self.first;
        if job == NONE {
            return None;
        }
        self.first = jobs[job as usize].next;
        Some(job)
    }
}

/// What a die is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
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

#[derive(Clone, Debug)]
pub(super) struct Die {
    channel: u32,
    work: Work,
    /// From when to when its cells are busy with that, unless it is suspended.
    cells: (Ns, Ns),
    /// What is suspended, and for how long its cells will be busy with it yet.
    suspended: Option<(Work, Ns)>,
    reads: Queue,
    programs: Queue,
    /// Units assigned to the die and not yet programmed.
    pub(super) programs_pending: u32,
    /// Units of the erase block being cleaned: its first, the next to look at, its end.
    victim: Option<(u32, u32, u32)>,
    host_had_turn: bool,
    /// Since when it is not idle.
    busy_since: Ns,
}

impl Die {
    pub(super) fn new(channel: u32) -> Die {
        Die {
            channel,
            work: Work::Idle,
            cells: (0, 0),
            suspended: None,
            reads: Queue::EMPTY,
            programs: Queue::EMPTY,
            programs_pending: 0,
            victim: None,
            host_had_turn: false,
            busy_since: 0,
        }
    }

    /// Starts counting the time that it is not idle anew.
    pub(super) fn count_from(&mut self, now: Ns) {
        self.busy_since = now;
    }

    /// How long it has not been idle.
    pub(super) fn busy_for(&self, now: Ns) -> Ns {
        if self.work == Work::Idle { 0 } else { now - self.busy_since }
    }
}

/// A bus and the dies that wait for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// The die it serves.
    serves: Option<u32>,
    waiting: VecDeque<u32>,
}

impl Ssd {
    pub(super) fn add_job(&mut self, job: Job) -> u32 {
        let id = self.free_jobs;
        if id == NONE {
            self.jobs.push(job);
            return self.jobs.len() as u32 - 1;
        }
        self.free_jobs = self.jobs[id as usize].next;
        self.jobs[id as usize] = job;
        id
    }

    pub(super) fn take_job(&mut self, id: u32) -> Job {
        let job = self.jobs[id as usize];
        self.jobs[id as usize].next = self.free_jobs;
        self.free_jobs = id;
        job
    }

    pub(super) fn queue_read(&mut self, die: u32, job: u32) {
        self.dies[die as usize].reads.push(&mut self.jobs, job);
        self.suspend(die);
        self.start(die);
    }

    pub(super) fn queue_program(&mut self, die: u32, job: u32) {
        self.dies[die as usize].programs.push(&mut self.jobs, job);
        self.start(die);
    }

    /// A die has become short of free erase blocks.
    pub(super) fn cleaning_wanted(&mut self, die: u32) {
        if !self.config.cleaning.exclusive {
            self.start(die);
            return;
        }
        self.stop();
        self.exclusive = true;
        for die in 0..self.dies.len() as u32 {
            self.mapping.start_cleaning(die);
            self.start(die);
        }
    }

    /// Gives an idle die something to do.
    fn start(&mut self, id: u32) {
        if self.dies[id as usize].work != Work::Idle {
            return;
        }
        if let Some(job) = self.dies[id as usize].reads.pop(&self.jobs) {
            self.array(id, Work::Sense(job), self.config.sense_ns);
            return;
        }
        if let Some((work, left_ns)) = self.dies[id as usize].suspended.take() {
            self.array(id, work, left_ns);
            return;
        }
        let host_first = !self.exclusive && !self.dies[id as usize].host_had_turn;
        if host_first && self.start_program(id) {
            self.dies[id as usize].host_had_turn = true;
        } else if self.start_cleaning_step(id) {
            self.dies[id as usize].host_had_turn = false;
        } else if !self.exclusive {
            self.start_program(id);
        }
    }

    fn start_program(&mut self, id: u32) -> bool {
        let job = self.dies[id as usize].programs.pop(&self.jobs);
        if let Some(job) = job {
            self.transfer(id, Work::TakeIn(job));
        }
        job.is_some()
    }

    /// The next step of cleaning a die, if it has one.
    fn start_cleaning_step(&mut self, id: u32) -> bool {
        if let Some(unit) = self.mapping.take_filled_unit(id) {
            self.transfer(id, Work::CleanTakeIn(unit));
            return true;
        }
        loop {
            let Some((first, next, end)) = self.victim(id) else {
                // The end of cleaning may have let the host go on, with this die.
                return self.dies[id as usize].work != Work::Idle;
            };
            if next == end {
                if self.mapping.has_buffered_units(first) {
                    // Units of the victim are on their way to flash; they come before its erasure.
                    if !self.start_program(id) {
                        self.start_batch();
                    }
                    return self.dies[id as usize].work != Work::Idle;
                }
                self.dies[id as usize].victim = None;
                let mut busy_ns = self.config.erase_ns;
                if self.config.cleaning.single_erase {
                    busy_ns = self.eraser.serve(self.now(), busy_ns) - self.now();
                }
                self.array(id, Work::Erase(first), busy_ns);
                return true;
            }
            self.dies[id as usize].victim = Some((first, next + 1, end));
            if self.mapping.live_in(next) == 0 {
                continue;
            }
            if !self.mapping.is_buffered(next) {
                self.array(id, Work::CleanSense(next), self.config.sense_ns);
                return true;
            }
            self.move_unit(id, next);
            if let Some(unit) = self.mapping.take_filled_unit(id) {
                self.transfer(id, Work::CleanTakeIn(unit));
                return true;
            }
        }
    }

    fn victim(&mut self, id: u32) -> Option<(u32, u32, u32)> {
        let die = &mut self.dies[id as usize];
        if die.victim.is_none() && self.mapping.is_cleaning(id) {
            die.victim = self.mapping.choose_victim(id).map(|(first, end)| (first, first, end));
            if die.victim.is_none() {
                self.cleaning_ended();
            }
        }
        self.dies[id as usize].victim
    }

    fn move_unit(&mut self, die: u32, unit: u32) {
        let moved = self.mapping.move_unit(die, unit);
        self.stats.moved_granules += u64::from(moved);
    }

    /// The cells of a die are busy for a while.
    fn array(&mut self, id: u32, work: Work, busy_ns: Ns) {
        self.begin(id, work);
        let now = self.now();
        self.dies[id as usize].cells = (now, now + busy_ns);
        self.calendar.push(now + busy_ns, id as usize);
        if !self.dies[id as usize].reads.is_empty() {
            self.suspend(id);
        }
    }

    /// How long it takes to suspend what a die does, if it can be.
    fn suspend_ns(&self, work: Work) -> Option<Ns> {
        match work {
            Work::Program(_) | Work::CleanProgram(_) => self.config.suspend.program_ns,
            Work::Erase(_) => self.config.suspend.erase_ns,
            _ => None,
        }
    }

    /// A read waits for a die: what that does is suspended, once it has gone on for a while, unless it ends before.
    fn suspend(&mut self, id: u32) {
        let (work, (since, end)) = (self.dies[id as usize].work, self.dies[id as usize].cells);
        let Some(suspend_ns) = self.suspend_ns(work) else { return };
        let at = self.now().max(since + suspend_ns);
        if at + suspend_ns < end {
            self.calendar.cancel(id as usize);
            self.calendar.push(at, id as usize);
        }
    }

    /// A die needs its channel.
    fn transfer(&mut self, id: u32, work: Work) {
        self.begin(id, work);
        let channel = self.dies[id as usize].channel;
        if self.config.channel_block_ns == 0 {
            self.transfer_done(id);
        } else if self.channels[channel as usize].serves.is_none() {
            self.occupy(channel, id);
        } else {
            self.channels[channel as usize].waiting.push_back(id);
        }
    }

    fn occupy(&mut self, channel: u32, id: u32) {
        self.channels[channel as usize].serves = Some(id);
        let granules = match self.dies[id as usize].work {
            Work::SendOut(job) => self.jobs[job as usize].granules,
            Work::CleanSendOut(unit) => self.mapping.live_in(unit),
            _ => self.mapping.unit_granules(),
        };
        let bytes = u64::from(granules) * u64::from(self.mapping.granule_bytes());
        let busy_ns = bytes * self.config.channel_block_ns / u64::from(BLOCK_BYTES);
        self.calendar.push(self.now() + busy_ns, self.dies.len() + channel as usize);
    }

    /// A die or a channel is done with what it was doing.
    pub(super) fn part_done(&mut self, part: usize) {
        if part < self.dies.len() {
            self.array_done(part as u32);
            return;
        }
        let channel = part - self.dies.len();
        let served = self.channels[channel].serves.take();
        if let Some(next) = self.channels[channel].waiting.pop_front() {
            self.occupy(channel as u32, next);
        }
        if let Some(die) = served {
            self.transfer_done(die);
        }
    }

    fn array_done(&mut self, id: u32) {
        let (work, left_ns) = (self.dies[id as usize].work, self.dies[id as usize].cells.1 - self.now());
        match work {
            Work::Suspend => self.idle(id),
            _ if left_ns > 0 => {
                let suspend_ns = self.suspend_ns(work).expect("only what can be suspended ends early");
                self.dies[id as usize].suspended = Some((work, left_ns));
                self.stats.suspensions += 1;
                self.array(id, Work::Suspend, suspend_ns);
            }
            Work::Sense(job) => self.transfer(id, Work::SendOut(job)),
            Work::CleanSense(unit) => self.transfer(id, Work::CleanSendOut(unit)),
            Work::Program(job) => {
                let job = self.take_job(job);
                self.mapping.programmed(job.unit);
                self.dies[id as usize].programs_pending -= 1;
                self.idle(id);
                self.unit_programmed(job);
            }
            Work::CleanProgram(unit) => {
                self.mapping.programmed(unit);
                self.idle(id);
            }
            Work::Erase(unit) => {
                self.mapping.erase(unit);
                self.stats.erases += 1;
                self.idle(id);
                self.cleaning_ended();
                self.wake = true;
            }
            work => unreachable!("cells that {work:?}"),
        }
    }

    fn transfer_done(&mut self, id: u32) {
        match self.dies[id as usize].work {
            Work::TakeIn(job) => self.array(id, Work::Program(job), self.config.program_ns),
            Work::CleanTakeIn(unit) => self.array(id, Work::CleanProgram(unit), self.config.program_ns),
            Work::SendOut(job) => {
                let job = self.take_job(job);
                self.idle(id);
                self.job_of_read_done(job.request);
            }
            Work::CleanSendOut(unit) => {
                self.move_unit(id, unit);
                self.idle(id);
            }
            work => unreachable!("a transfer to {work:?}"),
        }
    }

    fn begin(&mut self, id: u32, work: Work) {
        let now = self.now();
        let die = &mut self.dies[id as usize];
        if die.work == Work::Idle {
            die.busy_since = now;
        }
        die.work = work;
    }

    fn idle(&mut self, id: u32) {
        self.stats.die_busy_ns += self.dies[id as usize].busy_for(self.now());
        self.dies[id as usize].work = Work::Idle;
        self.start(id);
    }

    /// Lets the host go on when it waits for all dies and all have cleaned enough.
    fn cleaning_ended(&mut self) {
        if !self.exclusive || (0..self.dies.len() as u32).any(|die| self.mapping.is_cleaning(die)) {
            return;
        }
        self.exclusive = false;
        for die in 0..self.dies.len() as u32 {
            self.start(die);
        }
        self.wake = true;
    }
}
