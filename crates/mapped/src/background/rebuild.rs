//! Rebuild: every chunk of a stripe gets back a good place.
//!
//! One procedure serves all occasions: a chunk that is stale on its (returned or new) member is written again in place; one
//! on an evacuating member, or without a place, gets a new one among the others. The stripe table says what is left to do,
//! so a rebuild continues by itself after a restart.

use std::rc::Rc;

use async_channel::Sender;

use crate::background::io_priority::IoPriority;
use crate::background::progress::Progress;
use crate::background::relocate::{CHUNKS_PER_ROUND, Rebuilt, Relocator};
use crate::marks::Mark;
use crate::store::Store;
use crate::store::stripe_locks::StripeLock;
use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use sinew_core::ids::{MemberId, StripeId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_geometry::CHUNK_BYTES;
use sinew_members::message::ShardEvent;

/// Pause before stripes that were in use, or could not be rebuilt, are tried again.
const RETRY_NS: u64 = 50_000_000;
/// Stripes that are rebuilt at once.
const STRIPES_AT_ONCE: usize = 8;

/// The rebuild of missing chunks.
pub(crate) struct Rebuilder<I> {
    store: Rc<Store<I>>,
    stripes: Rc<Stripes<I>>,
    priority: Rc<IoPriority<I>>,
    relocator: Rc<Relocator<I>>,
    progress: Rc<Progress>,
    control: Sender<ShardEvent>,
}

impl<I: Io> Rebuilder<I> {
    pub(crate) fn new(
        stripes: Rc<Stripes<I>>,
        priority: Rc<IoPriority<I>>,
        relocator: Rc<Relocator<I>>,
        progress: Rc<Progress>,
        control: Sender<ShardEvent>,
    ) -> Rebuilder<I> {
        Rebuilder { store: Rc::clone(stripes.store()), stripes, priority, relocator, progress, control }
    }

    /// The task that rebuilds whenever a chunk is missing. It never ends.
    pub(crate) async fn run(self: Rc<Self>) {
        self.store.wakeups().rebuild.kick();
        loop {
            self.store.wakeups().rebuild.kicked().await;
            loop {
                if mutation::on(Mutation::LeaveEarly) {
                    let _ = self.control.send(ShardEvent::Emptied).await;
                }
                while self.count_wanting() > 0 {
                    if !self.rebuild_pass().await {
                        self.store.mark(Mark::RebuildRetried);
                        self.store.io().sleep(RETRY_NS).await;
                    }
                }
                let emptying: Vec<MemberId> =
                    self.store.members().ids().filter(|&m| self.is_emptying(m)).collect();
                if emptying.is_empty() {
                    break;
                }
                if emptying.iter().all(|&m| self.store.allocator().is_empty(m))
                    && !self.store.needs_redundancy()
                {
                    // The last shard to say so is heard.
                    let _ = self.control.send(ShardEvent::Emptied).await;
                    break;
                }
                // Readers have to leave, the checkpoint has to write pages elsewhere, or a stripe was still being
                // opened.
                self.store.mark(Mark::EmptyingAwaited);
                self.store.io().sleep(RETRY_NS).await;
                let _ = self.store.flush().await;
                self.store.free_released();
            }
            self.progress.request_rebalance();
        }
    }

    /// Whether a member is to be emptied.
    fn is_emptying(&self, member: MemberId) -> bool {
        matches!(self.store.members().get(member).state, MemberState::Evacuating | MemberState::Leaving)
    }

    /// Chunks that can and should be rebuilt.
    fn count_wanting(&self) -> u64 {
        let stripes = self.store.tables().stripe_count();
        let left = (0..stripes).map(|s| self.wanting(StripeId(s)).len() as u64).sum();
        self.progress.rebuild_left.set(left);
        left
    }

    /// Homes of a stripe that are not what they should be although they could be.
    fn wanting(&self, stripe: StripeId) -> Vec<usize> {
        let tables = self.store.tables();
        let found = tables.stripe(stripe);
        if found.state == StripeState::Free {
            return Vec::new();
        }
        self.stripes
            .required(stripe)
            .filter(|&index| match tables.homes(stripe)[index] {
                None => self.store.members().taking_new() > self.store.geometry().failures(),
                Some(home) => match self.store.members().get(home.member).state {
                    MemberState::Active => found.stale >> index & 1 == 1,
                    MemberState::Evacuating | MemberState::Leaving => true,
                    _ => false,
                },
            })
            .collect()
    }

    /// Goes once over all stripes; false when nothing could be done.
    async fn rebuild_pass(&self) -> bool {
        let mut progress = false;
        let mut batch = Vec::new();
        let mut stripes = (0..self.store.tables().stripe_count()).map(StripeId);
        loop {
            let wanting = stripes.by_ref().filter(|&stripe| !self.wanting(stripe).is_empty());
            let some: Vec<StripeId> = wanting.take(STRIPES_AT_ONCE).collect();
            if some.is_empty() {
                break;
            }
            let rebuilt = join_all(some.into_iter().map(|stripe| self.rebuild_stripe(stripe))).await;
            batch.extend(rebuilt.into_iter().flatten());
            if batch.len() >= CHUNKS_PER_ROUND {
                progress |= self.relocator.record_rebuilt(std::mem::take(&mut batch)).await;
            }
        }
        progress |= !batch.is_empty() && self.relocator.record_rebuilt(batch).await;
        progress
    }

    /// Writes the chunks of a stripe to where they should be, as far as they can be had.
    async fn rebuild_stripe(&self, stripe: StripeId) -> Vec<Rebuilt<I>> {
        if self.stripes.is_open(stripe) {
            // Opened while members were out; it is not known when it will be full.
            self.store.mark(Mark::RebuiltOpen);
            self.stripes.close_open(stripe);
        }
        let mut rebuilt: Vec<Rebuilt<I>> = Vec::new();
        let Some(lock) = self.store.lock_stripe(stripe).map(Rc::new) else { return rebuilt };
        for index in self.wanting(stripe) {
            self.store.throttle().pay(self.store.io(), CHUNK_BYTES).await;
            self.priority.yield_stripe_to_clients(stripe, CHUNK_BYTES).await;
            let is_moved = rebuilt.iter().any(|one| one.index == index);
            if is_moved || !self.wanting(stripe).contains(&index) {
                // It made way for another chunk, or its member was told to stay.
                self.store.mark(Mark::RebuildNeedless);
                continue;
            }
            let one = self.rebuild_chunk(&lock, index, &rebuilt).await;
            rebuilt.extend(one);
        }
        rebuilt
    }

    /// Writes one chunk to where it should be; `rebuilt` has those of its stripe that are to be recorded.
    async fn rebuild_chunk(
        &self,
        lock: &Rc<StripeLock<I>>,
        index: usize,
        rebuilt: &[Rebuilt<I>],
    ) -> Option<Rebuilt<I>> {
        let stripe = lock.stripe();
        let Some(content) = self.relocator.chunk_content(stripe, index).await else {
            self.store.mark(Mark::RebuildUnreadable);
            return None;
        };
        let old = self.store.tables().homes(stripe)[index];
        let in_place = old.filter(|home| self.store.members().takes_new(home.member));
        let home = match in_place {
            Some(home) => home,
            None => {
                let avoid = self.relocator.members_to_avoid(stripe, index, rebuilt);
                let planned = self.store.allocator_mut().take_chunk_avoiding(&avoid);
                if planned.is_none() {
                    if let Some(moved) = self.make_way(lock, index, rebuilt).await {
                        return Some(moved);
                    }
                    self.store.mark(Mark::RebuildStarved);
                    self.store.room().set_rebuild_starved();
                    self.store.wakeups().reclaim.kick();
                }
                planned?
            }
        };
        self.store.mark(match (&content, in_place) {
            (None, _) => Mark::RebuiltReserved,
            (_, Some(_)) => Mark::RebuiltInPlace,
            (_, None) => Mark::RebuiltElsewhere,
        });
        let one = self.relocator.write_rebuilt(lock, index, home, in_place.is_none(), content).await?;
        self.store.counters().chunks_rebuilt.add(1);
        Some(one)
    }

    /// Moves a mirror of a data column off the one member that could take the column; the next pass finds it free.
    async fn make_way(
        &self,
        lock: &Rc<StripeLock<I>>,
        index: usize,
        rebuilt: &[Rebuilt<I>],
    ) -> Option<Rebuilt<I>> {
        let (g, stripe) = (*self.store.geometry(), lock.stripe());
        let is_column = index < g.data_columns && rebuilt.is_empty();
        let copies = is_column.then(|| g.copies_of(index)).into_iter().flatten();
        for mirror in copies.filter(|&copy| copy != index) {
            let Some(home) = self.stripes.live_home(stripe, mirror) else { continue };
            let in_the_way = self.relocator.members_to_avoid(stripe, index, rebuilt);
            let others = in_the_way.iter().filter(|&&m| m == home.member).count();
            if others > 1 || !self.store.members().takes_new(home.member) {
                continue;
            }
            let mut avoid = self.relocator.members_to_avoid(stripe, mirror, rebuilt);
            avoid.push(home.member);
            let Some(new) = self.store.allocator_mut().take_chunk_avoiding(&avoid) else { continue };
            self.store.mark(Mark::MirrorMovedAway);
            return match self.relocator.chunk_content(stripe, mirror).await {
                Some(content) => self.relocator.write_rebuilt(lock, mirror, new, true, content).await,
                None => {
                    self.store.allocator_mut().give_back([new]);
                    None
                }
            };
        }
        None
    }
}
