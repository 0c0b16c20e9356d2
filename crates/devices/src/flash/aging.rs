//! Writes that take no time: they bring a drive into the state that a long history would leave it in.

use super::mapping::Mapping;
use super::placement::{OpenUnit, Placement};
use super::stats::Stats;
use crate::Rng;

/// One run of writes at once, on a drive without requests and with an empty buffer.
pub(super) struct Aging<'a> {
    mapping: &'a mut Mapping,
    placement: &'a mut Placement,
    rng: &'a mut Rng,
    filling: Option<OpenUnit>,
    stats: Stats,
}

impl<'a> Aging<'a> {
    pub(super) fn new(mapping: &'a mut Mapping, placement: &'a mut Placement, rng: &'a mut Rng) -> Aging<'a> {
        Aging { mapping, placement, rng, filling: None, stats: Stats::default() }
    }

    /// Writes every block once, in order.
    pub(super) fn fill(&mut self) {
        for lba in 0..self.mapping.blocks() {
            self.write(lba);
        }
    }

    /// Writes `count` random blocks among the first `span`.
    pub(super) fn overwrite(&mut self, count: u64, span: u32) {
        // Places are drawn some steps ahead, so that the caches have them in time.
        let mut ahead: [u32; 8] = std::array::from_fn(|_| self.draw(span));
        for step in 0..count as usize {
            let next = self.draw(span);
            let lba = std::mem::replace(&mut ahead[step % 8], next);
            self.write(lba);
        }
    }

    /// Programs the last unit; returns the counts of the run.
    pub(super) fn finish(mut self) -> Stats {
        if let Some(filling) = self.filling.take() {
            self.program(filling);
        }
        self.stats
    }

    fn draw(&mut self, span: u32) -> u32 {
        let lba = self.rng.below(span);
        self.mapping.touch(lba);
        lba
    }

    fn write(&mut self, lba: u32) {
        let count = self.mapping.granules_needed(lba);
        if !self.mapping.has_space(lba, count) {
            return;
        }
        let mut filling = match self.filling.take() {
            Some(filling) if filling.free() >= count => filling,
            full => {
                if let Some(full) = full {
                    self.program(full);
                }
                let die = self.die_with_room();
                OpenUnit::new(self.mapping.open_unit(die), self.mapping)
            }
        };
        self.mapping.place(lba, filling.take(count), count);
        self.stats.written_blocks += 1;
        self.stats.written_granules += u64::from(count);
        self.filling = Some(filling);
    }

    fn program(&mut self, filling: OpenUnit) {
        self.stats.padded_granules += u64::from(filling.free());
        self.mapping.programmed(filling.unit);
    }

    /// The next die in rotation that has room once it is cleaned.
    fn die_with_room(&mut self) -> u32 {
        loop {
            let die = self.placement.next_in_rotation();
            let cleaned = self.mapping.clean_at_once(die);
            self.stats.moved_granules += cleaned.moved_granules;
            self.stats.erases += cleaned.erases;
            if self.mapping.can_open(die) {
                return die;
            }
        }
    }
}
