//! Discarding blocks of a volume: by a client, by shrinking the volume, or by deleting it.

use std::rc::Rc;

use crate::store::Store;
use sinew_core::ids::VolumeId;
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::{EXTENT_BLOCKS, PAGE_INDICES, split_local};
use sinew_format::model::sharding::dealt;
use sinew_format::table_page::PageId;

/// Blocks freed at once: those of 64 map pages.
const BLOCKS_AT_ONCE: u64 = 64 * PAGE_INDICES as u64;

/// Frees consecutive blocks of a volume.
pub(crate) async fn unmap<I: Io>(
    store: &Rc<Store<I>>,
    volume: VolumeId,
    local: u64,
    count: u64,
) -> Result<(), VolumeError> {
    let _volume = store.enter_volume(volume);
    store.counters().discards.add(1);
    let (mut local, mut left) = (local, count);
    while left > 0 {
        let some = left.min(BLOCKS_AT_ONCE - local % BLOCKS_AT_ONCE);
        unmap_some(store, volume, local, some as u32).await?;
        local += some;
        left -= some;
    }
    Ok(())
}

/// Frees consecutive blocks whose map pages are in memory at the same time.
async fn unmap_some<I: Io>(
    store: &Rc<Store<I>>,
    volume: VolumeId,
    local: u64,
    count: u32,
) -> Result<(), VolumeError> {
    let _maps = store.pin_maps(volume, local, count).await?;
    let (mut local, mut left) = (local, count);
    let mut records = Vec::new();
    while left > 0 {
        let (_, within) = split_local(local);
        let in_page = left.min(PAGE_INDICES - within);
        // A page that a write under way has just been given counts as not there: the write is not acknowledged yet.
        if let Some(block) = store.block(volume, local) {
            records.push(Record::Unmap { block, count: in_page });
        }
        local += u64::from(in_page);
        left -= in_page;
    }
    if records.is_empty() { Ok(()) } else { store.journal().commit(records).await }
}

pub(crate) async fn truncate<I: Io>(
    store: &Rc<Store<I>>,
    volume: VolumeId,
    blocks: u64,
) -> Result<(), VolumeError> {
    store.wait_volume_idle(volume).await;
    let first = dealt(blocks, EXTENT_BLOCKS, store.index(), store.geometry().shards);
    let end = store.tables().volume_pages(volume).last().map_or(0, |(index, _)| u64::from(index + 1));
    let end = end * u64::from(PAGE_INDICES);
    if first < end {
        unmap(store, volume, first, end - first).await?;
    }
    store.flush().await
}

/// Gives back every block of a deleted volume, once no request uses it.
pub(crate) async fn drop_volume<I: Io>(store: &Rc<Store<I>>, volume: VolumeId) -> Result<(), VolumeError> {
    store.note_deleted(volume);
    store.end_move(volume);
    store.wait_volume_idle(volume).await;
    let pages = store.tables().volume_pages(volume);
    for (_, page) in pages {
        let _map = store.pin_page(PageId::Map(page)).await?;
        store.journal().commit(vec![Record::PageDrop { page }]).await?;
    }
    Ok(())
}
