//! `sinew torture`: run the engine under the simulator, many seeds.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use sinew_sim::torture::{Failure, Outcome, Plan, run_logged, shrink};

use crate::out::{complain, say};

static RUNNING: AtomicBool = AtomicBool::new(false);

/// Whether a panic is one of the simulated engine's, which is reported as what it is and not fatal.
pub(crate) fn expects_panics() -> bool {
    RUNNING.load(Ordering::Relaxed)
}

/// Test of the engine in simulated worlds of faults and crashes.
///
/// A seed stands for one world; every answer of the engine is checked.
///
/// The manual is docs/torture.md.
#[derive(Args)]
pub(crate) struct TortureArgs {
    /// Seeds to run: 100, or with --file none besides those in it.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// One seed; runs it twice to compare the traces.
    #[arg(long, conflicts_with_all = ["seeds", "from", "file"])]
    seed: Option<u64>,
    /// Run the seeds in this file: one per line, with `name=value` for settings that are other than drawn; `#`
    /// begins a comment. May be given several times.
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// Play with this setting other than drawn. May be given several times; --show-plan lists the settings.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Show the plan of the seed and do not play it.
    #[arg(long, requires = "seed")]
    show_plan: bool,
    /// Find a short run that fails in the same way as this seed does.
    #[arg(long, requires = "seed", conflicts_with = "show_plan")]
    shrink: bool,
    /// Runs that shrinking may take.
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "shrink")]
    shrink_runs: u64,
    /// Lines of the log before a seed failed that are shown.
    #[arg(long, value_name = "LINES", default_value_t = 40, requires = "seed")]
    last: usize,
    /// Run every seed twice and compare the traces.
    #[arg(long)]
    twice: bool,
    /// Fail also when a path of the engine, a fault or an act of an operator was not reached by any seed.
    #[arg(long)]
    every_path: bool,
    /// Write to this file a few of these seeds that reach, together with those of the files, all that was reached: each path
    /// by two seeds, where two reach it.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["show_plan", "shrink"])]
    cover: Option<PathBuf>,
    /// Write a line for each seed to this file: the seed and the hash of its trace, which two versions of the engine
    /// share when they made the same requests to members at the same times.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["show_plan", "shrink"])]
    trace_hashes: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// The paths that a plan reached.
struct Reached {
    /// Its place in the list.
    index: usize,
    /// Requests to members, which tell how long the run takes.
    member_requests: u64,
    paths: Vec<&'static str>,
}

#[derive(Default)]
struct Totals {
    failures: Vec<Failure>,
    /// For each plan that passed its place in the list and the hash of its trace.
    hashes: Vec<(usize, u64)>,
    /// For each plan that passed its place in the list, the requests to members, and the paths that it reached.
    paths: Vec<Reached>,
    reached: BTreeMap<&'static str, u64>,
    requests: u64,
    member_requests: u64,
}

/// Runs the command.
///
/// # Errors
/// When a seed failed, or a file of seeds or a setting makes no sense.
pub(crate) fn run(args: TortureArgs) -> Result<()> {
    RUNNING.store(true, Ordering::Relaxed);
    let mut plans = Vec::new();
    for path in &args.file {
        plans.extend(read_plans(path)?);
    }
    let kept = plans.len();
    match args.seed {
        Some(seed) => plans.push(Plan::draw(seed)),
        None => {
            let seeds = args.seeds.unwrap_or(if args.file.is_empty() { 100 } else { 0 });
            plans.extend((args.from..args.from + seeds).map(Plan::draw));
        }
    }
    for plan in &mut plans {
        args.set.iter().try_for_each(|text| set(plan, text))?;
    }
    let kept = plans[..kept].iter().filter(|plan| plan.check().is_ok()).count();
    let plans = skip_impossible(plans, args.set.is_empty())?;
    if args.show_plan {
        return show_plan(&plans[0], args.json);
    }
    if args.shrink {
        return shrink_plan(&plans[0], &args);
    }
    let lines = if args.seed.is_some() { args.last } else { 0 };
    let totals = run_all(&plans, args.twice || args.seed.is_some(), lines);
    if let Some(path) = &args.trace_hashes {
        write_hashes(path, &plans, &totals)?;
    }
    if let Some(path) = &args.cover {
        write_cover(path, &plans, &totals, kept)?;
    }
    report(&plans, &totals, args.json);
    let missed: Vec<&str> = totals.reached.iter().filter(|(_, n)| **n == 0).map(|(name, _)| *name).collect();
    if args.every_path && !missed.is_empty() {
        bail!("these seeds never reached: {}", missed.join(", "));
    }
    match totals.failures.len() {
        0 => Ok(()),
        failed => bail!("{failed} of {} seeds failed", plans.len()),
    }
}

