//! The time that an idle thread polls for work before it sleeps.
//!
//! Polling saves a wake-up, and more than its time where processors are virtual: one that halts takes tens of microseconds to run
//! again, and so does that of a client that waits the longer for it. So a thread that falls asleep just before work arrives polls
//! longer from then on, and as at first again when it sleeps for longer. KVM's halt polling adapts alike (Linux,
//! Documentation/virt/kvm/halt-polling.rst).

use std::cell::Cell;
use std::time::Duration;

/// The longest time, in times of the configured one.
const GROWTH_MAX: u64 = 4;

/// How long a thread polls now, in nanoseconds.
pub(crate) struct IdlePolling {
    least: u64,
    now: Cell<u64>,
}

impl IdlePolling {
    /// Polling for this time at first; not at all if it is zero.
    pub(crate) fn new(least: Duration) -> IdlePolling {
        let least = least.as_nanos() as u64;
        IdlePolling { least, now: Cell::new(least) }
    }

    /// Whether idle threads poll.
    pub(crate) fn is_on(&self) -> bool {
        self.least > 0
    }

    /// The time to poll, in nanoseconds.
    pub(crate) fn ns(&self) -> u64 {
        self.now.get()
    }

    /// The thread has polled for that time, and then slept for this one, in nanoseconds, until there was work.
    pub(crate) fn note_sleep(&self, slept: u64) {
        let (polled, most) = (self.now.get(), self.least * GROWTH_MAX);
        self.now.set(if polled + slept <= most { most.min(polled * 2) } else { self.least });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_sleeps_lengthen_polling_and_long_ones_end_that() {
        let polling = IdlePolling::new(Duration::from_micros(20));
        let after = |slept_us: u64| {
            polling.note_sleep(slept_us * 1000);
            polling.ns() / 1000
        };
        assert_eq!([after(30), after(30), after(0), after(1)], [40, 80, 80, 20]);
        assert_eq!([after(61), after(60), after(1_000_000)], [20, 40, 20]);
        let off = IdlePolling::new(Duration::ZERO);
        off.note_sleep(0);
        assert_eq!((off.is_on(), off.ns()), (false, 0));
    }
}
