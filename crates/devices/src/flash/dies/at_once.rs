//! Programs that take no time.

use super::{Dies, Job};

impl Dies {
    /// As [`Dies::open_unit`], while nothing takes time.
    pub(in crate::flash) fn open_unit_at_once(&mut self, die: u32) -> u32 {
        self.programs_pending[die as usize] += 1;
        self.mapping.open_unit(die)
    }

    /// Ends a program that was held, in no time; the drive must be idle.
    pub(in crate::flash) fn program_held_at_once(&mut self) -> Option<Job> {
        let job = self.held_programs.pop_front()?;
        let program = self.jobs.take(job);
        self.programs_pending[self.mapping.die_of(program.unit) as usize] -= 1;
        self.mapping.programmed(program.unit);
        Some(program)
    }
}
