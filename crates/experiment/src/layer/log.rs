//! A log-structured layer: all writes go to one stream (FusionRAID, FAST '21, section 5.1, compares itself with such a
//! LogRAID, after SWAN, and says that it keeps one or two groups of a RAID 50 array busy at a time).
//!
//! The array is cut into segments, each a whole stripe of one group, and the log fills them in order of their numbers, group
//! by group. Nothing is gathered first: each write goes to its places at once, and the array changes parity as for any
//! other. A map in memory says where each block is. When few segments are free, those with the fewest live blocks are
//! cleaned: what lives in them is appended like anything else.
//!
//! The map is not stored anywhere, since no run looks at the array again; a real log would have to.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::sync::{Kick, Signal, join_all};
use sinew_core::volume::VolumeError;

use super::Store;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// A block that is nowhere.
const NOWHERE: u32 = u32::MAX;
/// Free segments below which the log is cleaned, as one in so many of all; and the part of those that only cleaning uses.
const CLEANED_BELOW: usize = 64;
const RESERVED: usize = 8;
/// Segments cleaned together.
const CLEANED_AT_ONCE: usize = 8;

/// How the array is cut into segments: those of a RAID 50 array's stripes, whose chunks go to the groups in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) chunk_blocks: u32,
    /// Data chunks of a stripe.
    pub(crate) columns: u32,
    pub(crate) groups: u32,
}

impl Cut {
    pub(crate) fn segment_blocks(self) -> u32 {
        self.chunk_blocks * self.columns
    }

    /// The array's block that a place of the log is.
    pub(crate) fn block(self, place: u32) -> u64 {
        let (segment, within) = (place / self.segment_blocks(), place % self.segment_blocks());
        let (row, group) = (segment / self.groups, segment % self.groups);
        let (column, offset) = (within / self.chunk_blocks, within % self.chunk_blocks);
        let chunk = (u64::from(row) * u64::from(self.columns) + u64::from(column)) * u64::from(self.groups);
        (chunk + u64::from(group)) * u64::from(self.chunk_blocks) + u64::from(offset)
    }

    /// Whether the array's blocks of two places that follow one another do so, too.
    pub(crate) fn follow(self, place: u32) -> bool {
        !(place + 1).is_multiple_of(self.chunk_blocks)
    }
}

#[derive(Clone, Copy, Default)]
struct Segment {
    live: u32,
    /// Requests to it under way.
    users: u32,
    is_free: bool,
    /// All its places are taken, and it is in the order of those that may be cleaned.
    is_full: bool,
}

struct State {
    /// Where each block is, by its number.
    map: Vec<u32>,
    /// The block that each place was written for.
    owners: Vec<u32>,
    segments: Vec<Segment>,
    free: VecDeque<u32>,
    /// Full segments by live blocks.
    full: BTreeSet<(u32, u32)>,
    /// The next place of the segment that is being filled, and its end.
    head: u32,
    end: u32,
}

/// The log, above a store.
pub(crate) struct Log<I, S> {
    io: I,
    below: S,
    cut: Cut,
    blocks: u64,
    cleaned_below: usize,
    state: RefCell<State>,
    room: Signal,
    work: Kick,
    /// Writes wait for room in the order in which they came.
    turn: Cell<u64>,
    next_turn: Cell<u64>,
    failed: Cell<Option<VolumeError>>,
}

/// Places that follow one another in the log and in the array.
struct Run {
    place: u32,
    count: u32,
}

/// A segment while a request goes on in it; it is not used for anything else.
struct Using<'a>(&'a RefCell<State>, u32);

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.0.borrow_mut().segments[self.1 as usize].users -= 1;
    }
}

impl<I: Io, S: Store> Log<I, S> {
    /// An empty log that keeps a part of the store for cleaning, at work; none if the store is too small.
    pub(crate) fn start(io: I, below: S, cut: Cut, spare: f64) -> Option<Rc<Log<I, S>>> {
        let all = u32::try_from(below.bytes() / BLOCK).ok()?;
        let segments = (all / (cut.segment_blocks() * cut.groups) * cut.groups) as usize;
        let cleaned_below = (segments / CLEANED_BELOW).max(2 * RESERVED);
        let kept = ((segments as f64 * spare) as usize).max(2 * cleaned_below);
        let blocks = segments.checked_sub(kept).filter(|&left| left > 0)? as u64;
        let state = State {
            map: vec![NOWHERE; (blocks * u64::from(cut.segment_blocks())) as usize],
            owners: vec![NOWHERE; segments * cut.segment_blocks() as usize],
            segments: vec![Segment { is_free: true, ..Segment::default() }; segments],
            free: (0..segments as u32).collect(),
            full: BTreeSet::new(),
            head: 0,
            end: 0,
        };
        let log = Rc::new(Log {
            io: io.clone(),
            below,
            cut,
            blocks: state.map.len() as u64,
            cleaned_below,
            state: RefCell::new(state),
            room: Signal::default(),
            work: Kick::default(),
            turn: Cell::new(0),
            next_turn: Cell::new(0),
            failed: Cell::new(None),
        });
        io.spawn(Rc::clone(&log).clean());
        Some(log)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.blocks * BLOCK
    }

