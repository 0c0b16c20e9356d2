//! `sinew workload`: the known workloads and formats, and statistics of workloads and of content.

mod compressibility;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use sinew_workload::complement::{Complement, Profile, complement, mixes};
use sinew_workload::fitted::Like;
use sinew_workload::trace::Format;
use sinew_workload::{Features, KindFeatures, Requests};

use self::compressibility::CompressibilityArgs;
use crate::out::say;
use crate::replay::source::{self, Reading};
use crate::table::Table;
use crate::units;

/// The paper's results on its traces: FusionRAID (FAST '21), section 2.1.
const PUBLISHED: [(usize, &str); 2] = [(2, "67.8 %, 25 of 28"), (4, "91.4 %")];
/// The volume that generators get to be mixed: where requests go does not matter.
const COMPLEMENT_VOLUME: u64 = 100 << 30;

/// Traces, descriptions and generators of workloads.
#[derive(Subcommand)]
pub(crate) enum WorkloadCommand {
    Inspect(InspectArgs),
    Complement(ComplementArgs),
    Compressibility(CompressibilityArgs),
    /// Lists the generators that have names, and the formats of traces.
    List,
}

/// Reads workloads and shows their statistics: kinds, sizes, rates, footprints, touches of pages.
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
    /// At most this many requests; generators without an end need a limit.
    #[arg(long, default_value_t = 1_000_000)]
    limit: u64,
    /// The size of the volume that a generator named by its name gets.
    #[arg(long, default_value = "100G", value_parser = units::parse_size)]
    volume_size: u64,
    /// Added to the seeds of generators.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Mixes workloads, and tells in how many milliseconds the heavier half of a mix asks for more than three quarters of all:
/// then the lighter half has members to lend (FusionRAID, FAST '21, section 2.1 and figure 2).
#[derive(Args)]
pub(crate) struct ComplementArgs {
    /// Traces, descriptions (FILE.toml) or names of generators; by default the eight of FusionRAID's table 4.
    workload: Vec<String>,
    /// Workloads in a mix: 2, 4, …
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4])]
    mix: Vec<usize>,
    /// The first seconds of each workload that are used.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Added to the seeds of generators.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When a workload cannot be read.
pub(crate) fn run(command: WorkloadCommand) -> Result<()> {
    match command {
        WorkloadCommand::Inspect(args) => inspect(&args),
        WorkloadCommand::Complement(args) => complementarity(&args),
        WorkloadCommand::Compressibility(args) => compressibility::run(&args),
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

fn complementarity(args: &ComplementArgs) -> Result<()> {
    let paper = || Like::ALL.into_iter().filter(|like| like.table4().is_some()).map(Like::name).collect();
    let names: Vec<String> = if args.workload.is_empty() { paper() } else { args.workload.clone() };
    if let Some(wrong) = args.mix.iter().find(|&&of| of == 0 || of % 2 == 1 || of > names.len()) {
        bail!("a mix has two equal halves and no workload twice: {wrong} of {} is not possible", names.len());
    }
    let mut profiles = Vec::new();
    for (number, name) in (0..).zip(&names) {
        // Generators of one name are different requests at different places.
        let reading = Reading { format: None, skip_bad: false, seed: args.seed.wrapping_add(number) };
        profiles.push(Profile::of(source::open(name, reading, COMPLEMENT_VOLUME)?.requests, args.seconds)?);
    }
    let mut told: Vec<Value> = Vec::new();
    for &of in &args.mix {
        let found: Vec<_> = mixes(names.len(), of)
            .into_iter()
            .map(|mix| (complement(&mix.iter().map(|&i| &profiles[i]).collect::<Vec<_>>()), mix))
            .collect();
        let mean = |part: fn(&Complement) -> f64| {
            found.iter().map(|(c, _)| part(c)).sum::<f64>() / found.len() as f64
        };
        let (busy, all) = (mean(Complement::of_busy), mean(Complement::of_all));
        let most = found.iter().filter(|(c, _)| c.of_all() > 0.5).count();
        if !args.json {
            let published = PUBLISHED.iter().find(|(mix, _)| args.workload.is_empty() && *mix == of);
            let paper = published.map_or(String::new(), |(_, text)| format!(" (paper: {text})"));
            say!(
                "mixes of {of}: complementary in {:.1} % of all milliseconds on average, in over half of them: {most} of {}{paper}",
                all * 100.0,
                found.len()
            );
            say!("  in {:.1} % of those in which anything is asked for", busy * 100.0);
            for (c, mix) in found.iter().filter(|_| of == 2) {
                let mix: Vec<&str> = mix.iter().map(|&i| names[i].as_str()).collect();
                say!("  {:>5.1} %  {:>5.1} %  {}", c.of_all() * 100.0, c.of_busy() * 100.0, mix.join(" + "));
            }
        }
        let each: Vec<Value> = found
            .iter()
            .map(|(c, mix)| {
                let mix: Vec<&String> = mix.iter().map(|&i| &names[i]).collect();
                json!({ "mix": mix, "slots": c.slots, "busy_slots": c.busy_slots, "complementary": c.complementary })
            })
            .collect();
        told.push(
            json!({ "of": of, "mean_of_busy": busy, "mean_of_all": all, "over_half": most, "mixes": each }),
        );
    }
    if args.json {
        say!("{:#}", json!(told));
    }
    Ok(())
}

fn print(name: &str, f: &Features, skipped: u64, reordered: u64, is_cut: bool) {
    say!("{name}{}", if is_cut { ": its first requests" } else { "" });
    let seconds = f.duration_ns as f64 / 1e9;
    say!("  requests    {} in {seconds:.1} s on {} volumes, {:.1} per second", f.requests, f.volumes, f.iops);
    say!("  gaps        mean {:.3} ms, standard deviation {:.2} times that", f.gap_mean_ns / 1e6, f.gap_cv);
    if let [short, Some(middle), long] = f.dispersion {
        let told = |index: Option<f64>| index.map_or("-".to_owned(), |index| format!("{index:.1}"));
        let (short, long) = (told(short), told(long));
        say!(
            "  bursts      variance by mean of the requests in 10 ms {short}, 100 ms {middle:.1}, 1 s {long}"
        );
    }
    say!(
        "  addresses   {} touched, the last at {}, {:.1} % sequential",
        units::bytes(f.footprint),
        units::bytes(f.span),
        f.sequential_share * 100.0
    );
    if skipped + reordered > 0 {
        say!("  trouble     {skipped} bad lines skipped, {reordered} times that went back");
    }
    let heads =
        ["", "requests", "share %", "mean B", "p50", "p90", "max", "seq. %", "touched", "touches", "p99"];
    let mut table = Table::of_numbers(&heads);
    let kinds = [("read", &f.read), ("write", &f.write), ("discard", &f.discard), ("flush", &f.flush)];
    for (kind, of) in kinds.into_iter().filter_map(|(kind, of)| Some((kind, of.as_ref()?))) {
        table.row(std::iter::once(kind.to_owned()).chain(cells(of, f.requests)));
    }
    table.lines().iter().for_each(|line| say!("  {line}"));
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
        units::bytes(of.footprint),
        format!("{:.2}", of.page_touches_mean),
        of.page_touches_p99.to_string(),
    ]
}
