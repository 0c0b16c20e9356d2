//! Read-only openings between two openings: of copies of the devices, in a world of their own, so that the run goes on as if
//! nothing had happened.
//!
//! Nothing may be written to any device. With all members that are there, every block must be right. With some of them, or with
//! more missing than the pool survives, a block must fail, or have a content that it once had.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::MarkName;
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::pool::Candidate;
use sinew_members::open_mode::OpenMode;

use crate::device::DeviceConfig;
use crate::host::{OpenError, OpenPool};
use crate::random::Rng;
use crate::torture::failure::{Kind, Wrong};
use crate::world::World;

use super::state::{Run, path_of};

/// Share of the openings before which there is an inspection.
const INSPECTED: f64 = 0.25;
/// Bytes copied at once.
const PIECE: u64 = 1 << 20;
const BLOCK: u64 = BLOCK_BYTES as u64;
/// Blocks read at once.
const READ_BLOCKS: u64 = 16;
/// Virtual time for one read.
const STEPS_MAX: u64 = 5_000_000;

impl Run {
    /// Opens copies of the devices read-only now and then, and checks what can be read of them.
    pub(super) fn inspect(&mut self) -> Result<(), Wrong> {
        let mut rng = Rng::stream(self.work.plan.seed, "inspection", self.world.incarnation().into());
        if self.opening == 0 || !rng.chance(INSPECTED) {
            return Ok(());
        }
        let world = World::new(rng.below(u64::MAX));
        world.set_step_limit(STEPS_MAX);
        let mut candidates = self.copy_devices(&world);
        // Without checksums there is no last resort: with members left out beside stale ones, or beside a write hole, nothing
        // is promised.
        let plan = &self.work.plan;
        let has_last_resort = plan.array.is_none() && plan.checksums && plan.tenancies == 0;
        let as_last_resort = has_last_resort && rng.chance(0.5);
        if as_last_resort {
            rng.shuffle(&mut candidates);
            let left = rng.between(1, candidates.len() as u64 + 1);
            candidates.truncate(left as usize);
        }
        self.count(if as_last_resort { "inspections_with_few" } else { "inspections" });
        let before: Vec<u64> = world.devices().into_iter().map(|id| world.device(id).snapshot()).collect();
        let checked = self.inspect_copies(&world, candidates, !as_last_resort, rng);
        for (mark, count) in world.marks_reached().into_iter().filter(|(mark, _)| is_of_inspections(*mark)) {
            *self.inspected.entry(mark).or_default() += count;
        }
        checked?;
        for (id, before) in world.devices().into_iter().zip(before) {
            let (device, stats) = (world.device(id), world.device(id).stats());
            if device.snapshot() != before || stats.writes + stats.discards + stats.flushes > 0 {
                let what = format!("a read-only opening changed {}: {stats:?}", path_of(id));
                return Err(Kind::WrongData.of(what));
            }
        }
        Ok(())
    }

    /// Devices with the same numbers and contents in another world; gives those that are attached.
    fn copy_devices(&self, world: &World) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for id in self.world.devices() {
            let from = self.world.device(id);
            let config = DeviceConfig { drop_zeros: true, ..DeviceConfig::of_bytes(from.bytes()) };
            let copy = world.add_device(config);
            if from.is_gone() {
                continue;
            }
            for at in (0..from.bytes()).step_by(PIECE as usize) {
                let len = PIECE.min(from.bytes() - at);
                if from.is_written(at, len) {
                    world.device(copy).poke(at, &from.peek(at, len as usize));
                }
            }
            candidates.push(Candidate { device: copy, path: path_of(copy) });
        }
        candidates
    }

    fn inspect_copies(
        &self,
        world: &World,
        candidates: Vec<Candidate>,
        is_whole: bool,
        mut rng: Rng,
    ) -> Result<(), Wrong> {
        let io = world.io();
        let table_cache = self.work.plan.table_cache_bytes();
        let opening = OpenPool::open_read_only(io, candidates, table_cache, move || rng.chance(0.5));
        let opened = world.block_on(opening);
        let pool = match opened.map_err(|e| Kind::Stuck.of(format!("opening read-only: {e}")))? {
            Ok(pool) => Rc::new(pool),
            // Pools whose tables or journals are gone are refused.
            Err(OpenError::Pool(_) | OpenError::Recover(_)) if !is_whole => return Ok(()),
            Err(error) => return Err(Kind::NotOpened.of(format!("opening read-only: {error}"))),
        };
        // Members that are left may lag behind those that are not there, without knowing it.
        let any_age = !is_whole || pool.control.mode() == OpenMode::LastResort;
        for (volume, &known) in self.work.volume_blocks.borrow().iter().enumerate() {
            let Some(handle) = pool.volume(&format!("v{volume}")) else { continue };
            let blocks = (handle.size_bytes() / BLOCK).min(known);
            for first in (0..blocks).step_by(READ_BLOCKS as usize) {
                let count = READ_BLOCKS.min(blocks - first);
                let step = if any_age { 1 } else { count };
                for at in (first..first + count).step_by(step as usize) {
                    let reader = handle.clone();
                    let read = async move { reader.read(at * BLOCK, (step * BLOCK) as u32).await };
                    let read = world.block_on(read).map_err(|e| Kind::Stuck.of(format!("reading: {e}")))?;
                    match read {
                        Err(VolumeError::Failed) if any_age => {}
                        Err(error) => {
                            let what = format!("read-only: volume {volume} block {at}: {error}");
                            return Err(Kind::WrongAnswer.of(what));
                        }
                        Ok(bufs) => {
                            let found = bufs.iter().flat_map(|buf| buf.bytes().chunks_exact(BLOCK_BYTES));
                            for (block, content) in (at..).zip(found) {
                                let legal =
                                    self.work.oracle.borrow().check((volume, block), content, any_age);
                                legal.map_err(|what| Kind::WrongData.of(format!("read-only: {what}")))?;
                            }
                        }
                    }
                }
            }
            let refused = {
                let (writer, zeros) = (handle.clone(), Buf::zeroed(BLOCK_BYTES));
                world.block_on(async move { (writer.write(0, zeros, true).await, writer.flush().await) })
            };
            match refused.map_err(|e| Kind::Stuck.of(format!("writing read-only: {e}")))? {
                (Err(VolumeError::ReadOnly), Ok(())) => {}
                other => return Err(Kind::WrongAnswer.of(format!("written while read-only: {other:?}"))),
            }
        }
        let control = Rc::clone(&pool.control);
        let closed = world.block_on(async move {
            control.observe().await?;
            control.close().await
        });
        let closed = closed.map_err(|e| Kind::Stuck.of(format!("closing read-only: {e}")))?;
        closed.map_err(|e| Kind::WrongAnswer.of(format!("closing read-only: {e}")))
    }
}

/// The marks that only inspections reach.
fn is_of_inspections(mark: MarkName) -> bool {
    ["OpenedAsLastResort", "LastResortGap", "LastResortStripeUnknown", "ReadUnknown"].contains(&mark.text())
}
