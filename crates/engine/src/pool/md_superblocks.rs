//! md's superblocks of an open array, which take the place of ours.

use std::cell::RefCell;

use sinew_layout::md::{MemberRole, Superblock};

use sinew_core::buf::Buf;
use sinew_core::io::{DeviceId, Io, IoError};
use sinew_core::sync::join_all;
use sinew_format::model::array_geometry::Access;

use crate::pool::superblocks::write_durably;

/// One member's superblock, and where it lies.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) superblock: Superblock,
    pub(super) offset: u64,
}

/// md's superblocks of an open array: what they say, and what they are to say.
#[derive(Clone, Debug)]
pub struct MdBlocks {
    pub(super) access: Access,
    /// Of each member of the layout that is there.
    pub(super) blocks: Vec<Option<Block>>,
    pub(super) events: u64,
    /// As in the superblocks: sectors in order, if not all.
    pub(crate) resync_offset: Option<u64>,
    /// They say, for this opening, that the array is being written.
    pub(crate) declared: bool,
    /// What `Io::now` counts from, in seconds since 1970.
    pub(super) epoch_seconds: u64,
}

impl MdBlocks {
    /// Whether the superblocks follow what is done.
    pub(crate) fn is_writable(&self) -> bool {
        self.access == Access::ReadWrite
    }

    /// Makes every device but the targets faulty in all their tables; true if some was not.
    fn take_out(&mut self, targets: &[(usize, DeviceId)]) -> bool {
        let roles: Vec<(u32, u32)> = targets
            .iter()
            .filter_map(|&(i, _)| Some((self.blocks[i].as_ref()?.superblock.dev_number(), i as u32)))
            .collect();
        let mut changed = false;
        for &(index, _) in targets {
            let Some(block) = &mut self.blocks[index] else { continue };
            for number in 0..block.superblock.max_dev() {
                let now = block.superblock.role_of(number);
                let in_role = roles.iter().find(|(device, _)| *device == number);
                let role = match (in_role, now) {
                    (Some(&(_, role)), _) => MemberRole::Active(role),
                    (None, MemberRole::Active(_)) => MemberRole::Faulty,
                    (None, other) => other,
                };
                if role != now {
                    block.superblock.set_role_of(number, role);
                    changed = true;
                }
            }
        }
        changed
    }

    /// The next event's superblocks of the targets, and where they go.
    fn next(&mut self, targets: &[(usize, DeviceId)], now_ns: u64) -> Vec<(DeviceId, u64, Buf)> {
        self.events += 1;
        let (events, resync_offset) = (self.events, self.resync_offset);
        let seconds = self.epoch_seconds + now_ns / 1_000_000_000;
        let mut writes = Vec::with_capacity(targets.len());
        for &(index, device) in targets {
            let Some(Block { superblock, offset }) = &mut self.blocks[index] else { continue };
            superblock.set_events(events);
            superblock.set_resync_offset(resync_offset);
            superblock.set_updated_seconds(seconds);
            writes.push((device, *offset, Buf::copy_of(&superblock.encode())));
        }
        writes
    }
}

/// Stores the present state on these members, the only ones that count from here on; durably, unless the array is
/// read-only, when nothing is written. The results are in the order of the targets.
pub(crate) async fn store<I: Io>(
    blocks: &RefCell<MdBlocks>,
    io: &I,
    targets: &[(usize, DeviceId)],
) -> Vec<Result<(), IoError>> {
    let mut results = vec![Ok(()); targets.len()];
    if !blocks.borrow().is_writable() {
        return results;
    }
    let rounds = if blocks.borrow_mut().take_out(targets) { 2 } else { 1 };
    for _ in 0..rounds {
        let writes = blocks.borrow_mut().next(targets, io.now());
        let writes = writes.into_iter();
        let writes = writes.map(|(device, offset, data)| write_durably(io, device, offset, data));
        results = join_all(writes).await;
        // A member that fails here must not fall behind further than it is.
        if results.iter().any(Result::is_err) {
            break;
        }
    }
    results
}
