//! What dies have done, for the counts of the drive.

use super::Dies;
use crate::Ns;
use crate::flash::stats::Stats;

impl Dies {
    /// Counts of cleaning, of suspensions, of standstills, and of the time that dies have been busy until `now`.
    pub(in crate::flash) fn stats_at(&self, now: Ns) -> Stats {
        let own = Stats {
            moved_granules: self.stats.moved_granules
                + self.row_cleaning.as_ref().map_or(0, |cleaning| cleaning.moved_granules),
            stalls: self.standstill.count(),
            stalled_ns: self.standstill.total_ns(),
            die_busy_ns: self.stats.die_busy_ns + self.dies.iter().map(|die| die.busy_for(now)).sum::<Ns>(),
            ..self.stats
        };
        own + self.mapping.stats()
    }

    /// Starts counting anew.
    pub(in crate::flash) fn reset_stats(&mut self, now: Ns) {
        self.stats = Stats::default();
        self.dies.iter_mut().for_each(|die| die.busy_since = now);
        self.standstill.reset_counters();
        self.mapping.reset_counts();
        if let Some(cleaning) = &mut self.row_cleaning {
            cleaning.moved_granules = 0;
        }
    }
}
