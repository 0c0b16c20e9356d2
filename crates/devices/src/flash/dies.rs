//! What each die and each channel does, and when.
//!
//! A die does one thing at a time: it senses a unit and waits for its channel to take the data away, or it waits for
//! the channel to bring data and programs it, or it erases. Reads of the host go first, and interrupt programs and
//! erases where the flash can suspend them; programs of the host and the steps of cleaning take turns, so a die that runs
//! out of free space gives cleaning half of its steps, and all of them once the host has no room left.
//!
//! The layers above give commands ([`Dies::read`], [`Dies::start_held`], [`Dies::start_batch`]) and learn from
//! [`Dies::take_event`] which of them has ended. Nothing here calls them back.

mod at_once;
mod counts;
mod stop;
mod waiting;

use std::collections::VecDeque;

use super::config::Config;
use super::die::{Channel, Die, Suspended, Victim, Work};
use super::folding::Folding;
use super::jobs::{Finished, Job, Jobs};
use super::mapping::{Mapping, NONE};
use super::row_cleaning::{RowCleaning, Step};
use super::rules::Rules;
use super::standstill::Standstill;
use super::stats::Stats;
use crate::Ns;
use crate::calendar::{Calendar, Server};

/// All dies and channels, what the dies hold, and the work that waits for them.
#[derive(Clone, Debug)]
pub(super) struct Dies {
    rules: Rules,
    mapping: Mapping,
    /// The SLC cache, if there is one.
    folding: Option<Folding>,
    /// The cleaning of a drive that works with rows.
    row_cleaning: Option<RowCleaning>,
    dies: Vec<Die>,
    /// Units assigned to each die and not yet programmed: side by side, since a placement looks at many of them.
    programs_pending: Vec<u32>,
    channels: Vec<Channel>,
    jobs: Jobs,
    calendar: Calendar,
    /// Programs that have not been started.
    held_programs: VecDeque<u32>,
    standstill: Standstill,
    /// Whether requests that wait may have room now.
    retry: bool,
    /// Takes turns among dies where only one may erase.
    eraser: Server,
    stats: Stats,
}

/// What the layers above use.
impl Dies {
    pub(super) fn new(config: &Config, seed: u64) -> Dies {
        Dies {
            rules: Rules::new(config),
            mapping: Mapping::new(config, seed),
            folding: config.slc_cache.map(Folding::new),
            row_cleaning: config.works_with_rows().then(|| RowCleaning::new(config.all_dies(), config.pages)),
            programs_pending: vec![0; config.all_dies() as usize],
            dies: (0..config.all_dies()).map(|die| Die::new(die % config.channels)).collect(),
            channels: vec![Channel::default(); config.channels as usize],
            jobs: Jobs::new(),
            calendar: Calendar::default(),
            held_programs: VecDeque::new(),
            standstill: Standstill::default(),
            retry: false,
            eraser: Server::default(),
            stats: Stats::default(),
        }
    }

    /// Where each block is.
    #[inline]
    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Where each block is.
    #[inline]
    pub(super) fn mapping_mut(&mut self) -> &mut Mapping {
        &mut self.mapping
    }

    /// Units assigned to each die and not yet programmed.
    #[inline]
    pub(super) fn programs_pending(&self) -> &[u32] {
        &self.programs_pending
    }

    /// Opens a unit for the host's data on a die that can take one; cleaning starts if free space gets short.
    #[inline]
    pub(super) fn open_unit(&mut self, now: Ns, die: u32) -> u32 {
        self.note_host(now);
        self.programs_pending[die as usize] += 1;
        let was_cleaning = self.mapping.is_cleaning(die);
        let unit = self.mapping.open_cached_unit(die);
        if !was_cleaning && self.mapping.is_cleaning(die) {
            self.start_cleaning(now, die);
        }
        unit
    }

    /// Opens a unit for the host's data on a drive that works with rows, if it can take one; cleaning starts if free space
    /// gets short. The parity of a stripe that ends by that is held as a program.
    pub(super) fn open_row_unit(&mut self, now: Ns) -> Option<u32> {
        if !self.mapping.can_open(0) {
            return None;
        }
        self.note_host(now);
        let (was_cleaning, pending) = (self.mapping.is_cleaning(0), &self.programs_pending);
        let opened = self.mapping.open_row_unit(|die| pending[die as usize]);
        let die = self.mapping.die_of(opened.unit);
        self.programs_pending[die as usize] += 1;
        self.hold_parity(opened.parity);
        if !was_cleaning && self.mapping.is_cleaning(0) {
            self.start_cleaning(now, die);
            self.wake(now);
        }
        Some(opened.unit)
    }

