//! The commands of the laboratory in a binary without it: they say how to build one with it.

use std::ffi::OsString;

use anyhow::{Result, bail};
use clap::Args;

/// Test of the engine in simulated worlds; needs the feature `lab`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct TortureArgs {
    #[command(flatten)]
    ignored: Ignored,
}

/// Experiments on simulated drives; needs the feature `lab`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ExperimentArgs {
    #[command(flatten)]
    ignored: Ignored,
}

/// Throughput on simulated cores; needs the feature `lab`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ScalingArgs {
    #[command(flatten)]
    ignored: Ignored,
}

/// All arguments: the answer is the same for all of them.
#[derive(Args)]
struct Ignored {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

/// Refuses `sinew torture`.
///
/// # Errors
/// Always: says how to build a binary that has the command.
pub(crate) fn torture(args: TortureArgs) -> Result<()> {
    refuse("torture", &args.ignored)
}

/// Refuses `sinew experiment`.
///
/// # Errors
/// Always: says how to build a binary that has the command.
pub(crate) fn experiment(args: ExperimentArgs) -> Result<()> {
    refuse("experiment", &args.ignored)
}

/// Refuses `sinew scaling`.
///
/// # Errors
/// Always: says how to build a binary that has the command.
pub(crate) fn scaling(args: &ScalingArgs) -> Result<()> {
    refuse("scaling", &args.ignored)
}

fn refuse(command: &str, Ignored { arguments: _ }: &Ignored) -> Result<()> {
    bail!(
        "this sinew was built without the simulator, which `sinew {command}` needs; \
         build one with it: cargo build --release -p sinew --features lab"
    )
}

/// Whether a panic is one of the simulated engine's: never here.
pub(crate) fn expects_panics() -> bool {
    false
}
