//! Rebalance: members that were added, or were out for long, get their share of the stored chunks.
//!
//! Placement fills members in proportion to the room they have left, but stored chunks stay where they are. The rebalancer
//! looks when members have come or gone and when the pool is opened; where a member has noticeably more or less than its
//! share ([`crate::background::fair_share`]), it moves chunks from members with more to members with less, data and parity
//! separately, and no chunk twice. So of a pool of m members to which n like them are added, n / (m + n) of the chunks move
//! (FastScale, FAST'11, section 3, has this as the least that has to move). The goal follows from the tables: after a
//! restart it just goes on.
//!
//! It gives way: to rebuilding altogether, to clients three quarters of the time.

use std::cell::Cell;
use std::rc::Rc;

use crate::background::fair_share::{Role, Shares};
use crate::background::progress::Progress;
use crate::background::relocate::{CHUNKS_PER_ROUND, Rebuilt, Relocator};
use crate::marks::Mark;
use crate::store::Store;
use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use sinew_core::ids::{ChunkAddr, StripeId};
use sinew_core::io::{Io, yield_now};
use sinew_core::mutation::{self, Mutation};
use sinew_members::status::BalanceBlocked;

/// Pause between a change of members and the first look.
const SETTLE_NS: u64 = 100_000_000;

/// Pause before stripes that were in use are tried again.
const RETRY_NS: u64 = 50_000_000;

/// That pause is at least this many times as long as the pass that found nothing else.
const PASSES_APART: u64 = 9;

/// While clients are active, a pause of this many times the duration of a round of moves is left to them before the
/// next.
const CLIENTS_TURN: u64 = 3;

/// Stripes counted without a break.
const COUNTED_AT_ONCE: u32 = 4096;

/// What a pass came to.
#[derive(Default)]
struct Pass {
    pub(super) moved: bool,
    /// Stripes that may have chunks to move were in use.
    busy: bool,
    /// Why others did not move.
    blocked: BalanceBlocked,
}

/// The rebalance of members.
pub(crate) struct Rebalancer<I> {
    store: Rc<Store<I>>,
    stripes: Rc<Stripes<I>>,
    relocator: Rc<Relocator<I>>,
    progress: Rc<Progress>,
    /// `moves_made` when the rebalancer last found nothing to do.
    balanced_at: Cell<u64>,
}

impl<I: Io> Rebalancer<I> {
    pub(crate) fn new(
        stripes: Rc<Stripes<I>>,
        relocator: Rc<Relocator<I>>,
        progress: Rc<Progress>,
    ) -> Rebalancer<I> {
        Rebalancer {
            store: Rc::clone(stripes.store()),
            stripes,
            relocator,
            progress,
            balanced_at: Cell::default(),
        }
    }

    /// The task that rebalances whenever members have come or gone. It never ends.
    pub(crate) async fn run(self: Rc<Self>) {
        self.progress.request_rebalance();
        loop {
            self.progress.rebalance.kicked().await;
            // Several devices are often added one after the other.
            self.store.io().sleep(SETTLE_NS).await;
            self.progress.blocked.set(BalanceBlocked::default());
            let mut blocked = BalanceBlocked::default();
            while self.may_balance() {
                let mut shares = self.count_shares().await;
                if !shares.are_uneven() {
                    break;
                }
                self.progress.rebalance_left.set(shares.left());
                let started = self.store.io().now();
                let pass = self.balance_pass(&mut shares).await;
                if !pass.moved && !pass.busy {
                    if pass.blocked.no_room > 0 && self.release_chunks().await {
                        self.store.mark(Mark::BalanceAwaitsRoom);
                        continue;
                    }
                    // What is left cannot move: its stripes are on all members that could take it.
                    self.store.mark(Mark::BalanceBlocked);
                    blocked = BalanceBlocked { chunks: shares.left(), ..pass.blocked };
                    break;
                }
                if !pass.moved {
                    self.store.mark(Mark::BalanceRetried);
                    let took = self.store.io().now() - started;
                    self.store.io().sleep(RETRY_NS.max(took * PASSES_APART)).await;
                }
            }
            self.progress.blocked.set(blocked);
            self.progress.rebalance_left.set(0);
            self.balanced_at.set(self.moves_made());
        }
    }

