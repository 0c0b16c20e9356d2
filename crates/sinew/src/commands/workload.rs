//! `sinew workload`: what workloads there are, and what they are like.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use sinew_workload::trace::Format;
use sinew_workload::{Features, KindFeatures, Requests};

use crate::out::say;
use crate::replay::source::{self, Reading};
use crate::size;

/// Looks at workloads: traces, descriptions and generators.
#[derive(Subcommand)]
pub(crate) enum WorkloadCommand {
    Inspect(InspectArgs),
    /// Lists the generators that have names, and the formats of traces.
    List,
}

/// Reads workloads and tells what they are like: kinds, sizes, rates, footprints, how often pages are touched.
#[derive(Args)]
pub(crate) struct InspectArgs {
    /// Traces, descriptions (FILE.toml) or names of generators.
    #[arg(required = true)]
    workload: Vec<String>,
    /// The format of traces; by default told from their content.
    #[arg(long, value_parser = source::format)]
    format: Option<Format>,
    /// Skip and count bad lines of traces.
    #[arg(long)]
    skip_bad: bool,
    /// Only so many requests; generators without an end need a limit.
    #[arg(long, default_value_t = 1_000_000)]
    limit: u64,
    /// The size of the volume that a generator named by its name gets.
    #[arg(long, default_value = "100G", value_parser = size::parse)]
    volume_size: u64,
    /// Added to the seeds of generators.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(command: WorkloadCommand) -> Result<()> {
    match command {
        WorkloadCommand::Inspect(args) => inspect(&args),
        WorkloadCommand::List => {
            say!("generators  {}", source::names().join("\n            "));
            say!("formats     {}", Format::ALL.map(Format::name).join("\n            "));
            Ok(())
        }
    }
}

fn inspect(args: &InspectArgs) -> Result<()> {
    if args.limit == 0 {
        bail!("--limit is at least 1");
    }
    let reading = Reading { format: args.format, skip_bad: args.skip_bad, seed: args.seed };
    let mut all = Vec::new();
    for name in &args.workload {
        let opened = source::open(name, reading, args.volume_size)?;
        let features = Features::of(opened.requests.first(args.limit))?;
        let (skipped, reordered) = opened.traces.iter().fold((0, 0), |(skipped, reordered), (_, counts)| {
            (skipped + counts.skipped(), reordered + counts.reordered())
        });
        if args.json {
            all.push(json!({ "workload": name, "lines_skipped": skipped, "times_reordered": reordered, "features": features }));
        } else {
            print(name, &features, skipped, reordered, features.requests == args.limit);
        }
    }
    if args.json {
        say!("{:#}", json!(all));
    }
    Ok(())
}

fn print(name: &str, f: &Features, skipped: u64, reordered: u64, is_cut: bool) {
    say!("{name}{}", if is_cut { ": its first requests" } else { "" });
    let seconds = f.duration_ns as f64 / 1e9;
    say!("  requests    {} in {seconds:.1} s on {} volumes, {:.1} per second", f.requests, f.volumes, f.iops);
    say!("  gaps        mean {:.3} ms, standard deviation {:.2} times that", f.gap_mean_ns / 1e6, f.gap_cv);
    say!(
        "  addresses   {} touched, the last at {}, {:.1} % sequential",
        size::show(f.footprint),
        size::show(f.span),
        f.sequential_share * 100.0
    );
    if skipped + reordered > 0 {
        say!("  trouble     {skipped} bad lines skipped, {reordered} times that went back");
    }
    let heads = ["requests", "share %", "mean B", "p50", "p90", "max", "seq. %", "touched", "touches", "p99"];
    let line = |head: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>11}")).collect();
        say!("  {head:<8}{cells}");
    };
    line("", heads.map(str::to_owned).to_vec());
    let kinds = [("read", &f.read), ("write", &f.write), ("discard", &f.discard), ("flush", &f.flush)];
    for (kind, of) in kinds.into_iter().filter_map(|(kind, of)| Some((kind, of.as_ref()?))) {
        line(kind, cells(of, f.requests));
    }
    say!("");
}

fn cells(of: &KindFeatures, all: u64) -> Vec<String> {
    vec![
        of.requests.to_string(),
        format!("{:.1}", of.requests as f64 * 100.0 / all as f64),
        format!("{:.0}", of.size_mean),
        of.size_p50.to_string(),
        of.size_p90.to_string(),
        of.size_max.to_string(),
        format!("{:.1}", of.sequential_share * 100.0),
        size::show(of.footprint),
        format!("{:.2}", of.page_touches_mean),
        of.page_touches_p99.to_string(),
    ]
}
