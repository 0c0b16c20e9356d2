//! Pending events: lanes for what happens in order, a heap for the rest.
//!
//! Most steps of a request pass through servers that keep order (controller, host link), so their events are queues
//! that need no sorting. Only dies and channels finish out of order; each has at most one event pending, so the heap
//! stays as small as the device has parts.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::Ns;

/// Bits of a heap key that name the part; the rest is time.
const PART_BITS: u32 = 12;
/// Parts a calendar can tell apart.
pub(crate) const PARTS_MAX: usize = 1 << PART_BITS;

/// Events that happen in the order in which they were added.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// The time of the first event, or [`Ns::MAX`].
    next: Ns,
    events: VecDeque<(Ns, u32)>,
}

impl Lane {
    pub(crate) fn new() -> Lane {
        Lane { next: Ns::MAX, events: VecDeque::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, at: Ns, item: u32) {
        debug_assert!(self.events.back().is_none_or(|&(last, _)| last <= at), "a lane keeps order");
        self.next = self.next.min(at);
        self.events.push_back((at, item));
    }

    #[inline]
    pub(crate) fn next(&self) -> Ns {
        self.next
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let (_, item) = self.events.pop_front()?;
        self.next = self.events.front().map_or(Ns::MAX, |&(at, _)| at);
        Some(item)
    }
}

/// Events of parts, in order of time, then of part number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calendar {
    heap: BinaryHeap<Reverse<u64>>,
}

impl Calendar {
    #[inline]
    pub(crate) fn push(&mut self, at: Ns, part: usize) {
        debug_assert!(part < PARTS_MAX);
        assert!(at < 1 << (64 - PART_BITS), "the clock of a model ends after 52 days");
        self.heap.push(Reverse(at << PART_BITS | part as u64));
    }

    /// Forgets the pending event of a part.
    pub(crate) fn cancel(&mut self, part: usize) {
        self.heap.retain(|&Reverse(key)| part_of(key) != part);
    }

    #[inline]
    pub(crate) fn next(&self) -> Ns {
        self.heap.peek().map_or(Ns::MAX, |&Reverse(key)| key >> PART_BITS)
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<usize> {
        self.heap.pop().map(|Reverse(key)| part_of(key))
    }
}

fn part_of(key: u64) -> usize {
    key as usize & (PARTS_MAX - 1)
}

/// When a server that keeps order is free again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    free_at: Ns,
}

impl Server {
    /// Takes `service_ns` as soon as possible from `now`; returns the end.
    pub(crate) fn serve(&mut self, now: Ns, service_ns: Ns) -> Ns {
        self.free_at = self.free_at.max(now) + service_ns;
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_by_part() {
        let mut calendar = Calendar::default();
        for (at, part) in [(7, 1), (5, 9), (5, 2), (6, 0)] {
            calendar.push(at, part);
        }
        calendar.push(4, 3);
        calendar.cancel(3);
        let mut order = Vec::new();
        while calendar.next() != Ns::MAX {
            order.push((calendar.next(), calendar.pop()));
        }
        assert_eq!(order, [(5, Some(2)), (5, Some(9)), (6, Some(0)), (7, Some(1))]);
    }
}
