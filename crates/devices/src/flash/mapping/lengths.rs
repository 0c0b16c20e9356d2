//! The lengths of compressed blocks.

use super::{Mapping, NONE};
use crate::BLOCK_BYTES;

impl Mapping {
    pub(in crate::flash) fn announce_length(&mut self, lba: u32, bytes: u16) {
        self.lengths[lba as usize] = bytes.clamp(1, BLOCK_BYTES as u16);
    }

    /// Compressed bytes of a block; 0 if there is none.
    pub(in crate::flash) fn length(&self, lba: u32) -> u16 {
        if self.map[lba as usize] == NONE { 0 } else { self.lengths[lba as usize] }
    }
}