    /// Enters the program of a unit of parity, if there is one, and keeps it back for now.
    #[inline]
    pub(super) fn hold_parity(&mut self, parity: Option<u32>) {
        if let Some(unit) = parity {
            self.programs_pending[self.mapping.die_of(unit) as usize] += 1;
            self.hold_program(Job { unit, granules: 0, request: NONE, epoch: 0 });
        }
    }

    /// Reads granules of a unit.
    #[inline]
    pub(super) fn read(&mut self, now: Ns, read: Job) {
        self.note_host(now);
        let die = self.mapping.die_of(read.unit);
        let job = self.jobs.add(read);
        self.dies[die as usize].reads.push(&mut self.jobs, job);
        self.suspend(now, die);
        self.start(now, die);
        self.wake(now);
    }

    /// Enters the program of a unit that was opened with [`Dies::open_unit`], and keeps it back for now.
    #[inline]
    pub(super) fn hold_program(&mut self, program: Job) {
        let job = self.jobs.add(program);
        self.held_programs.push_back(job);
    }

    /// Starts the programs that were held.
    #[inline]
    pub(super) fn start_held(&mut self, now: Ns) {
        while let Some(job) = self.held_programs.pop_front() {
            self.queue_program(now, job);
        }
        self.wake(now);
    }

    /// Starts the programs that were held as a batch: the drive stands still until they have ended.
    pub(super) fn start_batch(&mut self, now: Ns) {
        if !self.held_programs.is_empty() {
            self.standstill.start_batch(now, self.held_programs.len() as u32);
            self.start_held(now);
        }
    }

    /// Takes the program that has ended.
    #[inline]
    pub(super) fn take_program(&mut self, job: u32) -> Job {
        self.jobs.take(job)
    }

    /// When a die or a channel is done next; [`Ns::MAX`] if all are idle.
    #[inline]
    pub(super) fn next_event(&self) -> Ns {
        self.calendar.next()
    }

    /// Lets the die or channel that is done at `now` go on; returns the command that ended by that, if any.
    #[inline]
    pub(super) fn take_event(&mut self, now: Ns) -> Option<Finished> {
        let finished = self.event(now);
        self.wake(now);
        finished
    }

    #[inline]
    fn event(&mut self, now: Ns) -> Option<Finished> {
        let part = self.calendar.pop()?;
        if part < self.dies.len() {
            return self.array_done(now, part as u32);
        }
        let channel = part - self.dies.len();
        if channel == self.channels.len() {
            self.look_for_silence(now);
            return None;
        }
        let served = self.channels[channel].serves.take();
        if let Some(next) = self.channels[channel].waiting.pop_front() {
            self.occupy_channel(now, channel as u32, next);
        }
        self.transfer_done(now, served?)
    }
}

/// The SLC cache of a drive that has one.
impl Dies {
    /// The host uses the drive now.
    #[inline]
    fn note_host(&mut self, now: Ns) {
        let Some(folding) = &mut self.folding else { return };
        self.mapping.set_idle(false);
        if let Some(at) = folding.used(now) {
            self.calendar.push(at, self.dies.len() + self.channels.len());
        }
    }

    /// Looks whether the host is silent; if so, every die folds what it has in the cache.
    #[cold]
    fn look_for_silence(&mut self, now: Ns) {
        if let Some(at) = self.folding.as_mut().and_then(|folding| folding.look(now)) {
            return self.calendar.push(at, self.dies.len() + self.channels.len());
        }
        self.mapping.set_idle(true);
        (0..self.dies.len() as u32).for_each(|die| self.start(now, die));
    }

    #[inline]
    fn program_ns(&self, work: Work) -> Ns {
        match (&self.folding, work) {
            (Some(folding), Work::Program(job)) if self.mapping.is_slc(self.jobs.get(job).unit) => {
                folding.parameters.program_ns
            }
            _ => self.rules.program_ns,
        }
    }

