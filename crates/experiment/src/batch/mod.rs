//! The runs of a plan on several threads, each run on one thread. Results do not depend on the assignment of runs to threads.

mod cache;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::batch::cache::Cache;
use crate::file::overrides;
use crate::plan::{Plan, Run, Subject};
use crate::progress::Progress;
use crate::results::schema::{Figures, Results, RunResult, SCHEMA};
use crate::results::{comparison, pairs};
use crate::run::{capacity, growth_arithmetic, reliability_arithmetic, simulation};
use crate::system::members::AgedDrives;
use crate::{Error, Result};

/// How to execute a plan.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of runs at a time, at least 1.
    pub threads: usize,
    /// The directory of cached results, if results are to be cached.
    pub cache: Option<PathBuf>,
}

/// A progress report of a run.
#[derive(Clone, Debug)]
pub struct Step {
    /// The index of the run in the plan.
    pub run: usize,
    /// The phase that the run is in.
    pub doing: &'static str,
    /// The fraction of the phase that is done, from 0 to 1.
    pub part: f64,
}

/// Called with progress reports, from any thread.
pub type Observer = Arc<dyn Fn(Step) + Send + Sync>;

/// The outcome of a plan.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The results.
    pub results: Results,
    /// The number of runs whose results came from the cache.
    pub cached: usize,
    /// The number of requests to members in all other runs, over their whole length.
    pub member_requests: u64,
}

/// A completed run.
#[derive(Clone)]
struct Completed {
    figures: Figures,
    /// The requests to members; nothing if the figures came from the cache.
    member_requests: Option<u64>,
}

/// Executes a plan.
///
/// # Errors
/// The first error of a run, after which no further run begins; an error of the cache; and [`Error::Setting`] if a published
/// figure or a ratio names a figure that no run has.
pub fn execute(plan: &Plan, options: &Options, observer: &Observer) -> Result<Outcome> {
    let cache = options.cache.clone().map(Cache::new).transpose()?;
    // A single run gains nothing from kept drives, which take gigabytes.
    let aged = (plan.runs.len() > 1).then(AgedDrives::default);
    let executor = Executor { plan, cache: cache.as_ref(), aged: aged.as_ref(), observer };
    // Runs with equal seeds follow each other, since they may have the same drives.
    let mut order: Vec<usize> = (0..plan.runs.len()).collect();
    order.sort_by_key(|&index| plan.runs[index].seed);
    let next = AtomicUsize::new(0);
    let (completed, failure) = (Mutex::new(vec![None; plan.runs.len()]), Mutex::new(None));
    let work = || {
        while failure.lock().expect("no panic while held").is_none() {
            let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            match executor.run(index) {
                Ok(run) => completed.lock().expect("no panic while held")[index] = Some(run),
                Err(error) => {
                    failure.lock().expect("no panic while held").get_or_insert(error);
                }
            }
        }
    };
    // Parallel runs would disturb each other's times of this machine.
    let threads_max = if plan.runs.iter().any(|run| run.subject.is_timed()) { 1 } else { plan.runs.len() };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.clamp(1, threads_max) {
            scope.spawn(work);
        }
    });
    if let Some(error) = failure.into_inner().expect("no panic while held") {
        return Err(error);
    }
    let completed = completed.into_inner().expect("no panic while held");
    outcome(plan, completed.into_iter().map(|run| run.expect("no run failed")).collect())
}

fn outcome(plan: &Plan, completed: Vec<Completed>) -> Result<Outcome> {
    let executed = || completed.iter().filter_map(|run| run.member_requests);
    let (cached, member_requests) = (completed.len() - executed().count(), executed().sum());
    let result = |(run, completed): (&Run, Completed)| RunResult {
        case: run.case.clone(),
        settings: run.settings.clone(),
        seed: run.seed,
        figures: completed.figures,
    };
    let runs: Vec<_> = plan.runs.iter().zip(completed).map(result).collect();
    let results = Results {
        schema: SCHEMA,
        experiment: plan.name.clone(),
        description: plan.description.clone(),
        quick: plan.quick,
        references: comparison::compare(&plan.references, &runs, plan.quick)?,
        ratios: pairs::ratios(&plan.ratios, &runs, plan.quick)?,
        runs,
        file: plan.text.clone(),
    };
    Ok(Outcome { results, cached, member_requests })
}

/// What the threads share.
struct Executor<'a> {
    plan: &'a Plan,
    cache: Option<&'a Cache>,
    aged: Option<&'a AgedDrives>,
    observer: &'a Observer,
}

impl Executor<'_> {
    /// Takes the result of a run from the cache, or executes the run and caches its result.
    fn run(&self, index: usize) -> Result<Completed> {
        let run = &self.plan.runs[index];
        let cache = self.cache.filter(|_| !run.subject.is_timed());
        let entry = cache.map(|cache| cache.entry(run, &self.plan.base)).transpose()?;
        if let (Some(cache), Some(entry)) = (cache, &entry)
            && let Some(figures) = cache.get(entry)
        {
            (self.observer)(Step { run: index, doing: "kept from earlier", part: 1.0 });
            return Ok(Completed { figures, member_requests: None });
        }
        let observer = Arc::clone(self.observer);
        let progress: Progress = Arc::new(move |doing, part| observer(Step { run: index, doing, part }));
        let executed = match &run.subject {
            Subject::Simulation(spec) => {
                let (base, aged) = (self.plan.base.as_path(), self.aged);
                let simulated = match &spec.capacity {
                    Some(search) => capacity::run(spec, search, run.seed, base, aged, &progress),
                    None => simulation::run(spec, run.seed, base, aged, &progress),
                };
                simulated.map(|ran| (Figures::Simulated(Box::new(ran.figures)), ran.member_requests))
            }
            Subject::Growth(spec) => growth_arithmetic::run(spec, &progress)
                .map(|growth| (Figures::Growth { growth: Box::new(growth) }, 0)),
            Subject::Reliability(spec) => reliability_arithmetic::run(spec, run.seed, &progress)
                .map(|figures| (Figures::Reliability { reliability: Box::new(figures) }, 0)),
        };
        let (figures, member_requests) =
            executed.map_err(|source| Error::Run { run: name_of(run), source: Box::new(source) })?;
        if let (Some(cache), Some(entry)) = (cache, &entry) {
            cache.put(entry, &figures)?;
        }
        Ok(Completed { figures, member_requests: Some(member_requests) })
    }
}

/// The case, the swept values and the seed of a run, for people.
fn name_of(run: &Run) -> String {
    let swept = Some(overrides::describe(&run.settings)).filter(|swept| !swept.is_empty());
    let parts = run.case.clone().into_iter().chain(swept).chain([format!("seed {}", run.seed)]);
    parts.collect::<Vec<_>>().join(", ")
}
