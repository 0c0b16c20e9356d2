//! `sinew experiment`: declared runs of the engine on simulated members, and of arrays that grow.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use sinew_experiment::batch::{self, Observer, Options, Step};
use sinew_experiment::named::{self, Named};
use sinew_experiment::plan::Plan;
use sinew_experiment::results::{Comparison, Ratio, Results};
use sinew_experiment::{report, terminal};

use crate::out::say;

/// Experiments on simulated SSDs and disks, described in a file.
#[derive(Args)]
pub(crate) struct ExperimentArgs {
    #[command(subcommand)]
    command: ExperimentCommand,
}

#[derive(Subcommand)]
enum ExperimentCommand {
    Run(RunArgs),
    List(ListArgs),
    Show(ShowArgs),
}

/// Runs an experiment and tells what came out.
///
/// Everything is simulated or counted: equal files and seeds give equal results, to the byte, on any machine. Only times
/// of addressing, where a file asks for them, are taken on this one.
#[derive(Args)]
struct RunArgs {
    /// A file, or the name of an experiment that ships with the program.
    #[arg(value_name = "FILE|NAME")]
    experiment: String,
    /// Run what the file says for a quick look, with the first seed only.
    #[arg(long)]
    quick: bool,
    /// Fail if a figure lies outside the band that the file states for it.
    #[arg(long)]
    check: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Write a report with plots, one page of HTML, to this file.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Runs at a time; by default one for each core.
    #[arg(long)]
    threads: Option<usize>,
    /// Where results are kept, so that equal runs of the same program are not run again.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Keep nothing and use nothing that was kept.
    #[arg(long, conflicts_with = "cache")]
    no_cache: bool,
}

/// Lists the experiments that ship with the program.
#[derive(Args)]
struct ListArgs {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Shows the file of an experiment that ships with the program.
#[derive(Args)]
struct ShowArgs {
    /// Its name.
    name: String,
}

/// Runs the command.
///
/// # Errors
/// When the file cannot be read or describes nothing that can be run, or the results cannot be written.
pub(crate) fn run(args: ExperimentArgs) -> Result<()> {
    match args.command {
        ExperimentCommand::Run(args) => run_one(&args),
        ExperimentCommand::List(args) => list(&args),
        ExperimentCommand::Show(args) => show(&args.name),
    }
}

fn run_one(args: &RunArgs) -> Result<()> {
    let plan = Plan::find(&args.experiment, args.quick)?;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.unwrap_or_else(cores);
    if threads == 0 {
        bail!("--threads is at least 1");
    }
    let cache = if args.no_cache { None } else { args.cache.clone().or_else(default_cache) };
    let started = Instant::now();
    let bar = bar(&plan);
    let outcome = batch::execute(&plan, &Options { threads, cache }, &observer(&plan, &bar));
    bar.finish_and_clear();
    let outcome = outcome?;
    let results = &outcome.results;
    if let Some(path) = &args.report {
        write(path, &report::html(results)?)?;
    }
    if args.json {
        say!("{}", results.to_json());
        return check(args, results);
    }
    say!("{}", terminal::text(results));
    let seconds = started.elapsed().as_secs_f64();
    let millions = outcome.member_requests as f64 / 1e6;
    let simulated = match outcome.member_requests {
        0 => String::new(),
        _ => format!(
            "; {millions:.2} million I/Os of members simulated, {:.2} million per second",
            millions / seconds
        ),
    };
    say!(
        "{} runs in {seconds:.1} s, {} of them kept from earlier{simulated}",
        results.runs.len(),
        outcome.cached
    );
    if let Some(path) = &args.report {
        say!("report: {}", path.display());
    }
    check(args, results)
}

/// With `--check`, fails if a figure lies outside its band.
fn check(args: &RunArgs, results: &Results) -> Result<()> {
    let references = results.references.iter().filter(|found| !found.holds()).map(Comparison::describe);
    let ratios = results.ratios.iter().filter(|found| !found.holds()).map(Ratio::describe);
    let left: Vec<String> = references.chain(ratios).collect();
    if args.check && !left.is_empty() {
        bail!("{} figures lie outside their bands:\n  {}", left.len(), left.join("\n  "));
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Results are kept where the system keeps what can be made again.
fn default_cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(caches.join("sinew").join("experiments"))
}

/// Parts of a run that the bar tells apart.
const RUN_STEPS: u64 = 1000;

fn bar(plan: &Plan) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {elapsed}  {msg}");
    ProgressBar::new(plan.executions() as u64 * RUN_STEPS).with_style(style.expect("a valid template"))
}

/// Moves the bar. Only what is measured moves it within a run; what comes before has no known length.
fn observer(plan: &Plan, bar: &ProgressBar) -> Observer {
    let (bar, count) = (bar.clone(), plan.executions());
    let positions = Mutex::new(vec![0; count]);
    Arc::new(move |step: Step| {
        let moves = matches!(step.doing, "running" | "draining" | "kept from earlier");
        let mut positions = positions.lock().expect("no panic while held");
        positions[step.run] = if moves { (step.part * RUN_STEPS as f64) as u64 } else { 0 };
        bar.set_position(positions.iter().sum());
        bar.set_message(format!(
            "run {} of {count}: {} {:.0} %",
            step.run + 1,
            step.doing,
            step.part * 100.0
        ));
    })
}

fn list(args: &ListArgs) -> Result<()> {
    let entry = |named: &Named| Ok((named.name, named.description()?));
    let all = named::ALL.iter().map(entry).collect::<Result<Vec<_>>>()?;
    if args.json {
        let entry =
            |(name, description): &(&str, String)| json!({ "name": name, "description": description });
        say!("{:#}", json!(all.iter().map(entry).collect::<Vec<_>>()));
        return Ok(());
    }
    for (name, description) in all {
        say!("{name:<16}{}", description.trim());
    }
    Ok(())
}

fn show(name: &str) -> Result<()> {
    let named = named::find(name).with_context(|| format!("there is no experiment {name}"))?;
    say!("{}", named.text.trim_end());
    Ok(())
}
