//! When a request completes: base time, jitter, lanes, slow periods.
//!
//! A device serves `lanes` requests at once; the others wait for the lane that is free first. Jitter shuffles the order
//! of completions. During a slow period everything that starts takes `factor` times as long. Flushes wait for no lane:
//! when a flush completes says nothing about writes that were still in flight when it was issued.

use crate::random::Rng;

/// How long requests take, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Every read.
    pub read_ns: u64,
    /// Every write or discard.
    pub write_ns: u64,
    /// Every flush.
    pub flush_ns: u64,
    /// Added for each 4 KiB block read or written.
    pub block_ns: u64,
    /// Upper bound of a uniform random addition to each request.
    pub jitter_ns: u64,
    /// Requests served at once, at least 1.
    pub lanes: usize,
}

impl Default for Latency {
    /// About a data-centre SSD: reads 80 us, writes into its buffer 20 us, flushes 200 us, 8 at once.
    fn default() -> Latency {
        Latency {
            read_ns: 80_000,
            write_ns: 20_000,
            flush_ns: 200_000,
            block_ns: 1_000,
            jitter_ns: 60_000,
            lanes: 8,
        }
    }
}

/// The timing of one device.
pub(crate) struct Timing {
    latency: Latency,
    /// When each lane is free again.
    lanes: Vec<u64>,
    slow_until: u64,
    slow_factor: u64,
    /// Nothing is served before.
    held_until: u64,
    rng: Rng,
}

/// A request to be timed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Read,
    Write,
    Flush,
}

impl Timing {
    pub(crate) fn new(latency: Latency, rng: Rng) -> Timing {
        let lanes = vec![0; latency.lanes.max(1)];
        Timing { latency, lanes, slow_until: 0, slow_factor: 1, held_until: 0, rng }
    }

    /// When a request that arrives now completes.
    pub(crate) fn completion(&mut self, now: u64, work: Work, blocks: u64) -> u64 {
        let mut service = self.base(work, blocks) + self.rng.between(0, self.latency.jitter_ns);
        if work == Work::Flush {
            return now.max(self.held_until) + service * self.factor(now);
        }
        let lane = (0..self.lanes.len()).min_by_key(|&lane| self.lanes[lane]).unwrap_or(0);
        let start = self.lanes[lane].max(now).max(self.held_until);
        service *= self.factor(start);
        self.lanes[lane] = start + service;
        start + service
    }

    fn base(&self, work: Work, blocks: u64) -> u64 {
        let base = match work {
            Work::Read => self.latency.read_ns,
            Work::Write => self.latency.write_ns,
            Work::Flush => self.latency.flush_ns,
        };
        base + self.latency.block_ns * blocks
    }

    /// The time that a slow period adds to a request of a model.
    pub(crate) fn slowness(&self, now: u64, work: Work, blocks: u64) -> u64 {
        self.base(work, blocks) * (self.factor(now) - 1) + self.held_until.saturating_sub(now)
    }

    fn factor(&self, at: u64) -> u64 {
        if at < self.slow_until { self.slow_factor } else { 1 }
    }

    /// Makes everything that starts before `until` take `factor` times as long.
    pub(crate) fn slow_down(&mut self, until: u64, factor: u64) {
        (self.slow_until, self.slow_factor) = (until, factor.max(1));
    }

    /// Makes everything that arrives before `until` wait for that.
    pub(crate) fn hold_up(&mut self, until: u64) {
        self.held_until = until;
    }

    /// Whether a slow period is on.
    pub(crate) fn is_slow(&self, now: u64) -> bool {
        now < self.slow_until
    }

    /// Forgets the queued requests.
    pub(crate) fn reset(&mut self) {
        self.lanes.fill(0);
    }

    /// Changes the times; queued requests keep theirs.
    pub(crate) fn set(&mut self, latency: Latency) {
        self.lanes.resize(latency.lanes.max(1), 0);
        self.latency = latency;
    }
}
