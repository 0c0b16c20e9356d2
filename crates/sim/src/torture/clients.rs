//! Clients: requests drawn at random, their answers checked.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use sinew_engine::buf::{BLOCK_BYTES, Buf};
use sinew_engine::client::VolumeHandle;
use sinew_engine::volume::{Volume, VolumeError};

use crate::random::Rng;
use crate::torture::oracle::{Oracle, data_of};
use crate::torture::plan::Plan;
use crate::world::SimIo;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// What the clients of one opening share.
pub(crate) struct Work {
    pub(crate) plan: Plan,
    pub(crate) oracle: RefCell<Oracle>,
    pub(crate) volumes: RefCell<BTreeMap<usize, VolumeHandle<SimIo>>>,
    /// The first illegal answer.
    pub(crate) wrong: RefCell<Option<String>>,
    /// Clients still at work.
    pub(crate) at_work: RefCell<usize>,
    /// Requests answered, and answered with "no space".
    pub(crate) answered: RefCell<u64>,
    pub(crate) no_space: RefCell<u64>,
}

impl Work {
    /// A volume of the pool now open.
    pub(crate) fn volume(&self, volume: usize) -> VolumeHandle<SimIo> {
        self.volumes.borrow()[&volume].clone()
    }

    pub(crate) fn complain(&self, what: String) {
        self.wrong.borrow_mut().get_or_insert(what);
    }
}

/// One client at work.
pub(crate) async fn client(work: Rc<Work>, mut rng: Rng) {
    for _ in 0..work.plan.requests {
        if work.wrong.borrow().is_some() {
            break;
        }
        request(&work, &mut rng).await;
        *work.answered.borrow_mut() += 1;
    }
    *work.at_work.borrow_mut() -= 1;
}

/// Draws a range of a volume, most often in its hot part.
fn draw_range(plan: &Plan, rng: &mut Rng) -> (usize, u64, u64) {
    let volume = rng.below(plan.volumes.len() as u64) as usize;
    let size = plan.volumes[volume];
    let hot = (size * plan.hot / 100).max(1);
    let start = if rng.chance(0.9) { rng.below(hot) } else { rng.below(size) };
    let count = if rng.chance(0.5) { 1 } else { rng.between(1, plan.blocks_max) };
    (volume, start, count.min(size - start))
}

async fn request(work: &Rc<Work>, rng: &mut Rng) {
    let plan = &work.plan;
    let (volume, start, count) = draw_range(plan, rng);
    let kind = rng.below(100);
    if work.oracle.borrow().is_merging(volume, start, count) {
        // What a write and a partial write of the same block at the same time give is more than the oracle can tell.
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

/// Notes an answer that no client should ever get; members fail, but never more than the pool survives.
fn check(work: &Work, what: &str, result: Result<(), VolumeError>) -> bool {
    match result {
        Ok(()) => true,
        Err(VolumeError::NoSpace) if what != "read" && what != "flush" => {
            *work.no_space.borrow_mut() += 1;
            false
        }
        Err(error) => {
            work.complain(format!("{what}: {error}"));
            false
        }
    }
}

pub(crate) async fn write(work: &Rc<Work>, volume: usize, start: u64, count: u64, fua: bool) {
    let versions: Vec<u64> =
        (start..start + count).map(|n| work.oracle.borrow_mut().begin_write((volume, n))).collect();
    let data = data_of(volume, start, &versions);
    let handle = work.volume(volume);
    let flush = work.oracle.borrow().begin_flush(volume);
    let result = handle.write(start * BLOCK, data, fua).await;
    let done = check(work, "write", result);
    let mut oracle = work.oracle.borrow_mut();
    (start..start + count).for_each(|n| oracle.end((volume, n), done));
    if fua && done {
        // It also makes durable what was there before it began.
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
    work.oracle.borrow_mut().begin_special(place, content);
    let handle = work.volume(volume);
    let result = handle.write(block * BLOCK + at as u64, Buf::copy_of(&bytes), false).await;
    let done = check(work, "merge", result);
    work.oracle.borrow_mut().end(place, done);
}

async fn discard(work: &Rc<Work>, volume: usize, start: u64, count: u64, zeroes: bool) {
    (start..start + count).for_each(|n| work.oracle.borrow_mut().begin_zero((volume, n)));
    let handle = work.volume(volume);
    let result = match zeroes {
        true => handle.write_zeroes(start * BLOCK, count * BLOCK, false).await,
        false => handle.discard(start * BLOCK, count * BLOCK).await,
    };
    let done = check(work, "discard", result);
    (start..start + count).for_each(|n| work.oracle.borrow_mut().end((volume, n), done));
}

pub(crate) async fn flush(work: &Rc<Work>, volume: usize) {
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
        other => work.complain(format!("status: {other:?}")),
    }
}

/// Reads blocks and checks each.
pub(crate) async fn read(work: &Rc<Work>, volume: usize, start: u64, count: u64) {
    let readings: Vec<_> =
        (start..start + count).map(|n| work.oracle.borrow().begin_read((volume, n))).collect();
    let handle = work.volume(volume);
    let result = handle.read(start * BLOCK, (count * BLOCK) as u32).await;
    let bufs = match result {
        Ok(bufs) => bufs,
        Err(error) => {
            return work.complain(format!("read of volume {volume} blocks {start}+{count}: {error}"));
        }
    };
    let blocks = bufs.iter().flat_map(|buf| buf.bytes().chunks_exact(BLOCK_BYTES));
    let mut oracle = work.oracle.borrow_mut();
    let mut got = 0;
    for (reading, block) in readings.into_iter().zip(blocks) {
        got += 1;
        if let Err(what) = oracle.end_read(reading, block) {
            work.complain(what);
        }
    }
    if got != count {
        work.complain(format!("read {got} of {count} blocks"));
    }
}
