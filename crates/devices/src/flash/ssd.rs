//! A drive as its host sees it: requests, the write buffer, flushes, and the times when it stands still.

use std::collections::VecDeque;

use super::config::{Config, Drain};
use super::dies::{Channel, Die, Job};
use super::mapping::{Mapping, NONE};
use super::stats::Stats;
use crate::calendar::{Calendar, Lane, Server};
use crate::command::check;
use crate::{BLOCK_BYTES, Command, Completion, Device, Kind, Ns, Outcome, Rng};

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    command: Command,
    submitted_at: Ns,
    /// Blocks of a write that have a place.
    placed: u32,
    /// Pages to be read or units to be programmed before it ends.
    pending: u32,
    outcome: Outcome,
}

/// The unit that takes the host's data, the job that will program it (none while aging) and its free granules.
#[derive(Clone, Copy, Debug)]
struct Filling {
    unit: u32,
    job: u32,
    next: u32,
    end: u32,
}

/// Writes between two flushes.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Units not yet programmed.
    units: u32,
    /// The flush that waits for them, once there is one.
    flush: u32,
}

/// Space of a compressing drive, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What compressed data may take.
    pub total: u64,
    /// What it takes.
    pub used: u64,
}

/// A flash SSD.
#[derive(Debug)]
pub struct Ssd {
    pub(super) config: Config,
    pub(super) mapping: Mapping,
    pub(super) dies: Vec<Die>,
    pub(super) channels: Vec<Channel>,
    pub(super) jobs: Vec<Job>,
    pub(super) free_jobs: u32,
    pub(super) calendar: Calendar,
    pub(super) stats: Stats,
    now: Ns,
    rng: Rng,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    outstanding: u32,
    /// Commands beyond the queue depth, with the time of submission.
    held_back: VecDeque<(Ns, Command)>,
    controller: Server,
    link_in: Server,
    link_out: Server,
    /// Commands on their way in: writes with data, and the others.
    incoming_writes: Lane,
    incoming: Lane,
    /// Completions on their way out: reads with data, and the others.
    outgoing_reads: Lane,
    outgoing: Lane,
    /// Writes that have arrived and wait for room, in order.
    admission: VecDeque<u32>,
    /// Requests that arrived while the drive stood still.
    stalled: VecDeque<u32>,
    filling: Option<Filling>,
    /// Granules in the buffer and how many there may be.
    buffered: u32,
    buffered_max: u32,
    /// Units of a batch that has not been started.
    batch: VecDeque<u32>,
    /// Units of a batch that is being written out.
    batch_units: u32,
    /// Whether all dies clean while the host waits.
    pub(super) exclusive: bool,
    /// Takes turns among dies where only one may erase.
    pub(super) eraser: Server,
    stopped_at: Option<Ns>,
    /// Whether requests that wait should look again once the event at hand is dealt with.
    pub(super) wake: bool,
    epochs: VecDeque<Epoch>,
    first_epoch: u32,
    next_die: u32,
}

impl Ssd {
    /// A new drive, all of it unwritten. Panics when the configuration makes no sense.
    pub fn new(config: Config, seed: u64) -> Ssd {
        config.check();
        let per_block = BLOCK_BYTES / config.granule_bytes();
        let mapping = Mapping::new(&config, seed);
        let dies = (0..config.all_dies()).map(|die| Die::new(die % config.channels)).collect();
        let channels = (0..config.channels).map(|_| Channel::default()).collect();
        let buffered_max = config.buffer_blocks * per_block;
        Ssd {
            mapping,
            dies,
            channels,
            jobs: Vec::new(),
            free_jobs: NONE,
            calendar: Calendar::default(),
            stats: Stats::default(),
            now: 0,
            rng: Rng::new(seed ^ 1),
            requests: Vec::new(),
            free_requests: Vec::new(),
            outstanding: 0,
            held_back: VecDeque::new(),
            controller: Server::default(),
            link_in: Server::default(),
            link_out: Server::default(),
            incoming_writes: Lane::default(),
            incoming: Lane::default(),
            outgoing_reads: Lane::default(),
            outgoing: Lane::default(),
            admission: VecDeque::new(),
            stalled: VecDeque::new(),
            filling: None,
            buffered: 0,
            buffered_max,
            batch: VecDeque::new(),
            batch_units: 0,
            exclusive: false,
            eraser: Server::default(),
            stopped_at: None,
            wake: false,
            epochs: VecDeque::from([Epoch { units: 0, flush: NONE }]),
            first_epoch: 0,
            next_die: 0,
            config,
        }
    }

