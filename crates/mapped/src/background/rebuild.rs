//! Rebuild: every chunk of a stripe gets back a good home.
//!
//! One act serves all occasions: a chunk that is stale on its (returned or new) member is written again in place; one on
//! an evacuating member, or without a home, gets a new one among the others. What is left to do is in the stripe table,
//! so a rebuild goes on by itself after a restart.

use std::rc::Rc;

use crate::shard::{MappedShard, StripeLock};
use crate::store::tables::StripeState;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::Mark;
use sinew_core::ids::{Home, MemberId, StripeId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::Record;
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_geometry::CHUNK_BYTES;
use sinew_members::message::ShardEvent;

/// Chunks rebuilt with one flush.
pub(crate) const CHUNKS_PER_ROUND: usize = 16;
/// Pause before stripes that were in use, or could not be rebuilt, are tried again.
const RETRY_NS: u64 = 50_000_000;

/// A chunk written to its new home, to be recorded once durable.
pub(crate) struct Rebuilt<I: Io> {
    _lock: Rc<StripeLock<I>>,
    stripe: StripeId,
    index: usize,
    home: Home,
    /// The members' version before it was written.
    version: u64,
    /// The home was planned for this; it goes back if nothing comes of it.
    is_new: bool,
}

impl<I: Io> MappedShard<I> {
    /// Rebuilds whenever something is missing, for ever.
    pub(crate) async fn run_rebuilder(self: Rc<Self>) {
        self.rebuilder.kick();
        loop {
            self.rebuilder.kicked().await;
            loop {
                if mutation::on(Mutation::LeaveEarly) {
                    let _ = self.control.send(ShardEvent::Emptied).await;
                }
                while self.count_wanting() > 0 {
                    if !self.rebuild_pass().await {
                        self.io.mark(Mark::RebuildRetried);
                        self.io.sleep(RETRY_NS).await;
                    }
                }
                let emptying: Vec<MemberId> = self.members.ids().filter(|&m| self.is_emptying(m)).collect();
                if emptying.is_empty() {
                    break;
                }
                if emptying.iter().all(|&m| self.space.borrow().is_empty(m)) && !self.needs_redundancy() {
                    // The last shard to say so is heard.
                    let _ = self.control.send(ShardEvent::Emptied).await;
                    break;
                }
                // Readers are to leave, the cleaner is to write pages anew, or a stripe was still being opened.
                self.io.mark(Mark::EmptyingAwaited);
                self.io.sleep(RETRY_NS).await;
                let _ = self.flush().await;
                self.reclaim();
            }
            self.look_for_balance();
        }
    }

    /// Whether a member is to be emptied.
    fn is_emptying(&self, member: MemberId) -> bool {
        matches!(self.members.get(member).state, MemberState::Evacuating | MemberState::Leaving)
    }

    /// Whether nothing of the shard is on a member that takes nothing new, whatever happens from here on.
    pub(crate) async fn is_rid_of(self: &Rc<Self>, member: MemberId) -> Result<bool, VolumeError> {
        self.flush().await?;
        self.reclaim();
        let is_rid = self.space.borrow().is_empty(member) && !self.journal.is_late(member);
        Ok(is_rid && !self.needs_redundancy())
    }

    /// Chunks that can and should be rebuilt.
    fn count_wanting(&self) -> u64 {
        let stripes = self.tables.borrow().stripe_count();
        let left = (0..stripes).map(|s| self.wanting(StripeId(s)).len() as u64).sum();
        self.rebuild_left.set(left);
        left
    }

    /// Homes of a stripe that are not what they should be although they could be.
    fn wanting(&self, stripe: StripeId) -> Vec<usize> {
        let tables = self.tables.borrow();
        let found = tables.stripe(stripe);
        if found.state == StripeState::Free {
            return Vec::new();
        }
        self.required(stripe)
            .filter(|&index| match tables.homes(stripe)[index] {
                None => self.members.taking_new() > self.geometry.failures(),
                Some(home) => match self.members.get(home.member).state {
                    MemberState::Active => found.stale >> index & 1 == 1,
                    MemberState::Evacuating | MemberState::Leaving => true,
                    _ => false,
                },
            })
            .collect()
    }

    /// Indices of the homes a stripe should have.
    pub(crate) fn required(&self, stripe: StripeId) -> impl Iterator<Item = usize> + use<I> {
        let g = self.geometry;
        let found = self.tables.borrow().stripe(stripe);
        let columns = usize::from(found.columns);
        let mirrors = if found.state == StripeState::Mirrored { g.failures() } else { 0 };
        (0..columns)
            .chain((0..g.parity_columns()).map(move |p| g.parity_index(p)))
            .chain((0..mirrors).flat_map(move |copy| (0..columns).map(move |c| g.mirror_index(copy, c))))
    }

    /// Chunks of a stripe that are not at a good home on an active member.
    pub(crate) fn missing_chunks(&self, stripe: StripeId) -> usize {
        if self.tables.borrow().stripe(stripe).state == StripeState::Free {
            return 0;
        }
        self.required(stripe).filter(|&i| self.live_home(stripe, i).is_none()).count()
    }

    /// Losses a stripe has had, at its weakest place: copies missing of a column, or columns missing of those under parity.
    pub(crate) fn losses(&self, stripe: StripeId) -> usize {
        let g = self.geometry;
        let found = self.tables.borrow().stripe(stripe);
        let missing = |i: usize| usize::from(self.live_home(stripe, i).is_none());
        let columns = 0..usize::from(found.columns);
        match found.state {
            StripeState::Free => 0,
            StripeState::Mirrored => {
                let mirrors = |c| (0..g.failures()).map(move |copy| g.mirror_index(copy, c));
                columns.map(|c| missing(c) + mirrors(c).map(missing).sum::<usize>()).max().unwrap_or(0)
            }
            StripeState::Parity => {
                columns.chain((0..g.parity_columns()).map(|p| g.parity_index(p))).map(missing).sum()
            }
        }
    }

    /// Goes once over all stripes; false when nothing could be done.
    async fn rebuild_pass(self: &Rc<Self>) -> bool {
        let mut progress = false;
        let mut batch = Vec::new();
        let stripes = self.tables.borrow().stripe_count();
        for stripe in (0..stripes).map(StripeId) {
            if self.wanting(stripe).is_empty() {
                continue;
            }
            if self.appender.is_open(stripe) {
                // Opened while members were out; nobody knows when it will be full.
                self.io.mark(Mark::RebuiltOpen);
                self.appender.close(self, stripe);
            }
            let Some(lock) = self.lock_stripe(stripe).map(Rc::new) else { continue };
            for index in self.wanting(stripe) {
                self.throttle.pay(&self.io, CHUNK_BYTES).await;
                self.step_back(stripe, CHUNK_BYTES).await;
                let is_moved = batch.iter().any(|r: &Rebuilt<I>| r.stripe == stripe && r.index == index);
                if is_moved || !self.wanting(stripe).contains(&index) {
                    // It made way for another chunk, or its member was told to stay.
                    self.io.mark(Mark::RebuildNeedless);
                    continue;
                }
                let rebuilt = self.rebuild_chunk(&lock, index, &batch).await;
                batch.extend(rebuilt);
            }
            if batch.len() >= CHUNKS_PER_ROUND {
                progress |= self.record_rebuilt(std::mem::take(&mut batch)).await;
            }
        }
        progress |= !batch.is_empty() && self.record_rebuilt(batch).await;
        progress
    }

    /// Writes one chunk to where it should be.
    async fn rebuild_chunk(
        self: &Rc<Self>,
        lock: &Rc<StripeLock<I>>,
        index: usize,
        batch: &[Rebuilt<I>],
    ) -> Option<Rebuilt<I>> {
        let stripe = lock.stripe();
        let Some(content) = self.chunk_content(stripe, index).await else {
            self.io.mark(Mark::RebuildUnreadable);
            return None;
        };
        let old = self.tables.borrow().homes(stripe)[index];
        let in_place = old.filter(|home| self.members.takes_new(home.member));
        let home = match in_place {
            Some(home) => home,
            None => {
                let avoid = self.members_to_avoid(stripe, index, batch);
                let planned = self.space.borrow_mut().plan_chunk(&avoid);
                if planned.is_none() {
                    if let Some(moved) = self.make_way(lock, index, batch).await {
                        return Some(moved);
                    }
                    self.io.mark(Mark::RebuildStarved);
                    self.rebuild_starved.set(true);
                    self.keeper.kick();
                }
                planned?
            }
        };
        self.io.mark(match (&content, in_place) {
            (None, _) => Mark::RebuiltReserved,
            (_, Some(_)) => Mark::RebuiltInPlace,
            (_, None) => Mark::RebuiltElsewhere,
        });
        let rebuilt = self.write_rebuilt(lock, index, home, in_place.is_none(), content).await?;
        self.counters.chunks_rebuilt.add(1);
        Some(rebuilt)
    }

    /// Moves a mirror of a data column off the one member that could take the column; the next pass finds it free.
    async fn make_way(
        self: &Rc<Self>,
        lock: &Rc<StripeLock<I>>,
        index: usize,
        batch: &[Rebuilt<I>],
    ) -> Option<Rebuilt<I>> {
        let (g, stripe) = (self.geometry, lock.stripe());
        let is_column = index < g.data_columns && !batch.iter().any(|r| r.stripe == stripe);
        let mirrors = (0..if is_column { g.failures() } else { 0 }).map(|copy| g.mirror_index(copy, index));
        for mirror in mirrors {
            let Some(home) = self.live_home(stripe, mirror) else { continue };
            let in_the_way = self.members_to_avoid(stripe, index, batch);
            let others = in_the_way.iter().filter(|&&m| m == home.member).count();
            if others > 1 || !self.members.takes_new(home.member) {
                continue;
            }
            let mut avoid = self.members_to_avoid(stripe, mirror, batch);
            avoid.push(home.member);
            let Some(new) = self.space.borrow_mut().plan_chunk(&avoid) else { continue };
            self.io.mark(Mark::MirrorMovedAway);
            return match self.chunk_content(stripe, mirror).await {
                Some(content) => self.write_rebuilt(lock, mirror, new, true, content).await,
                None => {
                    self.space.borrow_mut().give_back([new]);
                    None
                }
            };
        }
        None
    }

    /// Writes a chunk's content, if it matters, to its new home; `is_new` if that was planned for it.
    pub(crate) async fn write_rebuilt(
        self: &Rc<Self>,
        lock: &Rc<StripeLock<I>>,
        index: usize,
        home: Home,
        is_new: bool,
        content: Option<Buf>,
    ) -> Option<Rebuilt<I>> {
        let version = self.members.version();
        let rebuilt = Rebuilt { _lock: Rc::clone(lock), stripe: lock.stripe(), index, home, version, is_new };
        if let Some(mut data) = content {
            let mut from = 0;
            if mutation::on(Mutation::RebuildShort) {
                from = 1;
                data = data.slice(BLOCK_BYTES, data.len() - BLOCK_BYTES);
            }
            if let Err(error) = self.members.write(home, from, Rc::new([data])).await {
                self.io.mark(Mark::RebuildMemberLost);
                self.members.report_failure(home.member, error).await;
                self.give_up(&rebuilt);
                return None;
            }
        }
        Some(rebuilt)
    }

    /// What the chunk should hold; `Some(None)` when that does not matter. `None` when it cannot be had.
    pub(crate) async fn chunk_content(
        self: &Rc<Self>,
        stripe: StripeId,
        index: usize,
    ) -> Option<Option<Buf>> {
        let g = self.geometry;
        let state = self.tables.borrow().stripe(stripe).state;
        if !g.is_parity(index) {
            let column =
                if index < g.data_columns { index } else { (index - g.mirror_index(0, 0)) % g.data_columns };
            return self.read_chunk(stripe, column).await.ok().map(Some);
        }
        if state == StripeState::Mirrored {
            return Some(None);
        }
        let columns = usize::from(self.tables.borrow().stripe(stripe).columns);
        let mut chunks = Vec::with_capacity(columns);
        for column in 0..columns {
            chunks.push(vec![self.read_chunk(stripe, column).await.ok()?]);
        }
        Some(Some(self.compute_parity(&chunks).swap_remove(index - g.parity_index(0))))
    }

    /// Members that hold a chunk which protects this one, or is protected by it, or will when the batch is recorded.
    pub(crate) fn members_to_avoid(
        &self,
        stripe: StripeId,
        index: usize,
        batch: &[Rebuilt<I>],
    ) -> Vec<MemberId> {
        if mutation::on(Mutation::ShareMember) {
            return Vec::new();
        }
        let tables = self.tables.borrow();
        let homes = tables.homes(stripe).iter().enumerate().filter_map(|(i, home)| Some((i, (*home)?)));
        let coming = batch.iter().filter(|r| r.stripe == stripe).map(|r| (r.index, r.home));
        let others = homes.chain(coming).filter(|&(i, _)| i != index && self.geometry.protect(i, index));
        others.map(|(_, home)| home.member).collect()
    }

    pub(crate) async fn record_rebuilt(self: &Rc<Self>, batch: Vec<Rebuilt<I>>) -> bool {
        let durable = mutation::on(Mutation::MoveUnflushed) || self.flush_pages().await;
        let mut records = Vec::new();
        for rebuilt in &batch {
            // The stripe is locked, but its member may be gone again, or back without what was written to it.
            if durable && !self.members.lost_since(rebuilt.home.member, rebuilt.version) {
                let index = rebuilt.index as u8;
                records.push(Record::Rehome { stripe: rebuilt.stripe, index, home: rebuilt.home });
            } else {
                self.io.mark(Mark::RebuildVoid);
                self.give_up(rebuilt);
            }
        }
        !records.is_empty() && self.journal.commit(records).await.is_ok()
    }

    pub(crate) fn give_up(&self, rebuilt: &Rebuilt<I>) {
        if rebuilt.is_new {
            self.space.borrow_mut().give_back([rebuilt.home]);
        }
    }
}
