//! Conversion: a mirrored stripe gets its parity and loses its mirrors; no data moves (FusionRAID, FAST'21, section 4.2).
//!
//! The least recently used stripe is converted first, approximately (second chance): the stripe closed first, unless a client
//! has read or overwritten part of it since conversion last passed it over. So hot stripes stay mirrored, and most of them
//! die mirrored. A stripe with few live blocks gets no parity either: its blocks move to others (`compact`), which costs
//! less.
//!
//! Parity is computed from the chunks as they are on their members, dead slots included, and is durable before the record
//! that drops the mirrors.

use std::rc::Rc;

use crate::background::compact::Compactor;
use crate::background::io_priority::IoPriority;
use crate::marks::Mark;
use crate::store::Store;
use crate::store::stripe_locks::StripeLock;
use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::StripeId;
use sinew_core::io::{Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::{CHUNK_BLOCKS, CHUNK_BYTES};
use sinew_members::io_priority::BackgroundWork;

/// Stripes converted with one flush.
const STRIPES_PER_ROUND: usize = 8;

/// Conversion of mirrored stripes.
pub(crate) struct Converter<I> {
    store: Rc<Store<I>>,
    stripes: Rc<Stripes<I>>,
    priority: Rc<IoPriority<I>>,
    compactor: Rc<Compactor<I>>,
}

impl<I: Io> Converter<I> {
    pub(crate) fn new(
        stripes: Rc<Stripes<I>>,
        priority: Rc<IoPriority<I>>,
        compactor: Rc<Compactor<I>>,
    ) -> Converter<I> {
        Converter { store: Rc::clone(stripes.store()), stripes, priority, compactor }
    }

    /// Whether the policy asks for conversion now.
    pub(super) fn wants_conversion(&self) -> bool {
        let (g, policy) = (self.store.geometry(), self.stripes.policy());
        let allocator = self.store.allocator();
        let part = |percent: u8| allocator.all_chunks() * u64::from(percent) / 100;
        let water =
            allocator.reserve_chunks() + part(policy.convert_below_free).max(4 * g.homes_per_stripe() as u64);
        // Not all of them are mirrored any more, but nearly.
        let mirrored = (self.stripes.convertible().len() * g.homes_per_stripe()) as u64;
        allocator.free_chunks_unspared() < water || mirrored > part(policy.convert_above_mirrored)
    }

    /// Converts a few stripes; false when none could be.
    pub(super) async fn convert_some(&self) -> bool {
        if self.store.geometry().parity_columns() == 0 {
            return false;
        }
        let version = self.store.members().version();
        let chosen = self.choose_convertible();
        let written = join_all(chosen.into_iter().map(|lock| self.write_parity(lock))).await;
        let ready: Vec<StripeLock<I>> = written.into_iter().flatten().collect();
        if ready.is_empty() {
            return false;
        }
        // Not only what is applied: the parity itself must be durable, on members that were there all the time.
        let flushed = mutation::on(Mutation::ConvertWithoutFlush) || self.store.flush_pages().await;
        if !flushed || self.store.members().version() != version {
            self.store.mark(Mark::ConvertVoid);
            self.stripes.convertible().extend(ready.iter().map(|lock| lock.stripe()));
            return true;
        }
        let records = ready.iter().map(|lock| Record::Converted { stripe: lock.stripe() }).collect();
        self.store.counters().stripes_converted.add(ready.len() as u64);
        self.store.journal().commit(records).await.is_ok()
    }

    fn choose_convertible(&self) -> Vec<StripeLock<I>> {
        let mut queue = self.stripes.convertible();
        let mut chosen = Vec::new();
        // Twice around: a stripe passed over the first time has had its second chance.
        for _ in 0..2 * queue.len() {
            if chosen.len() == STRIPES_PER_ROUND {
                break;
            }
            let Some(stripe) = queue.pop_front() else { break };
            let found = self.store.tables().stripe(stripe);
            if found.state != StripeState::Mirrored {
                if self.store.is_opening(stripe) {
                    queue.push_back(stripe);
                }
                continue;
            }
            if self.stripes.second_chance().take(stripe) {
                self.store.mark(Mark::ConvertPassedOver);
                queue.push_back(stripe);
                continue;
            }
            if !self.priority.is_urgent() && self.stripes.is_sparse(stripe) {
                self.compactor.add_sparse(stripe);
                continue;
            }
            match self.store.lock_stripe(stripe) {
                Some(lock) if self.stripes.is_whole(stripe) => chosen.push(lock),
                _ => queue.push_back(stripe),
            }
        }
        chosen
    }

    /// Writes the stripe's parity; gives the lock back when it is written.
    async fn write_parity(&self, lock: StripeLock<I>) -> Option<StripeLock<I>> {
        let stripe = lock.stripe();
        let columns = usize::from(self.store.tables().stripe(stripe).columns);
        self.store.throttle().pay(self.store.io(), columns as u64 * CHUNK_BYTES).await;
        self.priority.yield_stripe_to_clients(stripe, CHUNK_BYTES).await;
        let Ok(_slots) = self.store.pin_slots(stripe).await else {
            return self.put_off(stripe);
        };
        let filled = join_all((0..columns).map(|column| self.zero_unwritten(stripe, column))).await;
        let chunks = join_all((0..columns).map(|column| self.stripes.read_repaired(stripe, column))).await;
        let chunks: Option<Vec<Vec<Buf>>> = chunks.into_iter().map(|chunk| Some(vec![chunk?])).collect();
        let Some(chunks) = chunks.filter(|_| filled.into_iter().all(|filled| filled)) else {
            return self.put_off(stripe);
        };
        let parity = self.stripes.compute_parity(&chunks);
        if mutation::on(Mutation::SkipParity) {
            return Some(lock);
        }
        for (p, parity) in parity.into_iter().enumerate() {
            let home = self.store.tables().good_home(stripe, self.store.geometry().parity_index(p))?;
            if let Err(error) = self.store.members().write(home, 0, Rc::new([parity])).await {
                let is_full = error == IoError::NoSpace;
                self.store.mark(if is_full { Mark::ConvertNoSpace } else { Mark::ConvertMemberLost });
                self.store.members().report_failure(home.member, error).await;
                self.stripes.convertible().push_back(stripe);
                return None;
            }
        }
        Some(lock)
    }

    /// Leaves a stripe that cannot be read for later.
    fn put_off(&self, stripe: StripeId) -> Option<StripeLock<I>> {
        self.store.mark(Mark::ConvertUnreadable);
        self.stripes.convertible().push_back(stripe);
        None
    }

    /// Writes zeros to the slots of a chunk that were never written, where they may read as something else each time;
    /// false when that fails.
    async fn zero_unwritten(&self, stripe: StripeId, column: usize) -> bool {
        let Some(home) = self.stripes.live_home(stripe, column) else { return false };
        if !self.store.members().takes_discards(home.member) {
            return true;
        }
        let is_unwritten = |offset: &u32| {
            self.store.tables().owner(self.store.geometry().slot(stripe, column, *offset)).is_none()
        };
        let unwritten: Vec<u32> = (0..CHUNK_BLOCKS).filter(is_unwritten).collect();
        for run in unwritten.chunk_by(|a, b| a + 1 == *b) {
            self.store.mark(Mark::ConvertFilled);
            let zeros = Rc::new([Buf::zeroed(run.len() * BLOCK_BYTES)]);
            if let Err(error) = self.store.members().write(home, run[0], zeros).await {
                self.store.members().report_failure(home.member, error).await;
                return false;
            }
        }
        true
    }
}
