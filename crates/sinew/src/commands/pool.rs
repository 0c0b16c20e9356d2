//! `sinew pool`: make, look at, and destroy pools.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use sinew_engine::client::PoolClient;
use sinew_engine::control::Catalog;
use sinew_engine::pool::preset::Preset;
use sinew_engine::pool::{self, PoolKind, PoolSpec};
use sinew_format::model::config::Config;
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::pool_geometry::Shape;
use sinew_uring::{Devices, UringIo};

use crate::api::{Request, Target};
use crate::commands::array;
use crate::commands::import::{ImportArgs, import};
use crate::out::say;
use crate::{cores, host, members, preset, report, size};

/// Shards of a new pool at most, unless told otherwise: each takes its share of every member.
const SHARDS_DEFAULT_MAX: usize = 8;

/// Make, look at, and destroy pools.
#[derive(Subcommand)]
pub(crate) enum PoolCommand {
    Create(CreateArgs),
    Import(ImportArgs),
    Status(StatusArgs),
    Destroy(DestroyArgs),
}

/// Makes a pool of files or block devices.
#[derive(Args)]
pub(crate) struct CreateArgs {
    /// Name of the pool.
    pub(crate) name: String,
    /// Its members: files or block devices, at least three.
    #[arg(required = true, value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
    /// What the pool survives.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) protection: ProtectionName,
    /// Data columns of a stripe; by default as wide as the members allow, with one to spare.
    #[arg(long, value_name = "K", default_value_t = 0, hide_default_value = true)]
    pub(crate) data_columns: usize,
    /// What a system of the papers is made as, or Sinew itself: sinew, fusionraid, fusion-nd, raid50 (docs/presets.md). What
    /// it does with spikes and small writes is for `sinew serve --preset` to say.
    #[arg(long, conflicts_with_all = ["protection", "data_columns"], value_parser = preset::parse)]
    pub(crate) preset: Option<Preset>,
    /// Shards, each served by one core; by default one for every two cores.
    #[arg(long, value_name = "N")]
    pub(crate) shards: Option<usize>,
    /// Keep no checksums: less memory, but silent corruption is not noticed.
    #[arg(long)]
    pub(crate) no_checksums: bool,
    /// Take members that hold something. What is on them is lost.
    #[arg(long)]
    pub(crate) force: bool,
    /// Make members that do not exist, as files of this size.
    #[arg(long, value_parser = size::parse)]
    pub(crate) size: Option<u64>,
    /// A volume to make; may be given several times.
    #[arg(long = "volume", value_name = "NAME:SIZE", value_parser = volume)]
    pub(crate) volumes: Vec<(String, u64)>,
}

/// What a pool survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtectionName {
    /// Two copies: one member may fail.
    Mirror,
    /// Three copies: two members may fail.
    Mirror3,
    /// One parity chunk per stripe: one member may fail.
    #[default]
    Parity1,
    /// Two parity chunks per stripe: two members may fail.
    Parity2,
}

impl From<ProtectionName> for Protection {
    fn from(name: ProtectionName) -> Protection {
        match name {
            ProtectionName::Mirror => Protection::Mirror { copies: 2 },
            ProtectionName::Mirror3 => Protection::Mirror { copies: 3 },
            ProtectionName::Parity1 => Protection::Parity1,
            ProtectionName::Parity2 => Protection::Parity2,
        }
    }
}

/// Shows the state of the running pool: is the data safe, what is happening, what to do.
#[derive(Args)]
pub(crate) struct StatusArgs {
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Removes a pool from its members. What it held is lost.
#[derive(Args)]
pub(crate) struct DestroyArgs {
    /// Its members: files, block devices, or directories of member files.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    /// Really do it.
    #[arg(long)]
    yes: bool,
}

/// Runs the command.
pub(crate) fn run(command: PoolCommand) -> Result<()> {
    match command {
        PoolCommand::Create(args) => create(&args),
        PoolCommand::Import(args) => import(args),
        PoolCommand::Status(args) => status(&args),
        PoolCommand::Destroy(args) => destroy(&args),
    }
}

fn volume(text: &str) -> Result<(String, u64)> {
    let (name, bytes) = text.rsplit_once(':').context("write NAME:SIZE, for example vol0:10G")?;
    Ok((name.to_owned(), size::parse(bytes)?))
}

/// Shows the state of the running pool.
pub(crate) fn status(args: &StatusArgs) -> Result<()> {
    let status = args.target.ask(&Request::Status)?;
    if args.json {
        say!("{status:#}");
    } else {
        report::print(&status);
    }
    Ok(())
}

/// What every new pool has, of either kind.
pub(crate) struct NewPool<'a> {
    pub(crate) name: &'a str,
    pub(crate) members: &'a [PathBuf],
    /// Size of members that have to be made.
    pub(crate) size: Option<u64>,
    pub(crate) shards: Option<usize>,
    pub(crate) force: bool,
    pub(crate) volumes: &'a [(String, u64)],
}

