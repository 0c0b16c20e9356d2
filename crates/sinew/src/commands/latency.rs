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
/// Sets how members in a latency spike are detected and avoided, and the I/O timeout of hung members, until the server ends; without
/// options the command shows both.
/// The configuration file of a service sets them at each start.
#[derive(Args)]
pub(crate) struct LatencyArgs {
    /// How latency spikes are detected.
    #[arg(value_parser = names::spike_avoidance(), value_name = "AVOIDANCE")]
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
    if avoidance.is_some() || io_timeout.is_some() {
        target.ask(&Request::Latency { spike_avoidance: avoidance, io_timeout })?;
    }
    let status = target.ask(&Request::Status)?;
    let (mode, timeout) = (&status["spike_avoidance"], &status["io_timeout_s"]);
    if json {
        say!("{:#}", serde_json::json!({ "spike_avoidance": mode, "io_timeout_s": timeout }));
        return Ok(());
    }
    let shows_all = avoidance.is_none() && io_timeout.is_none();
    if avoidance.is_some() || shows_all {
        match mode.as_str().unwrap_or("?") {
            "off" => say!("latency spikes are not detected"),
            mode => say!("members in a latency spike are avoided ({mode})"),
        }
    }
    if io_timeout.is_some() || shows_all {
        match timeout.as_f64() {
            None => say!("requests to members do not time out"),
            Some(seconds) => {
                say!("requests to members time out after {:?}", Duration::from_secs_f64(seconds));
            }
        }
    }
    Ok(())
}
