//! A disk: an arm that seeks, platters that turn, zones of tracks, a read cache that reads ahead.
//!
//! One request is served at a time. A read that the cache does not hold, and every write, costs a seek, the wait for the
//! first sector to come round, and the time the sectors take to pass; tracks are skewed by the time it takes to change
//! to the next. After a read the disk goes on reading into the cache until it has something else to do. There is no
//! write cache: a write is durable when it completes.

mod cache;
mod geometry;
mod models;

use std::collections::VecDeque;

pub use geometry::{Geometry, Seek};
pub use models::{constellation2, ultrastar_36z15};

use self::cache::Cache;
use self::geometry::{Arm, Platters};
use crate::calendar::Lane;
use crate::command::check;
use crate::{Command, Completion, Device, Kind, Ns, Outcome};

/// What a disk is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Platters, tracks and arm.
    pub geometry: Geometry,
    /// Time of the controller for each command.
    pub command_ns: Ns,
    /// Time of 4 KiB on the host link.
    pub link_block_ns: Ns,
    /// Sequences of reads that the cache follows at once.
    pub cache_segments: usize,
    /// Blocks of 4 KiB in each.
    pub cache_segment_blocks: u32,
    /// Commands the disk chooses from; the host holds back the others.
    pub queue_depth: usize,
    /// Which of them is next.
    pub schedule: Schedule,
}

/// Which of the waiting requests is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// The one that came first.
    Fcfs,
    /// The one that the head can begin first.
    ShortestPositioning,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    command: Command,
    submitted_at: Ns,
}

/// A disk.
#[derive(Clone, Debug)]
pub struct Disk {
    config: Config,
    platters: Platters,
    arm: Arm,
    cache: Cache,
    waiting: VecDeque<Request>,
    /// The request being served and when the mechanics are done with it.
    serving: Option<(Ns, Request)>,
    /// Completions on their way to the host.
    outgoing: Lane,
    sent: VecDeque<Request>,
    now: Ns,
}

impl Disk {
    /// A disk with its arm over the outermost track.
    pub fn new(config: Config) -> Disk {
        assert!(config.queue_depth > 0, "a queue holds something");
        Disk {
            platters: Platters::new(&config.geometry),
            arm: Arm::default(),
            cache: Cache::new(config.cache_segments, u64::from(config.cache_segment_blocks) * 8),
            waiting: VecDeque::new(),
            serving: None,
            outgoing: Lane::new(),
            sent: VecDeque::new(),
            now: 0,
            config,
        }
    }

    /// What it is made of.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn start(&mut self) {
        if self.serving.is_some() || self.waiting.is_empty() {
            return;
        }
        let next = self.choose();
        if let Some(request) = self.waiting.remove(next) {
            self.serving = Some((self.serve(request.command), request));
        }
    }

    fn choose(&self) -> usize {
        match self.config.schedule {
            Schedule::Fcfs => 0,
            Schedule::ShortestPositioning => {
                let candidates = 0..self.waiting.len().min(self.config.queue_depth);
                candidates.min_by_key(|&place| self.positioning(&self.waiting[place].command)).unwrap_or(0)
            }
        }
    }

    /// When a request could begin to move data.
    fn positioning(&self, command: &Command) -> Ns {
        let (sector, end) = sectors(command);
        let begin = self.now + self.config.command_ns;
        let cached = command.kind == Kind::Read && self.cache.ready_at(begin, sector, end).is_some();
        if cached || !moves_data(command.kind) {
            return begin;
        }
        self.platters.begin(self.arm, begin, sector, command.kind == Kind::Write)
    }

    /// Serves a request from now on; returns when the mechanics are free again.
    fn serve(&mut self, command: Command) -> Ns {
        let begin = self.now + self.config.command_ns;
        if !moves_data(command.kind) {
            return begin;
        }
        let (sector, end) = sectors(&command);
        if command.kind == Kind::Read
            && let Some(ready) = self.cache.ready_at(begin, sector, end)
        {
            self.cache.used(sector, end);
            return ready.max(begin);
        }
        self.cache.stop(begin);
        let at = self.platters.begin(self.arm, begin, sector, command.kind == Kind::Write);
        let (done, arm) = self.platters.pass(at, sector, end);
        self.arm = arm;
        if command.kind == Kind::Write {
            self.cache.forget(sector, end);
        } else {
            self.cache.read(sector, end, done, self.platters.sector_ns_times_1024(end - 1));
        }
        done
    }
}

fn moves_data(kind: Kind) -> bool {
    matches!(kind, Kind::Read | Kind::Write)
}

/// First sector of a command and the one after its last.
fn sectors(command: &Command) -> (u64, u64) {
    let first = u64::from(command.lba) * 8;
    (first, first + u64::from(command.blocks) * 8)
}

impl Device for Disk {
    fn blocks(&self) -> u32 {
        self.config.geometry.blocks
    }

    fn submit(&mut self, now: Ns, command: Command) {
        check(&command, self.blocks());
        debug_assert!(now >= self.now && self.next_event().is_none_or(|at| at >= now), "advance first");
        self.now = now;
        self.waiting.push_back(Request { command, submitted_at: now });
        self.start();
    }

    fn next_event(&self) -> Option<Ns> {
        let served = self.serving.map_or(Ns::MAX, |(at, _)| at);
        let at = served.min(self.outgoing.next());
        (at != Ns::MAX).then_some(at)
    }

    fn advance(&mut self, now: Ns, completions: &mut Vec<Completion>) {
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            self.now = at;
            if self.outgoing.next() == at {
                self.outgoing.pop();
                completions.extend(self.sent.pop_front().map(|Request { command, submitted_at }| {
                    Completion {
                        tag: command.tag,
                        kind: command.kind,
                        outcome: Outcome::Done,
                        submitted_at,
                        completed_at: at,
                    }
                }));
            } else if let Some((_, request)) = self.serving.take() {
                // Media and link work at once; only the last block's way to the host comes on top.
                let last = self.config.link_block_ns;
                self.outgoing.push(at + last, 0);
                self.sent.push_back(request);
                self.start();
            }
        }
        self.now = self.now.max(now);
    }
}

#[cfg(test)]
mod tests;