/// Makes a pool and its first volumes, or nothing.
pub(crate) fn create(args: &CreateArgs) -> Result<()> {
    let new = NewPool {
        name: &args.name,
        members: &args.members,
        size: args.size,
        shards: args.shards,
        force: args.force,
        volumes: &args.volumes,
    };
    let checksums = !args.no_checksums;
    let config = new.create(|zeroed| match &args.preset {
        Some(preset) => preset::kind(preset, args.members.len(), zeroed, checksums),
        None => Ok(PoolKind::Mapped {
            protection: args.protection.into(),
            data_columns: args.data_columns,
            checksums,
        }),
    })?;
    let g = match &config.shape {
        Shape::Mapped(geometry) => geometry,
        Shape::Array(array) => {
            array::say_made(&config, array);
            return Ok(());
        }
    };
    say!(
        "made pool {}: {} members, {}, stripes of {}+{}, {} {}",
        config.name,
        config.members.len(),
        g.protection,
        g.data_columns,
        g.parity_columns(),
        g.shards,
        if g.shards == 1 { "shard" } else { "shards" }
    );
    Ok(())
}

impl NewPool<'_> {
    /// Makes it; `kind` is told whether all members were made just now, and so are zeros.
    pub(crate) fn create(&self, kind: impl FnOnce(bool) -> Result<PoolKind>) -> Result<Config> {
        // The name becomes part of the path of the control socket.
        let name = self.name;
        if name.is_empty() || name.len() > 64 || name.contains(['/', '\0']) || name.starts_with('.') {
            bail!("{name:?} cannot be a pool's name: 1 to 64 bytes, no slash, no dot in front");
        }
        let paths = self.members.iter().map(std::path::absolute).collect::<std::io::Result<Vec<_>>>()?;
        members::refuse_twice(&paths)?;
        let made = members::make_files(self.members, self.size)?;
        let created = kind(made.len() == self.members.len()).and_then(|kind| self.create_on(kind));
        if created.is_err() {
            for path in made {
                let _ = std::fs::remove_file(path);
            }
        }
        created
    }

    fn create_on(&self, kind: PoolKind) -> Result<Config> {
        let spec = PoolSpec {
            name: self.name.to_owned(),
            kind,
            shards: self.shards.unwrap_or_else(shards_default),
            journal_blocks: None,
            force: self.force,
        };
        let devices = Devices::new();
        let candidates = members::open_all(&devices, self.members)?;
        let config = host::run_alone(&devices, async |io| pool::create(&io, &candidates, &spec).await)??;
        if !self.volumes.is_empty() {
            let made = host::with_pool(
                devices.clone(),
                host::Kind::Pool,
                candidates.clone(),
                None,
                NoWork,
                async |open| {
                    for (name, bytes) in self.volumes {
                        open.control.create_volume(name, *bytes).await?;
                    }
                    Ok(open.control.close().await?)
                },
            );
            if let Err(error) = made {
                wipe(&devices, &candidates)?;
                return Err(error);
            }
        }
        Ok(config)
    }
}

/// One shard for every two cores: the clients on this machine need some too, and a request that crosses cores for its
/// shard takes longer.
pub(crate) fn shards_default() -> usize {
    (cores::allowed().0.len() / 2).clamp(1, SHARDS_DEFAULT_MAX)
}

/// Nothing to do on other threads.
#[derive(Clone)]
struct NoWork;

impl host::Worker for NoWork {
    async fn work(self, _: usize, _: UringIo, _: PoolClient<UringIo>, _: Catalog) {}
}

fn wipe(devices: &Devices, candidates: &[pool::Candidate]) -> Result<()> {
    host::run_alone(devices, async |io| {
        for candidate in candidates {
            pool::wipe(&io, candidate).await?;
        }
        Ok(())
    })?
}

fn destroy(args: &DestroyArgs) -> Result<()> {
    let devices = Devices::new();
    let paths = members::expand(&args.members)?;
    if paths.is_empty() {
        bail!("no Sinew member there; name the pool's members or their directory");
    }
    // Opening fails while a server has them.
    let candidates = members::open_all(&devices, &paths)?;
    let mut pools = host::run_alone(&devices, async |io| {
        let mut pools = Vec::new();
        for candidate in &candidates {
            match pool::read_superblock(&io, candidate.device).await {
                Ok(superblock) => pools.push(superblock.config.name),
                Err(error) => {
                    bail!("{} is not a member of a pool ({error}); nothing was changed", candidate.path)
                }
            }
        }
        Ok(pools)
    })??;
    pools.dedup();
    let what = format!("{} on {} members", pools.join(", "), candidates.len());
    if !args.yes {
        bail!("this would destroy {what}; nothing was changed; say --yes if that is meant");
    }
    wipe(&devices, &candidates)?;
    say!("destroyed {what}");
    Ok(())
}
