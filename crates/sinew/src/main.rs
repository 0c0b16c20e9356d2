//! The `sinew` command.
//!
//! ```text
//! commands   one file per command: its arguments, whose doc comments are the help
//! client     a running pool over its control socket     daemon   serves a pool: NBD, control socket, metrics
//! report     states of pools for people                 bench, replay   load and its results
//! pool       pools in this process: members, making and opening them
//! protocol   requests and answers of the control socket
//! names, units, table, tls, out   names of levels and protections; sizes and times; certificates; the terminal
//! ```
//!
//! Each imports those below it, and none above it.

mod bench;
mod client;
mod commands;
mod daemon;
mod names;
mod nbd_stream;
mod out;
mod pool;
mod protocol;
mod replay;
mod report;
mod table;
mod tls;
mod units;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::out::complain;

/// Volumes' buffers are 4 KiB-aligned and short-lived, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Turns a set of SSDs into a fault-tolerant pool and serves block volumes from it.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Sinew {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(commands::up::UpArgs),
    Serve(Box<commands::serve::ServeArgs>),
    #[command(subcommand)]
    Pool(commands::pool::PoolCommand),
    #[command(subcommand)]
    Array(commands::array::ArrayCommand),
    #[command(subcommand)]
    Volume(commands::volume::VolumeCommand),
    #[command(subcommand)]
    Member(commands::member::MemberCommand),
    #[command(subcommand)]
    Ublk(commands::ublk::UblkCommand),
    Top(commands::top::TopArgs),
    Events(commands::events::EventsArgs),
    Metrics(commands::metrics::MetricsArgs),
    Scrub(commands::scrub::ScrubArgs),
    Throttle(commands::throttle::ThrottleArgs),
    #[command(alias = "step-around")]
    Latency(commands::latency::LatencyArgs),
    Policy(commands::policy::PolicyArgs),
    Layout(commands::layout::LayoutArgs),
    Topology(commands::topology::TopologyArgs),
    Bench(commands::bench::BenchArgs),
    Replay(commands::replay::ReplayArgs),
    #[command(subcommand)]
    Workload(commands::workload::WorkloadCommand),
    Torture(commands::lab::TortureArgs),
    Experiment(commands::lab::ExperimentArgs),
    Scaling(commands::lab::ScalingArgs),
    #[command(subcommand, hide = true)]
    Generate(commands::generate::GenerateCommand),
}

fn main() -> ExitCode {
    // A panic is a broken invariant: no other thread may go on serving after it.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        if !commands::lab::expects_panics() {
            std::process::abort();
        }
    }));
    let matches = commands::groups::grouped(Sinew::command()).get_matches();
    let sinew = Sinew::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let result = match sinew.command {
        Command::Up(args) => commands::up::run(args),
        Command::Serve(args) => commands::serve::run(*args),
        Command::Pool(command) => commands::pool::run(command),
        Command::Array(command) => commands::array::run(command),
        Command::Volume(command) => commands::volume::run(command),
        Command::Member(command) => commands::member::run(command),
        Command::Ublk(command) => commands::ublk::run(command),
        Command::Top(args) => commands::top::run(&args),
        Command::Events(args) => commands::events::run(&args),
        Command::Metrics(args) => commands::metrics::run(&args),
        Command::Scrub(args) => commands::scrub::run(args),
        Command::Throttle(args) => commands::throttle::run(args),
        Command::Latency(args) => commands::latency::run(args),
        Command::Policy(args) => commands::policy::run(args),
        Command::Layout(args) => commands::layout::run(&args),
        Command::Topology(args) => commands::topology::run(&args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Replay(args) => commands::replay::run(args),
        Command::Workload(command) => commands::workload::run(command),
        Command::Torture(args) => commands::lab::torture(args),
        Command::Experiment(args) => commands::lab::experiment(args),
        Command::Scaling(args) => commands::lab::scaling(&args),
        Command::Generate(command) => commands::generate::run(command, Sinew::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
