//! `sinew throttle`: bound the rate of background work.

use anyhow::Result;
use clap::Args;

use crate::api::{Request, Target};
use crate::size;

/// Bounds conversion, compaction, rebuild and scrub to a rate.
#[derive(Args)]
pub(crate) struct ThrottleArgs {
    /// Bytes per second for the whole pool, for example 100M; `none` for no bound.
    rate: String,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
pub(crate) fn run(args: ThrottleArgs) -> Result<()> {
    let bytes_per_second = if args.rate == "none" { 0 } else { size::parse(&args.rate)? };
    args.target.ask(&Request::Throttle { bytes_per_second }).map(drop)
}
