//! A write buffer of non-volatile memory (FusionRAID, FAST '21, section 5.2: NV-RAID, memory with the delay of flushing
//! each cache line).
//!
//! A write is answered once all of it is in the buffer; the array gets it later, the oldest blocks first, each time with
//! the neighbours that wait, too. A block written again while it waits takes no more room. What a run would lose with the
//! power is not simulated: such memory keeps what it has.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::sync::{Kick, Signal};
use sinew_core::volume::VolumeError;

use super::Store;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Flushing a cache line to the memory takes so long, as the paper has it.
const LINE_BYTES: u64 = 64;
const LINE_NS: u64 = 100;
/// Writes of the buffer to the array under way, and blocks of each: 1 MiB.
const WRITES_AT_ONCE: usize = 16;
const WRITE_BLOCKS: usize = 256;

struct Entry {
    data: Buf,
    /// Which write of clients it is of.
    version: u64,
    /// It is on its way to the array: this content, or what it was before.
    is_leaving: bool,
}

#[derive(Default)]
struct State {
    blocks: BTreeMap<u64, Entry>,
    /// Blocks by when they came; some are gone, or have come again.
    oldest: VecDeque<(u64, u64)>,
    version: u64,
    /// Room promised to writes whose lines are being flushed.
    promised: u64,
}

/// The buffer, above a store.
pub(crate) struct NvBuffer<I, S> {
    io: I,
    below: S,
    capacity: u64,
    state: RefCell<State>,
    /// Writes wait for room in the order in which they came.
    turn: Cell<u64>,
    next_turn: Cell<u64>,
    room: Signal,
    work: Kick,
    writing: Cell<usize>,
    wrote: Signal,
    /// What the array answered to a write that nobody waited for.
    failed: Cell<Option<VolumeError>>,
}

impl<I: Io, S: Store> NvBuffer<I, S> {
    /// An empty buffer of so many bytes, at work.
    pub(crate) fn start(io: I, below: S, bytes: u64) -> Rc<NvBuffer<I, S>> {
        let buffer = Rc::new(NvBuffer {
            io: io.clone(),
            below,
            capacity: bytes / BLOCK,
            state: RefCell::default(),
            turn: Cell::new(0),
            next_turn: Cell::new(0),
            room: Signal::default(),
            work: Kick::default(),
            writing: Cell::new(0),
            wrote: Signal::default(),
            failed: Cell::new(None),
        });
        io.spawn(Rc::clone(&buffer).write_back());
        buffer
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.below.bytes()
    }

    pub(crate) async fn write(&self, offset: u64, data: Buf) -> Result<(), VolumeError> {
        // What is larger than the buffer goes through it in pieces.
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
        let mine = self.next_turn.replace(self.next_turn.get() + 1);
        let promised = || {
            let mut state = self.state.borrow_mut();
            let fits = state.blocks.len() as u64 + state.promised + count <= self.capacity;
            let goes = self.failed.get().is_some() || self.turn.get() == mine && fits;
            if goes {
                state.promised += count;
            }
            goes.then_some(())
        };
        self.room.wait(promised).await;
        self.turn.set(self.turn.get().max(mine + 1));
        self.room.notify();
        if self.failed.get().is_none() {
            self.io.sleep(data.len() as u64 / LINE_BYTES * LINE_NS).await;
        }
        let mut state = self.state.borrow_mut();
        state.promised -= count;
        if let Some(error) = self.failed.get() {
            return Err(error);
        }
        for i in 0..count {
            state.put(first + i, data.slice(i as usize * BLOCK_BYTES, BLOCK_BYTES));
        }
        drop(state);
        self.room.notify();
        self.work.kick();
        Ok(())
    }

    pub(crate) async fn read(&self, offset: u64, len: u64) -> Result<Vec<Buf>, VolumeError> {
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
        // What the buffer had when the read began counts: it may have left meanwhile, and the array is not older.
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
        Ok(vec![whole])
    }

    /// Writes to the array what is in the buffer, for ever.
    async fn write_back(self: Rc<Self>) {
        loop {
            self.work.kicked().await;
            loop {
                let taken = self.state.borrow_mut().take_oldest();
                let Some((first, data)) = taken else { break };
                self.wrote.wait(|| (self.writing.get() < WRITES_AT_ONCE).then_some(())).await;
                self.writing.set(self.writing.get() + 1);
                let buffer = Rc::clone(&self);
                self.io.spawn(async move { buffer.write_below(first, data).await });
            }
        }
    }

    async fn write_below(&self, first: u64, data: Vec<(u64, Buf)>) {
        let mut whole = Buf::stale(data.len() * BLOCK_BYTES);
        for ((_, block), place) in data.iter().zip(whole.bytes_mut().chunks_exact_mut(BLOCK_BYTES)) {
            place.copy_from_slice(block.bytes());
        }
        if let Err(error) = self.below.write(first * BLOCK, whole).await {
            self.failed.set(Some(error));
        }
        let mut state = self.state.borrow_mut();
        for (i, (version, _)) in data.into_iter().enumerate() {
            state.has_left(first + i as u64, version);
        }
        drop(state);
        self.writing.set(self.writing.get() - 1);
        self.wrote.notify();
        self.room.notify();
        self.work.kick();
    }
}

impl State {
    fn put(&mut self, block: u64, data: Buf) {
        self.version += 1;
        let version = self.version;
        match self.blocks.get_mut(&block) {
            // It keeps its place among those that wait, unless an older content is leaving.
            Some(entry) => {
                (entry.data, entry.version) = (data, version);
            }
            None => {
                self.blocks.insert(block, Entry { data, version, is_leaving: false });
                self.oldest.push_back((block, version));
            }
        }
    }

    /// The block that waits longest and its neighbours that wait: the first one, and versions with content. They count as
    /// leaving then.
    fn take_oldest(&mut self) -> Option<(u64, Vec<(u64, Buf)>)> {
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
        while ((end - first) as usize) < WRITE_BLOCKS && waits(&self.blocks, end) {
            end += 1;
        }
        while ((end - first) as usize) < WRITE_BLOCKS && first > 0 && waits(&self.blocks, first - 1) {
            first -= 1;
        }
        let take = |(_, entry): (&u64, &mut Entry)| {
            entry.is_leaving = true;
            (entry.version, entry.data.clone())
        };
        Some((first, self.blocks.range_mut(first..end).map(take).collect()))
    }

    /// A block has been written to the array as it was in that version.
    fn has_left(&mut self, block: u64, version: u64) {
        let entry = self.blocks.get_mut(&block).expect("what is leaving is here");
        if entry.version == version {
            self.blocks.remove(&block);
            return;
        }
        entry.is_leaving = false;
        let version = entry.version;
        self.oldest.push_back((block, version));
    }
}
