//! The state of a shard of a mapped pool, for operators and for the pool's control.

use crate::background::fair_share::{Role, Shares};
use crate::background::progress::Progress;
use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use crate::stripe::appender::Appender;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::StripeId;
use sinew_core::io::Io;
use sinew_format::model::mapped_geometry::CHUNK_BYTES;
use sinew_members::status::{BalanceBlocked, ShardStatus};

fn waits<I: Io>(stripes: &Stripes<I>) -> String {
    let store = stripes.store();
    let allocator = store.allocator();
    format!(
        "shard {}: {}; {}; free chunks {} of {}, reserve {}, releasing {}, given up {}, waiting {}, epoch {}; unflushed stripes {}, marks {}, flushing {}; emptied {}, convertible {}",
        store.index(),
        store.journal().waits(),
        stripes.appenders().map(Appender::waits).collect::<Vec<_>>().join(", "),
        allocator.free_chunks(),
        allocator.all_chunks(),
        allocator.reserve_chunks(),
        allocator.releasing(),
        store.room().given_up(),
        store.room().waiting(),
        store.epochs().oldest(),
        store.unflushed_stripes(),
        store.marks_pending(),
        store.is_flushing(),
        store.emptied(),
        stripes.convertible().len(),
    )
}

/// The part of the state that takes no look at the stripes.
pub(crate) fn vitals<I: Io>(stripes: &Stripes<I>, progress: &Progress) -> ShardStatus {
    let store = stripes.store();
    let tables = store.tables();
    let allocator = store.allocator();
    let block = BLOCK_BYTES as u64;
    ShardStatus {
        stored_bytes: tables.live.total() * block,
        capacity_bytes: store.blocks_storable() * block,
        raw_bytes: allocator.all_chunks() * CHUNK_BYTES,
        free_bytes: allocator.free_chunks() * CHUNK_BYTES,
        metadata_degraded: u64::from(store.lacks_redundancy()),
        metadata_unsettled: u64::from(store.needs_redundancy()),
        rebuild_chunks_left: progress.rebuild_left.get(),
        balance_chunks_left: progress.rebalance_left.get(),
        scrub_stripes_left: tables
            .scrub_next
            .map(|next| u64::from(tables.stripe_count().saturating_sub(next.0))),
        table_bytes: tables.memory_bytes(),
        journal_blocks_used: store.journal().used(),
        journal_blocks_written: store.journal().blocks_written(),
        refused_early: store.room().refused_early(),
        failures_reported: store.members().failures_reported.get(),
        waits: waits(stripes),
        counters: store.counters().values(),
        lost_blocks: stripes.lost_blocks(),
        members: store.members().ids().map(|m| store.members().get(m).stats).collect(),
        member_latency: store.members().latencies(),
        member_chunks_used: vec![0; store.members().count()],
        member_chunks_parity: vec![0; store.members().count()],
        member_unused_bytes: store
            .members()
            .ids()
            .map(|m| allocator.chunks_unused(m) * CHUNK_BYTES)
            .collect(),
        member_full: store.members().full_members(),
        waits_for_space: u64::from(store.members().full.is_awaited()),
        ..ShardStatus::default()
    }
}

/// The state of a shard, for which all its stripes are looked at.
pub(crate) fn status<I: Io>(stripes: &Stripes<I>, progress: &Progress) -> ShardStatus {
    let mut status = vitals(stripes, progress);
    let store = stripes.store();
    let tables = store.tables();
    let block = BLOCK_BYTES as u64;
    status.volume_bytes =
        tables.volume_blocks().into_iter().map(|(volume, live)| (volume, live * block)).collect();
    status.volume_misplaced_bytes = status
        .volume_bytes
        .keys()
        .filter(|volume| store.is_moving(**volume))
        .map(|&volume| (volume, tables.misplaced.blocks(volume) * block))
        .collect();
    let mut shares = Shares::new(store.allocator().usable_chunks());
    for stripe in (0..tables.stripe_count()).map(StripeId) {
        let live_bytes = u64::from(tables.stripe(stripe).live) * block;
        match tables.stripe(stripe).state {
            StripeState::Free => continue,
            StripeState::Mirrored | StripeState::Pinned => {
                status.stripes_mirrored += 1;
                status.stored_mirrored_bytes += live_bytes;
            }
            StripeState::Parity => {
                status.stripes_parity += 1;
                status.stored_parity_bytes += live_bytes;
            }
        }
        for (index, home) in tables.homes(stripe).iter().enumerate() {
            let Some(id) = home.map(|home| home.member) else { continue };
            let (member, role) = (usize::from(id.0), Role::of(store.geometry(), index));
            shares.count(role, id);
            status.member_chunks_used[member] += 1;
            status.member_chunks_parity[member] += u64::from(role == Role::Parity);
        }
        status.stripes_degraded += u64::from(stripes.missing_chunks(stripe) > 0);
        let losses = stripes.losses(stripe);
        status.stripes_at_risk += u64::from(losses >= store.geometry().failures());
        status.losses_most = status.losses_most.max(losses as u64);
    }
    // Since the rebalancer looked, clients may have made the members even.
    let blocked = progress.blocked.get();
    if blocked.chunks > 0 && shares.are_uneven() {
        status.balance_blocked = BalanceBlocked { chunks: shares.left(), ..blocked };
    }
    status
}
