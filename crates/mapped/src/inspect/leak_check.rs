//! The leak check: resources that an idle shard of a mapped pool must not hold (requests, locks, allocations, and space that
//! nothing refers to), chunks of a stripe that share a member although they protect each other, and blocks in stripes of another
//! class than their volume's.
//!
//! For tests: a leak shows here long before it fills a pool, and a shared member before data is lost.

use std::collections::BTreeSet;

use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use crate::stripe::appender::Appender;
use sinew_core::ids::{MemberId, ShardBlock, SlotNo, StripeId, VolumeId};
use sinew_core::io::Io;

/// What is held without reason, in words.
pub(crate) fn leaks<I: Io>(stripes: &Stripes<I>) -> Vec<String> {
    let mut held = held_requests(stripes);
    held.extend(held_chunks(stripes));
    held.extend(held_page_slots(stripes));
    held.extend(shared_members(stripes));
    held.extend(wrong_counts(stripes));
    held.extend(wrong_classes(stripes));
    held
}

fn held_requests<I: Io>(stripes: &Stripes<I>) -> Vec<String> {
    let store = stripes.store();
    let counts = [
        ("requests on volumes", store.volumes_in_use()),
        ("records to be committed", store.journal().queued()),
        ("journal blocks not applied", store.journal().unapplied()),
        ("small writes", stripes.appenders().map(Appender::queued).sum()),
        ("late writes of the journal", store.journal().late_writes()),
        ("marks to be committed", store.marks_pending() as usize),
        ("failures reported", store.members().failures_reported.get() as usize),
        ("flushes", usize::from(store.is_flushing())),
        ("plans that wait for room", store.room().waiting() as usize),
        ("blocks claimed", store.room().reserved() as usize),
        ("stripes in use", stripes.busy_stripes()),
        ("full stripes not closed", stripes.appenders().map(Appender::full_stripes).sum()),
        ("users of table pages", store.page_pins() - stripes.lost_pins()),
        ("chunks waiting for release", store.allocator().releasing()),
    ];
    let some = counts.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(what, count)| format!("shard {}: {count} {what}", store.index())).collect()
}

/// Chunks that are neither free nor a stripe's.
fn held_chunks<I: Io>(stripes: &Stripes<I>) -> Vec<String> {
    let store = stripes.store();
    let (tables, allocator) = (store.tables(), store.allocator());
    let mut used = vec![0; store.members().count()];
    for stripe in (0..tables.stripe_count()).map(StripeId) {
        if tables.stripe(stripe).state != StripeState::Free {
            for home in tables.homes(stripe).iter().flatten() {
                used[usize::from(home.member.0)] += 1;
            }
        }
    }
    let wrong =
        store.members().ids().zip(used).filter(|&(member, used)| allocator.chunks_taken(member) != used);
    wrong
        .map(|(member, used)| {
            let (shard, taken) = (store.index(), allocator.chunks_taken(member));
            format!("shard {shard}: member {} has {taken} chunks taken and {used} in stripes", member.0)
        })
        .collect()
}

/// Chunks of a stripe that protect each other, on one member.
fn shared_members<I: Io>(stripes: &Stripes<I>) -> Vec<String> {
    let store = stripes.store();
    let tables = store.tables();
    let all = (0..tables.stripe_count()).map(StripeId);
    let alive = all.filter(|&stripe| tables.stripe(stripe).state != StripeState::Free);
    let shared = alive.filter(|&stripe| {
        let homes: Vec<_> =
            stripes.required(stripe).filter_map(|i| Some((i, tables.homes(stripe)[i]?.member))).collect();
        let is_shared = |&(i, member): &(usize, MemberId)| {
            homes.iter().any(|&(j, other)| i < j && member == other && store.geometry().protect(i, j))
        };
        homes.iter().any(is_shared)
    });
    shared.map(|stripe| format!("shard {}: stripe {} twice on a member", store.index(), stripe.0)).collect()
}

/// Map pages whose number of live blocks is not what the map has, and live blocks that are of no volume.
fn wrong_counts<I: Io>(stripes: &Stripes<I>) -> Vec<String> {
    let store = stripes.store();
    let tables = store.tables();
    let in_map = |page: u32| tables.map.page_entries(page).count() as u64;
    let wrong = tables.map.pages_in_memory().filter(|&page| in_map(page) != tables.live.of_page(page));
    let mut told: Vec<String> = wrong
        .map(|page| {
            let (shard, live, counted) = (store.index(), in_map(page), tables.live.of_page(page));
            format!("shard {shard}: map page {page} has {live} live blocks, {counted} are counted")
        })
        .collect();
    let of_volumes: u64 = tables.volume_blocks().values().sum();
    if of_volumes != tables.live.total() {
        let (shard, live) = (store.index(), tables.live.total());
        told.push(format!("shard {shard}: volumes have {of_volumes} of {live} live blocks"));
    }
    told
}

/// Volumes with blocks in stripes of another class.
fn wrong_classes<I: Io>(stripes: &Stripes<I>) -> Vec<String> {
    let store = stripes.store();
    let tables = store.tables();
    let blocks = tables.map.pages_in_memory().flat_map(|page| tables.map.page_entries(page));
    let is_wrong = |volume: VolumeId, slot: u32| {
        let (stripe, ..) = store.geometry().place(SlotNo(slot));
        tables.is_of_another_class(stripe, store.class_of(volume)) && !store.is_moving(volume)
    };
    let wrong: BTreeSet<VolumeId> = blocks
        .filter_map(|(block, slot)| Some((tables.place_in_volume(ShardBlock(block))?.0, slot)))
        .filter(|&(volume, slot)| is_wrong(volume, slot))
        .map(|(volume, _)| volume)
        .collect();
    let told = |volume: VolumeId| {
        format!("shard {}: {volume:?} has blocks in stripes of another class", store.index())
    };
    wrong.into_iter().map(told).collect()
}

/// Page slots that are neither free nor a page's.
fn held_page_slots<I: Io>(stripes: &Stripes<I>) -> Vec<String> {
    let store = stripes.store();
    let (tables, allocator) = (store.tables(), store.allocator());
    let mut used = vec![0; store.members().count()];
    for (_, copies) in tables.pages.written() {
        copies.iter().for_each(|copy| used[usize::from(copy.member.0)] += 1);
    }
    let wrong =
        store.members().ids().zip(used).filter(|&(member, used)| allocator.page_slots_taken(member) != used);
    wrong
        .map(|(member, used)| {
            let (shard, taken) = (store.index(), allocator.page_slots_taken(member));
            format!("shard {shard}: member {} has {taken} page slots taken and {used} pages", member.0)
        })
        .collect()
}
