//! The keeper of free space: frees dead stripes, converts mirrored ones, compacts sparse ones, flushes what waits for it.
//!
//! It does as little as keeps room for the writes to come: mirrored stripes stay mirrored, and dead slots stay where
//! they are, while there is plenty. When a client waits and nothing can be gained any more it says so, and the client
//! gets its error instead of waiting for ever.

use std::rc::Rc;

use crate::shard::MappedShard;
use crate::store::tables::StripeState;
use sinew_core::coverage::Mark;
use sinew_core::ids::StripeId;
use sinew_core::io::{Io, yield_now};
use sinew_core::mutation::{self, Mutation};
use sinew_format::journal_block::Record;

/// Pause while released chunks wait for readers to leave.
const RETRY_NS: u64 = 1_000_000;
/// Pause of conversion before it looks again how much clients ask for.
const LOOK_NS: u64 = 10_000_000;

impl<I: Io> MappedShard<I> {
    /// Keeps room, for ever.
    pub(crate) async fn run_keeper(self: Rc<Self>) {
        loop {
            self.keeper.kicked().await;
            while self.keep_once().await {}
        }
    }

    /// One step; false when there is nothing to do, or nothing that can be done, until the next kick.
    async fn keep_once(self: &Rc<Self>) -> bool {
        if !self.members.any_active() {
            return self.give_up_hope();
        }
        if self.reap().await {
            return true;
        }
        if self.wants_flush() {
            self.io.mark(Mark::FlushUnasked);
            // Not `flush`: that has nothing to do when stripes were written, but nothing was applied since the last.
            self.flush_members().await;
            return true;
        }
        self.reclaim();
        let (free, low) = (self.space.borrow().free_chunks(), self.low_water());
        let wanted = self.waiting_for_room.get() > 0;
        let in_need = self.rebuild_starved.take() || wanted;
        let worked = if free < low || in_need {
            self.make_room(in_need).await
        } else if !self.wants_conversion() {
            false
        } else if self.is_loaded() {
            self.io.mark(Mark::ConvertPaused);
            self.io.sleep(LOOK_NS).await;
            true
        } else {
            self.drain_sparse().await || self.convert_some().await
        };
        if !wanted || worked {
            return worked;
        }
        // Those for whom there is room by now take it.
        yield_now().await;
        if self.waiting_for_room.get() == 0 {
            return true;
        }
        if self.space.borrow().releasing() > 0 || self.busy_stripes() > 0 {
            // Someone still reads what was released, or writes what will take another's place.
            self.io.mark(Mark::RoomHeldByReaders);
            self.io.sleep(RETRY_NS).await;
            return true;
        }
        self.give_up_hope()
    }

    /// Nobody shall wait for room that nobody makes.
    fn give_up_hope(&self) -> bool {
        self.io.mark(Mark::RoomExhausted);
        self.given_up.set(self.given_up.get() + 1);
        self.space_changed.notify();
        false
    }

    /// Makes room, in the dearest way only when somebody cannot go on without.
    async fn make_room(self: &Rc<Self>, in_need: bool) -> bool {
        if self.space.borrow().releasing() > 0 && self.journal.flushed() < self.journal.applied() {
            return self.flush().await.is_ok();
        }
        // Their parity needs no room, unlike moving their blocks.
        self.convertible.borrow_mut().extend(self.sparse.take());
        if self.convert_some().await || (!mutation::on(Mutation::NeverCompact) && self.compact_some().await) {
            return true;
        }
        in_need && self.level_some().await
    }

    /// Free chunks below which room is made.
    pub(crate) fn low_water(&self) -> u64 {
        let (space, per) = (self.space.borrow(), self.geometry.homes_per_stripe() as u64);
        space.reserve_chunks() + (3 * per).max(space.all_chunks() / 16)
    }

    /// Frees stripes without live blocks.
    async fn reap(self: &Rc<Self>) -> bool {
        let candidates = std::mem::take(&mut *self.emptied.borrow_mut());
        let mut locks = Vec::new();
        let mut records = Vec::new();
        for stripe in candidates {
            if self.is_dead(stripe)
                && let Some(lock) = self.lock_stripe(stripe)
            {
                locks.push(lock);
                records.push(Record::Free { stripe });
            }
        }
        if records.is_empty() {
            return false;
        }
        self.counters.stripes_freed.add(records.len() as u64);
        let freed = self.journal.commit(records).await.is_ok();
        drop(locks);
        freed
    }

    fn is_dead(&self, stripe: StripeId) -> bool {
        let stripe = self.tables.borrow().stripe(stripe);
        stripe.state != StripeState::Free && stripe.live == 0
    }
}
