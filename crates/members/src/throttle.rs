//! What bounds long background work, so that it leaves the members to their users: a rate, and the load beside which it rests.

use std::cell::Cell;

use sinew_core::io::Io;

/// The spans in which clients' requests are counted.
const SPAN_NS: u64 = 1_000_000_000;
/// How often work that rests looks whether it may go on.
const LOOK_NS: u64 = 20_000_000;

/// What background work is bound by. Zero is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes per second at most.
    pub bytes_per_second: u64,
    /// Rest while clients ask for more than so much per second: the rate control of FastScale (FAST '11, section 4.1).
    pub rest_above: u64,
}

/// The bounds of one shard, and what it has done.
#[derive(Default)]
pub struct Throttle {
    bounds: Cell<Bounds>,
    /// When the work done so far would be paid for.
    paid_until: Cell<u64>,
    /// Requests in the span that began then, and in the one before.
    span: Cell<u64>,
    asked: Cell<u64>,
    asked_before: Cell<u64>,
}

impl Throttle {
    /// Changes the bounds.
    pub fn set(&self, bounds: Bounds) {
        self.bounds.set(bounds);
    }

    /// A client asks for something.
    pub fn note_request(&self, io: &impl Io) {
        if self.bounds.get().rest_above > 0 {
            self.turn(io.now());
            self.asked.set(self.asked.get() + 1);
        }
    }

    fn turn(&self, now: u64) {
        let spans = (now - self.span.get()) / SPAN_NS;
        if spans > 0 {
            self.asked_before.set(if spans == 1 { self.asked.get() } else { 0 });
            self.asked.set(0);
            self.span.set(self.span.get() + spans * SPAN_NS);
        }
    }

    fn is_busy(&self, io: &impl Io) -> bool {
        let limit = self.bounds.get().rest_above;
        self.turn(io.now());
        limit > 0 && self.asked.get().max(self.asked_before.get()) > limit
    }

    /// Pays for `bytes` of work, waiting as long as the bounds ask.
    pub async fn pay(&self, io: &impl Io, bytes: u64) {
        while self.is_busy(io) {
            io.sleep(LOOK_NS).await;
        }
        let rate = self.bounds.get().bytes_per_second;
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
