//! Balance: members added, or back after long, get their share of what is stored.
//!
//! Placement fills members in proportion to the room they have left, but what is stored stays where it is. The balancer
//! looks when members have come or gone and when the pool is opened; where a member has noticeably more or less than its
//! share ([`crate::background::fair_share`]), it moves chunks from those with more to those with less, data and parity each for itself, and no
//! chunk twice. So what moves to n members added to m like them is n / (m + n) of the chunks (FastScale, FAST'11, section
//! 3, has this as the least that has to move). The aim follows from the tables: after a restart it just goes on.
//!
//! It gives way: to rebuilding altogether, to clients three quarters of the time.

use std::rc::Rc;

use crate::background::fair_share::{Role, Shares};
use crate::background::rebuild::{CHUNKS_PER_ROUND, Rebuilt};
use crate::shard::MappedShard;
use crate::store::tables::StripeState;
use sinew_core::coverage::Mark;
use sinew_core::ids::StripeId;
use sinew_core::io::{Io, yield_now};
use sinew_core::mutation::{self, Mutation};

/// Pause between a change of members and the first look.
const SETTLE_NS: u64 = 100_000_000;
/// Pause before stripes that were in use are tried again.
const RETRY_NS: u64 = 50_000_000;
/// That pause is at least so many times as long as the pass that found nothing else.
const PASSES_APART: u64 = 9;
/// While clients are at work, so many times as long as a round of moves took is left to them before the next.
const CLIENTS_TURN: u64 = 3;
/// Stripes counted without a break.
const COUNTED_AT_ONCE: u32 = 4096;

/// What a pass came to.
#[derive(Default)]
struct Pass {
    moved: bool,
    /// Stripes that may have chunks to move were in use.
    busy: bool,
}

impl<I: Io> MappedShard<I> {
    /// Has the balancer look whether there is anything to move.
    pub(crate) fn look_for_balance(&self) {
        // Until it has counted.
        self.balance_left.set(self.balance_left.get().max(1));
        self.balancer.kick();
    }

    /// Balances whenever members have come or gone, for ever.
    pub(crate) async fn run_balancer(self: Rc<Self>) {
        self.look_for_balance();
        loop {
            self.balancer.kicked().await;
            // Several devices are often added one after the other.
            self.io.sleep(SETTLE_NS).await;
            while self.may_balance() {
                let mut shares = self.count_shares().await;
                if !shares.are_uneven() {
                    break;
                }
                self.balance_left.set(shares.left());
                let started = self.io.now();
                let pass = self.balance_pass(&mut shares).await;
                if !pass.moved && !pass.busy {
                    // What is left cannot move: its stripes are on all members that could take it.
                    self.io.mark(Mark::BalanceBlocked);
                    break;
                }
                if !pass.moved {
                    self.io.mark(Mark::BalanceRetried);
                    let took = self.io.now() - started;
                    self.io.sleep(RETRY_NS.max(took * PASSES_APART)).await;
                }
            }
            self.balance_left.set(0);
            self.balanced_at.set(self.moves_made());
        }
    }

    /// What conversion and compaction have done so far, and what was freed. It makes members uneven again, by little; they are
    /// not balanced for that.
    fn moves_made(&self) -> u64 {
        let counters = self.counters.values();
        counters.stripes_converted
            + counters.stripes_freed
            + counters.blocks_compacted
            + counters.blocks_gathered
    }

    /// The rebuilder kicks the balancer when it is done.
    fn may_balance(&self) -> bool {
        self.members.any_active() && self.rebuild_left.get() == 0 && !self.closing.get()
    }

    /// What every member holds now. Clients have their turn in between, so it may be off by a few.
    async fn count_shares(&self) -> Shares {
        let mut shares = Shares::new(self.space.borrow().usable_chunks());
        let stripes = self.tables.borrow().stripe_count();
        for stripe in (0..stripes).map(StripeId) {
            if stripe.0 % COUNTED_AT_ONCE == COUNTED_AT_ONCE - 1 {
                yield_now().await;
            }
            let tables = self.tables.borrow();
            for (index, home) in tables.homes(stripe).iter().enumerate() {
                if let Some(home) = home {
                    shares.count(self.role(index), home.member);
                }
            }
        }
        shares
    }

    fn role(&self, index: usize) -> Role {
        if self.geometry.is_parity(index) { Role::Parity } else { Role::Data }
    }

