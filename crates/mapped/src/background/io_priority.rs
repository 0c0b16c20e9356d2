//! The priority of clients over the background work of a shard: the load of clients above which conversion pauses, and the
//! conditions of [`BackgroundWork`].

use std::cell::Cell;
use std::rc::Rc;

use crate::marks::Mark;
use crate::store::Store;
use crate::stripe::Stripes;
use sinew_core::coverage::MarkName;
use sinew_core::ids::StripeId;
use sinew_core::io::Io;
use sinew_members::io_priority::BackgroundWork;
use sinew_members::members::Members;

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
    pub(super) async fn yield_stripe_to_clients(&self, stripe: StripeId, bytes: u64) {
        let members: Vec<_> = {
            let tables = self.store.tables();
            tables.homes(stripe).iter().flatten().map(|home| home.member).collect()
        };
        self.yield_to_clients(&members, bytes).await;
    }
}

impl<I: Io> BackgroundWork<I> for IoPriority<I> {
    const AROUND: MarkName = Mark::BackgroundAround.name();

    fn members(&self) -> &Members<I> {
        self.store.members()
    }

    fn has_clients(&self) -> bool {
        self.store.volumes_in_use() > 0
    }

    /// Whether a request waits for the room that background work makes, or soon will, or the pool is being closed.
    fn is_urgent(&self) -> bool {
        self.store.room().waiting() > 0
            || self.store.is_closing()
            || self.store.allocator().free_chunks() < self.store.low_water()
    }
}