    /// What it is made of.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What it has done.
    pub fn stats(&self) -> Stats {
        Stats { padded_granules: self.stats.padded_granules + self.mapping.padded, ..self.stats }
    }

    /// Starts counting anew; wear stays.
    pub fn reset_stats(&mut self) {
        self.stats = Stats::default();
        self.mapping.padded = 0;
    }

    /// Erases of each erase block, die after die; those of all planes count once.
    pub fn erase_counts(&self) -> &[u32] {
        self.mapping.erases()
    }

    /// Whether a block holds data.
    pub fn is_written(&self, lba: u32) -> bool {
        self.mapping.locate(lba).is_some()
    }

    /// Says what the blocks from `lba` will compress to, in bytes, when they are next written. Blocks of which nothing
    /// was said do not compress. Panics on a drive that does not compress.
    pub fn announce_lengths(&mut self, lba: u32, bytes: &[u16]) {
        for (block, &length) in (lba..).zip(bytes) {
            self.mapping.announce_length(block, length);
        }
    }

    /// Space for compressed data, if the drive compresses and tells.
    pub fn space(&self) -> Option<Space> {
        self.config.compression.filter(|compression| compression.space_query)?;
        let (total, used) = self.mapping.space();
        let bytes = u64::from(self.mapping.granule_bytes());
        Some(Space { total: total * bytes, used: used * bytes })
    }

    /// Compressed length of a block in bytes, 0 if it holds nothing, if the drive compresses and tells.
    pub fn length_of(&self, lba: u32) -> Option<u16> {
        self.config.compression.filter(|compression| compression.length_query)?;
        Some(self.mapping.length(lba))
    }

    /// Ages the drive at once: all of it is written in order, then `overwrites` times its size at random, so that every
    /// write leaves something to clean (FusionRAID, FAST '21, sections 2.1 and 5.1). Counts start anew, but for wear.
    /// Panics while requests are under way.
    pub fn age(&mut self, overwrites: f64) {
        self.settle();
        let blocks = self.mapping.blocks();
        for lba in 0..blocks {
            self.write_at_once(lba);
        }
        self.overwrite((f64::from(blocks) * overwrites) as u64, blocks);
        self.reset_stats();
    }

    /// Writes `count` random blocks among the first `span`, at once.
    pub fn overwrite_at_once(&mut self, count: u64, span: u32) {
        self.settle();
        self.overwrite(count, span);
    }

    fn overwrite(&mut self, count: u64, span: u32) {
        // Places are drawn some steps ahead, so that the caches have them in time.
        let mut ahead: [u32; 8] = std::array::from_fn(|_| self.draw(span));
        for step in 0..count as usize {
            let next = self.draw(span);
            let lba = std::mem::replace(&mut ahead[step % 8], next);
            self.write_at_once(lba);
        }
        if let Some(filling) = self.filling.take() {
            self.finish_at_once(filling);
        }
    }

    fn draw(&mut self, span: u32) -> u32 {
        let lba = self.rng.below(span);
        self.mapping.touch(lba);
        lba
    }

    /// Puts what the buffer holds on flash at once. Panics while requests are under way.
    fn settle(&mut self) {
        assert!(self.next_event().is_none(), "requests are under way");
        if let Some(filling) = self.filling.take() {
            self.stats.padded_granules += u64::from(filling.end - filling.next);
            self.batch.push_back(filling.job);
        }
        while let Some(job) = self.batch.pop_front() {
            let job = self.take_job(job);
            self.dies[self.mapping.die_of(job.unit) as usize].programs_pending -= 1;
            self.mapping.programmed(job.unit);
            self.unit_programmed(job);
        }
        self.wake = false;
    }

    fn write_at_once(&mut self, lba: u32) {
        let count = self.mapping.granules_needed(lba);
        if !self.has_space(lba, count) {
            return;
        }
        let mut filling = match self.filling.take() {
            Some(filling) if filling.end - filling.next >= count => filling,
            full => {
                if let Some(full) = full {
                    self.finish_at_once(full);
                }
                let die = self.die_at_once();
                let unit = self.mapping.open_unit(die);
                let at = unit * self.mapping.unit_granules();
                Filling { unit, job: NONE, next: at, end: at + self.mapping.unit_granules() }
            }
        };
        self.mapping.place(lba, filling.next, count);
        filling.next += count;
        self.stats.written_blocks += 1;
        self.stats.written_granules += u64::from(count);
        self.filling = Some(filling);
    }

