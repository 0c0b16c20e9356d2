//! `sinew throttle`: limits of the rate of background work.

use anyhow::Result;
use clap::Args;

use crate::client::Target;
use crate::out::say;
use crate::protocol::Request;
use crate::units;

/// Limits of the rate of background work.
///
/// They hold for conversion, compaction, rebuild, rebalance, moves of volumes, growth and scrub. Without a rate and --pause-above the command
/// shows them.
#[derive(Args)]
pub(crate) struct ThrottleArgs {
    /// Bytes per second for the whole pool, for example 100M; `none` for no limit.
    #[arg(value_parser = units::parse_rate)]
    rate: Option<u64>,
    /// Pause while clients make more requests per second than this; 0, or a rate without this option, for never.
    #[arg(long, alias = "rest-above", value_name = "REQUESTS")]
    pause_above: Option<u64>,
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
    let now = || -> Result<(u64, u64)> {
        let throttle = &target.ask(&Request::Status)?["throttle"];
        let number = |key: &str| throttle[key].as_u64().unwrap_or(0);
        Ok((number("bytes_per_second"), number("pause_above_iops")))
    };
    let (rate, pause_above) = match (rate, pause_above) {
        (None, None) => now()?,
        (rate, pause_above) => {
            let rate = rate.map_or_else(|| now().map(|(rate, _)| rate), Ok)?;
            let pause_above = pause_above.unwrap_or(0);
            target.ask(&Request::Throttle { bytes_per_second: rate, pause_above_iops: pause_above })?;
            (rate, pause_above)
        }
    };
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
