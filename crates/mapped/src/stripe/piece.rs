//! Pieces: consecutive blocks to be stored, with their data, and the records that say where they are.

use std::collections::VecDeque;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::checksum::crc32c;
use sinew_core::ids::{ShardBlock, SlotNo};
use sinew_core::mutation::{self, Mutation};
use sinew_format::journal_block::{Checksums, Record, WRITE_BLOCKS_MAX};
use sinew_format::model::mapped_geometry::PAGE_INDICES;
use smallvec::SmallVec;

/// Blocks to be stored: consecutive, with their data.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) block: ShardBlock,
    pub(crate) data: Buf,
    pub(crate) condition: Condition,
}

/// Pieces to be stored together. One alone needs no memory for the list.
pub(crate) type Pieces = SmallVec<[Piece; 1]>;

/// Whether what is stored replaces anything, or only what it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// A client's write: replaces whatever is there.
    Always,
    /// A copy or merge of one block: void unless the block is still there (none: unmapped).
    StillAt(Option<SlotNo>),
}

impl Piece {
    pub(crate) fn blocks(&self) -> u32 {
        (self.data.len() / BLOCK_BYTES) as u32
    }

    /// Whether it is a client's write.
    pub(crate) fn is_clients(&self) -> bool {
        self.condition == Condition::Always
    }

    /// Splits off the first `blocks` blocks.
    pub(super) fn split_front(&mut self, blocks: u32) -> Piece {
        let bytes = blocks as usize * BLOCK_BYTES;
        let front = Piece { block: self.block, data: self.data.slice(0, bytes), condition: self.condition };
        self.block.0 += blocks;
        self.data = self.data.slice(bytes, self.data.len() - bytes);
        front
    }

    /// The records that say this piece is at `slot` and following.
    pub(crate) fn records(&self, slot: SlotNo, records: &mut Vec<Record>) {
        let crcs = self.data.bytes().chunks_exact(BLOCK_BYTES).map(crc32c);
        match self.condition {
            Condition::Always => push_write(records, self.block, slot, crcs.collect()),
            Condition::StillAt(_) if mutation::on(Mutation::MoveUnconditionally) => {
                push_write(records, self.block, slot, crcs.collect());
            }
            Condition::StillAt(from) => {
                debug_assert_eq!(self.blocks(), 1);
                records.extend(crcs.map(|crc| Record::Move { block: self.block, from, slot, crc }));
            }
        }
    }
}

/// Adds to the last record what is about the blocks and slots just after it, within one map page; the rest becomes
/// records of its own.
fn push_write(records: &mut Vec<Record>, mut block: ShardBlock, mut slot: SlotNo, mut crcs: Checksums) {
    if let Some(Record::Write { block: b, slot: s, crcs: before }) = records.last_mut() {
        let n = before.len() as u32;
        let adjacent = b.0 + n == block.0 && s.0 + n == slot.0 && !block.0.is_multiple_of(PAGE_INDICES);
        if adjacent && before.len() + crcs.len() <= WRITE_BLOCKS_MAX {
            before.append(&mut crcs);
            return;
        }
    }
    while crcs.len() > WRITE_BLOCKS_MAX {
        let rest = crcs.drain(WRITE_BLOCKS_MAX..).collect();
        records.push(Record::Write { block, slot, crcs });
        crcs = rest;
        block.0 += WRITE_BLOCKS_MAX as u32;
        slot.0 += WRITE_BLOCKS_MAX as u32;
    }
    records.push(Record::Write { block, slot, crcs });
}

/// Takes the first `blocks` blocks, or what there is.
pub(crate) fn take_blocks(pieces: &mut VecDeque<Piece>, blocks: u32) -> Vec<Piece> {
    let (mut taken, mut left) = (Vec::new(), blocks);
    while left > 0
        && let Some(front) = pieces.front_mut()
    {
        if front.blocks() <= left {
            left -= front.blocks();
            taken.extend(pieces.pop_front());
        } else {
            taken.push(front.split_front(left));
            left = 0;
        }
    }
    taken
}
