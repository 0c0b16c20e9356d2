//! Blocks whose content belongs to another address from now on.

use super::{Mapping, NONE};

impl Mapping {
    /// What `lba` holds belongs to another address from now on.
    pub(in crate::flash) fn rename(&mut self, lba: u32, address: u32) {
        let at = std::mem::replace(&mut self.map[lba as usize], NONE);
        debug_assert!(at != NONE && self.map[address as usize] == NONE);
        self.map[address as usize] = at;
        self.owner[at as usize] = address;
    }
}