    pub(crate) async fn flush(&self) -> Result<(), VolumeError> {
        self.below.flush().await
    }

    pub(crate) async fn write(&self, offset: u64, data: Buf) -> Result<(), VolumeError> {
        let first = (offset / BLOCK) as u32;
        let count = (data.len() / BLOCK_BYTES) as u32;
        // One stream: who comes first gets the next places.
        let mine = self.next_turn.replace(self.next_turn.get() + 1);
        self.room.wait(|| (self.turn.get() == mine).then_some(())).await;
        let mut runs = Vec::new();
        let mut taken = 0;
        while taken < count {
            let run = self.room.wait(|| self.take(count - taken, RESERVED)).await;
            let Some(run) = run else { break };
            taken += run.count;
            runs.push(run);
        }
        self.turn.set(mine + 1);
        self.room.notify();
        let mut from = 0;
        let writes = runs.iter().map(|run| {
            let bytes = run.count as usize * BLOCK_BYTES;
            let (part, at) = (data.slice(from, bytes), first + (from / BLOCK_BYTES) as u32);
            from += bytes;
            async move {
                let using = Using(&self.state, self.segment_of(run.place));
                self.below.write(self.cut.block(run.place) * BLOCK, part).await?;
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

    pub(crate) async fn read(&self, offset: u64, len: u64) -> Result<Vec<Buf>, VolumeError> {
        let blocks = (offset / BLOCK) as usize..((offset + len) / BLOCK) as usize;
        let mut parts: Vec<(u32, u32)> = Vec::new();
        for &place in &self.state.borrow().map[blocks] {
            match parts.last_mut() {
                Some((first, count)) if place == NOWHERE && *first == NOWHERE => *count += 1,
                Some((first, count))
                    if *first != NOWHERE && place == *first + *count && self.cut.follow(place - 1) =>
                {
                    *count += 1;
                }
                _ => parts.push((place, 1)),
            }
        }
        // Before anything is waited for, so that no place is used for something else.
        let reads: Vec<_> = parts.into_iter().map(|(place, count)| self.read_run(place, count)).collect();
        let read: Result<Vec<Vec<Buf>>, VolumeError> = join_all(reads).await.into_iter().collect();
        Ok(read?.into_iter().flatten().collect())
    }

    fn read_run(&self, place: u32, count: u32) -> impl Future<Output = Result<Vec<Buf>, VolumeError>> {
        let bytes = u64::from(count) * BLOCK;
        let using = (place != NOWHERE).then(|| self.using(self.segment_of(place)));
        async move {
            let Some(_using) = using else { return Ok(vec![Buf::zeroed(bytes as usize)]) };
            let read = self.below.read(self.cut.block(place) * BLOCK, bytes).await;
            // The segment may have been the only one left to be cleaned.
            self.work.kick();
            read
        }
    }

    fn segment_of(&self, place: u32) -> u32 {
        place / self.cut.segment_blocks()
    }

    fn using(&self, segment: u32) -> Using<'_> {
        self.state.borrow_mut().segments[segment as usize].users += 1;
        Using(&self.state, segment)
    }

    /// The next places of the log, at most so many, while more than `reserved` segments are free; their segment is in use
    /// until they are written. `Some(None)` when the log has failed.
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
            state.head = segment * self.cut.segment_blocks();
            state.end = state.head + self.cut.segment_blocks();
            if state.free.len() < self.cleaned_below {
                self.work.kick();
            }
        }
        let chunk_end = (state.head + 1).next_multiple_of(self.cut.chunk_blocks);
        let run = Run { place: state.head, count: wanted.min(chunk_end - state.head) };
        state.head += run.count;
        let segment = run.place / self.cut.segment_blocks();
        state.segments[segment as usize].users += 1;
        if state.head == state.end {
            let segment_state = &mut state.segments[segment as usize];
            segment_state.is_full = true;
            let live = segment_state.live;
            state.full.insert((live, segment));
        }
        Some(Some(run))
    }

    /// Cleans when there is little room, for ever.
    async fn clean(self: Rc<Self>) {
        loop {
            self.work.kicked().await;
            while self.failed.get().is_none() && self.state.borrow().free.len() < self.cleaned_below {
                let worst = self.state.borrow().emptiest(CLEANED_AT_ONCE);
                if worst.is_empty() {
                    break;
                }
                let cleaned = join_all(worst.into_iter().map(|segment| self.clean_segment(segment))).await;
                if let Some(error) = cleaned.into_iter().find_map(Result::err) {
                    self.failed.set(Some(error));
                }
                self.room.notify();
            }
        }
    }

    async fn clean_segment(&self, segment: u32) -> Result<(), VolumeError> {
        self.state.borrow_mut().claim(segment);
        for (place, blocks) in self.live_runs(segment) {
            let data = self.read_run(place, blocks.len() as u32).await?;
            let mut whole = Buf::stale(blocks.len() * BLOCK_BYTES);
            let mut from = 0;
            for part in &data {
                whole.bytes_mut()[from..from + part.len()].copy_from_slice(part.bytes());
                from += part.len();
            }
            self.append_moved(place, &blocks, &whole).await?;
        }
        // Readers that found something here before it moved.
        while self.state.borrow().segments[segment as usize].users > 0 {
            self.io.sleep(READERS_LOOK_NS).await;
        }
        self.state.borrow_mut().release(segment);
        Ok(())
    }

    /// Appends what was at a place, for blocks that are still there when it is written.
    async fn append_moved(&self, from: u32, blocks: &[u32], data: &Buf) -> Result<(), VolumeError> {
        let mut done = 0;
        while done < blocks.len() {
            let wanted = (blocks.len() - done) as u32;
            let run = self.room.wait(|| self.take(wanted, 0)).await;
            let Some(run) = run else { return self.failed.get().map_or(Ok(()), Err) };
            let using = Using(&self.state, self.segment_of(run.place));
            let part = data.slice(done * BLOCK_BYTES, run.count as usize * BLOCK_BYTES);
            self.below.write(self.cut.block(run.place) * BLOCK, part).await?;
            let moved = (done..done + run.count as usize).map(|i| (blocks[i], Some(from + i as u32)));
            self.state.borrow_mut().set(run.place, moved);
            drop(using);
            done += run.count as usize;
        }
        Ok(())
    }

    /// The live blocks of a segment: where they begin, and which they are; none across a chunk's end.
    fn live_runs(&self, segment: u32) -> Vec<(u32, Vec<u32>)> {
        let state = self.state.borrow();
        let first = segment * self.cut.segment_blocks();
        let mut runs: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for place in first..first + self.cut.segment_blocks() {
            let owner = state.owners[place as usize];
            if owner == NOWHERE || state.map[owner as usize] != place {
                continue;
            }
            match runs.last_entry() {
                Some(mut run)
                    if *run.key() + run.get().len() as u32 == place && self.cut.follow(place - 1) =>
                {
                    run.get_mut().push(owner);
                }
                _ => {
                    runs.insert(place, vec![owner]);
                }
            }
        }
        runs.into_iter().collect()
    }
}

#[cfg(test)]
impl<I: Io, S: Store> Log<I, S> {
    /// What must be so when nothing is under way.
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

/// How often it is looked whether nobody reads a segment any more.
const READERS_LOOK_NS: u64 = 100_000;

impl State {
    /// Places from `place` on hold these blocks now; of those with a place of their own, only if they are still there.
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

    /// One live block more or less in the segment of a place.
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

    /// Full segments that nobody writes to any more and that are not all live, those with the fewest live blocks.
    fn emptiest(&self, count: usize) -> Vec<u32> {
        let all = self.segment_blocks();
        let idle = |&&(_, segment): &&(u32, u32)| self.segments[segment as usize].users == 0;
        let dirty = self.full.iter().take_while(|(live, _)| *live < all);
        dirty.filter(idle).take(count).map(|&(_, segment)| segment).collect()
    }

    /// The segment is about to be cleaned: nobody else chooses it.
    fn claim(&mut self, number: u32) {
        let segment = &mut self.segments[number as usize];
        segment.is_full = false;
        let live = segment.live;
        self.full.remove(&(live, number));
    }

    fn release(&mut self, number: u32) {
        let blocks = self.segment_blocks();
        let segment = &mut self.segments[number as usize];
        assert!(segment.live == 0 && segment.users == 0 && !segment.is_free, "nothing is left of it");
        segment.is_free = true;
        let first = (number * blocks) as usize;
        self.owners[first..first + blocks as usize].fill(NOWHERE);
        self.free.push_back(number);
    }
}
