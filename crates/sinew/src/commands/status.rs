//! `sinew pool status` and `sinew array status`: the state of a running pool.

use std::io::{self, IsTerminal};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use crate::client::Target;
use crate::out::{complain, say};
use crate::protocol::Request;
use crate::{report, units};

/// Clears a terminal, and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows the state of the running pool: is the data safe, what is happening, what to do.
#[derive(Args)]
pub(crate) struct StatusArgs {
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Say in one line how the pool is, for cron and monitoring. The exit code is 0 if nothing needs attention, 1 if something
    /// does, and 2 if the pool is damaged, suspended, failed, or does not answer.
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    check: bool,
    /// Show the state again and again, by default every 2s, until Ctrl-C.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "2s",
        value_parser = units::parse_time)]
    watch: Option<Duration>,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
///
/// # Errors
/// When the server cannot be reached.
pub(crate) fn run(args: &StatusArgs) -> Result<()> {
    if args.check {
        std::process::exit(check(&args.target));
    }
    loop {
        let status = args.target.ask(&Request::Status)?;
        if args.watch.is_some() && io::stdout().is_terminal() {
            say!("{CLEAR}");
        }
        if args.json {
            say!("{status:#}");
        } else {
            report::print(&status);
        }
        match args.watch {
            Some(pause) => sleep(pause),
            None => return Ok(()),
        }
    }
}

/// The state in one line; gives the exit code.
fn check(target: &Target) -> i32 {
    let status = match target.ask(&Request::Status) {
        Ok(status) => status,
        Err(error) => {
            complain!("{error:#}");
            return 2;
        }
    };
    let text = |key: &str| status[key].as_str().unwrap_or("?").to_owned();
    let advice = status["advice"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let line: Vec<String> = [format!("{}: {}", text("pool"), text("health"))]
        .into_iter()
        .chain(advice.map(str::to_owned))
        .collect();
    say!("{}", line.join("; "));
    match status["health"].as_str() {
        Some("healthy") if status["needs_attention"] == false => 0,
        Some("healthy" | "degraded" | "at risk") => 1,
        _ => 2,
    }
}