    fn finish_at_once(&mut self, filling: Filling) {
        self.stats.padded_granules += u64::from(filling.end - filling.next);
        self.mapping.programmed(filling.unit);
    }

    fn die_at_once(&mut self) -> u32 {
        loop {
            let die = self.next_die;
            self.next_die = (self.next_die + 1) % self.dies.len() as u32;
            let (moved, erased) = self.mapping.clean_at_once(die);
            self.stats.moved_granules += moved;
            self.stats.erases += erased;
            if self.mapping.can_open(die) {
                return die;
            }
        }
    }

    fn has_space(&self, lba: u32, count: u32) -> bool {
        if self.config.compression.is_none() {
            return true;
        }
        let (total, used) = self.mapping.space();
        let old = self.mapping.locate(lba).map_or(0, |(_, count)| count);
        used + u64::from(count) <= total + u64::from(old)
    }

    fn accept(&mut self, now: Ns, submitted_at: Ns, command: Command) {
        self.outstanding += 1;
        let request = Request { command, submitted_at, placed: 0, pending: 0, outcome: Outcome::Done };
        let id = match self.free_requests.pop() {
            Some(id) => {
                self.requests[id as usize] = request;
                id
            }
            None => {
                self.requests.push(request);
                self.requests.len() as u32 - 1
            }
        };
        if command.kind != Kind::Flush {
            self.mapping.touch(command.lba);
        }
        let link = self.config.link;
        let taken = self.controller.serve(now, link.command_ns);
        if command.kind == Kind::Write {
            let arrived = self.link_in.serve(taken, u64::from(command.blocks) * link.block_ns);
            self.incoming_writes.push(arrived + link.latency_ns, id);
        } else {
            self.incoming.push(taken + link.latency_ns, id);
        }
    }

    /// Whether requests have to wait for the drive to move again.
    fn is_stopped(&self) -> bool {
        self.exclusive || self.batch_units > 0
    }

    fn arrived(&mut self, id: u32) {
        if self.is_stopped() {
            self.stalled.push_back(id);
            return;
        }
        let command = self.requests[id as usize].command;
        match command.kind {
            Kind::Read => self.start_read(id, command),
            Kind::Write => {
                self.admission.push_back(id);
                self.admit();
            }
            Kind::Discard => {
                for lba in command.lba..command.lba + command.blocks {
                    self.mapping.forget(lba);
                }
                self.outgoing.push(self.now, id);
            }
            Kind::Flush => self.start_flush(id),
        }
    }

    fn start_read(&mut self, id: u32, command: Command) {
        let (mut unit, mut granules, mut pending) = (NONE, 0, 0);
        for lba in command.lba..command.lba + command.blocks {
            let Some((at, count)) = self.mapping.locate(lba) else {
                continue;
            };
            let next = at / self.mapping.unit_granules();
            if next != unit {
                pending += self.sense(unit, granules, id);
                (unit, granules) = (next, 0);
            }
            granules += count;
        }
        pending += self.sense(unit, granules, id);
        self.requests[id as usize].pending = pending;
        if pending == 0 {
            self.send(id);
        }
    }

    /// Reads granules of a unit for a request, unless they are in the buffer; returns the jobs it takes.
    fn sense(&mut self, unit: u32, granules: u32, request: u32) -> u32 {
        if unit == NONE || self.mapping.is_buffered(unit) {
            return 0;
        }
        self.stats.host_senses += 1;
        let job = self.add_job(Job { unit, granules, request, epoch: 0, next: NONE });
        self.queue_read(self.mapping.die_of(unit), job);
        1
    }

    /// A read has everything; the data goes to the host.
    fn send(&mut self, id: u32) {
        let transfer = u64::from(self.requests[id as usize].command.blocks) * self.config.link.block_ns;
        let link = if self.config.link.duplex { &mut self.link_out } else { &mut self.link_in };
        let sent = link.serve(self.now, transfer);
        self.outgoing_reads.push(sent, id);
    }

    pub(super) fn job_of_read_done(&mut self, request: u32) {
        let pending = &mut self.requests[request as usize].pending;
        *pending -= 1;
        if *pending == 0 {
            self.send(request);
        }
    }

