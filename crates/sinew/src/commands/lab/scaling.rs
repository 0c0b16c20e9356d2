//! `sinew scaling`: the throughput of a mapped pool on a number of simulated cores.

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use sinew_sim::ProcessorCosts;
use sinew_sim::scaling::{self, Scaled, ScalingSpec};

use crate::bench::load::Pattern;
use crate::out::say;
use crate::table::Table;
use crate::units;

/// Throughput of a mapped pool on simulated cores.
///
/// The engine runs with a shard and clients on each core, on a virtual clock, with members that answer at once. What a
/// core does takes the time that --cost says; the defaults were measured (docs/scaling.md). Equal arguments give equal
/// results on any machine.
#[derive(Args)]
pub(crate) struct ScalingArgs {
    /// Numbers of cores.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64], value_parser = clap::value_parser!(u16).range(1..=64))]
    cores: Vec<u16>,
    /// The pattern of requests: randread, randwrite or mixed.
    #[arg(long, value_enum, default_value = "randwrite")]
    rw: Pattern,
    /// Bytes per request.
    #[arg(long, default_value = "4K", value_parser = units::parse_size)]
    bs: u64,
    /// Requests under way at the same time for each core.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    depth: u16,
    /// The same over all cores, however many there are.
    #[arg(long, conflicts_with = "depth", value_parser = clap::value_parser!(u16).range(1..))]
    total_depth: Option<u16>,
    /// Simulated milliseconds that count, after half as many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    ms: u16,
    /// What takes time on a core, in nanoseconds: poll, cross, request, read-block, write-block, ring, call, wake or spin, as in poll=300;
    /// can be given several times.
    #[arg(long = "cost", value_name = "WHAT=NS", value_parser = cost)]
    costs: Vec<(Place, u64)>,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// A cost in its place.
type Place = fn(&mut ProcessorCosts) -> &mut u64;

/// The costs by their names.
const COSTS: [(&str, Place); 9] = [
    ("poll", |costs| &mut costs.poll_ns),
    ("cross", |costs| &mut costs.cross_ns),
    ("request", |costs| &mut costs.request_ns),
    ("read-block", |costs| &mut costs.read_block_ns),
    ("write-block", |costs| &mut costs.write_block_ns),
    ("ring", |costs| &mut costs.ring_ns),
    ("call", |costs| &mut costs.call_ns),
    ("wake", |costs| &mut costs.wake_ns),
    ("spin", |costs| &mut costs.spin_ns),
];

fn cost(text: &str) -> Result<(Place, u64)> {
    let Some((what, ns)) = text.split_once('=') else { bail!("say WHAT=NS, as in poll=300") };
    let Some((_, place)) = COSTS.into_iter().find(|(name, _)| *name == what) else {
        bail!("{what} is no cost: {}", COSTS.map(|(name, _)| name).join(", "));
    };
    Ok((place, ns.parse()?))
}

/// Runs the command.
///
/// # Errors
/// When the arguments describe no load that can be simulated, or no request of it ends in time.
pub(crate) fn run(args: &ScalingArgs) -> Result<()> {
    let write_percent = match args.rw {
        Pattern::Randread => 0,
        Pattern::Randwrite => 100,
        Pattern::Mixed => 50,
        Pattern::Read | Pattern::Write => bail!("--rw is randread, randwrite or mixed here"),
    };
    if args.bs == 0 || !args.bs.is_multiple_of(4096) || args.bs > scaling::REQUEST_BYTES_MAX {
        bail!("--bs is a multiple of 4K, up to {}", units::bytes(scaling::REQUEST_BYTES_MAX));
    }
    let mut costs = ProcessorCosts::measured();
    args.costs.iter().for_each(|&(place, ns)| *place(&mut costs) = ns);
    let run_ns = u64::from(args.ms) * 1_000_000;
    let heads = ["cores", "requests/s", "per core", "busy", "polls", "requests", "rings", "wakes"];
    let mut table = Table::of_numbers(&heads);
    let (mut rows, mut first) = (Vec::new(), None);
    for &cores in &args.cores {
        let each = usize::from(args.depth) * usize::from(cores);
        let spec = ScalingSpec {
            seed: args.seed,
            cores: usize::from(cores),
            depth: args.total_depth.map_or(each, usize::from),
            request_bytes: args.bs,
            write_percent,
            costs,
            warm_up_ns: run_ns / 2,
            run_ns,
        };
        let scaled = scaling::serve(spec)?;
        if scaled.requests == 0 {
            bail!("no request ended in {} ms on {cores} cores; simulate longer with --ms", args.ms);
        }
        let row = Row::of(&scaled, &spec);
        let by_first = row.per_core / *first.get_or_insert(row.per_core);
        if args.json {
            rows.push(row.json(&spec, by_first));
        } else {
            table.row(row.cells(&spec, by_first));
        }
    }
    if args.json {
        let costs = COSTS.map(|(name, place)| (format!("{name}_ns"), json!(*place(&mut costs))));
        let costs: serde_json::Map<_, _> = costs.into_iter().collect();
        say!("{:#}", json!({ "costs": costs, "runs": rows }));
    } else {
        table.print();
        say!("polls, member requests, rings and wakes: for each request; per core: of the first row");
    }
    Ok(())
}

/// One number of cores.
struct Row {
    per_second: f64,
    per_core: f64,
    busy: f64,
    /// For each request.
    polls: f64,
    requests: f64,
    rings: f64,
    wakes: f64,
}

impl Row {
    fn of(scaled: &Scaled, spec: &ScalingSpec) -> Row {
        let requests = scaled.requests;
        let sum = |of: fn(&sinew_sim::ProcessorUsage) -> u64| scaled.usage.iter().map(of).sum::<u64>() as f64;
        let each = |of| sum(of) / requests as f64;
        let per_second = requests as f64 * 1e9 / spec.run_ns as f64;
        Row {
            per_second,
            per_core: per_second / spec.cores as f64,
            busy: sum(|usage| usage.busy_ns) / (spec.run_ns as f64 * spec.cores as f64),
            polls: each(|usage| usage.polls),
            requests: each(|usage| usage.requests),
            rings: each(|usage| usage.rings),
            wakes: each(|usage| usage.wakes),
        }
    }

    fn cells(&self, spec: &ScalingSpec, by_first: f64) -> Vec<String> {
        vec![
            spec.cores.to_string(),
            format!("{:.0} k", self.per_second / 1e3),
            format!("{by_first:.2}"),
            format!("{:.2}", self.busy),
            format!("{:.2}", self.polls),
            format!("{:.3}", self.requests),
            format!("{:.3}", self.rings),
            format!("{:.3}", self.wakes),
        ]
    }

    fn json(&self, spec: &ScalingSpec, by_first: f64) -> serde_json::Value {
        json!({
            "cores": spec.cores, "depth": spec.depth, "requests_per_second": self.per_second,
            "per_core_of_first": by_first, "busy": self.busy,
            "polls_per_request": self.polls, "member_requests_per_request": self.requests,
            "rings_per_request": self.rings, "wakes_per_request": self.wakes,
        })
    }
}
