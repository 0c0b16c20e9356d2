//! What the gate knows of one volume: its requests in the shard and those that wait for their turn.

use std::collections::VecDeque;

use crate::gate::grace::Grace;
use crate::gate::window::Class;
use sinew_core::sync::Fulfil;
use sinew_members::status::Delayed;

/// Reads of a volume that enter before a write of it that waits.
const READS_AHEAD: u32 = 4;

/// A request that waits; `enter` gets what it is in the shard.
pub(super) struct Waiting<E> {
    pub(super) arrival: u64,
    pub(super) cost: u64,
    pub(super) class: Class,
    pub(super) since: u64,
    pub(super) enter: Fulfil<E>,
}

/// What the gate knows of a volume.
pub(super) struct Flow<E> {
    /// Cost of its requests in the shard.
    pub(super) inside: u64,
    reads: VecDeque<Waiting<E>>,
    writes: VecDeque<Waiting<E>>,
    /// Reads that have entered since a write did.
    reads_ahead: u32,
    pub(super) backlogged: bool,
    pub(super) grace: Grace,
    /// Where its last request that took a turn ends in virtual time.
    pub(super) end_tag: u64,
    pub(super) active_until: u64,
    pub(super) delayed: Delayed,
}

impl<E> Default for Flow<E> {
    fn default() -> Self {
        Flow {
            inside: 0,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            reads_ahead: 0,
            backlogged: false,
            grace: Grace::default(),
            end_tag: 0,
            active_until: 0,
            delayed: Delayed::default(),
        }
    }
}

impl<E> Flow<E> {
    pub(super) fn is_active(&self, now: u64) -> bool {
        self.inside > 0 || self.waits() || now < self.active_until
    }

    pub(super) fn waits(&self) -> bool {
        !self.reads.is_empty() || !self.writes.is_empty()
    }

    pub(super) fn queue(&mut self, waiting: Waiting<E>) {
        let queue = if waiting.class.is_write() { &mut self.writes } else { &mut self.reads };
        queue.push_back(waiting);
    }

    /// Arrival of the request that waits longest.
    pub(super) fn waits_since(&self) -> Option<u64> {
        [&self.reads, &self.writes].into_iter().filter_map(|queue| Some(queue.front()?.arrival)).min()
    }

    /// Takes the request that is to enter next.
    pub(super) fn take_next(&mut self) -> Option<Waiting<E>> {
        if self.writes.is_empty() {
            self.reads_ahead = 0;
            self.reads.pop_front()
        } else if !self.reads.is_empty() && self.reads_ahead < READS_AHEAD {
            self.reads_ahead += 1;
            self.reads.pop_front()
        } else {
            self.reads_ahead = 0;
            self.writes.pop_front()
        }
    }
}
