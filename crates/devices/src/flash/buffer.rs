//! The write buffer: which unit each block of the host goes to, when units are written out, what a flush waits for.
//!
//! A block gets its place on flash when it enters the buffer, so the buffer is no more than the units that have places
//! and are not programmed yet. One unit at a time is filled.

use std::collections::VecDeque;

use super::config::{Config, Drain};
use super::dies::Dies;
use super::host::{HostInterface, Request};
use super::jobs::Job;
use super::mapping::NONE;
use super::placement::{OpenUnit, Placement};
use super::stats::Stats;
use crate::{BLOCK_BYTES, Ns, Outcome};

/// The unit that is being filled.
#[derive(Clone, Copy, Debug)]
struct Filling {
    open: OpenUnit,
    /// The write that waits for its program, or [`NONE`].
    request: u32,
    epoch: u32,
}

/// The writes between two flushes.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Units not yet programmed.
    units: u32,
    /// The flush that waits for them, or [`NONE`] until it arrives.
    flush: u32,
}

/// Writes that wait for room, the data that is not on flash yet, and the flushes that wait for it.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    drain: Drain,
    power_loss_protected: bool,
    /// Writes that have arrived and wait for room, in order.
    admission: VecDeque<u32>,
    filling: Option<Filling>,
    /// Granules in the buffer, and its capacity.
    granules: u32,
    granules_max: u32,
    /// Granules in the buffer from which a batch starts, on a drive that writes in batches.
    batch_granules: u32,
    epochs: VecDeque<Epoch>,
    first_epoch: u32,
    stats: Stats,
}

impl Buffer {
    pub(super) fn new(config: &Config) -> Buffer {
        let per_block = BLOCK_BYTES / config.granule_bytes();
        let granules_max = config.buffer_blocks * per_block;
        let batch_granules = match config.drain {
            Drain::Batch { blocks } => granules_max.min(blocks * per_block),
            Drain::Through | Drain::Steady => 0,
        };
        Buffer {
            drain: config.drain,
            power_loss_protected: config.power_loss_protected,
            admission: VecDeque::new(),
            filling: None,
            granules: 0,
            granules_max,
            batch_granules,
            epochs: VecDeque::from([Epoch { units: 0, flush: NONE }]),
            first_epoch: 0,
            stats: Stats::default(),
        }
    }

    /// Counts of host writes and of padding.
    pub(super) fn stats(&self) -> Stats {
        self.stats
    }

    pub(super) fn reset_stats(&mut self) {
        self.stats = Stats::default();
    }

    /// Adds a write that has arrived to those that wait for room.
    #[inline]
    pub(super) fn enqueue(&mut self, id: u32) {
        self.admission.push_back(id);
    }

    /// Gives waiting writes a place, in order, while there is room.
    #[inline]
    pub(super) fn admit(
        &mut self,
        now: Ns,
        host: &mut HostInterface,
        placement: &mut Placement,
        dies: &mut Dies,
    ) {
        while let Some(&id) = self.admission.front() {
            let Request { command, placed, .. } = *host.request(id);
            for placed in placed..command.blocks {
                if dies.is_stopped() {
                    return;
                }
                let lba = command.lba + placed;
                let count = dies.mapping().granules_needed(lba);
                if !dies.mapping().has_space(lba, count) {
                    host.request_mut(id).outcome = Outcome::NoSpace;
                } else if self.granules + count > self.granules_max {
                    self.make_room(now, dies);
                    return;
                } else if let Some(filling) = self.take_filling(now, id, count, host, placement, dies) {
                    self.add_block(now, filling, lba, count, dies);
                } else {
                    return;
                }
                host.request_mut(id).placed += 1;
            }
            self.admission.pop_front();
            self.stats.written_blocks += u64::from(command.blocks);
            let through = self.drain == Drain::Through;
            if through {
                self.seal_filling(now, dies);
            }
            // A write through to flash has nothing to wait for if there was no space for any of its blocks.
            if !through || host.request(id).pending == 0 {
                host.acknowledge(now, id);
            }
        }
    }

