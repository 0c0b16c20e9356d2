//! A log-structured layer that appends all writes to one stream, like the LogRAID, after SWAN, that FusionRAID compares itself
//! with (FAST '21, section 5.1; according to the paper it keeps one or two groups of a RAID 50 array busy at a time).
//!
//! The array is divided into segments, each a whole stripe of one group, and the log fills them in the order of their numbers,
//! group after group. Writes are not collected into full stripes: each write is issued at once, and the array updates parity
//! as for any other write. A map in memory holds the location of each block. When few segments are free, the log cleans the
//! segments with the fewest live blocks: it appends their live blocks like any other write.
//!
//! The map is not persistent, because no run opens the array again; a real log would have to store it.
//!
//! A *place* is the number of a block in the order of the log; [`SegmentGeometry::block`] converts it into a block of the array.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf, Bufs};
use sinew_core::io::Io;
use sinew_core::sync::{Kick, Signal, join_all};
use sinew_core::volume::VolumeError;

use crate::system::layer::store::Store;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// The place of a block that was never written.
const NOWHERE: u32 = u32::MAX;
/// Cleaning begins when fewer than one in this many segments are free.
const CLEANED_BELOW: usize = 64;
/// The number of free segments that only cleaning may use: without them a full log could not be cleaned.
const RESERVED: usize = 8;
/// The number of segments cleaned concurrently.
const CLEANED_AT_ONCE: usize = 8;
/// How often cleaning checks whether a segment still has readers.
const READERS_CHECK_NS: u64 = 100_000;

/// The geometry of segments. Each is a stripe of one group of a RAID 50 array, which deals chunks to its groups in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentGeometry {
    /// Blocks of a chunk.
    pub(crate) chunk_blocks: u32,
    /// Data chunks of a stripe.
    pub(crate) columns: u32,
    /// Groups of the array.
    pub(crate) groups: u32,
}

impl SegmentGeometry {
    /// Blocks of a segment.
    pub(crate) fn segment_blocks(self) -> u32 {
        self.chunk_blocks * self.columns
    }

    /// The block of the array at a place of the log.
    pub(crate) fn block(self, place: u32) -> u64 {
        let (segment, within) = (place / self.segment_blocks(), place % self.segment_blocks());
        let (row, group) = (segment / self.groups, segment % self.groups);
        let (column, offset) = (within / self.chunk_blocks, within % self.chunk_blocks);
        let chunk = (u64::from(row) * u64::from(self.columns) + u64::from(column)) * u64::from(self.groups);
        (chunk + u64::from(group)) * u64::from(self.chunk_blocks) + u64::from(offset)
    }

    /// Whether the blocks of the array at `place` and at `place + 1` are adjacent.
    pub(crate) fn is_adjacent_to_next(self, place: u32) -> bool {
        !(place + 1).is_multiple_of(self.chunk_blocks)
    }
}

#[derive(Clone, Copy, Default)]
struct Segment {
    /// The number of live blocks.
    live: u32,
    /// The number of requests in flight to it.
    users: u32,
    is_free: bool,
    /// All its places are allocated, and it is in `State::full`, from which cleaning chooses.
    is_full: bool,
}

struct State {
    /// The place of each block.
    map: Vec<u32>,
    /// The block that each place was last written for.
    owners: Vec<u32>,
    segments: Vec<Segment>,
    free: VecDeque<u32>,
    /// Full segments: the number of live blocks, and the segment.
    full: BTreeSet<(u32, u32)>,
    /// The next place to allocate.
    head: u32,
    /// The end of the segment that is being filled.
    end: u32,
}

/// The log above a store.
pub(crate) struct Log<I, S> {
    io: I,
    below: S,
    geometry: SegmentGeometry,
    blocks: u64,
    cleaned_below: usize,
    state: RefCell<State>,
    space: Signal,
    work: Kick,
    /// Writes get places in the order of their arrival: the number of the write whose turn it is, and that of the next to
    /// arrive.
    turn: Cell<u64>,
    next_turn: Cell<u64>,
    /// The first error of cleaning, returned by every later write.
    failed: Cell<Option<VolumeError>>,
}

/// Consecutive places whose blocks in the array are adjacent too.
struct Run {
    place: u32,
    count: u32,
}

/// A run of live blocks of a segment that is being cleaned.
struct LiveRun {
    /// The first place.
    place: u32,
    /// The block at each place.
    blocks: Vec<u32>,
}

