//! The end of all work, when a die has failed.

use super::{Calendar, Channel, Die, Dies, Jobs, RowCleaning};
use crate::Ns;
use crate::flash::folding::Folding;

impl Dies {
    /// Ends all work and all cleaning at once, unfinished; from now on there are only reads.
    pub(in crate::flash) fn stop(&mut self, now: Ns) {
        for die in &mut self.dies {
            self.stats.die_busy_ns += die.busy_for(now);
            *die = Die::new(die.channel);
        }
        self.channels.fill(Channel::default());
        self.programs_pending.fill(0);
        (self.calendar, self.jobs) = (Calendar::default(), Jobs::new());
        self.folding.iter_mut().for_each(Folding::stop);
        self.held_programs.clear();
        self.standstill.stop(now);
        let erasing = self.row_cleaning.as_mut().and_then(RowCleaning::stop);
        self.mapping.stop_cleaning(erasing);
    }
}
