//! Many runs, several at a time, each on a thread of its own. Which thread has which run decides nothing.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::cache::Cache;
use crate::members::AgedDrives;
use crate::plan::{Plan, Run, Subject};
use crate::results::{Figures, Results, RunResult, SCHEMA};
use crate::{Error, Result, growth, reference, run};

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Runs at a time, at least 1.
    pub threads: usize,
    /// Where to look for results and to keep them.
    pub cache: Option<PathBuf>,
}

/// What is going on in a run.
#[derive(Clone, Debug)]
pub struct Step {
    /// The run's place in the plan.
    pub run: usize,
    /// What it is doing.
    pub doing: &'static str,
    /// How far it is with that, from 0 to 1.
    pub part: f64,
}

/// Told what is going on, from any thread.
pub type Observer = Arc<dyn Fn(Step) + Send + Sync>;

/// What came of a plan.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The results.
    pub results: Results,
    /// Runs whose results were kept from earlier.
    pub cached: usize,
    /// Requests that members of the other runs were asked for, from the first to the last.
    pub member_requests: u64,
}

/// A run that is done.
#[derive(Clone)]
struct Done {
    figures: Figures,
    /// What it took; nothing when it was kept from earlier.
    member_requests: Option<u64>,
}

/// Runs a plan.
///
/// # Errors
/// The first that a run meets; runs that have not begun are left out then.
pub fn execute(plan: &Plan, options: &Options, observer: &Observer) -> Result<Outcome> {
    let cache = options.cache.clone().map(Cache::new).transpose()?;
    // For one run they would only take memory.
    let aged = (plan.runs.len() > 1).then(AgedDrives::default);
    let next = AtomicUsize::new(0);
    let (done, failure) = (Mutex::new(vec![None; plan.runs.len()]), Mutex::new(None));
    let work = || {
        while failure.lock().expect("no panic while held").is_none() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= plan.runs.len() {
                return;
            }
            match one(plan, number, cache.as_ref(), aged.as_ref(), observer) {
                Ok(run) => done.lock().expect("no panic while held")[number] = Some(run),
                Err(error) => {
                    failure.lock().expect("no panic while held").get_or_insert(error);
                }
            }
        }
    };
    // Runs that take the time would disturb each other.
    let threads_max = if plan.runs.iter().any(|run| run.subject.is_timed()) { 1 } else { plan.runs.len() };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.clamp(1, threads_max) {
            scope.spawn(work);
        }
    });
    if let Some(error) = failure.into_inner().expect("no panic while held") {
        return Err(error);
    }
    let done = done.into_inner().expect("no panic while held");
    let taken = || done.iter().flatten().filter_map(|done: &Done| done.member_requests);
    let (cached, member_requests) = (plan.runs.len() - taken().count(), taken().sum());
    let result = |(run, done): (&Run, Option<Done>)| RunResult {
        case: run.case.clone(),
        settings: run.settings.clone(),
        seed: run.seed,
        figures: done.expect("nothing failed").figures,
    };
    let runs: Vec<_> = plan.runs.iter().zip(done.clone()).map(result).collect();
    let results = Results {
        schema: SCHEMA,
        experiment: plan.name.clone(),
        description: plan.description.clone(),
        quick: plan.quick,
        references: reference::compare(&plan.references, &runs)?,
        runs,
        file: plan.text.clone(),
    };
    Ok(Outcome { results, cached, member_requests })
}

fn one(
    plan: &Plan,
    number: usize,
    cache: Option<&Cache>,
    aged: Option<&AgedDrives>,
    observer: &Observer,
) -> Result<Done> {
    let run = &plan.runs[number];
    let cache = cache.filter(|_| !run.subject.is_timed());
    let place = cache.map(|cache| cache.place(run, &plan.base)).transpose()?;
    if let (Some(cache), Some(place)) = (cache, &place)
        && let Some(figures) = cache.get(place)
    {
        observer(Step { run: number, doing: "kept from earlier", part: 1.0 });
        return Ok(Done { figures, member_requests: None });
    }
    let observer = Arc::clone(observer);
    let progress: run::Progress = Arc::new(move |doing, part| observer(Step { run: number, doing, part }));
    let ran = match &run.subject {
        Subject::Simulation(spec) => run::run(spec, run.seed, &plan.base, aged, &progress)
            .map(|(figures, requests)| (Figures::Simulated(Box::new(figures)), requests)),
        Subject::Growth(spec) => {
            growth::run(spec, &*progress).map(|growth| (Figures::Growth { growth: Box::new(growth) }, 0))
        }
    };
    let ran = ran.map_err(|source| {
        let seed = run.seed;
        let run = match crate::settings::describe(&run.settings) {
            settings if settings.is_empty() => format!("seed {seed}"),
            settings => format!("{settings}, seed {seed}"),
        };
        Error::Run { run, source: Box::new(source) }
    });
    let (figures, member_requests) = ran?;
    if let (Some(cache), Some(place)) = (cache, &place) {
        cache.put(place, &figures)?;
    }
    Ok(Done { figures, member_requests: Some(member_requests) })
}
