//! `sinew throttle`: limit the rate of background work.

use anyhow::Result;
use clap::Args;

use crate::client::Target;
use crate::out::say;
use crate::protocol::Request;
use crate::units;

/// Limits of the rate of background work.
///
/// They hold for conversion, compaction, rebuild, rebalance, growth and scrub.
#[derive(Args)]
pub(crate) struct ThrottleArgs {
    /// Bytes per second for the whole pool, for example 100M; `none` for no limit.
    #[arg(value_parser = units::parse_rate)]
    rate: u64,
    /// Pause while clients make more requests per second than this; 0 for never.
    #[arg(long, alias = "rest-above", value_name = "REQUESTS", default_value_t = 0)]
    pause_above: u64,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
///
/// # Errors
/// When the server cannot be reached.
pub(crate) fn run(args: ThrottleArgs) -> Result<()> {
    let ThrottleArgs { rate, pause_above, json, target } = args;
    target.ask(&Request::Throttle { bytes_per_second: rate, pause_above_iops: pause_above })?;
    if json {
        say!("{:#}", serde_json::json!({ "bytes_per_second": rate, "pause_above_iops": pause_above }));
        return Ok(());
    }
    let pauses = match pause_above {
        0 => String::new(),
        n => format!(", and pauses while clients make more than {n} requests per second"),
    };
    match rate {
        0 => say!("background work has no rate limit{pauses}"),
        rate => say!("background work is limited to {} per second{pauses}", units::bytes(rate)),
    }
    Ok(())
}