    /// Takes the unit being filled, which has `count` free granules then. `None` while no die has a unit for that.
    fn take_filling(
        &mut self,
        now: Ns,
        id: u32,
        count: u32,
        host: &mut HostInterface,
        placement: &mut Placement,
        dies: &mut Dies,
    ) -> Option<Filling> {
        match self.filling.take() {
            Some(filling) if filling.open.free() >= count => return Some(filling),
            Some(full) => self.seal(now, full, dies),
            None => {}
        }
        let open = placement.place_unit(now, dies)?;
        let request = if self.drain == Drain::Through { id } else { NONE };
        if request != NONE {
            host.request_mut(id).pending += 1;
        }
        let epoch = self.first_epoch.wrapping_add(self.epochs.len() as u32 - 1);
        self.epochs.back_mut().expect("there is always an epoch").units += 1;
        Some(Filling { open, request, epoch })
    }

    /// Puts a block into a unit that has room, and keeps the unit for the next block or seals it.
    fn add_block(&mut self, now: Ns, mut filling: Filling, lba: u32, count: u32, dies: &mut Dies) {
        dies.mapping_mut().place(lba, filling.open.take(count), count);
        self.granules += count;
        self.stats.written_granules += u64::from(count);
        if filling.open.free() == 0 {
            self.seal(now, filling, dies);
        } else {
            self.filling = Some(filling);
        }
    }

    /// Makes sure that a full buffer empties.
    fn make_room(&mut self, now: Ns, dies: &mut Dies) {
        if let Drain::Batch { .. } = self.drain {
            self.seal_filling(now, dies);
            dies.start_batch(now);
        } else if self.filling.is_some_and(|filling| filling.open.filled() == self.granules) {
            // No program is under way that would make room, and what is free in this unit is too small.
            self.seal_filling(now, dies);
        }
    }

    /// Seals the unit being filled, if there is one.
    fn seal_filling(&mut self, now: Ns, dies: &mut Dies) {
        if let Some(filling) = self.filling.take() {
            self.seal(now, filling, dies);
        }
    }

    /// Has a unit programmed, whether it is full or not.
    fn seal(&mut self, now: Ns, filling: Filling, dies: &mut Dies) {
        dies.hold_program(self.close(filling));
        match self.drain {
            Drain::Batch { .. } if self.granules >= self.batch_granules => dies.start_batch(now),
            Drain::Batch { .. } => {}
            Drain::Through | Drain::Steady => dies.start_held(now),
        }
    }

    fn close(&mut self, filling: Filling) -> Job {
        let Filling { open, request, epoch } = filling;
        self.stats.padded_granules += u64::from(open.free());
        Job { unit: open.unit, granules: open.filled(), request, epoch }
    }

    /// A unit of the host's data is on flash.
    #[inline]
    pub(super) fn unit_programmed(&mut self, now: Ns, program: Job, host: &mut HostInterface) {
        self.granules -= program.granules;
        if program.request != NONE {
            let request = host.request_mut(program.request);
            request.pending -= 1;
            if request.pending == 0 && request.placed == request.command.blocks {
                host.acknowledge(now, program.request);
            }
        }
        let epoch = program.epoch.wrapping_sub(self.first_epoch) as usize;
        self.epochs[epoch].units -= 1;
        self.finish_flushes(now, host);
    }

    /// A flush has arrived.
    pub(super) fn start_flush(&mut self, now: Ns, id: u32, host: &mut HostInterface, dies: &mut Dies) {
        if self.power_loss_protected {
            host.acknowledge(now, id);
            return;
        }
        self.seal_filling(now, dies);
        if let Drain::Batch { .. } = self.drain {
            dies.start_batch(now);
        }
        self.epochs.back_mut().expect("there is always an epoch").flush = id;
        self.epochs.push_back(Epoch { units: 0, flush: NONE });
        self.finish_flushes(now, host);
    }

    fn finish_flushes(&mut self, now: Ns, host: &mut HostInterface) {
        while let Some(&Epoch { units: 0, flush }) = self.epochs.front()
            && flush != NONE
        {
            host.acknowledge(now, flush);
            self.epochs.pop_front();
            self.first_epoch = self.first_epoch.wrapping_add(1);
        }
    }

    /// Puts everything in the buffer on flash in no time. The drive must be idle.
    pub(super) fn empty_at_once(&mut self, now: Ns, host: &mut HostInterface, dies: &mut Dies) {
        if let Some(filling) = self.filling.take() {
            dies.hold_program(self.close(filling));
        }
        while let Some(program) = dies.program_held_at_once() {
            self.unit_programmed(now, program, host);
        }
    }
}
