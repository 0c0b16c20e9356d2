//! A client's write to one shard's part of a volume: large parts as full stripes, the rest appended.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::request::admission::claim;
use crate::store::chunk_allocator::Purpose;
use crate::store::map_pins::MapPins;
use crate::stripe::Stripes;
use crate::stripe::piece::{Condition, Piece, Pieces, take_blocks};
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::VolumeId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::model::mapped_geometry::{PAGE_INDICES, split_local};
use sinew_format::model::policy::Packing;
use sinew_format::model::stripe_form::StripeClass;

/// Stores whole consecutive blocks of a volume.
pub(crate) async fn write<I: Io>(
    stripes: &Rc<Stripes<I>>,
    volume: VolumeId,
    local: u64,
    data: Buf,
) -> Result<(), VolumeError> {
    let store = stripes.store();
    let _volume = store.enter_volume(volume);
    store.counters().writes.add(1);
    store.counters().written_bytes.add(data.len() as u64);
    let blocks = (data.len() / BLOCK_BYTES) as u32;
    let mut maps = store.pin_maps(volume, local, blocks).await?;
    let _claim = claim(stripes, volume, local, blocks)?;
    let pieces = cut_pieces(stripes, volume, local, data, &mut maps)?;
    let _maps = (!mutation::on(Mutation::UnpinEarly)).then_some(maps);
    if pieces.is_empty() {
        return Ok(());
    }
    let class = store.class_of(volume);
    if !is_large(stripes, class, blocks) {
        return stripes.appender(class).append(pieces).await.map(|_| ());
    }
    Box::pin(write_large(stripes, class, blocks, pieces.into_iter().collect())).await
}

/// Writes `blocks` blocks: as full stripes as far as they fill such, and appends the rest.
async fn write_large<I: Io>(
    stripes: &Rc<Stripes<I>>,
    class: StripeClass,
    blocks: u32,
    mut pieces: VecDeque<Piece>,
) -> Result<(), VolumeError> {
    let store = stripes.store();
    let mut full_stripes = Vec::new();
    let mut left = blocks;
    while is_large(stripes, class, left) {
        let pieces_of_one = take_blocks(&mut pieces, store.geometry().slots_per_stripe());
        left -= pieces_of_one.iter().map(Piece::blocks).sum::<u32>();
        full_stripes.push(pieces_of_one);
    }
    let small = (left > 0).then(|| stripes.appender(class).append(pieces.into_iter().collect()));
    let writes = full_stripes.iter().map(|pieces| stripes.write_stripe(class, pieces, Purpose::User));
    // All parts are waited for even when one fails: nothing of a request happens after its answer.
    let large = join_all(writes).await;
    let small = match small {
        Some(small) => small.await,
        None => Ok(true),
    };
    large.into_iter().try_for_each(|stripe| stripe.map(|_| ()))?;
    small.map(|_| ())
}

/// Whether a write of this many blocks goes straight to a stripe of its own: when that, with parity, is less to write than
/// its copies; without parity, or with whole chunks, when it is more than half a stripe (FusionRAID, FAST'21, section 4.2).
fn is_large<I: Io>(stripes: &Rc<Stripes<I>>, class: StripeClass, blocks: u32) -> bool {
    let store = stripes.store();
    let g = store.geometry();
    if g.parity_columns_of(g.form_of(class)) == 0 || stripes.policy().packing == Packing::WholeChunks {
        return blocks * 2 > g.slots_per_stripe();
    }
    stripes.is_less_with_parity(class, blocks)
}

/// Cuts data along the map pages it belongs to, which are kept in memory.
fn cut_pieces<I: Io>(
    stripes: &Rc<Stripes<I>>,
    volume: VolumeId,
    local: u64,
    data: Buf,
    maps: &mut MapPins,
) -> Result<Pieces, VolumeError> {
    let store = stripes.store();
    let mut pieces = Pieces::new();
    let (mut local, mut rest) = (local, data);
    while !rest.is_empty() {
        let room = (PAGE_INDICES - split_local(local).1) as usize * BLOCK_BYTES;
        let bytes = rest.len().min(room);
        let block = store.block_for_write(volume, local, maps)?;
        if bytes == rest.len() {
            pieces.push(Piece { block, data: rest, condition: Condition::Always });
            break;
        }
        pieces.push(Piece { block, data: rest.slice(0, bytes), condition: Condition::Always });
        rest = rest.slice(bytes, rest.len() - bytes);
        local += (bytes / BLOCK_BYTES) as u64;
    }
    Ok(pieces)
}
