//! Foreground priority: background work leaves spiking members alone, lets clients' requests go first where they wait, and
//! uses no more than a part of a drive's throughput while clients are active.
//!
//! FusionRAID (FAST '21, section 5.5) suspends conversion while clients move more than 40 MB/s on a drive. Here that is
//! the most that background work moves on a drive beside clients, and it waits for moments in which they do not. None of
//! this holds while a request waits for the room that the work makes, and each wait is bounded: work that never comes to
//! an end would cost more later.

use std::cell::Cell;
use std::rc::Rc;

use crate::marks::Mark;
use crate::store::Store;
use crate::stripe::Stripes;
use sinew_core::ids::{MemberId, StripeId};
use sinew_core::io::Io;

/// Bytes per second that background work moves on a drive while clients are at work.
const DRIVE_BYTES_PER_SECOND: u64 = 40_000_000;

/// The longest time that one piece of work gives way, and the interval of its checks whether it may go on.
const GIVE_WAY_NS_MAX: u64 = 50_000_000;

const LOOK_NS: u64 = 500_000;

/// The spans over which clients' load is measured.
const LOAD_SPAN_NS: u64 = 100_000_000;

/// How much clients have moved lately.
#[derive(Default)]
struct Load {
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

/// The priority of clients over background work.
pub(crate) struct IoPriority<I> {
    store: Rc<Store<I>>,
    stripes: Rc<Stripes<I>>,
    /// Bytes that clients have moved lately.
    load: Load,
}

impl<I: Io> IoPriority<I> {
    pub(crate) fn new(stripes: Rc<Stripes<I>>) -> IoPriority<I> {
        IoPriority { store: Rc::clone(stripes.store()), stripes, load: Load::default() }
    }

    /// Whether clients move more bytes than the limit above which conversion pauses.
    pub(super) fn are_clients_busy(&self) -> bool {
        let limit = self.stripes.policy().convert_pause_above;
        if limit == 0 {
            return false;
        }
        let counters = self.store.counters().values();
        let moved = counters.read_bytes + counters.written_bytes * self.store.geometry().copies() as u64;
        // Spread over all members, as placement does it.
        self.load.rate(self.store.io().now(), moved) / self.store.members().taking_new().max(1) as u64 > limit
    }

    /// Waits before background work reads or writes `bytes` bytes on each member of a stripe.
    pub(super) async fn yield_to_clients(&self, stripe: StripeId, bytes: u64) {
        let members: Vec<_> = {
            let tables = self.store.tables();
            tables.homes(stripe).iter().flatten().map(|home| home.member).collect()
        };
        self.yield_to_clients_on(&members, bytes).await;
    }

    /// As `yield_to_clients`, on these members.
    pub(super) async fn yield_to_clients_on(&self, members: &[MemberId], bytes: u64) {
        if !self.store.members().may_be_late() {
            return;
        }
        let began = self.store.io().now();
        let due = if self.store.volumes_in_use() > 0 {
            let ns = bytes * 1_000_000_000 / DRIVE_BYTES_PER_SECOND;
            members.iter().map(|&m| self.store.members().latency.pay(m, began, ns)).max().unwrap_or(began)
        } else {
            began
        };
        let end = began + GIVE_WAY_NS_MAX;
        let mut now = began;
        while now < end && !self.is_urgent() {
            let spiking = members
                .iter()
                .any(|&m| self.store.members().is_active(m) && !self.store.members().responds(m));
            let awaited = self.store.volumes_in_use() > 0
                && members.iter().any(|&m| self.store.members().in_flight(m) > 0);
            if spiking {
                if now == began {
                    self.store.mark(Mark::BackgroundAround);
                }
            } else if !awaited && now >= due {
                return;
            }
            self.store.io().sleep(LOOK_NS).await;
            now = self.store.io().now();
        }
    }

    /// Whether a request waits for the room that background work makes, or soon will, or the pool is being closed.
    pub(super) fn is_urgent(&self) -> bool {
        self.store.room().waiting() > 0
            || self.store.is_closing()
            || self.store.allocator().free_chunks() < self.store.low_water()
    }
}
