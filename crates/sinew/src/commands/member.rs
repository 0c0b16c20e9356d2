//! `sinew member`: list members, add and remove them, take them offline, bring them back, replace them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde_json::{Value, json};
use sinew_core::ids::uuid_text;
use sinew_format::model::config::MemberState;

use crate::client::{Target, wait_for};
use crate::out::say;
use crate::pool::members;
use crate::protocol::Request;
use crate::{report, units};

/// Members of the running pool: list, add, remove, replace.
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
    /// Adds devices to a pool. New writes use them at once, and their share of the stored data is moved to them.
    Add {
        /// The devices.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// Make those that do not exist, as files of this size.
        #[arg(long, value_parser = units::parse_size)]
        size: Option<u64>,
        /// Use devices that are not empty. Their content is lost.
        #[arg(long)]
        force: bool,
        /// Wait until the rebalance has ended.
        #[arg(long)]
        wait: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Removes a member from a pool for good: its data is moved to the others, then the device is cleared.
    Remove {
        /// Its number.
        member: usize,
        /// Cancel the removal of a member.
        #[arg(long, conflicts_with = "wait")]
        cancel: bool,
        /// Wait until it has left.
        #[arg(long)]
        wait: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Takes a member offline, if the pool can do without it.
    Offline {
        /// Its number.
        member: usize,
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Brings a member back; only the writes that it missed are rebuilt.
    Online {
        /// Its number.
        member: usize,
        /// Where it is now, if not where it was.
        path: Option<PathBuf>,
        /// Wait until it is up to date.
        #[arg(long)]
        wait: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Takes the member on a device back into its pool, if that is open without it because the member was missing then. Otherwise
    /// nothing is done. The package runs this when a device appears.
    Rejoin {
        /// The device.
        path: PathBuf,
        #[command(flatten)]
        target: Target,
    },
    /// Limits the physical space that the pool may use of a member that has more addresses than space.
    Physical {
        /// Its number.
        member: usize,
        /// The limit; `none` is that of the device.
        #[arg(value_name = "SIZE", value_parser = parse_physical)]
        limit: u64,
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Sets which part of a member's space a mapped pool uses first. The rest stays free as long as there is room on other members,
    /// so that the member is written less and wears more slowly.
    Weight {
        /// Its number.
        member: usize,
        /// Percent of its space, from 1 to 100, which uses it like the others.
        #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
        percent: u8,
        /// As JSON.
        #[arg(long)]
        json: bool,
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
        /// Use a device that is not empty. Its content is lost.
        #[arg(long)]
        force: bool,
        /// Wait until everything is rebuilt.
        #[arg(long)]
        wait: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
}

/// A limit of physical space; 0 for none.
fn parse_physical(text: &str) -> Result<u64> {
    if text == "none" { Ok(0) } else { units::parse_size(text) }
}

/// Runs the command.
///
/// # Errors
/// When the server cannot be reached, refuses the request, or the work that is waited for does not succeed.
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
        MemberCommand::Add { paths, size, force, wait, json, target } => {
            add(paths, size, force, wait, json, &target)
        }
        MemberCommand::Remove { member, cancel, wait, json, target } => {
            target.ask(&Request::MemberRemove { member, cancel })?;
            let told = match (cancel, wait) {
                (true, _) => format!("member {member} stays"),
                (false, true) => wait_for_removal(&target, member)?,
                (false, false) => {
                    format!("member {member} is leaving; `sinew pool status` shows the progress")
                }
            };
            tell(&target, member, json, &told)
        }
        MemberCommand::Offline { member, json, target } => {
            target.ask(&Request::MemberOffline { member })?;
            let told = format!(
                "member {member} is offline; bring it back with `sinew member online {member}{}`",
                target.options()
            );
            tell(&target, member, json, &told)
        }
        MemberCommand::Online { member, path, wait, json, target } => {
            target.ask(&Request::MemberOnline {
                member,
                path: path.as_deref().map(members::absolute).transpose()?,
            })?;
            let told = finish(&target, member, wait)?;
            tell(&target, member, json, &told)
        }
        MemberCommand::Rejoin { path, target } => rejoin(&path, &target),
        MemberCommand::Physical { member, limit, json, target } => {
            target.ask(&Request::MemberPhysical { member, bytes: limit })?;
            let told = match limit {
                0 => format!("member {member} has the physical space that its device tells"),
                limit => format!("the pool uses {} of member {member} at most", units::bytes(limit)),
            };
            tell(&target, member, json, &told)
        }
        MemberCommand::Weight { member, percent, json, target } => {
            target.ask(&Request::MemberWeight { member, percent })?;
            tell(&target, member, json, &format!("{percent} % of the space of member {member} is used first"))
        }
        MemberCommand::Replace { member, path, force, wait, json, target } => {
            target.ask(&Request::MemberReplace {
                member,
                path: path.as_deref().map(members::absolute).transpose()?,
                force,
            })?;
            let told = finish(&target, member, wait)?;
            tell(&target, member, json, &told)
        }
    }
}

fn rejoin(path: &Path, target: &Target) -> Result<()> {
    let superblock =
        members::peek(path).with_context(|| format!("{} is not a member of a Sinew pool", path.display()))?;
    let (config, member) = (&superblock.config, usize::from(superblock.member));
    let target = target.or_pool(&config.name);
    // Without a server there is nothing to rejoin. One that waits for its members finds this one.
    let Ok(status) = target.ask(&Request::Status) else { return Ok(()) };
    let is_pool = status["uuid"] == uuid_text(&config.pool);
    if is_pool && status["members"][member]["state"] == MemberState::Missing.name() {
        target.ask(&Request::MemberOnline { member, path: Some(members::absolute(path)?) })?;
        say!("{}", finish(&target, member, false)?);
    }
    Ok(())
}

/// Says what became of a member: in words, or as its entry in the state.
fn tell(target: &Target, member: usize, json: bool, told: &str) -> Result<()> {
    if json {
        say!("{:#}", target.ask(&Request::Status)?["members"][member]);
    } else {
        say!("{told}");
    }
    Ok(())
}

fn add(
    paths: Vec<PathBuf>,
    size: Option<u64>,
    force: bool,
    wait: bool,
    json: bool,
    target: &Target,
) -> Result<()> {
    let paths = paths.iter().map(|path| members::absolute(path)).collect::<Result<Vec<_>>>()?;
    members::refuse_twice(&paths)?;
    let made = members::make_files(&paths, size)?;
    let mut all = Vec::new();
    for (i, path) in paths.iter().enumerate() {
        let added = target.ask(&Request::MemberAdd { path: path.clone(), force });
        if added.is_err() {
            let unused = made.iter().filter(|path| paths[i..].contains(path));
            unused.for_each(|path| drop(std::fs::remove_file(path)));
        }
        let member = &added?["member"];
        if !json {
            say!("{} is member {member}", path.display());
        }
        all.push(json!({ "path": path, "member": member }));
    }
    if wait {
        wait_for(target, "rebalance", |status| status["rebalance_chunks_left"].as_u64().unwrap_or(0))?;
    }
    match (json, wait) {
        (true, _) => say!("{:#}", json!(all)),
        (false, true) => say!("the members have their share"),
        (false, false) => say!("data is being rebalanced; `sinew pool status` shows the progress"),
    }
    Ok(())
}

/// Waits until a member has left; gives that in words.
fn wait_for_removal(target: &Target, member: usize) -> Result<String> {
    let state = |status: &Value| status["members"][member]["state"].as_str().unwrap_or("unknown").to_owned();
    let is_leaving = |status: &Value| ["leaving", "evacuating"].contains(&state(status).as_str());
    wait_for(target, "removal", |status| match is_leaving(status) {
        true => status["rebuild_chunks_left"].as_u64().unwrap_or(0) + 1,
        false => 0,
    })?;
    match state(&target.ask(&Request::Status)?).as_str() {
        "removed" => Ok(format!("member {member} has left; its device can be taken away")),
        state => bail!("member {member} is {state} now: it has not left"),
    }
}

/// Gives in words that a rebuild is under way, or waits until it has come to a good end.
fn finish(target: &Target, member: usize, wait: bool) -> Result<String> {
    let state = &target.ask(&Request::Status)?["members"][member]["state"];
    if state == "spare" {
        return Ok(format!("member {member} is a spare now"));
    }
    if !wait {
        return Ok(format!("member {member} is being rebuilt; `sinew pool status` shows the progress"));
    }
    wait_for(target, "rebuild", rebuild_left)?;
    let status = target.ask(&Request::Status)?;
    match status["members"][member]["state"].as_str() {
        Some("active") => Ok(format!("member {member} is up to date")),
        Some("removed") if status["array"].is_object() => Ok(format!(
            "member {member} has no place any more: the device has taken that of a member that was out"
        )),
        Some("removed") => Ok(format!("the data of member {member} is on the others now")),
        state => {
            bail!("member {member} is {} now: the rebuild did not come to an end", state.unwrap_or("unknown"))
        }
    }
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
