//! Clients: requests drawn at random, their answers checked.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::volume::{Volume, VolumeError};

use crate::host::SimVolume;
use crate::random::Rng;
use crate::torture::failure::{Kind, Log, Wrong};
use crate::torture::limit_check::{LimitCheck, Pending};
use crate::torture::oracle::{Oracle, data_of};
use crate::torture::plan::Plan;
use crate::world::SimIo;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Blocks of a request that verifies a volume.
pub(crate) const READ_BLOCKS: u64 = 64;

/// The state that all clients of an opening share.
pub(crate) struct Work {
    pub(crate) plan: Plan,
    /// Sizes of the volumes in blocks, as far as clients know.
    pub(crate) volume_blocks: RefCell<Vec<u64>>,
    pub(crate) oracle: RefCell<Oracle>,
    pub(crate) volumes: RefCell<BTreeMap<usize, SimVolume>>,
    /// Limits of the first volume.
    pub(crate) limits: LimitCheck,
    /// The first illegal answer.
    pub(crate) wrong: RefCell<Option<Wrong>>,
    /// Whether all members are gone: requests may fail, but must be answered.
    pub(crate) blackout: Cell<bool>,
    /// Clients still at work.
    pub(crate) at_work: Cell<usize>,
    /// Requests answered.
    pub(crate) answered: Cell<u64>,
    /// Of those, with "no space".
    pub(crate) no_space: Cell<u64>,
    /// The same since the pool was opened.
    pub(crate) refusals: Cell<u64>,
    /// Requests refused in a blackout.
    pub(crate) refused: Cell<u64>,
    pub(crate) io: SimIo,
    pub(crate) log: Rc<Log>,
}

impl Work {
    /// A volume of the pool now open.
    pub(crate) fn volume(&self, volume: usize) -> SimVolume {
        self.volumes.borrow()[&volume].clone()
    }

    pub(crate) fn complain(&self, kind: Kind, what: String) {
        self.wrong.borrow_mut().get_or_insert(kind.of(what));
    }

    /// Notes an error that is wrong unless all members are gone.
    pub(crate) fn refuse(&self, what: String) {
        if self.blackout.get() {
            self.refused.set(self.refused.get() + 1);
        } else {
            self.complain(Kind::WrongAnswer, what);
        }
    }

    /// Counts an answered request of `blocks` blocks.
    fn count_limited(&self, volume: usize, blocks: u64) {
        if volume > 0 || self.plan.limit == 0 {
            return;
        }
        let requests = (self.plan.clients * self.plan.depth) as u64 + 1;
        let pending = Pending { requests, bytes_max: self.plan.blocks_max.max(READ_BLOCKS) * BLOCK };
        if let Some(what) = self.limits.answered(self.io.now(), blocks * BLOCK, pending) {
            self.complain(Kind::WrongAnswer, what);
        }
    }

    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        self.log.add(self.io.now(), line);
    }
}

/// Requests of a client that are sent one after the other.
pub(crate) struct Lane {
    /// Numbers of the requests.
    pub(crate) first: u64,
    pub(crate) end: u64,
    /// The distance between two requests of this lane.
    pub(crate) step: usize,
    /// Where the client's last request ended.
    pub(crate) last: Rc<Cell<(usize, u64)>>,
}

/// Sends the requests of one lane. Every request draws from a stream of its own, so that leaving one out changes no other.
pub(crate) async fn client(work: Rc<Work>, lane: Lane) {
    for number in (lane.first..lane.end).step_by(lane.step) {
        if work.wrong.borrow().is_some() {
            break;
        }
        if work.plan.skip_requests.contains(number) {
            continue;
        }
        let mut rng = Rng::stream(work.plan.seed, "request", number);
        if work.plan.pause > 0 {
            work.io.sleep(rng.below(work.plan.pause) * 1000).await;
        }
        request(&work, number, &lane.last, &mut rng).await;
        work.answered.set(work.answered.get() + 1);
    }
    work.at_work.set(work.at_work.get() - 1);
}

/// Blocks of a volume.
struct VolumeRange {
    volume: usize,
    start: u64,
    count: u64,
}

/// Draws a range of a volume, most often in its hot part, or where the last one ended.
fn draw_range(work: &Work, last: &Cell<(usize, u64)>, rng: &mut Rng) -> VolumeRange {
    let (plan, volumes) = (&work.plan, work.volume_blocks.borrow());
    let volume = rng.below(volumes.len() as u64) as usize;
    let size = volumes[volume];
    let hot = (size * plan.hot / 100).max(1);
    let start = if rng.chance(0.9) { rng.below(hot) } else { rng.below(size) };
    let count = if rng.chance(0.5) { 1 } else { rng.between(1, plan.blocks_max) };
    let (before, end) = last.get();
    let goes_on = rng.below(100) < plan.sequential && volumes.get(before).is_some_and(|&size| end < size);
    let (volume, start) = if goes_on { (before, end) } else { (volume, start) };
    let count = count.min(volumes[volume] - start);
    last.set((volume, start + count));
    VolumeRange { volume, start, count }
}

async fn request(work: &Rc<Work>, number: u64, last: &Cell<(usize, u64)>, rng: &mut Rng) {
    let plan = &work.plan;
    let VolumeRange { volume, start, count } = draw_range(work, last, rng);
    work.note(|| format!("request {number}: volume {volume} blocks {start}+{count}"));
    let kind = rng.below(100);
    if work.oracle.borrow().is_merging(volume, start, count) {
        // The oracle does not model a write and a partial write of the same block at the same time.
        return read(work, volume, start, count).await;
    }
    if kind < plan.flushes {
        flush(work, volume).await;
    } else if kind < plan.flushes + plan.discards {
        discard(work, volume, start, count, rng.chance(0.5)).await;
    } else if rng.below(100) < plan.writes {
        if rng.chance(0.15) {
            merge(work, volume, start, rng).await;
        } else {
            write(work, volume, start, count, rng.chance(0.1)).await;
        }
    } else if rng.chance(0.05) {
        status(work, volume, start, count).await;
    } else {
        read(work, volume, start, count).await;
    }
}

