//! Requests and jobs that wait for free chunks, and the blocks that requests have claimed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::store::epoch_reclaim::{EpochGuard, Epochs};
use sinew_core::sync::Signal;

/// Requests and jobs that wait for free chunks, and what was refused to them.
#[derive(Default)]
pub(crate) struct Room {
    /// Clients' stripes that wait for room.
    waiting: Cell<u32>,
    /// A chunk to be rebuilt found no member with room.
    rebuild_starved: Cell<bool>,
    /// Free space has grown, or reclaim has given up.
    changed: Signal,
    /// Times reclaim found nothing that would make room although clients waited.
    given_up: Cell<u64>,
    /// Times clients were refused for that although no more than the capacity was stored.
    refused_early: Cell<u64>,
    /// Blocks that requests under way may store though they are not stored now: those claimed, and those withheld.
    reserved: Cell<u64>,
    /// Requests that hold claims.
    claimants: Epochs,
    /// Blocks that discards have freed, by the last epoch of requests that may store them again: these requests found the
    /// blocks stored, and claimed nothing for them.
    withheld: RefCell<VecDeque<(u64, u64)>>,
}

impl Room {
    /// Clients' stripes that wait for room.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.get()
    }

    pub(crate) fn begin_wait(&self) {
        self.waiting.set(self.waiting.get() + 1);
    }

    pub(crate) fn end_wait(&self) {
        self.waiting.set(self.waiting.get() - 1);
    }

    /// Notified when free space has grown, or when reclaim gives up.
    pub(crate) fn changed(&self) -> &Signal {
        &self.changed
    }

    /// Times reclaim has given up.
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up.get()
    }

    /// Reclaim can make no more room: requests that wait are refused.
    pub(crate) fn give_up(&self) {
        self.given_up.set(self.given_up.get() + 1);
        self.changed.notify();
    }

    pub(crate) fn refused_early(&self) -> u64 {
        self.refused_early.get()
    }

    pub(super) fn note_early_refusal(&self) {
        self.refused_early.set(self.refused_early.get() + 1);
    }

    pub(crate) fn set_rebuild_starved(&self) {
        self.rebuild_starved.set(true);
    }

    pub(crate) fn take_rebuild_starved(&self) -> bool {
        self.rebuild_starved.take()
    }

    /// Blocks that requests under way may store though they are not stored now.
    pub(crate) fn reserved(&self) -> u64 {
        self.give_back_withheld();
        self.reserved.get()
    }

    /// Claims blocks until the claim is dropped.
    pub(super) fn claim(&self, blocks: u64) -> Claim<'_> {
        self.reserved.set(self.reserved.get() + blocks);
        Claim { reserved: &self.reserved, blocks, _claimant: self.claimants.enter() }
    }

    /// Ends the epoch of the requests that hold claims; gives its number.
    pub(super) fn next_claimants(&self) -> u64 {
        self.claimants.advance()
    }

    /// The oldest epoch of which a request holds a claim, or the current one.
    pub(super) fn oldest_claimants(&self) -> u64 {
        self.claimants.oldest()
    }

    /// A discard has freed blocks: they are withheld from other requests until those under way have ended.
    pub(super) fn withhold(&self, blocks: u64) {
        self.reserved.set(self.reserved.get() + blocks);
        self.withheld.borrow_mut().push_back((self.claimants.advance(), blocks));
        self.give_back_withheld();
    }

    /// Gives back the blocks that no request under way can store again.
    fn give_back_withheld(&self) {
        let (oldest, mut withheld) = (self.claimants.oldest(), self.withheld.borrow_mut());
        while let Some((_, blocks)) = withheld.pop_front_if(|&mut (epoch, _)| epoch < oldest) {
            self.reserved.set(self.reserved.get() - blocks);
        }
    }
}

/// Room that a request has claimed for blocks that were not stored before.
pub(crate) struct Claim<'a> {
    reserved: &'a Cell<u64>,
    blocks: u64,
    _claimant: EpochGuard,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.reserved.set(self.reserved.get() - self.blocks);
    }
}