/// Guard of a request in flight to a segment: the segment is not reused before the guard is dropped.
struct Using<'a> {
    state: &'a RefCell<State>,
    segment: u32,
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.state.borrow_mut().segments[self.segment as usize].users -= 1;
    }
}

impl<I: Io, S: Store> Log<I, S> {
    /// An empty log that keeps the fraction `spare` of the store free, with its cleaning task running; `None` if the store is
    /// too small, or has more blocks than the map can number.
    pub(crate) fn start(io: I, below: S, geometry: SegmentGeometry, spare: f64) -> Option<Rc<Log<I, S>>> {
        let all = u32::try_from(below.bytes() / BLOCK).ok()?;
        let segments = (all / (geometry.segment_blocks() * geometry.groups) * geometry.groups) as usize;
        let cleaned_below = (segments / CLEANED_BELOW).max(2 * RESERVED);
        let kept = ((segments as f64 * spare) as usize).max(2 * cleaned_below);
        let blocks = segments.checked_sub(kept).filter(|&left| left > 0)? as u64;
        let state = State {
            map: vec![NOWHERE; (blocks * u64::from(geometry.segment_blocks())) as usize],
            owners: vec![NOWHERE; segments * geometry.segment_blocks() as usize],
            segments: vec![Segment { is_free: true, ..Segment::default() }; segments],
            free: (0..segments as u32).collect(),
            full: BTreeSet::new(),
            head: 0,
            end: 0,
        };
        let log = Rc::new(Log {
            io: io.clone(),
            below,
            geometry,
            blocks: state.map.len() as u64,
            cleaned_below,
            state: RefCell::new(state),
            space: Signal::default(),
            work: Kick::default(),
            turn: Cell::new(0),
            next_turn: Cell::new(0),
            failed: Cell::new(None),
        });
        io.spawn(Rc::clone(&log).clean());
        Some(log)
    }