/// Whether a request succeeded. Errors other than "no space" are wrong, since the pool survives all failures of members.
fn check(work: &Work, what: &str, result: Result<(), VolumeError>) -> bool {
    match result {
        Ok(()) => true,
        Err(VolumeError::NoSpace) if what != "read" && what != "flush" => {
            work.no_space.set(work.no_space.get() + 1);
            work.refusals.set(work.refusals.get() + 1);
            false
        }
        Err(error) => {
            work.refuse(format!("{what}: {error}"));
            false
        }
    }
}

pub(crate) async fn write(work: &Rc<Work>, volume: usize, start: u64, count: u64, fua: bool) {
    let versions: Vec<u64> =
        (start..start + count).map(|n| work.oracle.borrow_mut().begin_write((volume, n))).collect();
    let data = data_of(volume, start, &versions);
    work.note(|| {
        format!(
            "  write versions {}..{}{}",
            versions[0],
            versions[0] + count,
            if fua { ", forced" } else { "" }
        )
    });
    let handle = work.volume(volume);
    let flush = fua.then(|| work.oracle.borrow().begin_flush(volume));
    let result = handle.write(start * BLOCK, data, fua).await;
    work.count_limited(volume, count);
    let done = check(work, "write", result);
    let mut oracle = work.oracle.borrow_mut();
    (start..start + count).for_each(|n| oracle.end((volume, n), done));
    if let Some(flush) = flush.filter(|_| done) {
        // It also makes the content durable that was there when it began.
        oracle.end_flush(flush);
        (start..start + count).zip(versions).for_each(|(n, version)| oracle.force((volume, n), version));
    }
}

async fn merge(work: &Rc<Work>, volume: usize, block: u64, rng: &mut Rng) {
    let place = (volume, block);
    let known = work.oracle.borrow().certain(place);
    let Some(mut content) = known else { return };
    let at = rng.below(BLOCK) as usize;
    let len = rng.between(1, BLOCK - at as u64) as usize;
    let mut bytes = vec![rng.below(256) as u8; len];
    bytes[0] ^= 0x55;
    content[at..at + len].copy_from_slice(&bytes);
    work.note(|| format!("  write of {len} bytes at {at} of block {block}"));
    work.oracle.borrow_mut().begin_special(place, content);
    let handle = work.volume(volume);
    let result = handle.write(block * BLOCK + at as u64, Buf::copy_of(&bytes), false).await;
    work.count_limited(volume, 0);
    let done = check(work, "merge", result);
    work.oracle.borrow_mut().end(place, done);
}

async fn discard(work: &Rc<Work>, volume: usize, start: u64, count: u64, zeroes: bool) {
    work.note(|| if zeroes { "  zeros" } else { "  discard" }.to_owned());
    (start..start + count).for_each(|n| work.oracle.borrow_mut().begin_zero((volume, n)));
    let handle = work.volume(volume);
    let result = match zeroes {
        true => handle.write_zeroes(start * BLOCK, count * BLOCK, false).await,
        false => handle.discard(start * BLOCK, count * BLOCK).await,
    };
    work.count_limited(volume, 0);
    let done = check(work, "discard", result);
    (start..start + count).for_each(|n| work.oracle.borrow_mut().end((volume, n), done));
}

pub(crate) async fn flush(work: &Rc<Work>, volume: usize) {
    work.note(|| format!("  flush of volume {volume}"));
    let flush = work.oracle.borrow().begin_flush(volume);
    let handle = work.volume(volume);
    let result = handle.flush().await;
    if check(work, "flush", result) {
        work.oracle.borrow_mut().end_flush(flush);
    }
}

async fn status(work: &Rc<Work>, volume: usize, start: u64, count: u64) {
    let handle = work.volume(volume);
    match handle.status(start * BLOCK, count * BLOCK).await {
        Ok(extents) if extents.iter().map(|e| e.bytes).sum::<u64>() == count * BLOCK => {}
        Ok(extents) => work.complain(Kind::WrongAnswer, format!("status: {extents:?}")),
        Err(error) => work.refuse(format!("status: {error}")),
    }
}

/// Reads blocks and checks each.
pub(crate) async fn read(work: &Rc<Work>, volume: usize, start: u64, count: u64) {
    let read_slots: Vec<_> =
        (start..start + count).map(|n| work.oracle.borrow().begin_read((volume, n))).collect();
    let handle = work.volume(volume);
    let result = handle.read(start * BLOCK, (count * BLOCK) as u32).await;
    work.count_limited(volume, count);
    let bufs = match result {
        Ok(bufs) => bufs,
        Err(error) => {
            return work.refuse(format!("read of volume {volume} blocks {start}+{count}: {error}"));
        }
    };
    let blocks = bufs.iter().flat_map(|buf| buf.bytes().chunks_exact(BLOCK_BYTES));
    let mut oracle = work.oracle.borrow_mut();
    let mut got = 0;
    for (reading, block) in read_slots.into_iter().zip(blocks) {
        got += 1;
        if let Err(what) = oracle.end_read(reading, block) {
            work.complain(Kind::WrongData, what);
        }
    }
    if got != count {
        work.complain(Kind::WrongAnswer, format!("read {got} of {count} blocks"));
    }
}
