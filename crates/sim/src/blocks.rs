//! Sparse content of a device: two versions of each 4 KiB block, shared by reference.
//!
//! A block that was never written takes no memory and reads as zeros. Storing a block keeps a handle to the writer's
//! buffer instead of copying it; buffers are immutable while shared, so this cannot be told from a copy.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Gather;

use crate::lengths::{Lengths, Measure, is_zero};

/// Content of one block; `None` is zeros.
pub(crate) type Version = Option<Buf>;

const PAGE_BLOCKS: usize = 128;

#[derive(Default)]
struct Cell {
    written: Version,
    durable: Version,
    /// The space that the written content takes, where that is counted.
    length: u32,
}

/// The blocks of a device, as last written and as a power loss would leave them at worst.
pub(crate) struct BlockTable {
    pages: Vec<Option<Box<[Cell; PAGE_BLOCKS]>>>,
    drop_zeros: bool,
    /// Counts the space that written content takes, if that is counted.
    measure: Option<Measure>,
    stored_bytes: u64,
    /// The zeros dropped last, which loads write again and again: they need no second look.
    zeros: Option<Buf>,
}

impl BlockTable {
    /// An all-zero table of `blocks` blocks, which stores blocks of zeros or not.
    pub(crate) fn new(blocks: u64, drop_zeros: bool) -> BlockTable {
        let pages = (blocks as usize).div_ceil(PAGE_BLOCKS);
        let pages = (0..pages).map(|_| None).collect();
        BlockTable { pages, drop_zeros, measure: None, stored_bytes: 0, zeros: None }
    }

    /// Counts the space that written content takes, from now on.
    pub(crate) fn count_space(&mut self, measure: Measure) {
        let cells = self.pages.iter_mut().flatten().flat_map(|page| page.iter_mut());
        let lengths = cells.map(|cell| {
            cell.length = length_of(&cell.written, &measure);
            u64::from(cell.length)
        });
        self.stored_bytes = lengths.sum();
        self.measure = Some(measure);
    }

    /// How the space that written content takes is counted.
    pub(crate) fn lengths(&self) -> Lengths {
        self.measure.as_ref().map_or_else(Lengths::default, Measure::lengths)
    }

    /// Ends the counting, for another table to continue it.
    pub(crate) fn take_measure(&mut self) -> Option<Measure> {
        self.measure.take()
    }

    /// The space that a block of this content takes; all of it where that is not counted.
    pub(crate) fn length_of_content(&self, content: &[u8]) -> u32 {
        self.measure.as_ref().map_or(BLOCK_BYTES as u32, |measure| measure.length_of(content))
    }

    /// The space that all written content takes.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// The space that a block takes.
    pub(crate) fn stored_length_of(&self, block: u64) -> u64 {
        self.cell(block).map_or(0, |cell| u64::from(cell.length))
    }

    fn cell(&self, block: u64) -> Option<&Cell> {
        let page = self.pages[block as usize / PAGE_BLOCKS].as_deref()?;
        Some(&page[block as usize % PAGE_BLOCKS])
    }

    /// Changes versions of a block. What was never written needs no memory to be zeros.
    fn set(&mut self, block: u64, version: Version, change: impl Fn(&mut Cell, Version)) {
        let version = version.filter(|buf| !self.drops(buf));
        if version.is_some() || self.pages[block as usize / PAGE_BLOCKS].is_some() {
            self.change(block, |cell| change(cell, version));
        }
    }

    fn change(&mut self, block: u64, change: impl FnOnce(&mut Cell)) {
        let cell = cell_mut(&mut self.pages, block);
        let Some(measure) = &self.measure else { return change(cell) };
        let before = (cell.written.clone(), cell.length);
        change(cell);
        let is_same = match (&before.0, &cell.written) {
            (Some(before), Some(after)) => before.is_same(after),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            cell.length = length_of(&cell.written, measure);
            self.stored_bytes = self.stored_bytes - u64::from(before.1) + u64::from(cell.length);
        }
    }

    fn drops(&mut self, buf: &Buf) -> bool {
        if !self.drop_zeros {
            return false;
        }
        let is_known = self.zeros.as_ref().is_some_and(|zeros| zeros.is_same(buf));
        if is_known || !is_zero(buf.bytes()) {
            return is_known;
        }
        self.zeros = Some(buf.clone());
        true
    }

    /// What reads see.
    pub(crate) fn written(&self, block: u64) -> Option<&Buf> {
        self.cell(block)?.written.as_ref()
    }

    /// What is certain to survive power loss.
    pub(crate) fn durable(&self, block: u64) -> Option<&Buf> {
        self.cell(block)?.durable.as_ref()
    }

