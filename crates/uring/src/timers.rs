//! Wakers by deadline.
//!
//! Timers of one deadline fire in the order they were set.

use std::collections::BTreeMap;
use std::task::Waker;

/// Names a set timer: its deadline in nanoseconds and a sequence number that keeps equal deadlines apart and in order.
pub(crate) type TimerKey = (u64, u64);

/// The timers of one runtime.
#[derive(Default)]
pub(crate) struct Timers {
    waiting: BTreeMap<TimerKey, Waker>,
    next: u64,
}

impl Timers {
    /// Sets a timer.
    pub(crate) fn set(&mut self, deadline: u64, waker: Waker) -> TimerKey {
        let key = (deadline, self.next);
        self.next += 1;
        self.waiting.insert(key, waker);
        key
    }

    /// Replaces the waker of a timer that has not fired.
    pub(crate) fn update(&mut self, key: TimerKey, waker: &Waker) {
        if let Some(old) = self.waiting.get_mut(&key) {
            old.clone_from(waker);
        }
    }

    /// Forgets a timer.
    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<Waker> {
        self.waiting.remove(&key)
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(key, _)| key.0)
    }

    /// Takes the earliest timer if it is due.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<Waker> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
