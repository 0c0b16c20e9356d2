//! `sinew pool take-over`: this host instead of the one that the members of a pool record.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use sinew_engine::pool::{self, Opener, PoolError};
use sinew_format::model::config::Config;
use sinew_uring::Devices;

use crate::out::{complain, say};
use crate::pool::host::{self, Kind};
use crate::pool::{members, this_host};

/// Takes over a pool from a host that is dead, so that this host may open it.
///
/// While a host has a pool open for writing, the members record that host, and no other host opens the pool for writing. The
/// record stays if the pool was not stopped there. Make sure that the other host is off, or cannot reach the members: two hosts
/// that write to one pool destroy it. Nothing but the superblocks is written.
#[derive(Args)]
pub(crate) struct TakeOverArgs {
    /// The pool's members: files, block devices, or directories of them or of links to them.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    /// The other host is dead: really do it.
    #[arg(long)]
    yes: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When the members cannot be used, are not enough of them, or `--yes` was not given and is needed.
pub(crate) fn run(args: &TakeOverArgs) -> Result<()> {
    let devices = Devices::new();
    let available = members::open_available(&devices, &args.members, Kind::Pool, Duration::ZERO)?;
    available.problems.iter().for_each(|problem| complain!("warning: {problem}"));
    let opener = this_host::opener();
    let config: Config = host::run_alone(&devices, async |io| {
        let found = pool::discover_read_only(&io, &available.candidates).await?;
        Ok::<_, PoolError>((*found.config).clone())
    })??;
    let Some(other) = opener.other_host(&config) else {
        return tell(args, &config, None, &format!("pool {} is not open on another host", config.name));
    };
    if !args.yes {
        let open = this_host::is_open_on(&config.name, other);
        bail!("{open}; nothing was changed; say --yes if that host is dead");
    }
    let opener = Opener { take_over: true, ..opener };
    host::run_alone(&devices, async |io| pool::discover(&io, &available.candidates, &opener).await)??;
    let from = this_host::in_words(other);
    let told = format!("pool {} is taken over from {from}; this host may open it", config.name);
    tell(args, &config, Some(&other.name), &told)
}

fn tell(args: &TakeOverArgs, config: &Config, from: Option<&str>, told: &str) -> Result<()> {
    match args.json {
        true => say!("{:#}", json!({ "pool": config.name, "taken_over_from": from })),
        false => say!("{told}"),
    }
    Ok(())
}