    /// Sets what reads see.
    pub(crate) fn set_written(&mut self, block: u64, version: Version) {
        self.set(block, version, |cell, version| cell.written = version);
    }

    /// Sets what survives.
    pub(crate) fn set_durable(&mut self, block: u64, version: Version) {
        self.set(block, version, |cell, version| cell.durable = version);
    }

    /// Sets what reads see and what survives.
    pub(crate) fn set_both(&mut self, block: u64, version: Version) {
        self.set(block, version, |cell, version| {
            cell.written = version.clone();
            cell.durable = version;
        });
    }

    /// Makes reads see what is durable.
    pub(crate) fn revert(&mut self, block: u64) {
        self.change(block, |cell| cell.written = cell.durable.clone());
    }

    /// Copies the written content from `block` on into `out`, a whole number of blocks.
    pub(crate) fn read(&self, block: u64, out: &mut [u8]) {
        for (block, out) in (block..).zip(out.chunks_exact_mut(BLOCK_BYTES)) {
            match self.written(block) {
                Some(content) => out.copy_from_slice(content.bytes()),
                None => out.fill(0),
            }
        }
    }

    /// The first block in `from..end` that holds written content.
    pub(crate) fn first_written(&self, from: u64, end: u64) -> Option<u64> {
        let mut block = from;
        while block < end {
            let page = block as usize / PAGE_BLOCKS;
            if self.pages[page].is_none() {
                block = ((page + 1) * PAGE_BLOCKS) as u64;
            } else if self.written(block).is_some() {
                return Some(block);
            } else {
                block += 1;
            }
        }
        None
    }
}

fn cell_mut(pages: &mut [Option<Box<[Cell; PAGE_BLOCKS]>>], block: u64) -> &mut Cell {
    let page = &mut pages[block as usize / PAGE_BLOCKS];
    let page = page.get_or_insert_with(|| Box::new(std::array::from_fn(|_| Cell::default())));
    &mut page[block as usize % PAGE_BLOCKS]
}

fn length_of(version: &Version, measure: &Measure) -> u32 {
    version.as_ref().map_or(0, |buf| measure.length_of(buf.bytes()))
}

/// What one request leaves on a device.
pub(crate) enum Content {
    /// Contiguous buffers from block `first` on; each buffer is a whole number of blocks.
    Gather { first: u64, data: Gather },
    /// Any blocks, in any order.
    Blocks(Vec<(u64, Version)>),
}

impl Content {
    /// Whether something holds for every block.
    pub(crate) fn all(&self, holds: impl Fn(u64) -> bool) -> bool {
        let mut all = true;
        self.each(|block, _| all &= holds(block));
        all
    }

    /// Calls `f` with every block and its content.
    pub(crate) fn each(&self, mut f: impl FnMut(u64, Version)) {
        match self {
            Content::Gather { first, data } => {
                data.iter().flat_map(Buf::blocks).zip(*first..).for_each(|(buf, block)| f(block, Some(buf)));
            }
            Content::Blocks(blocks) => blocks.iter().for_each(|(block, version)| f(*block, version.clone())),
        }
    }

    /// The blocks that `keep` chooses.
    pub(crate) fn part(&self, mut keep: impl FnMut(u64) -> bool) -> Content {
        let mut blocks = Vec::new();
        self.each(|block, version| {
            if keep(block) {
                blocks.push((block, version));
            }
        });
        Content::Blocks(blocks)
    }
}

/// The first blocks of a write.
pub(crate) fn leading(data: &Gather, blocks: u64) -> Gather {
    let mut left = blocks as usize * BLOCK_BYTES;
    let mut parts: Vec<Buf> = Vec::new();
    for buf in data.iter() {
        let bytes = buf.len().min(left);
        left -= bytes;
        if bytes > 0 {
            parts.push(buf.slice(0, bytes));
        }
    }
    parts.into()
}

/// The length of gathered buffers in bytes.
pub(crate) fn gather_bytes(data: &Gather) -> u64 {
    data.iter().map(|buf| buf.len() as u64).sum()
}

/// Whether each buffer is whole blocks in block-aligned memory, as O_DIRECT wants it.
pub(crate) fn is_aligned(data: &[Buf]) -> bool {
    data.iter().all(|buf| {
        buf.len().is_multiple_of(BLOCK_BYTES)
            && (buf.is_empty() || buf.bytes().as_ptr().addr().is_multiple_of(BLOCK_BYTES))
    })
}

/// The same bytes in memory of their own.
pub(crate) fn deep_copy(data: &Gather) -> Gather {
    data.iter().map(|buf| Buf::copy_of(buf.bytes())).collect::<Rc<[Buf]>>()
}