    /// Goes once over all stripes.
    async fn balance_pass(self: &Rc<Self>, shares: &mut Shares) -> Pass {
        let mut pass = Pass::default();
        let (mut batch, mut started) = (Vec::new(), self.io.now());
        let version = self.members.version();
        let stripes = self.tables.borrow().stripe_count();
        for stripe in (0..stripes).map(StripeId) {
            if !self.may_balance() || self.members.version() != version {
                // Counted anew, the shares are others.
                break;
            }
            if stripe.0 % COUNTED_AT_ONCE == COUNTED_AT_ONCE - 1 {
                yield_now().await;
            }
            pass.busy |= !self.balance_stripe(stripe, shares, &mut batch).await;
            if batch.len() >= CHUNKS_PER_ROUND {
                pass.moved |= self.record_balanced(std::mem::take(&mut batch), version).await;
                self.give_way(started).await;
                started = self.io.now();
            }
        }
        pass.moved |= !batch.is_empty() && self.record_balanced(batch, version).await;
        pass
    }

    async fn record_balanced(self: &Rc<Self>, batch: Vec<Rebuilt<I>>, version: u64) -> bool {
        let count = batch.len() as u64;
        let recorded = self.record_moved(batch, version).await;
        if recorded {
            self.io.mark(Mark::Balanced);
            self.counters.chunks_balanced.add(count);
        }
        self.balance_left.set(self.balance_left.get().saturating_sub(count));
        recorded
    }

    /// Leaves the members to clients that are at work for a while.
    async fn give_way(&self, started: u64) {
        if self.volumes_in_use() > 0 {
            self.io.sleep((self.io.now() - started) * CLIENTS_TURN).await;
        }
    }

    /// Moves chunks of a stripe to where they are wanted; false when the stripe is in use.
    async fn balance_stripe(
        self: &Rc<Self>,
        stripe: StripeId,
        shares: &mut Shares,
        batch: &mut Vec<Rebuilt<I>>,
    ) -> bool {
        // What is left of a stripe with losses stays where it is: rebuilding comes first.
        let is_free = self.tables.borrow().stripe(stripe).state == StripeState::Free;
        if is_free || !self.gives_any(stripe, shares) || self.missing_chunks(stripe) > 0 {
            return true;
        }
        if self.appender.is_open(stripe) {
            // Nobody knows when it will be full.
            return true;
        }
        let Some(lock) = self.lock_stripe(stripe).map(Rc::new) else { return false };
        for index in self.required(stripe) {
            let Some(home) = self.live_home(stripe, index) else { continue };
            let role = self.role(index);
            if !shares.gives(role, home.member) {
                continue;
            }
            let avoid = match mutation::on(Mutation::BalanceTogether) {
                true => Vec::new(),
                false => self.members_to_avoid(stripe, index, batch),
            };
            let takers = shares.takers(role).into_iter().filter(|taker| !avoid.contains(taker));
            let planned = {
                let mut space = self.space.borrow_mut();
                takers.into_iter().find_map(|taker| space.plan_chunk_on(taker))
            };
            let Some(new) = planned else { continue };
            let moved = self.move_chunk(&lock, index, new).await;
            if moved.is_some() {
                shares.moved(role, home.member, new.member);
            }
            batch.extend(moved);
        }
        true
    }

    /// Whether a chunk of the stripe is on a member with more than its share.
    fn gives_any(&self, stripe: StripeId, shares: &Shares) -> bool {
        let tables = self.tables.borrow();
        let mut homes = tables.homes(stripe).iter().enumerate();
        homes.any(|(index, home)| home.is_some_and(|h| shares.gives(self.role(index), h.member)))
    }

    /// Moves that would make members noticeably more even than the balancer left them, in words; for tests.
    pub(crate) fn unbalanced(&self) -> Vec<String> {
        if self.balanced_at.get() != self.moves_made() {
            return Vec::new();
        }
        let (tables, space) = (self.tables.borrow(), self.space.borrow());
        let alive = |s: &StripeId| tables.stripe(*s).state != StripeState::Free;
        let stripes: Vec<StripeId> = (0..tables.stripe_count()).map(StripeId).filter(alive).collect();
        let mut shares = Shares::new(space.usable_chunks());
        for &stripe in &stripes {
            for (index, home) in tables.homes(stripe).iter().enumerate() {
                home.inspect(|home| shares.count(self.role(index), home.member));
            }
        }
        let mut found = Vec::new();
        for role in [Role::Data, Role::Parity] {
            for (from, to) in shares.uneven_pairs(role) {
                let may_move = |stripe: &&StripeId| {
                    self.required(**stripe).any(|index| {
                        let here = tables.homes(**stripe)[index].is_some_and(|h| h.member == from);
                        let others = tables.homes(**stripe).iter().enumerate();
                        let mut others =
                            others.filter(|&(i, _)| i != index && self.geometry.protect(i, index));
                        here && self.role(index) == role
                            && !others.any(|(_, home)| home.is_some_and(|h| h.member == to))
                    })
                };
                if space.has_room(to)
                    && let Some(stripe) = stripes.iter().find(may_move)
                {
                    let (shard, stripe) = (self.index, stripe.0);
                    found.push(format!(
                        "shard {shard}: {role:?} of stripe {stripe} from {from:?} to {to:?}: {shares:?}"
                    ));
                }
            }
        }
        found
    }
}
