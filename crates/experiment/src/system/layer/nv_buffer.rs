//! A write buffer of non-volatile memory (FusionRAID, FAST '21, section 5.2: NV-RAID, memory with the delay of flushing
//! each cache line).
//!
//! A write is acknowledged when all of it is in the buffer. The buffer writes it back to the array later, the oldest blocks
//! first, each together with its buffered neighbours. A block that is overwritten in the buffer takes no further space. Power
//! loss is not simulated: non-volatile memory keeps its content.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf, Bufs};
use sinew_core::io::Io;
use sinew_core::sync::{Kick, Signal};
use sinew_core::volume::VolumeError;

use crate::system::layer::store::Store;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// The size of a cache line, and the time to flush one to the memory, both as in the paper.
const LINE_BYTES: u64 = 64;
const LINE_NS: u64 = 100;
/// The number of concurrent writes to the array, and the blocks of each: 1 MiB.
const WRITES_MAX: usize = 16;
const WRITE_BLOCKS_MAX: usize = 256;

/// A buffered block.
struct Entry {
    data: Buf,
    /// The number of the write that wrote the content.
    version: u64,
    /// This content, or an older one of the block, is being written to the array.
    is_leaving: bool,
}

/// A run of buffered blocks to write to the array.
struct WriteBack {
    /// The first block.
    first: u64,
    /// The version and the content of each block.
    blocks: Vec<(u64, Buf)>,
}

#[derive(Default)]
struct State {
    blocks: BTreeMap<u64, Entry>,
    /// Blocks and their versions, the oldest first. Entries may be obsolete: the block has been written back, or again.
    oldest: VecDeque<(u64, u64)>,
    version: u64,
    /// Blocks reserved for writes whose cache lines are being flushed.
    reserved: u64,
}

/// The buffer above a store.
pub(crate) struct NvBuffer<I, S> {
    io: I,
    below: S,
    capacity: u64,
    state: RefCell<State>,
    /// Writes get space in the order of their arrival: the number of the write whose turn it is, and that of the next to
    /// arrive.
    turn: Cell<u64>,
    next_turn: Cell<u64>,
    space: Signal,
    work: Kick,
    writing: Cell<usize>,
    wrote: Signal,
    /// The error of a write to the array, returned by every later write of clients.
    failed: Cell<Option<VolumeError>>,
}

impl<I: Io, S: Store> NvBuffer<I, S> {
    /// An empty buffer of `bytes` bytes, with its write-back task running.
    pub(crate) fn start(io: I, below: S, bytes: u64) -> Rc<NvBuffer<I, S>> {
        let buffer = Rc::new(NvBuffer {
            io: io.clone(),
            below,
            capacity: bytes / BLOCK,
            state: RefCell::default(),
            turn: Cell::new(0),
            next_turn: Cell::new(0),
            space: Signal::default(),
            work: Kick::default(),
            writing: Cell::new(0),
            wrote: Signal::default(),
            failed: Cell::new(None),
        });
        io.spawn(Rc::clone(&buffer).write_back());
        buffer
    }

