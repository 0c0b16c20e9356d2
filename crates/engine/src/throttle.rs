//! A bound on the rate of long background work, so that it leaves the members to their users.

use std::cell::Cell;

use crate::io::Io;

/// A rate in bytes per second; zero is no bound.
#[derive(Default)]
pub(crate) struct Throttle {
    bytes_per_second: Cell<u64>,
    /// When the work done so far would be paid for.
    paid_until: Cell<u64>,
}

impl Throttle {
    /// Changes the rate.
    pub(crate) fn set(&self, bytes_per_second: u64) {
        self.bytes_per_second.set(bytes_per_second);
    }

    /// Pays for `bytes` of work, waiting as long as the rate asks.
    pub(crate) async fn pay(&self, io: &impl Io, bytes: u64) {
        let rate = self.bytes_per_second.get();
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
