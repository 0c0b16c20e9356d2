//! Relief of full members: chunks move off full members to emptier ones.
//!
//! Placement fills members evenly, but not for ever: chunks written while a member was out lie on the others, and when
//! it is back, empty, the room is all in one place, where no stripe can use it. Reclaim relieves full members when nothing
//! else makes room. Every move is from a member to one with at least two more free chunks, so it ends.

use std::rc::Rc;

use crate::background::relocate::{CHUNKS_PER_ROUND, Rebuilt, Relocator};
use crate::marks::Mark;
use crate::store::Store;
use crate::stripe::Stripes;
use sinew_core::ids::{MemberId, StripeId};
use sinew_core::io::Io;

/// Moves chunks off full members.
pub(crate) struct FullMemberRelief<I> {
    store: Rc<Store<I>>,
    stripes: Rc<Stripes<I>>,
    relocator: Rc<Relocator<I>>,
}

impl<I: Io> FullMemberRelief<I> {
    pub(crate) fn new(stripes: Rc<Stripes<I>>, relocator: Rc<Relocator<I>>) -> FullMemberRelief<I> {
        FullMemberRelief { store: Rc::clone(stripes.store()), stripes, relocator }
    }

    /// Moves some chunks off the fullest member that they can be moved off; false when there is none.
    pub(super) async fn relieve_some(&self) -> bool {
        let by_room = self.store.allocator().usable_by_room();
        for from in by_room {
            let version = self.store.members().version();
            let batch = self.move_some(from).await;
            if batch.is_empty() {
                continue;
            }
            self.store.mark(Mark::Levelled);
            return self.relocator.record_relocated(batch, version).await
                || self.store.members().version() != version;
        }
        false
    }

    async fn move_some(&self, from: MemberId) -> Vec<Rebuilt<I>> {
        let mut batch = Vec::new();
        let stripes = self.store.tables().stripe_count();
        for stripe in (0..stripes).map(StripeId) {
            if batch.len() >= CHUNKS_PER_ROUND || !self.store.allocator().is_fuller_than_others(from) {
                break;
            }
            let on_it = self.store.tables().homes(stripe).iter().flatten().any(|home| home.member == from);
            // What is left of a stripe with losses stays where it is: rebuilding comes first.
            if !on_it || self.stripes.missing_chunks(stripe) > 0 {
                continue;
            }
            let Some(lock) = self.store.lock_stripe(stripe).map(Rc::new) else { continue };
            for index in self.stripes.required(stripe) {
                let home = self.store.tables().good_home(stripe, index);
                if home.is_none_or(|home| home.member != from) {
                    continue;
                }
                let avoid = self.relocator.members_to_avoid(stripe, index, &batch);
                let planned = self.store.allocator_mut().take_chunk_for_move(from, &avoid);
                if let Some(home) = planned {
                    batch.extend(self.relocator.move_chunk(&lock, index, home).await);
                }
            }
        }
        batch
    }
}
