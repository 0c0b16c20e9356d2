//! The writes of a pool that is served read-only: they stay in memory, and reads find them here.
//!
//! Only recovery writes then: what it mends of blocks that were not known durable, and its journal. That bounds the memory.

use std::cell::RefCell;
use std::collections::BTreeMap;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;

/// Blocks of members, by their offset in the member's part of its device.
#[derive(Default)]
pub(crate) struct Overlay(RefCell<BTreeMap<(MemberId, u64), Buf>>);

impl Overlay {
    /// Keeps a write of whole blocks.
    pub(crate) fn write(&self, member: MemberId, offset: u64, data: &[Buf]) {
        let places = (offset..).step_by(BLOCK_BYTES).map(|at| (member, at));
        self.0.borrow_mut().extend(places.zip(data.iter().flat_map(Buf::blocks)));
    }

    /// Whether every block of a range was written.
    pub(crate) fn has_all(&self, member: MemberId, offset: u64, bytes: usize) -> bool {
        self.written(member, offset, bytes) == bytes / BLOCK_BYTES
    }

    fn written(&self, member: MemberId, offset: u64, bytes: usize) -> usize {
        self.0.borrow().range((member, offset)..(member, offset + bytes as u64)).count()
    }

    /// Puts what was written into data read from the device.
    pub(crate) fn patch(&self, member: MemberId, offset: u64, data: Buf) -> Buf {
        if self.written(member, offset, data.len()) == 0 {
            return data;
        }
        let mut patched = Buf::copy_of(data.bytes());
        let end = offset + data.len() as u64;
        for (&(_, at), block) in self.0.borrow().range((member, offset)..(member, end)) {
            let start = (at - offset) as usize;
            patched.bytes_mut()[start..start + BLOCK_BYTES].copy_from_slice(block.bytes());
        }
        patched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = BLOCK_BYTES as u64;

    #[test]
    fn reads_find_what_was_written_of_the_same_member() {
        let overlay = Overlay::default();
        let filled = |byte: u8, blocks: usize| Buf::copy_of(&vec![byte; blocks * BLOCK_BYTES]);
        let (member, other) = (MemberId(1), MemberId(2));
        overlay.write(member, 3 * BLOCK, &[filled(7, 1), filled(8, 2)]);
        let read = |member, first: u64, blocks: usize| {
            let read = overlay.patch(member, first * BLOCK, filled(0, blocks));
            read.bytes().chunks(BLOCK_BYTES).map(|block| block[0]).collect::<Vec<u8>>()
        };
        assert_eq!(read(member, 2, 5), [0, 7, 8, 8, 0]);
        assert_eq!(read(other, 2, 5), [0; 5]);
        overlay.write(member, 4 * BLOCK, &[filled(9, 1)]);
        assert_eq!(read(member, 4, 1), [9]);
        assert!(overlay.has_all(member, 3 * BLOCK, 3 * BLOCK_BYTES));
        assert!(
            !overlay.has_all(member, 2 * BLOCK, 2 * BLOCK_BYTES) && !overlay.has_all(other, 0, BLOCK_BYTES)
        );
    }
}