    /// Gives waiting writes a place, in order, while there is room.
    fn admit(&mut self) {
        while let Some(&id) = self.admission.front() {
            let Request { command, placed, .. } = self.requests[id as usize];
            for placed in placed..command.blocks {
                if self.is_stopped() || !self.admit_block(id, command.lba + placed) {
                    return;
                }
                self.requests[id as usize].placed += 1;
            }
            self.admission.pop_front();
            self.stats.written_blocks += u64::from(command.blocks);
            if self.config.drain == Drain::Through {
                self.seal();
                // All of its blocks may have met a lack of space.
                if self.requests[id as usize].pending == 0 {
                    self.outgoing.push(self.now, id);
                }
            } else {
                self.outgoing.push(self.now, id);
            }
        }
    }

    /// Gives one block a place, or says that it has to wait.
    fn admit_block(&mut self, id: u32, lba: u32) -> bool {
        let count = self.mapping.granules_needed(lba);
        if !self.has_space(lba, count) {
            self.requests[id as usize].outcome = Outcome::NoSpace;
            return true;
        }
        if self.buffered + count > self.buffered_max {
            self.make_room();
            return false;
        }
        let Some(mut filling) = self.room(id, count) else {
            return false;
        };
        self.mapping.place(lba, filling.next, count);
        filling.next += count;
        self.buffered += count;
        self.stats.written_granules += u64::from(count);
        self.jobs[filling.job as usize].granules += count;
        self.filling = Some(filling);
        if filling.next == filling.end {
            self.seal();
        }
        true
    }

    /// Sees to it that a full buffer empties.
    fn make_room(&mut self) {
        if let Drain::Batch { .. } = self.config.drain {
            self.seal();
            self.start_batch();
        } else if self
            .filling
            .is_some_and(|filling| self.jobs[filling.job as usize].granules == self.buffered)
        {
            // Nothing else is on its way, and the rest of this unit is too small.
            self.seal();
        }
    }

    /// A unit with room for so many granules.
    fn room(&mut self, id: u32, count: u32) -> Option<Filling> {
        if let Some(filling) = self.filling {
            if filling.end - filling.next >= count {
                return Some(filling);
            }
            self.seal();
        }
        let die = self.pick_die()?;
        let was_cleaning = self.mapping.is_cleaning(die);
        let unit = self.mapping.open_unit(die);
        let request = if self.config.drain == Drain::Through { id } else { NONE };
        if request != NONE {
            self.requests[id as usize].pending += 1;
        }
        let epoch = self.first_epoch.wrapping_add(self.epochs.len() as u32 - 1);
        self.epochs.back_mut().expect("there is always an epoch").units += 1;
        let job = self.add_job(Job { unit, granules: 0, request, epoch, next: NONE });
        if !was_cleaning && self.mapping.is_cleaning(die) {
            self.cleaning_wanted(die);
        }
        let at = unit * self.mapping.unit_granules();
        Some(Filling { unit, job, next: at, end: at + self.mapping.unit_granules() })
    }

    /// The die with the fewest programs before it that has room; the rotation breaks ties.
    fn pick_die(&mut self) -> Option<u32> {
        let dies = self.dies.len() as u32;
        let mut best = None;
        let mut least = u32::MAX;
        for step in 0..dies {
            let die =
                if self.next_die + step < dies { self.next_die + step } else { self.next_die + step - dies };
            let queued = self.dies[die as usize].programs_pending;
            if queued < least && self.mapping.can_open(die) {
                (best, least) = (Some(die), queued);
                if queued == 0 {
                    break;
                }
            }
        }
        let die = best?;
        self.next_die = if die + 1 < dies { die + 1 } else { 0 };
        self.dies[die as usize].programs_pending += 1;
        Some(die)
    }

    /// Ends the filling of a unit, full or not, and has it programmed.
    fn seal(&mut self) {
        let Some(filling) = self.filling.take() else {
            return;
        };
        self.stats.padded_granules += u64::from(filling.end - filling.next);
        self.batch.push_back(filling.job);
        match self.config.drain {
            Drain::Batch { blocks } => {
                let granules = blocks * (BLOCK_BYTES / self.mapping.granule_bytes());
                if self.buffered >= granules.min(self.buffered_max) {
                    self.start_batch();
                }
            }
            Drain::Through | Drain::Steady => self.queue_batch(),
        }
    }

    /// Everything stops until what is buffered is on flash.
    pub(super) fn start_batch(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        self.stop();
        self.batch_units += self.batch.len() as u32;
        self.queue_batch();
    }

