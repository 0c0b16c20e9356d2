//! The state of a shard of a mapped pool, for people and for the pool's control.

use crate::shard::MappedShard;
use crate::store::tables::StripeState;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::StripeId;
use sinew_core::io::Io;
use sinew_format::model::mapped_geometry::CHUNK_BYTES;
use sinew_members::status::ShardStatus;

impl<I: Io> MappedShard<I> {
    fn waits(&self) -> String {
        let space = self.space.borrow();
        format!(
            "shard {}: {}; {}; free chunks {} of {}, reserve {}, releasing {}, given up {}, waiting {}, era {}; unflushed stripes {}, marks {}, flushing {}; emptied {}, convertible {}",
            self.index,
            self.journal.waits(),
            self.appender.waits(),
            space.free_chunks(),
            space.all_chunks(),
            space.reserve_chunks(),
            space.releasing(),
            self.given_up.get(),
            self.waiting_for_room.get(),
            self.eras.oldest(),
            self.unflushed_stripes.borrow().len(),
            self.marks_pending.get(),
            self.flush_running.get(),
            self.emptied.borrow().len(),
            self.convertible.borrow().len(),
        )
    }

    /// The shard's state now.
    pub(crate) fn status(&self) -> ShardStatus {
        let tables = self.tables.borrow();
        let space = self.space.borrow();
        let block = BLOCK_BYTES as u64;
        let mut status = ShardStatus {
            stored_bytes: tables.live_blocks * block,
            capacity_bytes: space.capacity_blocks() * block,
            raw_bytes: space.all_chunks() * CHUNK_BYTES,
            free_bytes: space.free_chunks() * CHUNK_BYTES,
            metadata_degraded: u64::from(self.needs_redundancy()),
            rebuild_chunks_left: self.rebuild_left.get(),
            balance_chunks_left: self.balance_left.get(),
            scrub_stripes_left: tables
                .scrub_next
                .map(|next| u64::from(tables.stripe_count().saturating_sub(next.0))),
            table_bytes: tables.memory_bytes(),
            journal_blocks_used: self.journal.used(),
            journal_blocks_written: self.journal.blocks_written.get(),
            refused_early: self.refused_early.get(),
            failures_reported: self.members.failures_reported.get(),
            waits: self.waits(),
            counters: self.counters.values(),
            members: self.members.ids().map(|m| self.members.get(m).stats).collect(),
            member_latency: self.members.latencies(),
            member_chunks_used: vec![0; self.members.count()],
            member_chunks_parity: vec![0; self.members.count()],
            ..ShardStatus::default()
        };
        for stripe in (0..tables.stripe_count()).map(StripeId) {
            let live_bytes = u64::from(tables.stripe(stripe).live) * block;
            match tables.stripe(stripe).state {
                StripeState::Free => continue,
                StripeState::Mirrored => {
                    status.stripes_mirrored += 1;
                    status.stored_mirrored_bytes += live_bytes;
                }
                StripeState::Parity => {
                    status.stripes_parity += 1;
                    status.stored_parity_bytes += live_bytes;
                }
            }
            for (index, home) in tables.homes(stripe).iter().enumerate() {
                let Some(member) = home.map(|home| usize::from(home.member.0)) else { continue };
                status.member_chunks_used[member] += 1;
                status.member_chunks_parity[member] += u64::from(self.geometry.is_parity(index));
            }
            status.stripes_degraded += u64::from(self.missing_chunks(stripe) > 0);
            status.stripes_at_risk += u64::from(self.losses(stripe) >= self.geometry.failures());
        }
        status
    }
}
