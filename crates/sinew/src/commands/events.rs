//! `sinew events`: what has happened to a running pool.

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use crate::client::Target;
use crate::out::say;
use crate::protocol::Request;

/// Events of the running pool since it was opened.
///
/// Members that failed or came back, blocks repaired or lost, space, long work, volumes, clients.
/// The server keeps the latest 1024 events, and logs each of them.
#[derive(Args)]
pub(crate) struct EventsArgs {
    /// Go on with those that come, until Ctrl-C.
    #[arg(long)]
    follow: bool,
    /// As JSON, an event per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
///
/// # Errors
/// When the server cannot be reached, or ends.
pub(crate) fn run(args: &EventsArgs) -> Result<()> {
    let mut after = 0;
    loop {
        let answer = args.target.ask(&Request::Events { after, wait: args.follow && after > 0 })?;
        for event in answer["events"].as_array().into_iter().flatten() {
            print(event, args.json);
        }
        after = answer["last"].as_u64().unwrap_or(after);
        if !args.follow {
            return Ok(());
        }
    }
}

fn print(event: &Value, json: bool) {
    if json {
        say!("{event}");
        return;
    }
    let field = |name: &str| event[name].as_str().unwrap_or_default();
    say!("{}  {:7}  {}", field("time"), field("severity"), field("text"));
}
