//! Background work steps back: it leaves members in a spike alone, lets clients' requests go first where they wait, and
//! takes no more than a part of what a drive can do while clients are at work.
//!
//! FusionRAID (FAST '21, section 5.5) suspends conversion while clients move more than 40 MB/s on a drive. Here that is
//! the most that background work moves on a drive beside clients, and it waits for moments in which they do not. Nothing
//! of this holds while somebody waits for the room that the work makes, and none of it for long: work that never comes to
//! an end would cost more later.

use std::cell::Cell;

use crate::shard::MappedShard;
use sinew_core::coverage::Mark;
use sinew_core::ids::{MemberId, StripeId};
use sinew_core::io::Io;

/// Bytes per second that background work moves on a drive while clients are at work.
const DRIVE_BYTES_PER_SECOND: u64 = 40_000_000;
/// How long one piece of work gives way at most, and how often it looks whether it may go on.
const GIVE_WAY_NS_MAX: u64 = 50_000_000;
const LOOK_NS: u64 = 500_000;

/// The spans over which clients' load is measured.
const LOAD_SPAN_NS: u64 = 100_000_000;

/// How much clients have moved lately.
#[derive(Default)]
pub(crate) struct Load {
    /// When the span under way began, and what they had moved by then.
    since: Cell<u64>,
    moved: Cell<u64>,
    /// Bytes per second in the span before.
    before: Cell<u64>,
}

impl Load {
    /// Bytes per second, over the last span or the one under way, whichever has more; `moved` is the sum so far.
    fn rate(&self, now: u64, moved: u64) -> u64 {
        let (span, bytes) = (now - self.since.get(), moved - self.moved.get());
        if span >= LOAD_SPAN_NS {
            self.before.set((u128::from(bytes) * 1_000_000_000 / u128::from(span)) as u64);
            self.since.set(now);
            self.moved.set(moved);
            return self.before.get();
        }
        self.before.get().max(bytes * (1_000_000_000 / LOAD_SPAN_NS))
    }
}

impl<I: Io> MappedShard<I> {
    /// Whether clients move so much that conversion pauses.
    pub(crate) fn is_loaded(&self) -> bool {
        let limit = self.policy.get().convert_pause_above;
        if limit == 0 {
            return false;
        }
        let counters = self.counters.values();
        let moved = counters.read_bytes + counters.written_bytes * self.geometry.copies() as u64;
        // Spread over all members, as placement does it.
        self.load.rate(self.io.now(), moved) / self.members.taking_new().max(1) as u64 > limit
    }

    /// Called before background work reads or writes so many bytes on each member of a stripe.
    pub(crate) async fn step_back(&self, stripe: StripeId, bytes: u64) {
        let members: Vec<_> = {
            let tables = self.tables.borrow();
            tables.homes(stripe).iter().flatten().map(|home| home.member).collect()
        };
        self.step_back_on(&members, bytes).await;
    }

    /// As `step_back`, on these members.
    pub(crate) async fn step_back_on(&self, members: &[MemberId], bytes: u64) {
        if !self.members.may_be_late() {
            return;
        }
        let began = self.io.now();
        let due = if self.volumes_in_use() > 0 {
            let ns = bytes * 1_000_000_000 / DRIVE_BYTES_PER_SECOND;
            members.iter().map(|&m| self.members.latency.pay(m, began, ns)).max().unwrap_or(began)
        } else {
            began
        };
        let end = began + GIVE_WAY_NS_MAX;
        let mut now = began;
        while now < end && !self.is_pressed() {
            let spiking = members.iter().any(|&m| self.members.is_active(m) && !self.members.responds(m));
            let awaited = self.volumes_in_use() > 0 && members.iter().any(|&m| self.members.in_flight(m) > 0);
            if spiking {
                if now == began {
                    self.io.mark(Mark::BackgroundAround);
                }
            } else if !awaited && now >= due {
                return;
            }
            self.io.sleep(LOOK_NS).await;
            now = self.io.now();
        }
    }

    /// Whether somebody waits for what background work makes.
    pub(crate) fn is_pressed(&self) -> bool {
        self.waiting_for_room.get() > 0
            || self.closing.get()
            || self.space.borrow().free_chunks() < self.low_water()
    }
}
