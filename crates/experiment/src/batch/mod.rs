//! The runs of a plan on several threads, each run on one thread. Results do not depend on the assignment of runs to threads.

mod cache;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::batch::cache::Cache;
use crate::file::overrides;
use crate::plan::{LoadShare, Plan, Run, Subject};
use crate::progress::Progress;
use crate::results::capacity::LoadShareResult;
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
    /// The index of the run among the searches of the plan and, after them, its runs.
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
    let aged = (plan.executions() > 1).then(AgedDrives::default);
    let executor = Executor {
        base: &plan.base,
        cache: cache.as_ref(),
        aged: aged.as_ref(),
        observer,
        threads: options.threads,
    };
    let searched = executor.run_all(&plan.searches, 0)?;
    let load = |run: &Run| run.load.as_ref().map(|load| load_of(load, plan, &searched)).transpose();
    let loads = plan.runs.iter().map(load).collect::<Result<Vec<_>>>()?;
    let runs: Vec<Run> =
        plan.runs.iter().zip(&loads).map(|(run, load)| at_load(run, load.as_ref())).collect();
    let mut completed = executor.run_all(&runs, plan.searches.len())?;
    for (run, load) in completed.iter_mut().zip(loads) {
        if let Figures::Simulated(figures) = &mut run.figures {
            figures.load_share = load;
        }
    }
    outcome(plan, &searched, completed)
}

/// The load that is a share of the lowest capacity found.
fn load_of(load: &LoadShare, plan: &Plan, searched: &[Completed]) -> Result<LoadShareResult> {
    let mut capacities = BTreeMap::new();
    for &index in &load.searches {
        let run = &plan.searches[index];
        let capacity =
            searched[index].figures.simulated().and_then(|figures| figures.capacity.as_ref()?.speed);
        let Some(speed) = capacity else {
            let why = format!("{} serves no speed that was tried: begin at a lower one", name_of(run));
            return Err(Error::setting("capacity.from", why));
        };
        capacities.insert(run.case.clone().unwrap_or_default(), speed);
    }
    let lowest = capacities.values().copied().fold(f64::INFINITY, f64::min);
    Ok(LoadShareResult { share: load.share, speed: load.share * lowest, capacities })
}

/// The run at its load, without a search of its own.
fn at_load(run: &Run, load: Option<&LoadShareResult>) -> Run {
    let mut run = run.clone();
    if let (Subject::Simulation(spec), Some(load)) = (&mut run.subject, load) {
        spec.capacity = None;
        spec.workload.speed = Some(load.speed);
    }
    run
}

fn outcome(plan: &Plan, searched: &[Completed], completed: Vec<Completed>) -> Result<Outcome> {
    let executed = || searched.iter().chain(&completed).filter_map(|run| run.member_requests);
    let cached = searched.len() + completed.len() - executed().count();
    let member_requests = executed().sum();
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
    base: &'a Path,
    cache: Option<&'a Cache>,
    aged: Option<&'a AgedDrives>,
    observer: &'a Observer,
    threads: usize,
}

impl Executor<'_> {
    /// Executes runs, the first of which has the number `first`.
    fn run_all(&self, runs: &[Run], first: usize) -> Result<Vec<Completed>> {
        // Runs with equal seeds follow each other, since they may have the same drives.
        let mut order: Vec<usize> = (0..runs.len()).collect();
        order.sort_by_key(|&index| runs[index].seed);
        let next = AtomicUsize::new(0);
        let (completed, failure) = (Mutex::new(vec![None; runs.len()]), Mutex::new(None));
        let work = || {
            while failure.lock().expect("no panic while held").is_none() {
                let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                match self.run(&runs[index], first + index) {
                    Ok(run) => completed.lock().expect("no panic while held")[index] = Some(run),
                    Err(error) => {
                        failure.lock().expect("no panic while held").get_or_insert(error);
                    }
                }
            }
        };
        // Parallel runs would disturb each other's times of this machine.
        let threads_max = if runs.iter().any(|run| run.subject.is_timed()) { 1 } else { runs.len() };
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1).min(threads_max) {
                scope.spawn(work);
            }
        });
        if let Some(error) = failure.into_inner().expect("no panic while held") {
            return Err(error);
        }
        let completed = completed.into_inner().expect("no panic while held");
        Ok(completed.into_iter().map(|run| run.expect("no run failed")).collect())
    }

    /// Takes the result of a run from the cache, or executes the run and caches its result.
    fn run(&self, run: &Run, index: usize) -> Result<Completed> {
        let cache = self.cache.filter(|_| !run.subject.is_timed());
        let entry = cache.map(|cache| cache.entry(run, self.base)).transpose()?;
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
                let (base, aged) = (self.base, self.aged);
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
