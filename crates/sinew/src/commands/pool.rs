//! `sinew pool`: make, look at, and destroy pools.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use sinew_engine::pool::preset::Preset;
use sinew_engine::pool::{self, PoolKind};
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::superblock::Superblock;
use sinew_uring::Devices;

use super::damage::{self, DamageArgs};
use super::events::{self, EventsArgs};
use super::find::{self, FindArgs};
use super::list::{self, ListArgs};
use super::probe::{self, ProbeArgs};
use super::status::{self, StatusArgs};
use super::take_over::{self, TakeOverArgs};
use crate::names::named;
use crate::out::say;
use crate::pool::create::{NewPool, wipe};
use crate::pool::{host, members, preset, this_host};
use crate::{report, units};

/// Pools: create, find, list, status, damage, take-over, destroy.
#[derive(Subcommand)]
pub(crate) enum PoolCommand {
    Create(CreateArgs),
    #[command(alias = "import")]
    Find(Box<FindArgs>),
    #[command(hide = true)]
    Probe(ProbeArgs),
    List(ListArgs),
    Status(StatusArgs),
    /// As `sinew events`.
    #[command(alias = "history", hide = true)]
    Events(EventsArgs),
    Damage(DamageArgs),
    TakeOver(TakeOverArgs),
    Destroy(DestroyArgs),
}

/// Makes a pool of files or block devices.
#[derive(Args)]
pub(crate) struct CreateArgs {
    /// Name of the pool.
    name: String,
    /// Its members: files or block devices, at least three.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    /// The failures that the pool survives.
    #[arg(long, value_parser = named::<Protection>(), default_value_t)]
    protection: Protection,
    /// Data columns of a stripe; by default as wide as the members allow, with one to spare.
    #[arg(long, value_name = "K", default_value_t = 0, hide_default_value = true)]
    data_columns: usize,
    /// Make the pool or array of a preset: sinew, fusionraid, fusion-nd, raid50, elastic,
    /// elastic-raid5-only, elastic-raid10-only (docs/presets.md). `sinew serve --preset` sets its policy and its spike
    /// avoidance.
    #[arg(long, conflicts_with_all = ["protection", "data_columns"], value_parser = preset::parse)]
    preset: Option<Preset>,
    /// Shards, each served by one core; by default one for every two cores.
    #[arg(long, value_name = "N")]
    shards: Option<usize>,
    /// Keep no checksums: less memory, but silent corruption is not noticed.
    #[arg(long)]
    no_checksums: bool,
    /// Use members that are not empty. Their content is lost.
    #[arg(long)]
    force: bool,
    /// Make members that do not exist, as files of this size.
    #[arg(long, value_parser = units::parse_size)]
    size: Option<u64>,
    /// The physical space that the pool may use of each member, if that has more addresses; by default as much as the member
    /// tells.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    physical: Option<u64>,
    /// A volume to make; may be given several times.
    #[arg(long = "volume", value_name = "NAME:SIZE", value_parser = volume)]
    volumes: Vec<(String, u64)>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Removes a pool from its members. Its data is lost.
#[derive(Args)]
pub(crate) struct DestroyArgs {
    /// Its members: files, block devices, or directories of member files.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    /// Really do it.
    #[arg(long)]
    yes: bool,
    /// Also if another host has the pool open, or did not stop it.
    #[arg(long)]
    force: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When members cannot be used, the pool cannot exist, or the server cannot be reached.
pub(crate) fn run(command: PoolCommand) -> Result<()> {
    match command {
        PoolCommand::Create(args) => create(&args),
        PoolCommand::Find(args) => find::run(*args),
        PoolCommand::Probe(args) => probe::run(&args),
        PoolCommand::List(args) => list::run(&args),
        PoolCommand::Status(args) => status::run(&args),
        PoolCommand::Events(args) => events::run(&args),
        PoolCommand::Damage(args) => damage::run(&args),
        PoolCommand::TakeOver(args) => take_over::run(&args),
        PoolCommand::Destroy(args) => destroy(&args),
    }
}

fn volume(text: &str) -> Result<(String, u64)> {
    let (name, bytes) = text.rsplit_once(':').context("write NAME:SIZE, for example vol0:10G")?;
    Ok((name.to_owned(), units::parse_size(bytes)?))
}

fn create(args: &CreateArgs) -> Result<()> {
    let new = NewPool {
        name: &args.name,
        members: &args.members,
        size: args.size,
        shards: args.shards,
        force: args.force,
        volumes: &args.volumes,
        physical: args.physical,
    };
    let checksums = !args.no_checksums;
    let config = new.create(|zeroed| match &args.preset {
        Some(preset) => preset::kind(preset, args.members.len(), zeroed, checksums),
        None => {
            Ok(PoolKind::Mapped { protection: args.protection, data_columns: args.data_columns, checksums })
        }
    })?;
    match args.json {
        true => say!("{:#}", report::made_json(&config, &args.volumes)),
        false => report::made(&config),
    }
    Ok(())
}

fn destroy(args: &DestroyArgs) -> Result<()> {
    let devices = Devices::new();
    let paths = members::expand(&args.members)?;
    if paths.is_empty() {
        bail!("no Sinew member there; name the pool's members or their directory");
    }
    // Opening fails while a server has them.
    let candidates = members::open_all(&devices, &paths)?;
    let (mut pools, newest) = host::run_alone(&devices, async |io| {
        let (mut pools, mut newest) = (Vec::new(), BTreeMap::new());
        for candidate in &candidates {
            match pool::read_superblock(&io, candidate.device).await {
                Ok(Superblock { config, .. }) => {
                    pools.push(config.name.clone());
                    let known = newest.entry(config.pool).or_insert_with(|| config.clone());
                    if config.age() > known.age() {
                        *known = config;
                    }
                }
                Err(error) => {
                    bail!("{} is not a member of a pool ({error}); nothing was changed", candidate.path)
                }
            }
        }
        Ok((pools, newest))
    })??;
    pools.dedup();
    let opener = this_host::opener();
    for config in newest.values().filter(|_| !args.force) {
        if let Some(other) = opener.other_host(config) {
            let open = this_host::is_open_on(&config.name, other);
            bail!("{open}; nothing was changed; say --force if that host is dead");
        }
    }
    let what = format!("{} on {} members", pools.join(", "), candidates.len());
    if !args.yes {
        bail!("this would destroy {what}; nothing was changed; say --yes to do it");
    }
    wipe(&devices, &candidates)?;
    match args.json {
        true => say!("{:#}", json!({ "pools": pools, "members": candidates.len() })),
        false => say!("destroyed {what}"),
    }
    Ok(())
}