    /// What conversion and compaction have done so far, and what was freed. It makes members uneven again, by little; they are
    /// not balanced for that.
    fn moves_made(&self) -> u64 {
        let counters = self.store.counters().values();
        counters.stripes_converted
            + counters.stripes_freed
            + counters.blocks_compacted
            + counters.blocks_gathered
            + counters.blocks_reclassed
    }

    /// The rebuilder wakes the rebalancer when it is done.
    fn may_balance(&self) -> bool {
        self.store.members().any_active() && self.progress.rebuild_left.get() == 0 && !self.store.is_closing()
    }

    /// What every member holds now. Clients run in between, so it may be off by a few.
    async fn count_shares(&self) -> Shares {
        let mut shares = Shares::new(self.store.allocator().usable_chunks());
        let stripes = self.store.tables().stripe_count();
        for stripe in (0..stripes).map(StripeId) {
            if stripe.0 % COUNTED_AT_ONCE == COUNTED_AT_ONCE - 1 {
                yield_now().await;
            }
            let tables = self.store.tables();
            for (index, home) in tables.homes(stripe).iter().enumerate() {
                if let Some(home) = home {
                    shares.count(self.role(index), home.member);
                }
            }
        }
        shares
    }

    pub(super) fn role(&self, index: usize) -> Role {
        Role::of(self.store.geometry(), index)
    }

    /// Goes once over all stripes.
    async fn balance_pass(&self, shares: &mut Shares) -> Pass {
        let mut pass = Pass::default();
        let (mut batch, mut started) = (Vec::new(), self.store.io().now());
        let version = self.store.members().version();
        let stripes = self.store.tables().stripe_count();
        for stripe in (0..stripes).map(StripeId) {
            if !self.may_balance() || self.store.members().version() != version {
                // Counted anew, the shares are others.
                break;
            }
            if stripe.0 % COUNTED_AT_ONCE == COUNTED_AT_ONCE - 1 {
                yield_now().await;
            }
            pass.busy |= !self.balance_stripe(stripe, shares, &mut batch, &mut pass.blocked).await;
            if batch.len() >= CHUNKS_PER_ROUND {
                pass.moved |= self.record_balanced(std::mem::take(&mut batch), version).await;
                self.give_way(started).await;
                started = self.store.io().now();
            }
        }
        pass.moved |= !batch.is_empty() && self.record_balanced(batch, version).await;
        pass
    }

    async fn record_balanced(&self, batch: Vec<Rebuilt<I>>, version: u64) -> bool {
        let count = batch.len() as u64;
        let recorded = self.relocator.record_relocated(batch, version).await;
        if recorded {
            self.store.mark(Mark::Balanced);
            self.store.counters().chunks_balanced.add(count);
        }
        self.progress.rebalance_left.set(self.progress.rebalance_left.get().saturating_sub(count));
        recorded
    }

    /// Frees released chunks, which moves of chunks leave behind; false if none could be freed.
    async fn release_chunks(&self) -> bool {
        let releasing = self.store.allocator().releasing();
        if releasing > 0 && self.store.flush().await.is_ok() {
            self.store.free_released();
        }
        self.store.allocator().releasing() < releasing
    }

    /// Leaves the members to clients that are at work for a while.
    async fn give_way(&self, started: u64) {
        if self.store.volumes_in_use() > 0 {
            self.store.io().sleep((self.store.io().now() - started) * CLIENTS_TURN).await;
        }
    }

