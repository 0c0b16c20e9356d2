//! A drive as its host sees it: requests, and the times when it stands still.

use std::collections::VecDeque;

use super::buffer::{Epoch, Filling};
use super::config::Config;
use super::dies::{Channel, Die, Job};
use super::mapping::{Mapping, NONE};
use super::stats::Stats;
use crate::calendar::{Calendar, Lane, Server};
use crate::command::check;
use crate::{BLOCK_BYTES, Command, Completion, Device, Kind, Ns, Outcome, Rng};

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) command: Command,
    pub(super) submitted_at: Ns,
    /// Blocks of a write that have a place.
    pub(super) placed: u32,
    /// Pages to be read or units to be programmed before it ends.
    pub(super) pending: u32,
    pub(super) outcome: Outcome,
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
#[derive(Clone, Debug)]
pub struct Ssd {
    pub(super) config: Config,
    pub(super) mapping: Mapping,
    pub(super) dies: Vec<Die>,
    pub(super) channels: Vec<Channel>,
    pub(super) jobs: Vec<Job>,
    pub(super) free_jobs: u32,
    pub(super) calendar: Calendar,
    pub(super) stats: Stats,
    pub(super) now: Ns,
    pub(super) rng: Rng,
    pub(super) requests: Vec<Request>,
    pub(super) free_requests: Vec<u32>,
    pub(super) outstanding: u32,
    /// Commands beyond the queue depth, with the time of submission.
    pub(super) held_back: VecDeque<(Ns, Command)>,
    pub(super) controller: Server,
    pub(super) link_in: Server,
    pub(super) link_out: Server,
    /// Commands on their way in: writes with data, and the others.
    pub(super) incoming_writes: Lane,
    pub(super) incoming: Lane,
    /// Completions on their way out: reads with data, and the others.
    pub(super) outgoing_reads: Lane,
    pub(super) outgoing: Lane,
    /// Writes that have arrived and wait for room, in order.
    pub(super) admission: VecDeque<u32>,
    /// Requests that arrived while the drive stood still.
    pub(super) stalled: VecDeque<u32>,
    pub(super) filling: Option<Filling>,
    /// Granules in the buffer and how many there may be.
    pub(super) buffered: u32,
    pub(super) buffered_max: u32,
    /// Units of a batch that has not been started.
    pub(super) batch: VecDeque<u32>,
    /// Units of a batch that is being written out.
    pub(super) batch_units: u32,
    /// Whether all dies clean while the host waits.
    pub(super) exclusive: bool,
    /// Takes turns among dies where only one may erase.
    pub(super) eraser: Server,
    pub(super) stopped_at: Option<Ns>,
    /// Whether requests that wait should look again once the event at hand is dealt with.
    pub(super) wake: bool,
    pub(super) epochs: VecDeque<Epoch>,
    pub(super) first_epoch: u32,
    pub(super) next_die: u32,
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
        self.stats_at(self.now)
    }

    /// What it has done until `now`, if it was moved to all events before.
    pub fn stats_at(&self, now: Ns) -> Stats {
        Stats {
            padded_granules: self.stats.padded_granules + self.mapping.padded,
            die_busy_ns: self.stats.die_busy_ns + self.dies.iter().map(|die| die.busy_for(now)).sum::<Ns>(),
            ..self.stats
        }
    }

    /// Starts counting anew; wear stays.
    pub fn reset_stats(&mut self) {
        self.stats = Stats::default();
        self.dies.iter_mut().for_each(|die| die.count_from(self.now));
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
    pub(super) fn is_stopped(&self) -> bool {
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
