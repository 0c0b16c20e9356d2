//! The `sinew` command: one file per command under `commands`, the daemon in `host`, its control socket in `api`.

mod api;
mod commands;
mod cores;
mod fault_member;
mod host;
mod load;
mod members;
mod metrics;
mod nbd;
mod out;
mod preset;
mod rates;
mod replay;
mod report;
mod size;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    Serve(commands::serve::ServeArgs),
    #[command(subcommand)]
    Pool(commands::pool::PoolCommand),
    #[command(subcommand)]
    Array(commands::array::ArrayCommand),
    #[command(subcommand)]
    Volume(commands::volume::VolumeCommand),
    #[command(subcommand)]
    Member(commands::member::MemberCommand),
    Metrics(commands::metrics::MetricsArgs),
    Scrub(commands::scrub::ScrubArgs),
    Throttle(commands::throttle::ThrottleArgs),
    SpikeAvoidance(commands::step_around::StepAroundArgs),
    Policy(commands::policy::PolicyArgs),
    Layout(commands::layout::LayoutArgs),
    Bench(commands::bench::BenchArgs),
    Replay(commands::replay::ReplayArgs),
    #[command(subcommand)]
    Workload(commands::workload::WorkloadCommand),
    Torture(commands::torture::TortureArgs),
    #[command(subcommand)]
    Experiment(commands::experiment::ExperimentCommand),
}

fn main() -> ExitCode {
    // A panic is a broken invariant: no other thread may go on serving after it.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        if !commands::torture::expects_panics() {
            std::process::abort();
        }
    }));
    let result = match Sinew::parse().command {
        Command::Up(args) => commands::up::run(args),
        Command::Serve(args) => commands::serve::run(args),
        Command::Pool(command) => commands::pool::run(command),
        Command::Array(command) => commands::array::run(command),
        Command::Volume(command) => commands::volume::run(command),
        Command::Member(command) => commands::member::run(command),
        Command::Metrics(args) => commands::metrics::run(&args),
        Command::Scrub(args) => commands::scrub::run(args),
        Command::Throttle(args) => commands::throttle::run(args),
        Command::SpikeAvoidance(args) => commands::step_around::run(args),
        Command::Policy(args) => commands::policy::run(args),
        Command::Layout(args) => commands::layout::run(&args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Replay(args) => commands::replay::run(args),
        Command::Workload(command) => commands::workload::run(command),
        Command::Torture(args) => commands::torture::run(args),
        Command::Experiment(command) => commands::experiment::run(command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
