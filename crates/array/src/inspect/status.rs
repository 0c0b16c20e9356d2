//! The status of a shard: counters, degraded stripes, and the work that background jobs have left.

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_members::status::ShardStatus;

use crate::inspect::Inspected;

/// The shard's state now.
pub(crate) fn status<I: Io>(shard: &Inspected<'_, I>) -> ShardStatus {
    let layout = shard.state.layout();
    let chunk_bytes = u64::from(layout.chunk_blocks) * BLOCK_BYTES as u64;
    let data = layout.blocks() * BLOCK_BYTES as u64;
    let count = shard.state.members().count();
    let mut status = ShardStatus {
        stored_bytes: data,
        capacity_bytes: data,
        raw_bytes: layout.stripes * layout.w as u64 * chunk_bytes,
        metadata_degraded: u64::from(shard.journal.has_exposed_groups()),
        scrub_stripes_left: shard
            .journal
            .progress()
            .scrub_next()
            .map(|next| layout.stripes.saturating_sub(next)),
        growth_chunks_left: layout.growth_left(),
        growth_stuck: u64::from(shard.reshape.is_stuck()),
        journal_blocks_used: if layout.geometry.journal { shard.journal.dirty().len() } else { 0 },
        journal_blocks_written: shard.journal.log().blocks_written(),
        failures_reported: shard.state.members().failures_reported.get(),
        waits: waits(shard),
        counters: shard.state.counters().values(),
        update_latency: shard.state.update_latency(),
        members: shard.state.members().ids().map(|m| shard.state.members().get(m).stats).collect(),
        member_latency: shard.state.members().latencies(),
        member_chunks_used: vec![0; count],
        member_chunks_stale: vec![0; count],
        ..ShardStatus::default()
    };
    match layout.is_mirror() {
        true => status.stripes_mirrored = layout.stripes,
        false => status.stripes_parity = layout.stripes,
    }
    match (layout.is_mirror(), layout.geometry.parity_columns()) {
        (true, _) => status.stored_mirrored_bytes = data,
        (false, 1..) => status.stored_parity_bytes = data,
        (false, 0) => {}
    }
    let regions = shard.bitmap.regions();
    for region in 0..layout.regions() {
        let stripes = layout.region_stripes(region);
        status.resync_stripes_left +=
            if regions.unsynced().get(region) { stripes.end - stripes.start } else { 0 };
        let is_out = |m: usize| !shard.state.members().is_active(MemberId(m as u8));
        if (0..layout.geometry.members()).all(|m| !is_out(m) && !regions.is_stale(m, region)) {
            continue;
        }
        // One turn of the rotation represents the others.
        let all = stripes.end - stripes.start;
        let turn = match layout.is_regular() {
            true => layout.geometry.members() * layout.geometry.groups(),
            false => all as usize,
        };
        let times = (all / turn as u64).max(1);
        for stripe in stripes.take(turn) {
            let mut lost = 0;
            for unit in 0..layout.width(stripe) {
                let member = usize::from(layout.member(stripe, unit).0);
                let stale = regions.is_stale(member, region);
                lost += usize::from(stale || is_out(member));
                status.member_chunks_stale[member] += u64::from(stale) * times;
                status.rebuild_chunks_left += u64::from(stale && !is_out(member)) * times;
            }
            status.stripes_degraded += u64::from(lost > 0) * times;
            status.stripes_at_risk += u64::from(lost > 0 && lost >= layout.tolerates()) * times;
        }
    }
    status
}

fn waits<I: Io>(shard: &Inspected<'_, I>) -> String {
    let regions = shard.bitmap.regions();
    format!(
        "shard {}: {}; pending {}, dirty regions {}, queued stripes {}, failed {}, tail wanted {}",
        shard.state.layout().index,
        shard.journal.log().waits(),
        shard.journal.dirty().len(),
        regions.dirty().len(),
        shard.requests.queued_stripes(),
        shard.state.has_failed(),
        shard.journal.tail_wanted()
    )
}
