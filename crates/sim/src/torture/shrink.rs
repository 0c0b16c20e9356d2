//! Shrinking: makes a failing plan smaller, as long as it fails in the same way.
//!
//! Greedy, in rounds. First every setting is tried with smaller values, those that make a run much shorter before the
//! others. Then troubles, and then requests, are left out: halves of them, quarters, and so on down to single ones
//! (A. Zeller, R. Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE TSE 2002, section 3, without its
//! complements). Every trouble and every request draws from a stream of its own, so leaving one out changes no other, though
//! the state in which they happen may change. A round that changes nothing is the last.

use super::failure::Failure;
use super::plan::{Numbers, Plan};
use super::run::run;

/// A failing plan that has been shrunk.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest plan found that fails in the same way, and its failure.
    pub failure: Failure,
    /// Number of runs.
    pub runs: u64,
}

struct Shrinker<F> {
    best: Failure,
    runs: u64,
    runs_max: u64,
    told: F,
}

/// Shrinks a failure, by at most `runs_max` runs. `told` is called after every run, with their number and the best failure so
/// far.
pub fn shrink(found: &Failure, runs_max: u64, told: impl FnMut(u64, &Failure)) -> Shrunk {
    let mut shrinker = Shrinker { best: found.clone(), runs: 0, runs_max, told };
    loop {
        let smaller_settings = shrinker.shrink_settings();
        let fewer_troubles = shrinker.leave_out(
            |best| best.troubles,
            |plan| &plan.skip_troubles,
            |plan, numbers| plan.skip_troubles = numbers,
        );
        let fewer_requests = shrinker.leave_out(
            |best| best.plan.request_count(),
            |plan| &plan.skip_requests,
            |plan, numbers| plan.skip_requests = numbers,
        );
        let progress = smaller_settings || fewer_troubles || fewer_requests;
        if !progress || shrinker.runs == shrinker.runs_max {
            return Shrunk { failure: shrinker.best, runs: shrinker.runs };
        }
    }
}

impl<F: FnMut(u64, &Failure)> Shrinker<F> {
    /// Runs a plan, and keeps it as the best one if it fails in the same way. Returns false when no runs are left.
    fn is_better(&mut self, plan: &Plan) -> bool {
        if self.runs == self.runs_max {
            return false;
        }
        self.runs += 1;
        let better = run(plan).err().filter(|failure| failure.is_like(&self.best));
        let found = better.is_some();
        if let Some(better) = better {
            self.best = better;
        }
        (self.told)(self.runs, &self.best);
        found
    }

    /// Tries smaller settings, one after the other; after a success, those of the same setting again.
    fn shrink_settings(&mut self) -> bool {
        let mut progress = false;
        let mut at = 0;
        let mut plans = self.best.plan.smaller();
        while let Some(plan) = plans.get(at)
            && self.runs < self.runs_max
        {
            if self.is_better(&plan.clone()) {
                progress = true;
                plans = self.best.plan.smaller();
            } else {
                at += 1;
            }
        }
        progress
    }

    /// Leaves out as many as possible of `count` numbered events.
    fn leave_out(
        &mut self,
        count: impl Fn(&Failure) -> u64,
        get: impl Fn(&Plan) -> &Numbers,
        set: impl Fn(&mut Plan, Numbers),
    ) -> bool {
        let skipped = get(&self.best.plan).clone();
        let mut left: Vec<u64> = (0..count(&self.best)).filter(|&number| !skipped.contains(number)).collect();
        let mut size = left.len().div_ceil(2);
        let mut progress = false;
        while size > 0 && self.runs < self.runs_max {
            // From the end: events after the cause of the failure go first, all at once.
            let mut end = left.len();
            while end > 0 {
                let start = end.saturating_sub(size);
                let mut plan = Plan::clone(&self.best.plan);
                let numbers = get(&plan).with(&left[start..end]);
                set(&mut plan, numbers);
                if self.is_better(&plan) {
                    progress = true;
                    left.drain(start..end);
                }
                end = start;
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        progress
    }
}
