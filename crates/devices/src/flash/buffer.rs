//! The write buffer: which unit each block of the host goes to, when units are written out, what a flush waits for.
//!
//! A block gets its place on flash when it enters the buffer, so the buffer is no more than the units that have places
//! and are not programmed yet. One unit at a time is filled; its die is the one with the least to program.

use super::config::Drain;
use super::dies::Job;
use super::mapping::NONE;
use super::ssd::{Request, Ssd};
use crate::{BLOCK_BYTES, Outcome};

/// The unit that takes the host's data, the job that will program it (none while aging) and its free granules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling {
    pub(super) unit: u32,
    pub(super) job: u32,
    pub(super) next: u32,
    pub(super) end: u32,
}

/// Writes between two flushes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    /// Units not yet programmed.
    pub(super) units: u32,
    /// The flush that waits for them, once there is one.
    pub(super) flush: u32,
}

impl Ssd {
    /// Gives waiting writes a place, in order, while there is room.
    pub(super) fn admit(&mut self) {
        while let Some(&id) = self.admission.front() {
            let Request { command, placed, .. } = self.requests[id as usize];
            for placed in placed..command.blocks {
                if self.is_stopped() || !self.admit_block(id, command.lba + placed) {
                    return;
                }
                self.requests[id as usize].placed += 1;
            }
            self.admission.pop_front();
            self.stats.written_blocks += u64::from(command.blocks);
            if self.config.drain == Drain::Through {
                self.seal();
                // All of its blocks may have met a lack of space.
                if self.requests[id as usize].pending == 0 {
                    self.outgoing.push(self.now, id);
                }
            } else {
                self.outgoing.push(self.now, id);
            }
        }
    }

    /// Gives one block a place, or says that it has to wait.
    fn admit_block(&mut self, id: u32, lba: u32) -> bool {
        let count = self.mapping.granules_needed(lba);
        if !self.has_space(lba, count) {
            self.requests[id as usize].outcome = Outcome::NoSpace;
            return true;
        }
        if self.buffered + count > self.buffered_max {
            self.make_room();
            return false;
        }
        let Some(mut filling) = self.room(id, count) else {
            return false;
        };
        self.mapping.place(lba, filling.next, count);
        filling.next += count;
        self.buffered += count;
        self.stats.written_granules += u64::from(count);
        self.jobs[filling.job as usize].granules += count;
        self.filling = Some(filling);
        if filling.next == filling.end {
            self.seal();
        }
        true
    }

    /// Sees to it that a full buffer empties.
    fn make_room(&mut self) {
        if let Drain::Batch { .. } = self.config.drain {
            self.seal();
            self.start_batch();
        } else if self
            .filling
            .is_some_and(|filling| self.jobs[filling.job as usize].granules == self.buffered)
        {
            // Nothing else is on its way, and the rest of this unit is too small.
            self.seal();
        }
    }

    /// A unit with room for so many granules.
    fn room(&mut self, id: u32, count: u32) -> Option<Filling> {
        if let Some(filling) = self.filling {
            if filling.end - filling.next >= count {
                return Some(filling);
            }
            self.seal();
        }
        let die = self.pick_die()?;
        let was_cleaning = self.mapping.is_cleaning(die);
        let unit = self.mapping.open_unit(die);
        let request = if self.config.drain == Drain::Through { id } else { NONE };
        if request != NONE {
            self.requests[id as usize].pending += 1;
        }
        let epoch = self.first_epoch.wrapping_add(self.epochs.len() as u32 - 1);
        self.epochs.back_mut().expect("there is always an epoch").units += 1;
        let job = self.add_job(Job { unit, granules: 0, request, epoch, next: NONE });
        if !was_cleaning && self.mapping.is_cleaning(die) {
            self.cleaning_wanted(die);
        }
        let at = unit * self.mapping.unit_granules();
        Some(Filling { unit, job, next: at, end: at + self.mapping.unit_granules() })
    }

    /// The die with the fewest programs before it that has room; the rotation breaks ties.
    fn pick_die(&mut self) -> Option<u32> {
        let dies = self.dies.len() as u32;
        let mut best = None;
        let mut least = u32::MAX;
        for step in 0..dies {
            let die =
                if self.next_die + step < dies { self.next_die + step } else { self.next_die + step - dies };
            let queued = self.dies[die as usize].programs_pending;
            if queued < least && self.mapping.can_open(die) {
                (best, least) = (Some(die), queued);
                if queued == 0 {
                    break;
                }
            }
        }
        let die = best?;
        self.next_die = if die + 1 < dies { die + 1 } else { 0 };
        self.dies[die as usize].programs_pending += 1;
        Some(die)
    }

    /// Ends the filling of a unit, full or not, and has it programmed.
    fn seal(&mut self) {
        let Some(filling) = self.filling.take() else {
            return;
        };
        self.stats.padded_granules += u64::from(filling.end - filling.next);
        self.batch.push_back(filling.job);
        match self.config.drain {
            Drain::Batch { blocks } => {
                let granules = blocks * (BLOCK_BYTES / self.mapping.granule_bytes());
                if self.buffered >= granules.min(self.buffered_max) {
                    self.start_batch();
                }
            }
            Drain::Through | Drain::Steady => self.queue_batch(),
        }
    }

    /// Everything stops until what is buffered is on flash.
    pub(super) fn start_batch(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        self.stop();
        self.batch_units += self.batch.len() as u32;
        self.queue_batch();
    }

    fn queue_batch(&mut self) {
        while let Some(job) = self.batch.pop_front() {
            self.queue_program(self.mapping.die_of(self.jobs[job as usize].unit), job);
        }
    }

    /// A unit of the host's data is on flash.
    pub(super) fn unit_programmed(&mut self, job: Job) {
        self.buffered -= job.granules;
        if job.request != NONE {
            let request = &mut self.requests[job.request as usize];
            request.pending -= 1;
            if request.pending == 0 && request.placed == request.command.blocks {
                self.outgoing.push(self.now, job.request);
            }
        }
        let epoch = job.epoch.wrapping_sub(self.first_epoch) as usize;
        self.epochs[epoch].units -= 1;
        self.finish_flushes();
        self.batch_units = self.batch_units.saturating_sub(1);
        self.wake = true;
    }

    pub(super) fn start_flush(&mut self, id: u32) {
        if self.config.power_loss_protected {
            self.outgoing.push(self.now, id);
            return;
        }
        self.seal();
        if let Drain::Batch { .. } = self.config.drain {
            self.start_batch();
        }
        self.epochs.back_mut().expect("there is always an epoch").flush = id;
        self.epochs.push_back(Epoch { units: 0, flush: NONE });
        self.finish_flushes();
    }

    fn finish_flushes(&mut self) {
        while let Some(&Epoch { units: 0, flush }) = self.epochs.front()
            && flush != NONE
        {
            self.outgoing.push(self.now, flush);
            self.epochs.pop_front();
            self.first_epoch = self.first_epoch.wrapping_add(1);
        }
    }

    pub(super) fn has_space(&self, lba: u32, count: u32) -> bool {
        if self.config.compression.is_none() {
            return true;
        }
        let (total, used) = self.mapping.space();
        let old = self.mapping.locate(lba).map_or(0, |(_, count)| count);
        used + u64::from(count) <= total + u64::from(old)
    }
}
