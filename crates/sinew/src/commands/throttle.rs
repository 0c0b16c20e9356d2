//! `sinew throttle`: bound the rate of background work.

use anyhow::Result;
use clap::Args;

use crate::api::{Request, Target};
use crate::out::say;
use crate::size;

/// Bounds conversion, compaction, rebuild, balancing, growth and scrub to a rate.
#[derive(Args)]
pub(crate) struct ThrottleArgs {
    /// Bytes per second for the whole pool, for example 100M; `none` for no bound.
    #[arg(value_parser = size::rate)]
    rate: u64,
    /// Rest while clients ask for more than so much per second.
    #[arg(long, value_name = "REQUESTS", default_value_t = 0)]
    rest_above: u64,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
pub(crate) fn run(args: ThrottleArgs) -> Result<()> {
    let ThrottleArgs { rate, rest_above, target } = args;
    target.ask(&Request::Throttle { bytes_per_second: rate, rest_above })?;
    let rests = match rest_above {
        0 => String::new(),
        n => format!(", and rests while clients ask for more than {n} requests per second"),
    };
    match rate {
        0 => say!("background work has no bound of its rate{rests}"),
        rate => say!("background work is bound to {} per second{rests}", size::show(rate)),
    }
    Ok(())
}
