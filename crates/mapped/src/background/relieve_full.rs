//! Levelling: chunks move off full members to emptier ones.
//!
//! Placement fills members evenly, but not for ever: what was written while a member was out lies on the others, and when
//! it is back, empty, the room is all in one place, where no stripe can use it. Levelling is what the keeper does about it
//! when nothing else makes room. Every move is from a member to one with at least two more free chunks, so it ends.

use std::rc::Rc;

use crate::background::rebuild::{CHUNKS_PER_ROUND, Rebuilt};
use crate::shard::{MappedShard, StripeLock};
use sinew_core::coverage::Mark;
use sinew_core::ids::{Home, MemberId, StripeId};
use sinew_core::io::Io;
use sinew_format::model::mapped_geometry::CHUNK_BYTES;

impl<I: Io> MappedShard<I> {
    /// Moves some chunks off the fullest member that they can be moved off; false when there is none.
    pub(crate) async fn level_some(self: &Rc<Self>) -> bool {
        let by_room = self.space.borrow().usable_by_room();
        for from in by_room {
            let version = self.members.version();
            let batch = self.move_some(from).await;
            if batch.is_empty() {
                continue;
            }
            self.io.mark(Mark::Levelled);
            return self.record_moved(batch, version).await || self.members.version() != version;
        }
        false
    }

    /// Records moves of chunks, unless members have come or gone since `version`: what was whole may not be so any more.
    pub(crate) async fn record_moved(self: &Rc<Self>, batch: Vec<Rebuilt<I>>, version: u64) -> bool {
        if self.members.version() == version {
            return self.record_rebuilt(batch).await;
        }
        self.io.mark(Mark::RebuildVoid);
        batch.iter().for_each(|moved| self.give_up(moved));
        false
    }

    async fn move_some(self: &Rc<Self>, from: MemberId) -> Vec<Rebuilt<I>> {
        let mut batch = Vec::new();
        let stripes = self.tables.borrow().stripe_count();
        for stripe in (0..stripes).map(StripeId) {
            if batch.len() >= CHUNKS_PER_ROUND || !self.space.borrow().is_fuller_than_others(from) {
                break;
            }
            let on_it = self.tables.borrow().homes(stripe).iter().flatten().any(|home| home.member == from);
            // What is left of a stripe with losses stays where it is: rebuilding comes first.
            if !on_it || self.missing_chunks(stripe) > 0 {
                continue;
            }
            let Some(lock) = self.lock_stripe(stripe).map(Rc::new) else { continue };
            for index in self.required(stripe) {
                let home = self.tables.borrow().good_home(stripe, index);
                if home.is_none_or(|home| home.member != from) {
                    continue;
                }
                let avoid = self.members_to_avoid(stripe, index, &batch);
                let planned = self.space.borrow_mut().plan_move(from, &avoid);
                if let Some(home) = planned {
                    batch.extend(self.move_chunk(&lock, index, home).await);
                }
            }
        }
        batch
    }

    /// Writes a chunk of a whole stripe to the home planned for it.
    pub(crate) async fn move_chunk(
        self: &Rc<Self>,
        lock: &Rc<StripeLock<I>>,
        index: usize,
        home: Home,
    ) -> Option<Rebuilt<I>> {
        self.throttle.pay(&self.io, CHUNK_BYTES).await;
        self.step_back(lock.stripe(), CHUNK_BYTES).await;
        match self.chunk_content(lock.stripe(), index).await {
            Some(content) => self.write_rebuilt(lock, index, home, true, content).await,
            None => {
                self.space.borrow_mut().give_back([home]);
                None
            }
        }
    }
}