/// Skips plans that settings have made impossible. Without settings (`as_given`) an impossible plan is an error, and so it is when
/// all are impossible.
fn skip_impossible(plans: Vec<Plan>, as_given: bool) -> Result<Vec<Plan>> {
    let all = plans.len();
    let mut first = None;
    let mut possible = Vec::with_capacity(all);
    for plan in plans {
        match plan.check() {
            Ok(()) => possible.push(plan),
            Err(why) => drop(first.get_or_insert_with(|| anyhow!("seed {}: {why}", plan.seed))),
        }
    }
    match first {
        Some(why) if as_given || possible.is_empty() => Err(why),
        Some(why) => {
            complain!(
                "{} of {all} plans are skipped, impossible with these settings: {why}",
                all - possible.len()
            );
            Ok(possible)
        }
        None => Ok(possible),
    }
}

fn set(plan: &mut Plan, text: &str) -> Result<()> {
    let (name, value) = text.split_once('=').with_context(|| format!("{text} is not NAME=VALUE"))?;
    plan.set(name.trim(), value.trim()).map_err(|why| anyhow!(why))
}

fn read_plans(path: &PathBuf) -> Result<Vec<Plan>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    lines.filter(|line| !line.is_empty()).map(read_plan).collect()
}

fn read_plan(line: &str) -> Result<Plan> {
    let mut words = line.split_whitespace();
    let seed = words.next().and_then(|word| word.parse().ok());
    let mut plan = Plan::draw(seed.with_context(|| format!("{line} does not begin with a seed"))?);
    words.try_for_each(|word| set(&mut plan, word))?;
    Ok(plan)
}

fn show_plan(plan: &Plan, as_json: bool) -> Result<()> {
    let overrides = plan.overrides();
    let settings = plan.settings();
    if as_json {
        let map: serde_json::Map<_, _> =
            settings.iter().map(|s| (s.name.to_owned(), json!(s.value))).collect();
        say!("{:#}", json!({ "seed": plan.seed, "settings": map, "set": overrides }));
        return Ok(());
    }
    for setting in settings {
        let is_set = overrides.iter().any(|text| text.starts_with(&format!("{}=", setting.name)));
        say!("# {}{}", setting.doc, if is_set { " (not as drawn)" } else { "" });
        say!("{}={}", setting.name, setting.value);
    }
    say!("\n{}", plan.command());
    Ok(())
}

fn shrink_plan(plan: &Plan, args: &TortureArgs) -> Result<()> {
    // The panics of a thousand runs tell nothing that the last one does not.
    std::panic::set_hook(Box::new(|_| ()));
    let Err(found) = run_logged(plan, 0) else {
        bail!("seed {} does not fail, so there is nothing to shrink", plan.seed);
    };
    let bar = ProgressBar::new(args.shrink_runs);
    let shrunk = shrink(&found, args.shrink_runs, |runs, _| bar.set_position(runs));
    bar.finish_and_clear();
    let log = run_logged(&shrunk.failure.plan, args.last).err().map_or(Vec::new(), |failure| failure.log);
    let command = shrunk.failure.plan.command();
    if args.json {
        let (found, shrunk_to) = (found.to_string(), shrunk.failure.to_string());
        let value = json!({ "found": found, "shrunk_to": shrunk_to, "runs": shrunk.runs, "command": command, "last": log });
        say!("{value:#}");
    } else {
        say!("{found}");
        say!("shrunk by {} runs; what happened last:", shrunk.runs);
        log.iter().for_each(|line| say!("{line}"));
        say!("{}", shrunk.failure);
        say!("  to see it again: {command}");
    }
    bail!("seed {} failed", plan.seed)
}