    #[inline]
    fn sense_ns(&self, unit: u32) -> Ns {
        match &self.folding {
            Some(folding) if self.mapping.is_slc(unit) => folding.parameters.sense_ns,
            _ => self.rules.sense_ns,
        }
    }
}

/// How a die finds its next work.
impl Dies {
    fn queue_program(&mut self, now: Ns, job: u32) {
        let die = self.mapping.die_of(self.jobs.get(job).unit);
        self.dies[die as usize].programs.push(&mut self.jobs, job);
        self.start(now, die);
    }

    /// Gives an idle die something to do.
    fn start(&mut self, now: Ns, id: u32) {
        if self.dies[id as usize].work == Work::Idle {
            self.start_next(now, id);
        }
    }

    fn start_next(&mut self, now: Ns, id: u32) {
        let die = &mut self.dies[id as usize];
        if let Some(job) = die.reads.pop(&self.jobs) {
            self.occupy_cells(now, id, Work::Sense(job), self.sense_ns(self.jobs.get(job).unit));
            return;
        }
        if let Some(Suspended { work, left_ns }) = die.suspended.take() {
            self.occupy_cells(now, id, work, left_ns);
            return;
        }
        let host_first = !die.host_had_turn && !self.standstill.is_exclusive();
        if host_first && let Some(job) = die.programs.pop(&self.jobs) {
            die.host_had_turn = true;
            self.bring_in(now, id, Work::TakeIn(job));
        } else if self.start_cleaning_step(now, id) {
            self.dies[id as usize].host_had_turn = false;
        } else if !self.standstill.is_exclusive() {
            self.start_program(now, id);
        }
    }

    #[inline(always)]
    fn start_program(&mut self, now: Ns, id: u32) -> bool {
        let Some(job) = self.dies[id as usize].programs.pop(&self.jobs) else { return false };
        self.bring_in(now, id, Work::TakeIn(job));
        true
    }
}

/// Cleaning.
impl Dies {
    /// A die has become short of free erase blocks.
    fn start_cleaning(&mut self, now: Ns, die: u32) {
        if !self.rules.exclusive_cleaning {
            self.start(now, die);
            return;
        }
        self.standstill.start_exclusive(now);
        for die in 0..self.dies.len() as u32 {
            self.mapping.start_cleaning(die);
            self.start(now, die);
        }
    }

    /// The next step of cleaning a row, if the die has one; returns whether the die is busy with anything now.
    fn start_row_step(&mut self, now: Ns, id: u32) -> bool {
        let cleaning = self.row_cleaning.as_mut().expect("the drive works with rows");
        match cleaning.step(id, &mut self.mapping) {
            Step::Program(unit) => self.bring_in(now, id, Work::CleanTakeIn(unit)),
            Step::Sense(unit) => self.occupy_cells(now, id, Work::CleanSense(unit), self.sense_ns(unit)),
            Step::Erase(unit) => self.erase(now, id, unit),
            Step::BufferedUnits => {
                if !self.start_program(now, id) {
                    self.start_batch(now);
                }
            }
            Step::Wait => {}
            Step::Ended => self.cleaning_ended(now),
        }
        self.is_busy(id)
    }

    /// Has dies look for work that cleaning has for them.
    #[inline]
    fn wake(&mut self, now: Ns) {
        if self.row_cleaning.is_some() {
            self.wake_dies(now);
        }
    }

    fn wake_dies(&mut self, now: Ns) {
        loop {
            if self.row_cleaning.as_mut().is_some_and(RowCleaning::take_wakes_all) {
                (0..self.dies.len() as u32).for_each(|die| self.start(now, die));
            } else if let Some(die) = self.mapping.take_woken() {
                self.start(now, die);
            } else {
                return;
            }
        }
    }

