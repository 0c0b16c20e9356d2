//! `sinew scrub`: check and mend everything stored.

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::client::{Target, wait_for};
use crate::out::say;
use crate::protocol::Request;

/// Verification of everything stored, with repair.
///
/// Reads all stripes, checks checksums, copies and parity, and mends what is wrong.
#[derive(Args)]
pub(crate) struct ScrubArgs {
    /// The action.
    #[arg(value_enum, default_value = "start")]
    action: Action,
    /// Wait until it has come to the end.
    #[arg(long)]
    wait: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Action {
    Start,
    Stop,
    Status,
}

/// Runs the command.
///
/// # Errors
/// When the server cannot be reached.
pub(crate) fn run(args: ScrubArgs) -> Result<()> {
    if args.action != Action::Status {
        args.target.ask(&Request::Scrub { run: args.action == Action::Start })?;
    }
    if args.wait {
        wait_for(&args.target, "scrub", |status| {
            status["scrub_stripes_left"].as_u64().map_or(0, |left| left + 1)
        })?;
    }
    let status = args.target.ask(&Request::Status)?;
    let counters = &status["counters"];
    if args.json {
        say!(
            "{:#}",
            serde_json::json!({
                "stripes_left": status["scrub_stripes_left"], "stripes_scrubbed": counters["stripes_scrubbed"],
                "errors": counters["scrub_errors"], "unrepaired": counters["scrub_unrepaired"],
                "untidy": counters["untidy_found"],
            })
        );
    } else {
        let left = status["scrub_stripes_left"]
            .as_u64()
            .map_or("no scrub is under way".to_owned(), |n| format!("{n} stripes left"));
        say!(
            "{left}; since the pool was opened: {} stripes scrubbed, {} errors found, {} not repaired",
            counters["stripes_scrubbed"],
            counters["scrub_errors"],
            counters["scrub_unrepaired"]
        );
        if counters["untidy_found"].as_u64().is_some_and(|untidy| untidy > 0) {
            say!("{} unused units took physical space, and were discarded", counters["untidy_found"]);
        }
    }
    Ok(())
}
