//! A client's change of some bytes inside one block.

use std::rc::Rc;

use crate::marks::Mark;
use crate::request::admission::claim;
use crate::stripe::Stripes;
use crate::stripe::appender::Appender;
use crate::stripe::piece::{Condition, Piece, Pieces};
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::VolumeId;
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;

/// Changes some bytes inside one block. Concurrent changes of the same block each take effect whole.
pub(super) async fn merge<I: Io>(
    stripes: &Rc<Stripes<I>>,
    volume: VolumeId,
    local: u64,
    at: usize,
    bytes: &[u8],
) -> Result<(), VolumeError> {
    let store = stripes.store();
    let _volume = store.enter_volume(volume);
    store.counters().merges.add(1);
    store.counters().written_bytes.add(bytes.len() as u64);
    let mut maps = store.pin_maps(volume, local, 1).await?;
    let _claim = claim(stripes, volume, local, 1)?;
    let block = store.block_for_write(volume, local, &mut maps)?;
    let appender = stripes.appender(store.class_of(volume));
    loop {
        // Inside the epoch the slot read from is not reused, so it can stand for its content.
        let epoch = store.epochs().enter();
        let from = store.tables().lookup(block);
        let mut content = match from {
            Some(slot) => match stripes.read_slots(slot, 1).await {
                Err(VolumeError::Failed) if store.tables().lookup(block) != from => continue,
                result => Buf::copy_of(result?.bytes()),
            },
            None => Buf::zeroed(BLOCK_BYTES),
        };
        content.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        let piece = Piece { block, data: content, condition: Condition::StillAt(from) };
        let appended = appender.append(Pieces::from_buf([piece])).await;
        drop(epoch);
        match appended {
            Ok(true) => return Ok(()),
            Ok(false) => store.mark(Mark::MergeMoved),
            Err(VolumeError::NoSpace) if !store.members().is_any_full() => {
                store.mark(Mark::MergeStarved);
                wait_for_room(stripes, appender).await?;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn wait_for_room<I: Io>(stripes: &Rc<Stripes<I>>, appender: &Appender) -> Result<(), VolumeError> {
    let store = stripes.store();
    let given_up = store.room().given_up();
    let room = || match (appender.is_starved(), store.room().given_up() > given_up) {
        (_, true) => Some(Err(store.refuse_for_room())),
        (false, false) => Some(Ok(())),
        (true, false) => None,
    };
    store.room().changed().wait(room).await
}