    /// The next step of cleaning a die, if it has one; returns whether the die is busy with anything now.
    fn start_cleaning_step(&mut self, now: Ns, id: u32) -> bool {
        if self.row_cleaning.is_some() {
            return self.start_row_step(now, id);
        }
        if let Some(unit) = self.mapping.take_filled_unit(id) {
            self.bring_in(now, id, Work::CleanTakeIn(unit));
            return true;
        }
        loop {
            let Some(mut victim) = self.victim(now, id) else {
                // The end of cleaning may have let the host go on, with this die.
                return self.is_busy(id);
            };
            let unit = victim.next_unit;
            if unit == victim.end_unit {
                if let Some(unit) = self.mapping.take_started_unit(id) {
                    self.bring_in(now, id, Work::CleanTakeIn(unit));
                    return true;
                }
                if self.mapping.has_buffered_units(victim.first_unit) {
                    // Units of the victim are on their way to flash; they come before its erasure.
                    if !self.start_program(now, id) {
                        self.start_batch(now);
                    }
                    return self.is_busy(id);
                }
                self.erase(now, id, victim.first_unit);
                return true;
            }
            victim.next_unit += 1;
            self.dies[id as usize].victim = Some(victim);
            if self.mapping.live_in(unit) == 0 {
                continue;
            }
            if !self.mapping.is_buffered(unit) {
                self.occupy_cells(now, id, Work::CleanSense(unit), self.sense_ns(unit));
                return true;
            }
            self.stats.moved_granules += u64::from(self.mapping.move_unit(id, unit));
            if let Some(unit) = self.mapping.take_filled_unit(id) {
                self.bring_in(now, id, Work::CleanTakeIn(unit));
                return true;
            }
        }
    }

    fn is_busy(&self, id: u32) -> bool {
        self.dies[id as usize].work != Work::Idle
    }

    /// The erase block that a die cleans, chosen now if it has none and should.
    fn victim(&mut self, now: Ns, id: u32) -> Option<Victim> {
        let die = &mut self.dies[id as usize];
        if die.victim.is_none() && self.mapping.is_cleaning(id) {
            die.victim = self.mapping.choose_victim(id).map(Victim::of);
            if die.victim.is_none() {
                self.cleaning_ended(now);
            }
        }
        if self.folding.is_some() && self.dies[id as usize].victim.is_none() {
            let row = self.mapping.fold_victim(id);
            self.dies[id as usize].victim = row.map(Victim::of);
        }
        self.dies[id as usize].victim
    }

    fn erase(&mut self, now: Ns, id: u32, first_unit: u32) {
        self.dies[id as usize].victim = None;
        let mut busy_ns = self.rules.erase_ns;
        if self.rules.single_erase {
            busy_ns = self.eraser.serve(now, busy_ns) - now;
        }
        self.occupy_cells(now, id, Work::Erase(first_unit), busy_ns);
    }

    /// Lets the host go on when it waits for all dies and all have cleaned enough.
    fn cleaning_ended(&mut self, now: Ns) {
        let exclusive = self.standstill.is_exclusive();
        if !exclusive || (0..self.dies.len() as u32).any(|die| self.mapping.is_cleaning(die)) {
            return;
        }
        self.standstill.end_exclusive();
        for die in 0..self.dies.len() as u32 {
            self.start(now, die);
        }
        self.retry = true;
    }
}

/// Cells and channels over time. Every step of a die goes through most of these, so the small ones are inlined.
impl Dies {
    /// The cells of a die are busy for a while.
    fn occupy_cells(&mut self, now: Ns, id: u32, work: Work, busy_ns: Ns) {
        let die = &mut self.dies[id as usize];
        die.begin(now, work);
        die.cells = now..now + busy_ns;
        self.calendar.push(now + busy_ns, id as usize);
        if !die.reads.is_empty() {
            self.suspend(now, id);
        }
    }

    /// A read waits for a die: its work is suspended, once it has gone on for a while, unless it ends before.
    fn suspend(&mut self, now: Ns, id: u32) {
        let die = &self.dies[id as usize];
        let Some(suspend_ns) = self.rules.suspend_ns(die.work) else { return };
        let at = now.max(die.cells.start + suspend_ns);
        if at + suspend_ns < die.cells.end {
            self.calendar.cancel(id as usize);
            self.calendar.push(at, id as usize);
        }
    }