    /// The size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks * BLOCK
    }

    /// Flushes the store.
    ///
    /// # Errors
    /// The error of the store.
    pub(crate) async fn flush(&self) -> Result<(), VolumeError> {
        self.below.flush().await
    }

    /// Appends data.
    ///
    /// # Errors
    /// The error of the store, or of cleaning.
    pub(crate) async fn write(&self, offset: u64, data: Buf) -> Result<(), VolumeError> {
        let first = (offset / BLOCK) as u32;
        let count = (data.len() / BLOCK_BYTES) as u32;
        // One stream: places are allocated in the order of arrival.
        let own_turn = self.next_turn.replace(self.next_turn.get() + 1);
        self.space.wait(|| (self.turn.get() == own_turn).then_some(())).await;
        let mut runs = Vec::new();
        let mut taken = 0;
        while taken < count {
            let run = self.space.wait(|| self.take(count - taken, RESERVED)).await;
            let Some(run) = run else { break };
            taken += run.count;
            runs.push(run);
        }
        self.turn.set(own_turn + 1);
        self.space.notify();
        let mut from = 0;
        let writes = runs.iter().map(|run| {
            let bytes = run.count as usize * BLOCK_BYTES;
            let (part, at) = (data.slice(from, bytes), first + (from / BLOCK_BYTES) as u32);
            from += bytes;
            async move {
                // `take` counted this request.
                let using = Using { state: &self.state, segment: self.segment_of(run.place) };
                self.below.write(self.geometry.block(run.place) * BLOCK, part).await?;
                self.state.borrow_mut().set(run.place, (at..at + run.count).map(|block| (block, None)));
                drop(using);
                Ok(())
            }
        });
        let writes: Vec<_> = writes.collect();
        let done: Result<Vec<()>, VolumeError> = join_all(writes).await.into_iter().collect();
        self.work.kick();
        match self.failed.get() {
            Some(error) => Err(error),
            None => done.map(drop),
        }
    }

    /// Reads data, in parts that are in order.
    ///
    /// # Errors
    /// The error of the store.
    pub(crate) async fn read(&self, offset: u64, len: u64) -> Result<Bufs, VolumeError> {
        let blocks = (offset / BLOCK) as usize..((offset + len) / BLOCK) as usize;
        let mut parts: Vec<(u32, u32)> = Vec::new();
        for &place in &self.state.borrow().map[blocks] {
            match parts.last_mut() {
                Some((first, count)) if place == NOWHERE && *first == NOWHERE => *count += 1,
                Some((first, count))
                    if *first != NOWHERE
                        && place == *first + *count
                        && self.geometry.is_adjacent_to_next(place - 1) =>
                {
                    *count += 1;
                }
                _ => parts.push((place, 1)),
            }
        }
        // All guards are taken before the first await, so that no place can be reused in between.
        let reads: Vec<_> = parts.into_iter().map(|(place, count)| self.read_run(place, count)).collect();
        let read: Result<Vec<Bufs>, VolumeError> = join_all(reads).await.into_iter().collect();
        Ok(read?.into_iter().flatten().collect())
    }

    fn read_run(&self, place: u32, count: u32) -> impl Future<Output = Result<Bufs, VolumeError>> {
        let bytes = u64::from(count) * BLOCK;
        let using = (place != NOWHERE).then(|| self.using(self.segment_of(place)));
        async move {
            let Some(_using) = using else { return Ok(Buf::zeroed(bytes as usize).into()) };
            let read = self.below.read(self.geometry.block(place) * BLOCK, bytes).await;
            // This reader may have kept the only segment from being cleaned.
            self.work.kick();
            read
        }
    }

    fn segment_of(&self, place: u32) -> u32 {
        place / self.geometry.segment_blocks()
    }

    fn using(&self, segment: u32) -> Using<'_> {
        self.state.borrow_mut().segments[segment as usize].users += 1;
        Using { state: &self.state, segment }
    }

    /// Allocates up to `wanted` places, if more than `reserved` segments are free, and counts a request to their segment.
    /// `None` if the caller must wait for space, `Some(None)` if the log has failed.
    fn take(&self, wanted: u32, reserved: usize) -> Option<Option<Run>> {
        if self.failed.get().is_some() {
            return Some(None);
        }
        let mut state = self.state.borrow_mut();
        if state.head == state.end {
            if state.free.len() <= reserved {
                self.work.kick();
                return None;
            }
            let segment = state.free.pop_front()?;
            state.segments[segment as usize].is_free = false;
            state.head = segment * self.geometry.segment_blocks();
            state.end = state.head + self.geometry.segment_blocks();
            if state.free.len() < self.cleaned_below {
                self.work.kick();
            }
        }
        let chunk_end = (state.head + 1).next_multiple_of(self.geometry.chunk_blocks);
        let run = Run { place: state.head, count: wanted.min(chunk_end - state.head) };
        state.head += run.count;
        let segment = run.place / self.geometry.segment_blocks();
        state.segments[segment as usize].users += 1;
        if state.head == state.end {
            let segment_state = &mut state.segments[segment as usize];
            segment_state.is_full = true;
            let live = segment_state.live;
            state.full.insert((live, segment));
        }
        Some(Some(run))
    }

    /// The cleaning task: cleans segments while few are free.
    async fn clean(self: Rc<Self>) {
        loop {
            self.work.kicked().await;
            while self.failed.get().is_none() && self.state.borrow().free.len() < self.cleaned_below {
                let chosen = self.state.borrow().emptiest(CLEANED_AT_ONCE);
                if chosen.is_empty() {
                    break;
                }
                let cleaned = join_all(chosen.into_iter().map(|segment| self.clean_segment(segment))).await;
                if let Some(error) = cleaned.into_iter().find_map(Result::err) {
                    self.failed.set(Some(error));
                }
                self.space.notify();
            }
        }
    }

    /// Appends the live blocks of a segment, waits for its readers, and frees it.
    async fn clean_segment(&self, segment: u32) -> Result<(), VolumeError> {
        self.state.borrow_mut().claim(segment);
        for LiveRun { place, blocks } in self.live_runs(segment) {
            let data = self.read_run(place, blocks.len() as u32).await?;
            let mut whole = Buf::stale(blocks.len() * BLOCK_BYTES);
            let mut from = 0;
            for part in &data {
                whole.bytes_mut()[from..from + part.len()].copy_from_slice(part.bytes());
                from += part.len();
            }
            self.append_moved(place, &blocks, &whole).await?;
        }
        // Readers that looked a block up before it moved may still read it here.
        while self.state.borrow().segments[segment as usize].users > 0 {
            self.io.sleep(READERS_CHECK_NS).await;
        }
        self.state.borrow_mut().release(segment);
        Ok(())
    }

    /// Appends the data of blocks at `from` and the places after it. A block that a client has overwritten in the meantime
    /// keeps its newer place.
    async fn append_moved(&self, from: u32, blocks: &[u32], data: &Buf) -> Result<(), VolumeError> {
        let mut done = 0;
        while done < blocks.len() {
            let wanted = (blocks.len() - done) as u32;
            let run = self.space.wait(|| self.take(wanted, 0)).await;
            let Some(run) = run else { return self.failed.get().map_or(Ok(()), Err) };
            let using = Using { state: &self.state, segment: self.segment_of(run.place) };
            let part = data.slice(done * BLOCK_BYTES, run.count as usize * BLOCK_BYTES);
            self.below.write(self.geometry.block(run.place) * BLOCK, part).await?;
            let moved = (done..done + run.count as usize).map(|i| (blocks[i], Some(from + i as u32)));
            self.state.borrow_mut().set(run.place, moved);
            drop(using);
            done += run.count as usize;
        }
        Ok(())
    }

    /// The live blocks of a segment, in runs that do not cross the end of a chunk.
    fn live_runs(&self, segment: u32) -> Vec<LiveRun> {
        let state = self.state.borrow();
        let first = segment * self.geometry.segment_blocks();
        let mut runs: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for place in first..first + self.geometry.segment_blocks() {
            let owner = state.owners[place as usize];
            if owner == NOWHERE || state.map[owner as usize] != place {
                continue;
            }
            match runs.last_entry() {
                Some(mut run)
                    if *run.key() + run.get().len() as u32 == place
                        && self.geometry.is_adjacent_to_next(place - 1) =>
                {
                    run.get_mut().push(owner);
                }
                _ => {
                    runs.insert(place, vec![owner]);
                }
            }
        }
        runs.into_iter().map(|(place, blocks)| LiveRun { place, blocks }).collect()
    }
}

