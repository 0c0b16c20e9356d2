//! The status of a shard: counters, degraded stripes, and the work that background jobs have left.

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::{MemberId, VolumeId};
use sinew_core::io::Io;
use sinew_format::model::form::Form;
use sinew_members::status::ShardStatus;

use crate::inspect::Inspected;

/// The shard's state now.
pub(crate) fn status<I: Io>(shard: &Inspected<'_, I>) -> ShardStatus {
    let layout = shard.state.layout();
    let chunk_bytes = layout.chunk_bytes();
    let data = layout.blocks() * BLOCK_BYTES as u64;
    let count = shard.state.members().count();
    let mut status = ShardStatus {
        stored_bytes: data,
        capacity_bytes: data,
        raw_bytes: layout.stripes * layout.w as u64 * chunk_bytes,
        metadata_degraded: u64::from(shard.journal.has_exposed_groups()),
        metadata_unsettled: u64::from(shard.journal.has_exposed_groups()),
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
        member_unused_bytes: vec![unused_bytes(shard); count],
        lost_blocks: shard.stripes.lost_blocks().into_iter().map(|block| (VolumeId(0), block)).collect(),
        rebuild_stuck: shard.rebuild.regions_stuck(),
        member_full: shard.state.members().full_members(),
        waits_for_space: u64::from(shard.state.members().full.is_awaited()),
        ..ShardStatus::default()
    };
    status.stripes_mirrored = shard.forms.count(Form::Mirrored);
    status.stripes_parity = shard.forms.count(Form::Parity);
    match layout.fixed_form() {
        _ if layout.is_elastic() => {
            let stripe = u64::from(layout.stripe_slots()) * BLOCK_BYTES as u64;
            status.stripes_empty = shard.forms.count(Form::Empty);
            status.stored_mirrored_bytes = status.stripes_mirrored * stripe;
            status.stored_parity_bytes = status.stripes_parity * stripe;
            status.stored_bytes = status.stored_mirrored_bytes + status.stored_parity_bytes;
            status.conversions_left = shard.governing.left();
            status.governor = shard.governing.status();
        }
        Form::Parity => status.stored_parity_bytes = data,
        _ => status.stored_mirrored_bytes = data,
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
        // One turn of the rotation represents the others, if all have the same form.
        let all = stripes.end - stripes.start;
        let turn = match layout.is_regular() && !layout.is_elastic() {
            true => layout.geometry.layout.turn() as usize,
            false => all as usize,
        };
        let times = (all / turn as u64).max(1);
        for stripe in stripes.take(turn) {
            let form = shard.stripes.form(stripe);
            let mut lost = Vec::new();
            for unit in layout.units(stripe, form) {
                let member = usize::from(layout.member(stripe, unit).0);
                let stale = regions.is_stale(member, region);
                if stale || is_out(member) {
                    lost.push(unit);
                }
                status.member_chunks_stale[member] += u64::from(stale) * times;
                status.rebuild_chunks_left += u64::from(stale && !is_out(member)) * times;
            }
            // Of a mirrored stripe the column counts that has lost the most copies.
            let worst = match form {
                Form::Mirrored => {
                    let of = |column| {
                        layout.column_units(stripe, column).filter(|unit| lost.contains(unit)).count()
                    };
                    (0..layout.columns(stripe)).map(of).max().unwrap_or(0)
                }
                _ => lost.len(),
            };
            status.stripes_degraded += u64::from(worst > 0) * times;
            status.stripes_at_risk += u64::from(worst > 0 && worst >= layout.tolerates()) * times;
        }
    }
    status
}

/// Bytes of a member for units that stripes do not have in their form. Parity and copies go around the members, so all have
/// equally many.
fn unused_bytes<I: Io>(shard: &Inspected<'_, I>) -> u64 {
    let layout = shard.state.layout();
    if !layout.is_elastic() {
        return 0;
    }
    let places = layout.geometry.slots() * layout.geometry.members() as u64;
    let unused = |form: Form| shard.forms.count(form) * (places - layout.chunks_used(form));
    let units: u64 = Form::ALL.into_iter().map(unused).sum();
    let chunk_bytes = layout.chunk_bytes();
    units / layout.geometry.members() as u64 * chunk_bytes
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