    fn queue_batch(&mut self) {
        while let Some(job) = self.batch.pop_front() {
            self.queue_program(self.mapping.die_of(self.jobs[job as usize].unit), job);
        }
    }

    /// A unit of the host's data is on flash.
    pub(super) fn unit_programmed(&mut self, job: Job) {
        self.buffered -= job.granules;
        if job.request != NONE {
            let request = &mut self.requests[job.request as usize];
            request.pending -= 1;
            if request.pending == 0 && request.placed == request.command.blocks {
                self.outgoing.push(self.now, job.request);
            }
        }
        let epoch = job.epoch.wrapping_sub(self.first_epoch) as usize;
        self.epochs[epoch].units -= 1;
        self.finish_flushes();
        self.batch_units = self.batch_units.saturating_sub(1);
        self.wake = true;
    }

    fn start_flush(&mut self, id: u32) {
        if self.config.power_loss_protected {
            self.outgoing.push(self.now, id);
            return;
        }
        self.seal();
        if let Drain::Batch { .. } = self.config.drain {
            self.start_batch();
        }
        self.epochs.back_mut().expect("there is always an epoch").flush = id;
        self.epochs.push_back(Epoch { units: 0, flush: NONE });
        self.finish_flushes();
    }

    fn finish_flushes(&mut self) {
        while let Some(&Epoch { units: 0, flush }) = self.epochs.front()
            && flush != NONE
        {
            self.outgoing.push(self.now, flush);
            self.epochs.pop_front();
            self.first_epoch = self.first_epoch.wrapping_add(1);
        }
    }

    pub(super) fn stop(&mut self) {
        if self.stopped_at.is_none() {
            self.stopped_at = Some(self.now);
            self.stats.stalls += 1;
        }
    }

    /// Takes up what arrived while the drive stood still, if it moves again.
    fn go_on(&mut self) {
        if self.is_stopped() {
            return;
        }
        if let Some(since) = self.stopped_at.take() {
            self.stats.stalled_ns += self.now - since;
        }
        self.admit();
        while !self.is_stopped()
            && let Some(id) = self.stalled.pop_front()
        {
            self.arrived(id);
        }
    }

    fn complete(&mut self, id: u32, completions: &mut Vec<Completion>) {
        let Request { command, submitted_at, outcome, .. } = self.requests[id as usize];
        let (tag, kind) = (command.tag, command.kind);
        completions.push(Completion { tag, kind, outcome, submitted_at, completed_at: self.now });
        self.free_requests.push(id);
        self.outstanding -= 1;
        if let Some((submitted_at, command)) = self.held_back.pop_front() {
            self.accept(self.now, submitted_at, command);
        }
    }

    /// The time it was last moved to.
    pub fn now(&self) -> Ns {
        self.now
    }

    fn next_at(&self) -> Ns {
        let incoming = self.incoming.next().min(self.incoming_writes.next());
        let outgoing = self.outgoing.next().min(self.outgoing_reads.next());
        incoming.min(outgoing).min(self.calendar.next())
    }
}

impl Device for Ssd {
    fn blocks(&self) -> u32 {
        self.mapping.blocks()
    }

    fn submit(&mut self, now: Ns, command: Command) {
        check(&command, self.mapping.blocks());
        debug_assert!(now >= self.now && self.next_at() >= now, "advance to the time of submission first");
        self.now = now;
        if self.outstanding < self.config.queue_depth {
            self.accept(now, now, command);
        } else {
            self.held_back.push_back((now, command));
        }
    }

    fn next_event(&self) -> Option<Ns> {
        let at = self.next_at();
        (at != Ns::MAX).then_some(at)
    }

    fn advance(&mut self, now: Ns, completions: &mut Vec<Completion>) {
        loop {
            let at = self.next_at();
            if at > now {
                break;
            }
            self.now = at;
            if self.calendar.next() == at {
                self.calendar.pop().into_iter().for_each(|part| self.part_done(part));
            } else if self.outgoing.next() == at {
                self.outgoing.pop().into_iter().for_each(|id| self.complete(id, completions));
            } else if self.outgoing_reads.next() == at {
                self.outgoing_reads.pop().into_iter().for_each(|id| self.complete(id, completions));
            } else {
                let lane =
                    if self.incoming.next() == at { &mut self.incoming } else { &mut self.incoming_writes };
                lane.pop().into_iter().for_each(|id| self.arrived(id));
            }
            while std::mem::take(&mut self.wake) {
                self.go_on();
            }
        }
        self.now = self.now.max(now);
    }
}