    /// The cells of a die are done, or are interrupted.
    fn array_done(&mut self, now: Ns, id: u32) -> Option<Finished> {
        let die = &self.dies[id as usize];
        let (work, left_ns) = (die.work, die.cells.end - now);
        match work {
            Work::Suspend => self.idle(now, id),
            _ if left_ns > 0 => {
                let suspend_ns = self.rules.suspend_ns(work).expect("only what can be suspended ends early");
                self.dies[id as usize].suspended = Some(Suspended { work, left_ns });
                self.stats.suspensions += 1;
                self.occupy_cells(now, id, Work::Suspend, suspend_ns);
            }
            Work::Sense(job) => return self.take_out(now, id, Work::SendOut(job)),
            Work::CleanSense(unit) => return self.take_out(now, id, Work::CleanSendOut(unit)),
            Work::Program(job) => {
                self.mapping.programmed(self.jobs.get(job).unit);
                self.programs_pending[id as usize] -= 1;
                self.idle(now, id);
                self.standstill.unit_programmed();
                self.retry = true;
                return Some(Finished::Program { job });
            }
            Work::CleanProgram(unit) => {
                self.mapping.moved_unit_programmed(unit);
                self.idle(now, id);
            }
            Work::Erase(unit) => {
                match &mut self.row_cleaning {
                    None => self.mapping.erase(unit),
                    Some(cleaning) => cleaning.erased(&mut self.mapping),
                }
                self.stats.erases += 1;
                self.idle(now, id);
                self.cleaning_ended(now);
                self.retry = true;
            }
            work => unreachable!("cells that {work:?}"),
        }
        None
    }

    /// A die needs its channel to get the data of a program.
    #[inline(always)]
    fn bring_in(&mut self, now: Ns, id: u32, work: Work) {
        if self.request_channel(now, id, work) {
            self.brought_in(now, id);
        }
    }

    /// A die needs its channel to get rid of what it has sensed.
    #[inline(always)]
    fn take_out(&mut self, now: Ns, id: u32, work: Work) -> Option<Finished> {
        if self.request_channel(now, id, work) { self.taken_out(now, id) } else { None }
    }

    /// Queues a die for its channel; returns whether the transfer is already done, since transfers take no time.
    #[inline(always)]
    fn request_channel(&mut self, now: Ns, id: u32, work: Work) -> bool {
        let die = &mut self.dies[id as usize];
        die.begin(now, work);
        let channel = die.channel;
        if self.rules.channel_block_ns == 0 {
            return true;
        }
        if self.channels[channel as usize].serves.is_none() {
            self.occupy_channel(now, channel, id);
        } else {
            self.channels[channel as usize].waiting.push_back(id);
        }
        false
    }

    fn occupy_channel(&mut self, now: Ns, channel: u32, id: u32) {
        self.channels[channel as usize].serves = Some(id);
        let granules = match self.dies[id as usize].work {
            Work::SendOut(job) => self.jobs.get(job).granules,
            Work::CleanSendOut(unit) => self.mapping.live_in(unit),
            _ => self.mapping.unit_granules(),
        };
        let bytes = u64::from(granules) * u64::from(self.mapping.geometry().granule_bytes);
        self.calendar.push(now + self.rules.transfer_ns(bytes), self.dies.len() + channel as usize);
    }

    /// The channel has served a die.
    fn transfer_done(&mut self, now: Ns, id: u32) -> Option<Finished> {
        match self.dies[id as usize].work {
            Work::SendOut(_) | Work::CleanSendOut(_) => self.taken_out(now, id),
            _ => {
                self.brought_in(now, id);
                None
            }
        }
    }

    #[inline(always)]
    fn brought_in(&mut self, now: Ns, id: u32) {
        let work = match self.dies[id as usize].work {
            Work::TakeIn(job) => Work::Program(job),
            Work::CleanTakeIn(unit) => Work::CleanProgram(unit),
            work => unreachable!("a transfer to {work:?}"),
        };
        self.occupy_cells(now, id, work, self.program_ns(work));
    }

    #[inline(always)]
    fn taken_out(&mut self, now: Ns, id: u32) -> Option<Finished> {
        match self.dies[id as usize].work {
            Work::SendOut(job) => {
                let read = self.jobs.take(job);
                self.idle(now, id);
                Some(Finished::Read { request: read.request })
            }
            Work::CleanSendOut(unit) => {
                match &mut self.row_cleaning {
                    None => self.stats.moved_granules += u64::from(self.mapping.move_unit(id, unit)),
                    Some(cleaning) => cleaning.unit_read(id, unit, &mut self.mapping),
                }
                self.idle(now, id);
                None
            }
            work => unreachable!("a transfer to {work:?}"),
        }
    }

    /// A die has ended its work.
    #[inline(always)]
    fn idle(&mut self, now: Ns, id: u32) {
        let die = &mut self.dies[id as usize];
        self.stats.die_busy_ns += now - die.busy_since;
        die.work = Work::Idle;
        self.start_next(now, id);
    }
}