fn write_hashes(path: &PathBuf, plans: &[Plan], totals: &Totals) -> Result<()> {
    let mut hashes = totals.hashes.clone();
    hashes.sort_unstable();
    let lines = hashes.iter().map(|&(index, hash)| format!("{} {hash:016x}\n", plans[index].seed));
    std::fs::write(path, lines.collect::<String>())
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Writes seeds as [`cover`] chooses them.
fn write_cover(path: &PathBuf, plans: &[Plan], totals: &Totals, kept: usize) -> Result<()> {
    let lines = cover(&totals.paths, kept).into_iter().map(|index| {
        let plan = &plans[index];
        std::iter::once(plan.seed.to_string()).chain(plan.overrides()).collect::<Vec<_>>().join(" ") + "\n"
    });
    let head = "# Seeds that together take every path of the engine. Written by `cargo xtask paths`.\n";
    std::fs::write(path, head.to_owned() + &lines.collect::<String>())
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The places in the list of a few plans that reach, together with the first `kept`, each path twice, or once where one plan
/// alone reaches it: each time the plan is taken that reaches most for its requests.
fn cover(reached: &[Reached], kept: usize) -> Vec<usize> {
    let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
    for path in reached.iter().flat_map(|plan| &plan.paths) {
        let times = wanted.entry(path).or_default();
        *times = (*times + 1).min(2);
    }
    let (known, mut left): (Vec<&Reached>, Vec<&Reached>) =
        reached.iter().partition(|plan| plan.index < kept);
    let take = |wanted: &mut BTreeMap<&str, usize>, plan: &Reached| {
        for path in &plan.paths {
            wanted.entry(path).and_modify(|times| *times = times.saturating_sub(1));
        }
    };
    known.into_iter().for_each(|plan| take(&mut wanted, plan));
    left.sort_by_key(|plan| plan.index);
    let mut chosen = Vec::new();
    while wanted.values().any(|times| *times > 0) {
        let worth = |plan: &Reached| {
            let new = plan.paths.iter().filter(|path| wanted[*path] > 0).count();
            new as f64 / (1000 + plan.member_requests) as f64
        };
        let by_worth = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0));
        let best = left.iter().map(|plan| worth(plan)).enumerate().max_by(by_worth);
        let plan = left.remove(best.expect("a wanted path is reached by a plan that is left").0);
        take(&mut wanted, plan);
        chosen.push(plan.index);
    }
    chosen.sort_unstable();
    chosen
}

fn report(plans: &[Plan], totals: &Totals, as_json: bool) {
    if as_json {
        let failed: Vec<_> = totals
            .failures
            .iter()
            .map(|f| json!({ "seed": f.plan.seed, "what": f.to_string(), "command": f.plan.command(), "last": f.log }))
            .collect();
        let value = json!({
            "seeds": plans.len(),
            "failed": failed,
            "requests": totals.requests,
            "member_requests": totals.member_requests,
            "reached": totals.reached,
        });
        say!("{value:#}");
        return;
    }
    let Totals { failures, requests, member_requests, .. } = totals;
    let seeds = format!("{} seeds, {} failed", plans.len(), failures.len());
    say!("{seeds}; {requests} requests of clients, {member_requests} to members");
    for (name, count) in &totals.reached {
        say!("  {name:<28} {count}");
    }
}

/// Runs all plans on all cores.
fn run_all(plans: &[Plan], twice: bool, lines: usize) -> Totals {
    let next = AtomicU64::new(0);
    let totals = Mutex::new(Totals::default());
    let bar = ProgressBar::new(plans.len() as u64);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed) as usize;
                    let Some(plan) = plans.get(index) else { return };
                    let result = run_plan(plan, twice, lines);
                    let mut totals = totals.lock().expect("no panic while held");
                    match result {
                        Ok(outcome) => {
                            let paths =
                                outcome.reached.iter().filter(|(_, n)| **n > 0).map(|(name, _)| *name);
                            totals.paths.push(Reached {
                                index,
                                member_requests: outcome.member_requests,
                                paths: paths.collect(),
                            });
                            for (name, count) in outcome.reached {
                                *totals.reached.entry(name).or_default() += count;
                            }
                            totals.hashes.push((index, outcome.trace_hash));
                            totals.requests += outcome.requests;
                            totals.member_requests += outcome.member_requests;
                        }
                        Err(failure) => {
                            bar.suspend(|| {
                                failure.log.iter().for_each(|line| eprintln!("{line}"));
                                eprintln!("{failure}\n  to see it again: {}", plan.command());
                            });
                            totals.failures.push(failure);
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

fn run_plan(plan: &Plan, twice: bool, lines: usize) -> Result<Outcome, Failure> {
    let outcome = run_logged(plan, lines)?;
    match twice.then(|| run_logged(plan, lines)).transpose()? {
        Some(again) if again.trace_hash != outcome.trace_hash => Err(Failure::not_repeated(plan)),
        _ => Ok(outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(index: usize, member_requests: u64, paths: &[&'static str]) -> Reached {
        Reached { index, member_requests, paths: paths.to_vec() }
    }

    #[test]
    fn a_cover_reaches_each_path_twice_where_it_can() {
        let reached = [
            plan(3, 10, &["rare"]),
            plan(0, 10, &["common"]),
            plan(1, 9_000, &["common", "twice"]),
            plan(2, 10, &["common", "twice"]),
            plan(4, 10, &["common"]),
        ];
        // The first is kept anyway; the long one is needed, for a second plan that takes its path.
        assert_eq!(cover(&reached, 1), [1, 2, 3]);
        assert_eq!(cover(&reached, 0), [0, 1, 2, 3]);
        assert!(cover(&reached[1..2], 1).is_empty());
    }
}
