//! Limits of long background work, so that it leaves the members to clients: a rate in bytes per second, and a load of
//! client requests above which it pauses.

use std::cell::Cell;

use sinew_core::io::Io;

/// Length of the intervals in which client requests are counted.
const INTERVAL_NS: u64 = 1_000_000_000;
/// How often paused work checks whether it may go on.
const POLL_NS: u64 = 20_000_000;

/// Limits of background work. Zero is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes per second at most.
    pub bytes_per_second: u64,
    /// Pause while clients send more requests per second than this: the rate control of FastScale (FAST '11, section 4.1).
    pub pause_above_iops: u64,
}

/// The limits of one shard, and the work done within them.
#[derive(Default)]
pub struct Throttle {
    limits: Cell<Limits>,
    /// When the work done so far reaches its rate.
    paid_until: Cell<u64>,
    /// When the present interval began.
    interval_start: Cell<u64>,
    /// Client requests in the present interval.
    requests: Cell<u64>,
    /// Client requests in the interval before.
    requests_before: Cell<u64>,
}

impl Throttle {
    /// Changes the limits.
    pub fn set(&self, limits: Limits) {
        self.limits.set(limits);
    }

    /// The rate, in bytes per second; 0 if there is none.
    pub fn rate(&self) -> u64 {
        self.limits.get().bytes_per_second
    }

    /// Counts a client's request.
    pub fn note_request(&self, io: &impl Io) {
        if self.limits.get().pause_above_iops > 0 {
            self.advance(io.now());
            self.requests.set(self.requests.get() + 1);
        }
    }

    fn advance(&self, now: u64) {
        let intervals = (now - self.interval_start.get()) / INTERVAL_NS;
        if intervals > 0 {
            self.requests_before.set(if intervals == 1 { self.requests.get() } else { 0 });
            self.requests.set(0);
            self.interval_start.set(self.interval_start.get() + intervals * INTERVAL_NS);
        }
    }

    fn is_paused(&self, io: &impl Io) -> bool {
        let limit = self.limits.get().pause_above_iops;
        self.advance(io.now());
        limit > 0 && self.requests.get().max(self.requests_before.get()) > limit
    }

    /// Waits until `bytes` of work are allowed, and charges them.
    pub async fn pay(&self, io: &impl Io, bytes: u64) {
        while self.is_paused(io) {
            io.sleep(POLL_NS).await;
        }
        let rate = self.rate();
        if rate == 0 {
            return;
        }
        let now = io.now();
        let due = self.paid_until.get().max(now);
        self.paid_until.set(due + (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64);
        if due > now {
            io.sleep(due - now).await;
        }
    }
}
