//! A client's read of one shard's part of a volume, and its question which blocks are stored.

use std::rc::Rc;

use crate::marks::Mark;
use crate::store::Store;
use crate::store::volumes::Stretch;
use crate::stripe::Stripes;
use sinew_core::buf::{BLOCK_BYTES, Buf, Bufs};
use sinew_core::ids::{ShardBlock, VolumeId};
use sinew_core::io::Io;
use sinew_core::sync::join_all;
use sinew_core::volume::{Extent, VolumeError};
use sinew_format::model::mapped_geometry::map_page;
use sinew_format::table_page::PageId;

/// Reads consecutive blocks of a volume; the parts, in order, add up to them.
pub(crate) async fn read<I: Io>(
    stripes: &Rc<Stripes<I>>,
    volume: VolumeId,
    local: u64,
    count: u32,
) -> Result<Bufs, VolumeError> {
    let store = stripes.store();
    let _volume = store.enter_volume(volume);
    store.counters().reads.add(1);
    store.counters().read_bytes.add(u64::from(count) * BLOCK_BYTES as u64);
    if let Some(first) = store.first_stretch(volume, local, count).filter(|first| first.count == count) {
        store.note_page_use(PageId::Map(map_page(first.block)));
        let _epoch = store.epochs().enter();
        stripes.note_scatter(volume, local..local + u64::from(count), &[first]);
        return read_stretch(stripes, first).await.map(Buf::into);
    }
    Box::pin(read_stretches(stripes, volume, local, count)).await
}

/// Reads blocks that consist of several stretches, or whose place is to be read first.
async fn read_stretches<I: Io>(
    stripes: &Rc<Stripes<I>>,
    volume: VolumeId,
    local: u64,
    count: u32,
) -> Result<Bufs, VolumeError> {
    let store = stripes.store();
    let _maps = store.pin_maps(volume, local, count).await?;
    let _epoch = store.epochs().enter();
    let mut stretches = Vec::new();
    store.stretches(volume, local, count, |stretch| stretches.push(stretch));
    stripes.note_scatter(volume, local..local + u64::from(count), &stretches);
    let holding = store.members().may_hedge().then(|| stripes.read_cache().hold());
    let read = async |stretch| {
        let buf = read_stretch(stripes, stretch).await?;
        if let (Some(holding), Some(slot)) = (&holding, stretch.slot) {
            holding.add(stripes.part_at(slot, stretch.count), &buf);
        }
        Ok(buf)
    };
    join_all(stretches.into_iter().map(read)).await.into_iter().collect()
}

/// Which of consecutive blocks are stored.
pub(super) async fn extents<I: Io>(
    store: &Rc<Store<I>>,
    volume: VolumeId,
    local: u64,
    count: u32,
) -> Result<Vec<Extent>, VolumeError> {
    let _volume = store.enter_volume(volume);
    let _maps = store.pin_maps(volume, local, count).await?;
    let mut extents = Vec::new();
    store.stretches(volume, local, count, |s| {
        let bytes = u64::from(s.count) * BLOCK_BYTES as u64;
        // Holes would be taken for zeros.
        extents.push(Extent { bytes, allocated: s.slot.is_some() || !s.is_known });
    });
    Ok(extents)
}

async fn read_stretch<I: Io>(stripes: &Rc<Stripes<I>>, stretch: Stretch) -> Result<Buf, VolumeError> {
    let store = stripes.store();
    if !stretch.is_known {
        store.mark(Mark::ReadUnknown);
        return Err(VolumeError::Failed);
    }
    let Some(slot) = stretch.slot else { return Ok(Buf::zeroed(stretch.count as usize * BLOCK_BYTES)) };
    stripes.second_chance().note(store.geometry().place(slot).0);
    match stripes.read_slots(slot, stretch.count).await {
        Err(VolumeError::Failed) => {
            store.mark(Mark::ReadBlockByBlock);
            Box::pin(read_block_by_block(stripes, stretch)).await
        }
        result => result,
    }
}

/// The last resort: each block for itself, from wherever it is by now.
async fn read_block_by_block<I: Io>(stripes: &Rc<Stripes<I>>, stretch: Stretch) -> Result<Buf, VolumeError> {
    let _map = stripes.store().pin_page(PageId::Map(map_page(stretch.block))).await?;
    let mut whole = Buf::stale(stretch.count as usize * BLOCK_BYTES);
    for i in 0..stretch.count {
        let block = ShardBlock(stretch.block.0 + i);
        let one = read_moving(stripes, block).await?;
        whole.bytes_mut()[i as usize * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(one.bytes());
    }
    Ok(whole)
}

/// Reads one block, starting over while it moves.
async fn read_moving<I: Io>(stripes: &Rc<Stripes<I>>, block: ShardBlock) -> Result<Buf, VolumeError> {
    let store = stripes.store();
    loop {
        let _epoch = store.epochs().enter();
        let found = store.tables().lookup(block);
        let Some(slot) = found else { return Ok(Buf::zeroed(BLOCK_BYTES)) };
        match stripes.read_slots(slot, 1).await {
            Err(VolumeError::Failed) if store.tables().lookup(block) != Some(slot) => {}
            result => return result,
        }
    }
}
