//! Writes that take no time: they bring a drive into the state that a long history would leave it in.

use super::buffer::Filling;
use super::mapping::NONE;
use super::ssd::Ssd;
use crate::Device;

impl Ssd {
    /// Ages the drive at once: all of it is written in order, then `overwrites` times its size at random, so that every
    /// write leaves something to clean (FusionRAID, FAST '21, sections 2.1 and 5.1). Counts start anew, but for wear.
    /// Panics while requests are under way.
    pub fn age(&mut self, overwrites: f64) {
        self.settle();
        let blocks = self.mapping.blocks();
        for lba in 0..blocks {
            self.write_at_once(lba);
        }
        self.overwrite((f64::from(blocks) * overwrites) as u64, blocks);
        self.reset_stats();
    }

    /// Writes `count` random blocks among the first `span`, at once.
    pub fn overwrite_at_once(&mut self, count: u64, span: u32) {
        self.settle();
        self.overwrite(count, span);
    }

    fn overwrite(&mut self, count: u64, span: u32) {
        // Places are drawn some steps ahead, so that the caches have them in time.
        let mut ahead: [u32; 8] = std::array::from_fn(|_| self.draw(span));
        for step in 0..count as usize {
            let next = self.draw(span);
            let lba = std::mem::replace(&mut ahead[step % 8], next);
            self.write_at_once(lba);
        }
        if let Some(filling) = self.filling.take() {
            self.finish_at_once(filling);
        }
    }

    fn draw(&mut self, span: u32) -> u32 {
        let lba = self.rng.below(span);
        self.mapping.touch(lba);
        lba
    }

    /// Puts what the buffer holds on flash at once. Panics while requests are under way.
    fn settle(&mut self) {
        assert!(self.next_event().is_none(), "requests are under way");
        if let Some(filling) = self.filling.take() {
            self.stats.padded_granules += u64::from(filling.end - filling.next);
            self.batch.push_back(filling.job);
        }
        while let Some(job) = self.batch.pop_front() {
            let job = self.take_job(job);
            self.dies[self.mapping.die_of(job.unit) as usize].programs_pending -= 1;
            self.mapping.programmed(job.unit);
            self.unit_programmed(job);
        }
        self.wake = false;
    }

    fn write_at_once(&mut self, lba: u32) {
        let count = self.mapping.granules_needed(lba);
        if !self.has_space(lba, count) {
            return;
        }
        let mut filling = match self.filling.take() {
            Some(filling) if filling.end - filling.next >= count => filling,
            full => {
                if let Some(full) = full {
                    self.finish_at_once(full);
                }
                let die = self.die_at_once();
                let unit = self.mapping.open_unit(die);
                let at = unit * self.mapping.unit_granules();
                Filling { unit, job: NONE, next: at, end: at + self.mapping.unit_granules() }
            }
        };
        self.mapping.place(lba, filling.next, count);
        filling.next += count;
        self.stats.written_blocks += 1;
        self.stats.written_granules += u64::from(count);
        self.filling = Some(filling);
    }

    fn finish_at_once(&mut self, filling: Filling) {
        self.stats.padded_granules += u64::from(filling.end - filling.next);
        self.mapping.programmed(filling.unit);
    }

    fn die_at_once(&mut self) -> u32 {
        loop {
            let die = self.next_die;
            self.next_die = (self.next_die + 1) % self.dies.len() as u32;
            let (moved, erased) = self.mapping.clean_at_once(die);
            self.stats.moved_granules += moved;
            self.stats.erases += erased;
            if self.mapping.can_open(die) {
                return die;
            }
        }
    }
}
