//! `sinew metrics`: the running pool's numbers for an exporter.

use anyhow::{Context, Result};
use clap::Args;

use crate::api::{Request, Target};
use crate::out::say;

/// Prints the numbers of the running pool as OpenMetrics text, for Prometheus; `GET /metrics` on the control socket gives
/// the same.
#[derive(Args)]
pub(crate) struct MetricsArgs {
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
pub(crate) fn run(args: &MetricsArgs) -> Result<()> {
    let answer = args.target.ask(&Request::Metrics)?;
    say!("{}", answer.as_str().context("the server gave no text")?.trim_end());
    Ok(())
}
