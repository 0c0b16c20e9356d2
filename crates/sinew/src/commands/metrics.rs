//! `sinew metrics`: the running pool's numbers for an exporter.

use anyhow::{Context, Result};
use clap::Args;

use crate::client::Target;
use crate::daemon::prometheus;
use crate::out::say;
use crate::protocol::Request;

/// Metrics of the running pool as OpenMetrics text.
///
/// `GET /metrics` on the control socket, and on the address of `sinew serve --metrics`, gives the same.
#[derive(Args)]
pub(crate) struct MetricsArgs {
    /// In the older text format of Prometheus, for the textfile collector of its node exporter.
    #[arg(long)]
    prometheus: bool,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
///
/// # Errors
/// When the server cannot be reached.
pub(crate) fn run(args: &MetricsArgs) -> Result<()> {
    let answer = args.target.ask(&Request::Metrics)?;
    let text = answer.as_str().context("the server gave no text")?;
    if args.prometheus {
        say!("{}", prometheus(text).trim_end());
    } else {
        say!("{}", text.trim_end());
    }
    Ok(())
}
