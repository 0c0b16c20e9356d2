//! Admission: a request claims room for blocks that were not stored before, or is refused.

use std::rc::Rc;

use crate::store::room::Claim;
use crate::stripe::Stripes;
use sinew_core::ids::VolumeId;
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;

/// Claims room for those of the blocks that are not stored yet.
pub(crate) fn claim<I: Io>(
    stripes: &Rc<Stripes<I>>,
    volume: VolumeId,
    local: u64,
    blocks: u32,
) -> Result<Claim<'_>, VolumeError> {
    let store = stripes.store();
    let mut new = 0;
    store.stretches(volume, local, blocks, |stretch| match stretch.slot {
        Some(slot) => stripes.second_chance().note(store.geometry().place(slot).0),
        None => new += u64::from(stretch.count),
    });
    store.claim_blocks(store.class_of(volume), new)
}
