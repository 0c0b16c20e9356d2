//! What the gate knows of one volume: its requests in the shard and those that wait for their turn. Reads and writes are counted
//! apart.

use std::collections::VecDeque;

use crate::gate::grace::Grace;
use crate::gate::window::Class;
use sinew_core::mutation::{self, Mutation};
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

/// The reads or the writes of a volume.
pub(super) struct Lane<E> {
    /// Cost of those in the shard.
    pub(super) inside: u64,
    pub(super) waiting: VecDeque<Waiting<E>>,
    pub(super) backlogged: bool,
    pub(super) grace: Grace,
}

impl<E> Default for Lane<E> {
    fn default() -> Self {
        Lane { inside: 0, waiting: VecDeque::new(), backlogged: false, grace: Grace::default() }
    }
}

/// What the gate knows of a volume.
pub(super) struct Flow<E> {
    /// Of reads and of writes.
    lanes: [Lane<E>; 2],
    /// Reads that have entered since a write did.
    reads_ahead: u32,
    /// Where its last request that took a turn ends in virtual time.
    pub(super) end_tag: u64,
    pub(super) active_until: u64,
    pub(super) delayed: Delayed,
}

impl<E> Default for Flow<E> {
    fn default() -> Self {
        Flow {
            lanes: Default::default(),
            reads_ahead: 0,
            end_tag: 0,
            active_until: 0,
            delayed: Delayed::default(),
        }
    }
}

impl<E> Flow<E> {
    /// Where the requests of a class are counted.
    pub(super) fn lane(&mut self, class: Class) -> &mut Lane<E> {
        &mut self.lanes[usize::from(class.is_write() && !mutation::on(Mutation::ShareLane))]
    }

    /// Takes the volume for one that had more than its share.
    pub(super) fn use_up_grace(&mut self, now: u64) {
        self.lanes.iter_mut().for_each(|lane| lane.grace.use_up(now));
    }

    /// Cost of its requests in the shard.
    pub(super) fn inside(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.inside).sum()
    }

    pub(super) fn is_active(&self, now: u64) -> bool {
        self.inside() > 0 || self.waits() || now < self.active_until
    }

    pub(super) fn waits(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.waiting.is_empty())
    }

    pub(super) fn queue(&mut self, waiting: Waiting<E>) {
        self.lane(waiting.class).waiting.push_back(waiting);
    }

    /// Arrival of the request that waits longest.
    pub(super) fn waits_since(&self) -> Option<u64> {
        self.lanes.iter().filter_map(|lane| Some(lane.waiting.front()?.arrival)).min()
    }

    /// Takes the request that is to enter next.
    pub(super) fn take_next(&mut self) -> Option<Waiting<E>> {
        let [reads, writes] = &mut self.lanes;
        if writes.waiting.is_empty() {
            self.reads_ahead = 0;
            reads.waiting.pop_front()
        } else if !reads.waiting.is_empty() && self.reads_ahead < READS_AHEAD {
            self.reads_ahead += 1;
            reads.waiting.pop_front()
        } else {
            self.reads_ahead = 0;
            writes.waiting.pop_front()
        }
    }
}
