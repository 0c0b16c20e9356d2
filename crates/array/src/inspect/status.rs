//! What a shard of an array can tell about itself.

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_members::status::ShardStatus;

use crate::ArrayShard;

impl<I: Io> ArrayShard<I> {
    /// The shard's state now.
    pub(crate) fn status(&self) -> ShardStatus {
        let slice = self.slice();
        let chunk_bytes = u64::from(slice.chunk_blocks) * BLOCK_BYTES as u64;
        let data = slice.blocks() * BLOCK_BYTES as u64;
        let count = self.members.count();
        let mut status = ShardStatus {
            stored_bytes: data,
            capacity_bytes: data,
            raw_bytes: slice.stripes * slice.w as u64 * chunk_bytes,
            metadata_degraded: u64::from(self.log.tail_durable() < self.tail_wanted.get()),
            scrub_stripes_left: self.scrub_next.get().map(|next| slice.stripes.saturating_sub(next)),
            growth_chunks_left: slice.growth_left(),
            growth_stuck: u64::from(self.mover.stuck.get()),
            journal_blocks_used: if slice.geometry.journal { self.pending.borrow().len() } else { 0 },
            journal_blocks_written: self.log.blocks_written.get(),
            failures_reported: self.members.failures_reported.get(),
            waits: self.waits(),
            counters: self.counters.values(),
            update_latency: self.update_latency.borrow().clone(),
            members: self.members.ids().map(|m| self.members.get(m).stats).collect(),
            member_latency: self.members.latencies(),
            member_chunks_used: vec![0; count],
            member_chunks_stale: vec![0; count],
            ..ShardStatus::default()
        };
        match slice.is_mirror() {
            true => status.stripes_mirrored = slice.stripes,
            false => status.stripes_parity = slice.stripes,
        }
        match (slice.is_mirror(), slice.geometry.parity_columns()) {
            (true, _) => status.stored_mirrored_bytes = data,
            (false, 1..) => status.stored_parity_bytes = data,
            (false, 0) => {}
        }
        let regions = self.regions.borrow();
        for region in 0..slice.regions() {
            let stripes = slice.region_stripes(region);
            status.resync_stripes_left +=
                if regions.uneven().get(region) { stripes.end - stripes.start } else { 0 };
            let is_out = |m: usize| !self.members.is_active(MemberId(m as u8));
            if (0..slice.geometry.members()).all(|m| !is_out(m) && !regions.is_stale(m, region)) {
                continue;
            }
            // One turn of the rotation stands for the others.
            let all = stripes.end - stripes.start;
            let turn = match slice.is_regular() {
                true => slice.geometry.members() * slice.geometry.groups(),
                false => all as usize,
            };
            let times = (all / turn as u64).max(1);
            for stripe in stripes.take(turn) {
                let mut lost = 0;
                for unit in 0..slice.width(stripe) {
                    let member = usize::from(slice.member(stripe, unit).0);
                    let stale = regions.is_stale(member, region);
                    lost += usize::from(stale || is_out(member));
                    status.member_chunks_stale[member] += u64::from(stale) * times;
                    status.rebuild_chunks_left += u64::from(stale && !is_out(member)) * times;
                }
                status.stripes_degraded += u64::from(lost > 0) * times;
                status.stripes_at_risk += u64::from(lost > 0 && lost >= slice.tolerates()) * times;
            }
        }
        status
    }

    fn waits(&self) -> String {
        let regions = self.regions.borrow();
        format!(
            "shard {}: {}; pending {}, dirty regions {}, queued stripes {}, failed {}, tail wanted {}",
            self.slice().index,
            self.log.waits(),
            self.pending.borrow().len(),
            regions.dirty().len(),
            self.queued.borrow().len(),
            self.failed.get(),
            self.tail_wanted.get()
        )
    }
}
