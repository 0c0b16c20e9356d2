//! `sinew latency`: detection and avoidance of members in a latency spike, and the I/O timeout of hung members.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use sinew_members::latency::SpikeAvoidance;

use crate::client::Target;
use crate::names;
use crate::out::say;
use crate::protocol::{IoTimeout, Request};

/// Spike avoidance and I/O timeout of members.
///
/// Sets how members in a latency spike are detected and avoided, and the I/O timeout of hung members, until the server ends.
/// The configuration file of a service sets them at each start.
#[derive(Args)]
pub(crate) struct LatencyArgs {
    /// How latency spikes are detected.
    #[arg(value_parser = names::spike_avoidance(), value_name = "AVOIDANCE", required_unless_present = "io_timeout")]
    avoidance: Option<SpikeAvoidance>,
    /// Take a member out when a request to it has been pending for this long, for example 10s (the default), or `never`. A
    /// member that the pool cannot do without is waited for.
    #[arg(long, alias = "give-up-after", value_name = "TIME", value_parser = IoTimeout::parse)]
    io_timeout: Option<IoTimeout>,
    /// As JSON: both settings.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
///
/// # Errors
/// When the server cannot be reached.
pub(crate) fn run(args: LatencyArgs) -> Result<()> {
    let LatencyArgs { avoidance, io_timeout, json, target } = args;
    target.ask(&Request::Latency { spike_avoidance: avoidance, io_timeout })?;
    if json {
        let status = target.ask(&Request::Status)?;
        let (avoidance, timeout) = (&status["spike_avoidance"], &status["io_timeout_s"]);
        say!("{:#}", serde_json::json!({ "spike_avoidance": avoidance, "io_timeout_s": timeout }));
        return Ok(());
    }
    match avoidance {
        None => {}
        Some(SpikeAvoidance::Off) => say!("latency spikes are not detected"),
        Some(avoidance) => {
            say!("members in a latency spike are avoided ({})", avoidance.name());
        }
    }
    match io_timeout {
        None => {}
        Some(IoTimeout::Never) => say!("requests to members do not time out"),
        Some(IoTimeout::Ms(ms)) => {
            say!("requests to members time out after {:?}", Duration::from_millis(ms));
        }
    }
    Ok(())
}
