//! `sinew member`: list members, add and remove them, take them offline, bring them back, replace them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::api::{Request, Target};
use crate::out::say;
use crate::{members, report, size};

/// How often progress is asked for.
const POLL: Duration = Duration::from_millis(200);

/// List, add, remove, take offline, bring back and replace members of the running pool.
#[derive(Subcommand)]
pub(crate) enum MemberCommand {
    /// Lists the members.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Adds devices to a pool. What is written next goes there, too, and their share of what is stored is moved to them.
    Add {
        /// The devices.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// Make those that do not exist, as files of this size.
        #[arg(long, value_parser = size::parse)]
        size: Option<u64>,
        /// Take devices that hold something.
        #[arg(long)]
        force: bool,
        /// Wait until they have their share.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Removes a member from a pool for good: what it holds is moved to the others, then the device is cleared.
    Remove {
        /// Its number.
        member: usize,
        /// Let a member stay that is being removed.
        #[arg(long, conflicts_with = "wait")]
        cancel: bool,
        /// Wait until it has left.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Takes a member offline, if the pool can do without it.
    Offline {
        /// Its number.
        member: usize,
        #[command(flatten)]
        target: Target,
    },
    /// Brings a member back; only what it missed is rebuilt.
    Online {
        /// Its number.
        member: usize,
        /// Where it is now, if not where it was.
        path: Option<PathBuf>,
        /// Wait until it is up to date.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Replaces a member that is out: rebuilds onto a new device or, with none given, into the free space of the others. In
    /// an array, what replaces a spare that is gone is the next spare.
    Replace {
        /// Its number.
        member: usize,
        /// The new device.
        path: Option<PathBuf>,
        /// Take a device that holds something.
        #[arg(long)]
        force: bool,
        /// Wait until everything is rebuilt.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        target: Target,
    },
}

/// Runs the command.
pub(crate) fn run(command: MemberCommand) -> Result<()> {
    match command {
        MemberCommand::List { json, target } => {
            let status = target.ask(&Request::Status)?;
            if json {
                say!("{:#}", status["members"]);
            } else {
                report::print_members(&status);
            }
            Ok(())
        }
        MemberCommand::Add { paths, size, force, wait, target } => add(paths, size, force, wait, &target),
        MemberCommand::Remove { member, cancel, wait, target } => {
            target.ask(&Request::MemberRemove { member, cancel })?;
            if cancel {
                say!("member {member} stays");
                return Ok(());
            }
            finish_removal(&target, member, wait)
        }
        MemberCommand::Offline { member, target } => {
            target.ask(&Request::MemberOffline { member })?;
            say!("member {member} is offline; bring it back with `sinew member online {member}`");
            Ok(())
        }
        MemberCommand::Online { member, path, wait, target } => {
            target.ask(&Request::MemberOnline { member, path: path.map(absolute).transpose()? })?;
            finish(&target, member, wait)
        }
        MemberCommand::Replace { member, path, force, wait, target } => {
            target.ask(&Request::MemberReplace { member, path: path.map(absolute).transpose()?, force })?;
            finish(&target, member, wait)
        }
    }
}

fn add(paths: Vec<PathBuf>, size: Option<u64>, force: bool, wait: bool, target: &Target) -> Result<()> {
    let paths = paths.into_iter().map(absolute).collect::<Result<Vec<_>>>()?;
    members::refuse_twice(&paths)?;
    let made = members::make_files(&paths, size)?;
    for (i, path) in paths.iter().enumerate() {
        let added = target.ask(&Request::MemberAdd { path: path.clone(), force });
        if added.is_err() {
            let unused = made.iter().filter(|path| paths[i..].contains(path));
            unused.for_each(|path| drop(std::fs::remove_file(path)));
        }
        say!("{} is member {}", path.display(), added?["member"]);
    }
    if !wait {
        say!("what is stored is being balanced; `sinew pool status` tells how far that is");
        return Ok(());
    }
    wait_for(target, "balance", |status| status["balance_chunks_left"].as_u64().unwrap_or(0))?;
    say!("members have their share");
    Ok(())
}

/// Says that a member is leaving, or waits until it has.
fn finish_removal(target: &Target, member: usize, wait: bool) -> Result<()> {
    let state = |status: &Value| status["members"][member]["state"].as_str().unwrap_or("unknown").to_owned();
    let is_leaving = |status: &Value| ["leaving", "evacuating"].contains(&state(status).as_str());
    if !wait {
        say!("member {member} is leaving; `sinew pool status` tells how far that is");
        return Ok(());
    }
    wait_for(target, "removal", |status| match is_leaving(status) {
        true => status["rebuild_chunks_left"].as_u64().unwrap_or(0) + 1,
        false => 0,
    })?;
    match state(&target.ask(&Request::Status)?).as_str() {
        "removed" => say!("member {member} has left; its device can be taken away"),
        state => bail!("member {member} is {state} now: it has not left"),
    }
    Ok(())
}

/// Says that a rebuild is under way, or waits until it has come to a good end.
fn finish(target: &Target, member: usize, wait: bool) -> Result<()> {
    let state = &target.ask(&Request::Status)?["members"][member]["state"];
    if state == "spare" {
        say!("member {member} is a spare now");
        return Ok(());
    }
    if !wait {
        say!("member {member} is being rebuilt; `sinew pool status` tells how far that is");
        return Ok(());
    }
    wait_for(target, "rebuild", rebuild_left)?;
    let status = target.ask(&Request::Status)?;
    match status["members"][member]["state"].as_str() {
        Some("active") => say!("member {member} is up to date"),
        Some("removed") if status["array"].is_object() => {
            say!("member {member} has no place any more: the device has taken that of a member that was out");
        }
        Some("removed") => say!("what member {member} held is on the others now"),
        state => {
            bail!("member {member} is {} now: the rebuild did not come to an end", state.unwrap_or("unknown"))
        }
    }
    Ok(())
}

fn absolute(path: PathBuf) -> Result<PathBuf> {
    Ok(std::path::absolute(path)?)
}

fn rebuild_left(status: &Value) -> u64 {
    let busy = status["members"].as_array().into_iter().flatten().any(|m| m["state"] == "evacuating");
    let degraded = status["metadata_degraded"] == true || status["stripes"]["degraded"].as_u64() > Some(0);
    let out = status["members"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|m| !["active", "removed", "evacuating"].iter().any(|s| m["state"] == *s));
    status["rebuild_chunks_left"].as_u64().unwrap_or(0).max(u64::from(busy || degraded && !out))
}

/// Shows a progress bar until `left` says that nothing is left.
pub(crate) fn wait_for(target: &Target, what: &str, left: impl Fn(&Value) -> u64) -> Result<()> {
    let first = left(&target.ask(&Request::Status)?);
    let bar = ProgressBar::new(first.max(1));
    bar.set_style(ProgressStyle::with_template("{msg} {wide_bar} {percent} % {eta}")?);
    bar.set_message(what.to_owned());
    loop {
        let now = left(&target.ask(&Request::Status)?);
        bar.set_length(bar.length().unwrap_or(1).max(now));
        bar.set_position(bar.length().unwrap_or(1) - now);
        if now == 0 {
            bar.finish();
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
}
