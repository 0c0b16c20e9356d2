//! `sinew throttle`: bound the rate of background work.

use anyhow::Result;
use clap::Args;

use crate::api::{Request, Target};
use crate::out::say;
use crate::size;

/// Bounds conversion, compaction, rebuild and scrub to a rate.
#[derive(Args)]
pub(crate) struct ThrottleArgs {
    /// Bytes per second for the whole pool, for example 100M; `none` for no bound.
    #[arg(value_parser = rate)]
    rate: u64,
    #[command(flatten)]
    target: Target,
}

fn rate(text: &str) -> Result<u64> {
    if text == "none" { Ok(0) } else { size::parse(text) }
}

/// Runs the command.
pub(crate) fn run(args: ThrottleArgs) -> Result<()> {
    args.target.ask(&Request::Throttle { bytes_per_second: args.rate })?;
    match args.rate {
        0 => say!("background work has no bound"),
        rate => say!("background work is bound to {} per second", size::show(rate)),
    }
    Ok(())
}
