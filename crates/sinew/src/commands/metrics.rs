//! `sinew metrics`: the running pool's numbers for an exporter.

use anyhow::{Context, Result};
use clap::Args;

use crate::client::Target;
use crate::out::say;
use crate::protocol::Request;

/// Prints the numbers of the running pool as OpenMetrics text, for Prometheus; `GET /metrics` on the control socket gives
/// the same.
#[derive(Args)]
pub(crate) struct MetricsArgs {
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
///
/// # Errors
/// When the server cannot be reached.
pub(crate) fn run(args: &MetricsArgs) -> Result<()> {
    let answer = args.target.ask(&Request::Metrics)?;
    say!("{}", answer.as_str().context("the server gave no text")?.trim_end());
    Ok(())
}