    /// The size of the store in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.below.bytes()
    }

    /// Writes data; it is durable when this returns.
    ///
    /// # Errors
    /// The error of an earlier write to the array.
    pub(crate) async fn write(&self, offset: u64, data: Buf) -> Result<(), VolumeError> {
        // A write may exceed the buffer, so it passes through it in pieces.
        let piece_bytes = (self.capacity.div_ceil(2) * BLOCK) as usize;
        let mut from = 0;
        while from < data.len() {
            let len = piece_bytes.min(data.len() - from);
            self.write_piece(offset / BLOCK + (from / BLOCK_BYTES) as u64, data.slice(from, len)).await?;
            from += len;
        }
        Ok(())
    }

    async fn write_piece(&self, first: u64, data: Buf) -> Result<(), VolumeError> {
        let count = (data.len() / BLOCK_BYTES) as u64;
        let own_turn = self.next_turn.replace(self.next_turn.get() + 1);
        let reserve = || {
            let mut state = self.state.borrow_mut();
            let fits = state.blocks.len() as u64 + state.reserved + count <= self.capacity;
            let proceeds = self.failed.get().is_some() || self.turn.get() == own_turn && fits;
            if proceeds {
                state.reserved += count;
            }
            proceeds.then_some(())
        };
        self.space.wait(reserve).await;
        self.turn.set(self.turn.get().max(own_turn + 1));
        self.space.notify();
        if self.failed.get().is_none() {
            self.io.sleep(data.len() as u64 / LINE_BYTES * LINE_NS).await;
        }
        let mut state = self.state.borrow_mut();
        state.reserved -= count;
        if let Some(error) = self.failed.get() {
            return Err(error);
        }
        for i in 0..count {
            state.put(first + i, data.slice(i as usize * BLOCK_BYTES, BLOCK_BYTES));
        }
        drop(state);
        self.space.notify();
        self.work.kick();
        Ok(())
    }

    /// Reads data, in parts that are in order.
    ///
    /// # Errors
    /// The error of the read of the array.
    pub(crate) async fn read(&self, offset: u64, len: u64) -> Result<Bufs, VolumeError> {
        let (first, end) = (offset / BLOCK, (offset + len) / BLOCK);
        let mut found: Vec<(u64, Buf)> = {
            let state = self.state.borrow();
            state.blocks.range(first..end).map(|(&block, entry)| (block, entry.data.clone())).collect()
        };
        if found.len() as u64 == end - first {
            return Ok(found.into_iter().map(|(_, data)| data).collect());
        }
        let below = self.below.read(offset, len).await?;
        if found.is_empty() {
            return Ok(below);
        }
        // The buffered content at the start of the read wins: if it has been written back since, the array has at least it.
        let mut whole = Buf::stale(len as usize);
        let mut from = 0;
        for part in below {
            whole.bytes_mut()[from..from + part.len()].copy_from_slice(part.bytes());
            from += part.len();
        }
        for (block, data) in found.drain(..) {
            let at = ((block - first) * BLOCK) as usize;
            whole.bytes_mut()[at..at + BLOCK_BYTES].copy_from_slice(data.bytes());
        }
        Ok(whole.into())
    }

    /// The write-back task: writes buffered blocks to the array, the oldest first.
    async fn write_back(self: Rc<Self>) {
        loop {
            self.work.kicked().await;
            loop {
                let taken = self.state.borrow_mut().take_oldest();
                let Some(write_back) = taken else { break };
                self.wrote.wait(|| (self.writing.get() < WRITES_MAX).then_some(())).await;
                self.writing.set(self.writing.get() + 1);
                let buffer = Rc::clone(&self);
                self.io.spawn(async move { buffer.write_below(write_back).await });
            }
        }
    }

    async fn write_below(&self, WriteBack { first, blocks }: WriteBack) {
        let mut whole = Buf::stale(blocks.len() * BLOCK_BYTES);
        for ((_, block), place) in blocks.iter().zip(whole.bytes_mut().chunks_exact_mut(BLOCK_BYTES)) {
            place.copy_from_slice(block.bytes());
        }
        if let Err(error) = self.below.write(first * BLOCK, whole).await {
            self.failed.set(Some(error));
        }
        let mut state = self.state.borrow_mut();
        for (i, (version, _)) in blocks.into_iter().enumerate() {
            state.written_back(first + i as u64, version);
        }
        drop(state);
        self.writing.set(self.writing.get() - 1);
        self.wrote.notify();
        self.space.notify();
        self.work.kick();
    }
}

impl State {
    /// Buffers the content of a block.
    fn put(&mut self, block: u64, data: Buf) {
        self.version += 1;
        let version = self.version;
        match self.blocks.get_mut(&block) {
            // The block keeps its position in `oldest`; if older content is leaving, `written_back` gives it a new one.
            Some(entry) => {
                (entry.data, entry.version) = (data, version);
            }
            None => {
                self.blocks.insert(block, Entry { data, version, is_leaving: false });
                self.oldest.push_back((block, version));
            }
        }
    }

    /// The oldest block and its neighbours that are not leaving either. From now on all of them are.
    fn take_oldest(&mut self) -> Option<WriteBack> {
        let waits = |blocks: &BTreeMap<u64, Entry>, block: u64| {
            blocks.get(&block).is_some_and(|entry| !entry.is_leaving)
        };
        let block = loop {
            let (block, _) = self.oldest.pop_front()?;
            if waits(&self.blocks, block) {
                break block;
            }
        };
        let (mut first, mut end) = (block, block + 1);
        while ((end - first) as usize) < WRITE_BLOCKS_MAX && waits(&self.blocks, end) {
            end += 1;
        }
        while ((end - first) as usize) < WRITE_BLOCKS_MAX && first > 0 && waits(&self.blocks, first - 1) {
            first -= 1;
        }
        let take = |(_, entry): (&u64, &mut Entry)| {
            entry.is_leaving = true;
            (entry.version, entry.data.clone())
        };
        Some(WriteBack { first, blocks: self.blocks.range_mut(first..end).map(take).collect() })
    }

    /// A version of a block has been written to the array.
    fn written_back(&mut self, block: u64, version: u64) {
        let entry = self.blocks.get_mut(&block).expect("a leaving block stays buffered");
        if entry.version == version {
            self.blocks.remove(&block);
            return;
        }
        entry.is_leaving = false;
        let version = entry.version;
        self.oldest.push_back((block, version));
    }
}
