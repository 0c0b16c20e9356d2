//! `sinew pool status` and `sinew array status`: the state of a running pool.

use anyhow::Result;
use clap::Args;

use crate::client::Target;
use crate::out::say;
use crate::protocol::Request;
use crate::report;

/// Shows the state of the running pool: is the data safe, what is happening, what to do.
#[derive(Args)]
pub(crate) struct StatusArgs {
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
pub(crate) fn run(args: &StatusArgs) -> Result<()> {
    let status = args.target.ask(&Request::Status)?;
    if args.json {
        say!("{status:#}");
    } else {
        report::print(&status);
    }
    Ok(())
}
