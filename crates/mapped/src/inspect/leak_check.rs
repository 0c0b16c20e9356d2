//! What a shard of a mapped pool must not hold once it has nothing left to do: requests, locks, plans, and space that
//! nothing refers to; and chunks of a stripe that share a member although they protect each other.
//!
//! For tests: a leak shows here long before it fills a pool, and a shared member before it is lost.

use crate::shard::MappedShard;
use crate::store::tables::StripeState;
use sinew_core::ids::{MemberId, StripeId};
use sinew_core::io::Io;

impl<I: Io> MappedShard<I> {
    /// What is held without reason, in words.
    pub(crate) fn held_at_rest(&self) -> Vec<String> {
        let mut held = self.held_requests();
        held.extend(self.held_chunks());
        held.extend(self.held_page_slots());
        held.extend(self.shared_members());
        held
    }

    fn held_requests(&self) -> Vec<String> {
        let counts = [
            ("requests on volumes", self.volumes_in_use()),
            ("records to be committed", self.journal.queued()),
            ("journal blocks not applied", self.journal.unapplied()),
            ("small writes", self.appender.queued()),
            ("late writes of the journal", self.journal.late_writes()),
            ("marks to be committed", self.marks_pending.get() as usize),
            ("failures reported", self.members.failures_reported.get() as usize),
            ("flushes", usize::from(self.flush_running.get())),
            ("plans that wait for room", self.waiting_for_room.get() as usize),
            ("blocks claimed", self.blocks_reserved.get() as usize),
            ("stripes in use", self.busy_stripes()),
            ("full stripes not closed", self.appender.full_stripes()),
            ("chunks waiting for release", self.space.borrow().releasing()),
        ];
        let some = counts.into_iter().filter(|(_, count)| *count > 0);
        some.map(|(what, count)| format!("shard {}: {count} {what}", self.index)).collect()
    }

    /// Chunks that are neither free nor a stripe's.
    fn held_chunks(&self) -> Vec<String> {
        let (tables, space) = (self.tables.borrow(), self.space.borrow());
        let mut used = vec![0; self.members.count()];
        for stripe in (0..tables.stripe_count()).map(StripeId) {
            if tables.stripe(stripe).state != StripeState::Free {
                for home in tables.homes(stripe).iter().flatten() {
                    used[usize::from(home.member.0)] += 1;
                }
            }
        }
        let wrong = self.members.ids().zip(used).filter(|&(member, used)| space.chunks_taken(member) != used);
        wrong
            .map(|(member, used)| {
                let (shard, taken) = (self.index, space.chunks_taken(member));
                format!("shard {shard}: member {} has {taken} chunks taken and {used} in stripes", member.0)
            })
            .collect()
    }

    /// Chunks of a stripe that protect each other, on one member.
    fn shared_members(&self) -> Vec<String> {
        let tables = self.tables.borrow();
        let stripes = (0..tables.stripe_count()).map(StripeId);
        let alive = stripes.filter(|&stripe| tables.stripe(stripe).state != StripeState::Free);
        let shared = alive.filter(|&stripe| {
            let homes: Vec<_> =
                self.required(stripe).filter_map(|i| Some((i, tables.homes(stripe)[i]?.member))).collect();
            let is_shared = |&(i, member): &(usize, MemberId)| {
                homes.iter().any(|&(j, other)| i < j && member == other && self.geometry.protect(i, j))
            };
            homes.iter().any(is_shared)
        });
        shared.map(|stripe| format!("shard {}: stripe {} twice on a member", self.index, stripe.0)).collect()
    }

    /// Page slots that are neither free nor a page's.
    fn held_page_slots(&self) -> Vec<String> {
        let (tables, space) = (self.tables.borrow(), self.space.borrow());
        let mut used = vec![0; self.members.count()];
        for (_, copies) in tables.pages.written() {
            copies.iter().for_each(|copy| used[usize::from(copy.member.0)] += 1);
        }
        let wrong =
            self.members.ids().zip(used).filter(|&(member, used)| space.page_slots_taken(member) != used);
        wrong
            .map(|(member, used)| {
                let (shard, taken) = (self.index, space.page_slots_taken(member));
                format!("shard {shard}: member {} has {taken} page slots taken and {used} pages", member.0)
            })
            .collect()
    }
}
