//! `sinew torture`: run the engine under the simulator, many seeds.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use sinew_sim::torture::{Outcome, Plan, run as run_plan};

use crate::out::say;

static RUNNING: AtomicBool = AtomicBool::new(false);

/// Whether a panic is one of the simulated engine's, which is reported and not fatal.
pub(crate) fn expects_panics() -> bool {
    RUNNING.load(Ordering::Relaxed)
}

/// Runs the engine in a simulated world of faulty devices and crashes, one world per seed, and checks every answer.
#[derive(Args)]
pub(crate) struct TortureArgs {
    /// Seeds to run.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// One seed; shows its plan and runs it twice to compare the traces.
    #[arg(long, conflicts_with_all = ["seeds", "from", "file"])]
    seed: Option<u64>,
    /// Run the seeds in this file instead: one per line, `#` begins a comment.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Run every seed twice and compare the traces.
    #[arg(long)]
    twice: bool,
    /// Fail also when a path of the engine, a fault or an act of an operator was not reached by any seed.
    #[arg(long)]
    every_path: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Default)]
struct Totals {
    failures: Vec<String>,
    reached: BTreeMap<&'static str, u64>,
    requests: u64,
}

/// Runs the command.
pub(crate) fn run(args: TortureArgs) -> Result<()> {
    RUNNING.store(true, Ordering::Relaxed);
    let seeds = match (args.seed, &args.file) {
        (Some(seed), _) => {
            say!("{:#?}", Plan::draw(seed));
            vec![seed]
        }
        (None, Some(path)) => read_seeds(path)?,
        (None, None) => (args.from..args.from + args.seeds).collect(),
    };
    let twice = args.twice || args.seed.is_some();
    let totals = run_all(&seeds, twice);
    let failed = totals.failures.len();
    if args.json {
        say!(
            "{:#}",
            json!({
                "seeds": seeds.len(), "failed": totals.failures, "requests": totals.requests,
                "reached": totals.reached,
            })
        );
    } else {
        say!("{} seeds, {failed} failed; {} requests", seeds.len(), totals.requests);
        for (name, count) in &totals.reached {
            say!("  {name:<28} {count}");
        }
    }
    let missed: Vec<&str> = totals.reached.iter().filter(|(_, n)| **n == 0).map(|(name, _)| *name).collect();
    if args.every_path && !missed.is_empty() {
        bail!("these seeds never reached: {}", missed.join(", "));
    }
    if failed > 0 { bail!("{failed} of {} seeds failed", seeds.len()) } else { Ok(()) }
}

fn read_seeds(path: &PathBuf) -> Result<Vec<u64>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines =
        text.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|line| !line.is_empty());
    lines.map(|line| line.parse().with_context(|| format!("{line} is not a seed"))).collect()
}

/// Runs all seeds on all cores.
fn run_all(seeds: &[u64], twice: bool) -> Totals {
    let next = AtomicU64::new(0);
    let totals = Mutex::new(Totals::default());
    let bar = ProgressBar::new(seeds.len() as u64);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let result = run_seed(seed, twice);
                    let mut totals = totals.lock().expect("no panic while held");
                    match result {
                        Ok(outcome) => {
                            for (name, count) in outcome.reached {
                                *totals.reached.entry(name).or_default() += count;
                            }
                            totals.requests += outcome.requests;
                        }
                        Err(what) => {
                            bar.suspend(|| {
                                eprintln!("{what}\n  to see it again: sinew torture --seed {seed}")
                            });
                            totals.failures.push(what);
                        }
                    }
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    totals.into_inner().expect("no panic while held")
}

fn run_seed(seed: u64, twice: bool) -> Result<Outcome, String> {
    let once = || match catch_unwind(|| run_plan(&Plan::draw(seed))) {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(failure)) => Err(failure.to_string()),
        Err(_) => Err(format!("seed {seed} panicked")),
    };
    let outcome = once()?;
    if twice && once()?.trace_hash != outcome.trace_hash {
        return Err(format!("seed {seed} does not repeat: two runs have different traces"));
    }
    Ok(outcome)
}