    /// Moves chunks of a stripe to where they are wanted, and counts those that may not; false when the stripe is in use.
    async fn balance_stripe(
        &self,
        stripe: StripeId,
        shares: &mut Shares,
        batch: &mut Vec<Rebuilt<I>>,
        blocked: &mut BalanceBlocked,
    ) -> bool {
        // What is left of a stripe with losses stays where it is: rebuilding comes first.
        let is_free = self.store.tables().stripe(stripe).state == StripeState::Free;
        let given = if is_free { 0 } else { self.given(stripe, shares) };
        if given == 0 {
            return true;
        }
        if self.stripes.missing_chunks(stripe) > 0 {
            blocked.degraded += given;
            return true;
        }
        if self.stripes.is_open(stripe) {
            // It is not known when it will be full.
            blocked.open += given;
            return true;
        }
        let Some(lock) = self.store.lock_stripe(stripe).map(Rc::new) else { return false };
        for index in self.stripes.required(stripe) {
            let Some(home) = self.stripes.live_home(stripe, index) else { continue };
            let role = self.role(index);
            if !shares.gives(role, home.member) {
                continue;
            }
            let avoid = match mutation::on(Mutation::BalanceTogether) {
                true => Vec::new(),
                false => self.relocator.members_to_avoid(stripe, index, batch),
            };
            let mut takers = shares.takers(role);
            takers.retain(|taker| !avoid.contains(taker));
            if takers.is_empty() {
                blocked.together += 1;
                continue;
            }
            let planned = {
                let mut allocator = self.store.allocator_mut();
                takers.into_iter().find_map(|taker| allocator.take_chunk_on(taker))
            };
            let Some(new) = planned else {
                blocked.no_room += 1;
                continue;
            };
            let moved = self.relocator.move_chunk(&lock, index, new).await;
            match moved.is_some() {
                true => shares.moved(role, home.member, new.member),
                false => blocked.unmovable += 1,
            }
            batch.extend(moved);
        }
        true
    }

    /// Chunks of the stripe on members with more than their shares.
    fn given(&self, stripe: StripeId, shares: &Shares) -> u64 {
        let tables = self.store.tables();
        let homes = tables.homes(stripe).iter().enumerate();
        let gives = |&(index, home): &(usize, &Option<ChunkAddr>)| {
            home.is_some_and(|h| shares.gives(self.role(index), h.member))
        };
        homes.filter(gives).count() as u64
    }

    /// Moves that would make members noticeably more even than the rebalancer left them, in words; for tests.
    pub(crate) fn unbalanced(&self) -> Vec<String> {
        if self.balanced_at.get() != self.moves_made() {
            return Vec::new();
        }
        let (tables, allocator) = (self.store.tables(), self.store.allocator());
        let alive = |s: &StripeId| tables.stripe(*s).state != StripeState::Free;
        let stripes: Vec<StripeId> = (0..tables.stripe_count()).map(StripeId).filter(alive).collect();
        let mut shares = Shares::new(allocator.usable_chunks());
        for &stripe in &stripes {
            for (index, home) in tables.homes(stripe).iter().enumerate() {
                home.inspect(|home| shares.count(self.role(index), home.member));
            }
        }
        let mut found = Vec::new();
        for role in [Role::Data, Role::Parity] {
            for (from, to) in shares.uneven_pairs(role) {
                let may_move = |stripe: &&StripeId| {
                    self.stripes.required(**stripe).any(|index| {
                        let here = tables.homes(**stripe)[index].is_some_and(|h| h.member == from);
                        let others = tables.homes(**stripe).iter().enumerate();
                        let mut others =
                            others.filter(|&(i, _)| i != index && self.store.geometry().protect(i, index));
                        here && self.role(index) == role
                            && !others.any(|(_, home)| home.is_some_and(|h| h.member == to))
                    })
                };
                if allocator.has_room(to)
                    && let Some(stripe) = stripes.iter().find(may_move)
                {
                    let (shard, stripe) = (self.store.index(), stripe.0);
                    found.push(format!(
                        "shard {shard}: {role:?} of stripe {stripe} from {from:?} to {to:?}: {shares:?}"
                    ));
                }
            }
        }
        found
    }
}
