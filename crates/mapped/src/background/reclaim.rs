//! Space reclaim: frees dead stripes, converts mirrored ones, compacts sparse ones, and flushes what waits for it.
//!
//! It does no more than keeps room for the writes to come: mirrored stripes stay mirrored, and dead slots stay where
//! they are, while there is plenty; where members have less physical space than addresses, plenty of both. When a client waits
//! and nothing can be gained any more it says so, and the client gets its error instead of waiting for ever.

use std::rc::Rc;

use crate::background::compact::Compactor;
use crate::background::convert::Converter;
use crate::background::discard::Discarder;
use crate::background::io_priority::IoPriority;
use crate::background::relieve_full::FullMemberRelief;
use crate::marks::Mark;
use crate::store::Store;
use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use sinew_core::ids::StripeId;
use sinew_core::io::{Io, yield_now};
use sinew_core::mutation::{self, Mutation};
use sinew_format::journal_block::Record;

/// Pause while released chunks wait for readers to leave.
const RETRY_NS: u64 = 1_000_000;

/// Pause of conversion before it measures the load of clients again, and of reclaim after it has gained no physical space.
const LOOK_NS: u64 = 10_000_000;

/// The reclaim of space.
pub(crate) struct Reclaimer<I> {
    store: Rc<Store<I>>,
    stripes: Rc<Stripes<I>>,
    priority: Rc<IoPriority<I>>,
    converter: Converter<I>,
    compactor: Rc<Compactor<I>>,
    full_member_relief: FullMemberRelief<I>,
    discarder: Rc<Discarder<I>>,
}

impl<I: Io> Reclaimer<I> {
    pub(crate) fn new(
        stripes: Rc<Stripes<I>>,
        priority: Rc<IoPriority<I>>,
        converter: Converter<I>,
        compactor: Rc<Compactor<I>>,
        full_member_relief: FullMemberRelief<I>,
        discarder: Rc<Discarder<I>>,
    ) -> Reclaimer<I> {
        Reclaimer {
            store: Rc::clone(stripes.store()),
            stripes,
            priority,
            converter,
            compactor,
            full_member_relief,
            discarder,
        }
    }

    /// The task that keeps room. It never ends.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.store.wakeups().reclaim.kicked().await;
            while self.reclaim_once().await {}
        }
    }

    /// One step; false when there is nothing to do, or nothing that can be done, until the next kick.
    async fn reclaim_once(&self) -> bool {
        if !self.store.members().any_active() {
            return self.refuse_waiting();
        }
        if self.free_dead_stripes().await {
            return true;
        }
        if self.store.wants_flush() {
            self.store.mark(Mark::FlushUnasked);
            // Not `flush`: that has nothing to do when stripes were written, but nothing was applied since the last.
            self.store.flush_members().await;
            return true;
        }
        self.store.free_released();
        let (free, low) = (self.store.allocator().free_chunks_unspared(), self.store.low_water());
        let wanted = self.store.room().waiting() > 0;
        let in_need = self.store.room().take_rebuild_starved() || wanted;
        let worked = if free < low || in_need {
            self.make_room(in_need).await
        } else if self.store.is_low_on_space() {
            self.make_space().await
        } else if !self.converter.wants_conversion() {
            false
        } else if self.priority.are_clients_busy() {
            self.store.mark(Mark::ConvertPaused);
            self.store.io().sleep(LOOK_NS).await;
            true
        } else {
            self.compactor.drain_sparse().await || self.converter.convert_some().await
        };
        if !wanted || worked {
            return worked;
        }
        // Requests for which there is room by now take it.
        yield_now().await;
        if self.store.room().waiting() == 0 {
            return true;
        }
        if self.store.allocator().releasing() > 0 || self.stripes.busy_stripes() > 0 {
            // A request still reads released chunks, or writes blocks that will replace others.
            self.store.mark(Mark::RoomHeldByReaders);
            self.store.io().sleep(RETRY_NS).await;
            return true;
        }
        self.refuse_waiting()
    }

    /// No request may wait for room that no job makes.
    fn refuse_waiting(&self) -> bool {
        self.store.mark(Mark::RoomExhausted);
        self.store.room().give_up();
        false
    }

    /// Makes room because members lack physical space; false when they have enough by new figures, or nothing is gained.
    async fn make_space(&self) -> bool {
        if self.store.is_closing() || self.has_space().await {
            return false;
        }
        self.store.mark(Mark::RoomForSpace);
        let (free, written) = (self.free_space(), self.store.counters().values().written_bytes);
        if self.make_room(false).await {
            // Parity took space from the reserve, which lasts only if the mirrors' space is back before the next round.
            self.discarder.settle().await;
            if self.has_space().await {
                return false;
            }
            // Clients may have taken what was gained.
            if self.free_space() > free || self.store.counters().values().written_bytes > written {
                return true;
            }
        }
        // While space is low every write kicks, and each attempt searches all stripes.
        self.store.io().sleep(LOOK_NS).await;
        false
    }

    /// Whether members have enough physical space, by new figures if the last ones do not say so.
    async fn has_space(&self) -> bool {
        self.store.members().has_credit(|| self.store.space_low_water()).await
    }

    /// Physical space that is free, by the last figures.
    fn free_space(&self) -> u64 {
        self.store.members().space.domains().iter().map(|domain| domain.free).sum()
    }

    /// Makes room; in the most expensive way only when a request or a rebuild cannot continue without it.
    async fn make_room(&self, in_need: bool) -> bool {
        if self.store.allocator().releasing() > 0
            && self.store.journal().flushed() < self.store.journal().applied()
        {
            return self.store.flush().await.is_ok();
        }
        // Their parity needs no room, unlike moving their blocks.
        self.stripes.convertible().extend(self.compactor.take_sparse());
        if self.converter.convert_some().await
            || (!mutation::on(Mutation::NeverCompact) && self.compactor.compact_some().await)
        {
            return true;
        }
        if in_need && self.stripes.close_idle() {
            self.store.mark(Mark::IdleStripesClosed);
            return true;
        }
        in_need && self.full_member_relief.relieve_some().await
    }

    /// Frees stripes without live blocks.
    async fn free_dead_stripes(&self) -> bool {
        let candidates = self.store.take_emptied();
        let mut locks = Vec::new();
        let mut records = Vec::new();
        for stripe in candidates {
            if self.is_dead(stripe)
                && let Some(lock) = self.store.lock_stripe(stripe)
            {
                locks.push(lock);
                records.push(Record::Free { stripe });
            }
        }
        if records.is_empty() {
            return false;
        }
        self.store.counters().stripes_freed.add(records.len() as u64);
        let freed = self.store.journal().commit(records).await.is_ok();
        drop(locks);
        freed
    }

    fn is_dead(&self, stripe: StripeId) -> bool {
        let stripe = self.store.tables().stripe(stripe);
        stripe.state != StripeState::Free && stripe.live == 0
    }
}