#[cfg(test)]
impl<I: Io, S: Store> Log<I, S> {
    /// Asserts the invariants that hold while no request is in flight.
    pub(crate) fn check(&self) {
        let state = self.state.borrow();
        let mut live = vec![0; state.segments.len()];
        let stored = state.map.iter().enumerate().filter(|&(_, &place)| place != NOWHERE);
        stored.for_each(|(block, &place)| {
            assert_eq!(state.owners[place as usize] as usize, block);
            live[self.segment_of(place) as usize] += 1;
        });
        for (number, (segment, live)) in state.segments.iter().zip(live).enumerate() {
            assert_eq!((segment.live, segment.users), (live, 0), "segment {number}");
            assert!(!segment.is_free || live == 0);
            assert_eq!(state.full.contains(&(live, number as u32)), segment.is_full);
        }
        assert!(state.free.len() >= RESERVED);
    }
}

impl State {
    /// Maps blocks to `place` and the places after it. A block with an expected old place is only mapped if it is still there.
    fn set(&mut self, place: u32, blocks: impl Iterator<Item = (u32, Option<u32>)>) {
        for (place, (block, only_from)) in (place..).zip(blocks) {
            let before = self.map[block as usize];
            if only_from.is_some_and(|from| from != before) {
                continue;
            }
            if before != NOWHERE {
                self.count(before, false);
            }
            self.map[block as usize] = place;
            self.owners[place as usize] = block;
            self.count(place, true);
        }
    }

    fn segment_blocks(&self) -> u32 {
        (self.owners.len() / self.segments.len()) as u32
    }

    /// Counts one more or one fewer live block in the segment of a place.
    fn count(&mut self, place: u32, more: bool) {
        let number = place / self.segment_blocks();
        let segment = &mut self.segments[number as usize];
        let before = segment.live;
        segment.live = if more { before + 1 } else { before - 1 };
        if segment.is_full {
            let after = segment.live;
            self.full.remove(&(before, number));
            self.full.insert((after, number));
        }
    }

    /// Up to `count` full segments without requests in flight and with a dead block, those with the fewest live blocks first.
    fn emptiest(&self, count: usize) -> Vec<u32> {
        let all = self.segment_blocks();
        let idle = |&&(_, segment): &&(u32, u32)| self.segments[segment as usize].users == 0;
        let dirty = self.full.iter().take_while(|(live, _)| *live < all);
        dirty.filter(idle).take(count).map(|&(_, segment)| segment).collect()
    }

    /// Takes a segment out of the full ones, so that it is not chosen for cleaning again.
    fn claim(&mut self, number: u32) {
        let segment = &mut self.segments[number as usize];
        segment.is_full = false;
        let live = segment.live;
        self.full.remove(&(live, number));
    }

    /// Frees a cleaned segment.
    fn release(&mut self, number: u32) {
        let blocks = self.segment_blocks();
        let segment = &mut self.segments[number as usize];
        assert!(
            segment.live == 0 && segment.users == 0 && !segment.is_free,
            "a cleaned segment has no live block and no reader"
        );
        segment.is_free = true;
        let first = (number * blocks) as usize;
        self.owners[first..first + blocks as usize].fill(NOWHERE);
        self.free.push_back(number);
    }
}
