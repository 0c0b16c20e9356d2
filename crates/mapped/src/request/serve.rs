//! How a shard of a mapped pool answers a client's request.

use std::rc::Rc;

use crate::request::{discard, merge, read, write};
use crate::stripe::Stripes;
use sinew_core::ids::VolumeId;
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_members::message::{Reply, Request};

/// Answers a client's request.
///
/// # Errors
/// As the `Volume` trait has it.
pub(crate) async fn serve<I: Io>(
    stripes: &Rc<Stripes<I>>,
    volume: VolumeId,
    request: Request,
) -> Result<Reply, VolumeError> {
    let store = stripes.store();
    if !matches!(request, Request::Flush) && store.is_deleted(volume) {
        return Err(VolumeError::Gone);
    }
    if store.members().are_read_only() {
        match request {
            Request::Write { .. } | Request::Merge { .. } | Request::Unmap { .. } => {
                return Err(VolumeError::ReadOnly);
            }
            Request::Flush => return Ok(Reply::Done),
            Request::Read { .. } | Request::Extents { .. } => {}
        }
    }
    let blocks = request.stored_blocks();
    if blocks > 0 && store.is_low_on_space() {
        // Dead blocks and mirrors take space, and so does what was freed and not discarded yet.
        store.wakeups().reclaim.kick();
        store.wakeups().discard.kick();
    }
    let _space = store.members().admit(blocks, || store.space_need(), || ()).await?;
    store.throttle().note_request(store.io());
    match request {
        Request::Read { local, count } => read::read(stripes, volume, local, count).await.map(Reply::Data),
        Request::Write { local, data } => {
            write::write(stripes, volume, local, data).await.map(|()| Reply::Done)
        }
        // The rare requests on the heap: every request is a task with space for the largest of these futures.
        Request::Merge { local, at, bytes } => {
            Box::pin(merge::merge(stripes, volume, local, at, &bytes)).await.map(|()| Reply::Done)
        }
        Request::Unmap { local, count } => {
            Box::pin(discard::unmap(store, volume, local, count)).await.map(|()| Reply::Done)
        }
        Request::Extents { local, count } => {
            Box::pin(read::extents(store, volume, local, count)).await.map(Reply::Extents)
        }
        Request::Flush => Box::pin(store.flush()).await.map(|()| Reply::Done),
    }
}
