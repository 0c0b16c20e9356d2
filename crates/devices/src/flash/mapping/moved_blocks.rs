//! Which blocks cleaning has moved, on a drive whose mapping table is on flash.

use super::Mapping;

impl Mapping {
    /// The blocks that cleaning has moved since the last call, on a drive whose mapping table is on flash.
    pub(in crate::flash) fn take_moved_blocks(&mut self) -> Vec<u32> {
        self.moved_blocks.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
