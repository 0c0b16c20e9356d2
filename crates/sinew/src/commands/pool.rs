//! `sinew pool`: make, look at, and destroy pools.

use std::fs::OpenOptions;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use sinew_engine::disk::superblock::Superblock;
use sinew_engine::disk::uuid_text;
use sinew_engine::geometry::Protection;
use sinew_engine::pool::{self, PoolSpec};
use sinew_uring::Devices;

use crate::api::{Request, Target};
use crate::{host, report, size};

/// Make, look at, and destroy pools.
#[derive(Subcommand)]
pub(crate) enum PoolCommand {
    Create(CreateArgs),
    Import(ImportArgs),
    Status(StatusArgs),
    Destroy(DestroyArgs),
}

/// Makes a pool of files or block devices.
#[derive(Args, Default)]
pub(crate) struct CreateArgs {
    /// Name of the pool.
    pub(crate) name: String,
    /// Its members.
    #[arg(required = true, value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
    /// mirror, mirror3, parity1 or parity2.
    #[arg(long, default_value = "parity1")]
    pub(crate) protection: String,
    /// Data columns of a stripe; by default as wide as the members allow, with one to spare.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub(crate) data_columns: usize,
    /// Shards, each served by one core; by default one per core.
    #[arg(long)]
    pub(crate) shards: Option<usize>,
    /// Keep no checksums: less memory, but silent corruption is not noticed.
    #[arg(long)]
    pub(crate) no_checksums: bool,
    /// Take members that hold something.
    #[arg(long)]
    pub(crate) force: bool,
    /// Make members that do not exist, as files of this size.
    #[arg(long)]
    pub(crate) size: Option<String>,
    /// Volumes to make, as NAME:SIZE.
    #[arg(long = "volume", value_name = "NAME:SIZE")]
    pub(crate) volumes: Vec<String>,
}

/// Looks at files or devices and says what pools they belong to and whether those can be served.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// Files or devices.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
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
    /// All its members.
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
        PoolCommand::Import(args) => import(&args),
        PoolCommand::Status(args) => {
            let status = args.target.ask(&Request::Status)?;
            if args.json {
                println!("{status:#}");
            } else {
                report::print(&status);
            }
            Ok(())
        }
        PoolCommand::Destroy(args) => destroy(&args),
    }
}

fn protection(name: &str) -> Result<Protection> {
    Ok(match name {
        "mirror" => Protection::Mirror { copies: 2 },
        "mirror3" => Protection::Mirror { copies: 3 },
        "parity1" => Protection::Parity1,
        "parity2" => Protection::Parity2,
        _ => bail!("{name} is not a protection; there are mirror, mirror3, parity1 and parity2"),
    })
}

fn volume(text: &str) -> Result<(String, u64)> {
    let (name, bytes) = text.rsplit_once(':').with_context(|| format!("{text} is not NAME:SIZE"))?;
    Ok((name.to_owned(), size::parse(bytes)?))
}

/// Makes a pool and its first volumes.
pub(crate) fn create(args: &CreateArgs) -> Result<()> {
    let volumes = args.volumes.iter().map(|text| volume(text)).collect::<Result<Vec<_>>>()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let protection = if args.protection.is_empty() { Protection::Parity1 } else { protection(&args.protection)? };
    let spec = PoolSpec {
        name: args.name.clone(),
        protection,
        data_columns: args.data_columns,
        shards: args.shards.unwrap_or(cores.min(8)),
        checksums: !args.no_checksums,
        journal_blocks: None,
        force: args.force,
    };
    if args.name.is_empty() || args.name.contains('/') {
        bail!("a pool's name is not empty and has no slash");
    }
    let made = args.size.as_deref().map(|text| make_files(&args.members, size::parse(text)?)).transpose()?;
    let created = create_on(args, &spec, volumes);
    if created.is_err() {
        // Nothing half done: files made for this pool go again.
        for path in made.into_iter().flatten() {
            let _ = std::fs::remove_file(path);
        }
    }
    created
}

fn create_on(args: &CreateArgs, spec: &PoolSpec, volumes: Vec<(String, u64)>) -> Result<()> {
    let devices = Devices::new();
    let candidates = host::candidates(&devices, &args.members)?;
    let config = host::run_alone(&devices, async |io| pool::create(&io, &candidates, spec).await)??;
    if !volumes.is_empty() {
        let again = candidates.clone();
        let added = host::with_pool(devices.clone(), candidates, 1, NoWork, async |open| {
            for (name, bytes) in &volumes {
                open.control.create_volume(name, *bytes).await?;
            }
            Ok(open.control.close().await?)
        });
        if let Err(error) = added {
            host::run_alone(&devices, async |io| {
                for candidate in &again {
                    let _ = pool::wipe(&io, candidate).await;
                }
            })?;
            return Err(error);
        }
    }
    let g = config.geometry;
    println!("made pool {}: {} members, {}, stripes of {}+{}, {} shards", config.name, config.members.len(), g.protection,
        g.data_columns, g.parity_columns(), g.shards);
    Ok(())
}

/// Nothing to do on other threads.
#[derive(Clone)]
pub(crate) struct NoWork;

impl host::Worker for NoWork {
    async fn work(
        self,
        _: usize,
        _: sinew_uring::UringIo,
        _: sinew_engine::client::PoolClient<sinew_uring::UringIo>,
        _: sinew_engine::control::Catalog,
    ) {
    }
}

fn make_files(paths: &[PathBuf], bytes: u64) -> Result<Vec<PathBuf>> {
    let mut made = Vec::new();
    for path in paths.iter().filter(|path| !path.exists()) {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let sized = file.and_then(|file| file.set_len(bytes));
        sized.with_context(|| format!("cannot make {}", path.display()))?;
        made.push(path.clone());
    }
    Ok(made)
}

fn import(args: &ImportArgs) -> Result<()> {
    let devices = Devices::new();
    let candidates = host::candidates(&devices, &args.members)?;
    let found = host::run_alone(&devices, async |io| {
        let mut found = Vec::new();
        for candidate in &candidates {
            found.push((candidate.path.clone(), pool::read_superblock(&io, candidate.device).await));
        }
        found
    })?;
    let newest = |uuid| {
        let of_pool = found.iter().filter_map(|(_, s)| s.as_ref().ok()).filter(|s| s.config.pool == uuid);
        of_pool.max_by_key(|s| s.config.generation)
    };
    let mut lines = Vec::new();
    for (path, superblock) in &found {
        lines.push(match superblock {
            Ok(s) => describe(path, s, newest(s.config.pool).unwrap_or(s)),
            Err(error) => json!({ "path": path, "error": error.to_string() }),
        });
    }
    if args.json {
        println!("{:#}", json!(lines));
        return Ok(());
    }
    for line in &lines {
        match line["error"].as_str() {
            Some(error) => println!("{}: {error}", line["path"].as_str().unwrap_or("")),
            None => println!("{}: member {} of {} ({} of {} members needed), {}", line["path"].as_str().unwrap_or(""),
                line["member"], line["pool"].as_str().unwrap_or(""), line["needed"], line["members"],
                line["state"].as_str().unwrap_or("")),
        }
    }
    Ok(())
}

fn describe(path: &str, s: &Superblock, newest: &Superblock) -> serde_json::Value {
    let member = usize::from(s.member);
    let config = &newest.config;
    let same = config.members.get(member).is_some_and(|m| m.uuid == s.config.members[member].uuid);
    let state = if same { config.members[member].state.name() } else { "replaced" };
    json!({
        "path": path, "pool": config.name, "uuid": uuid_text(&config.pool), "member": member, "state": state,
        "members": config.members.len(), "needed": config.members.len() - config.geometry.failures(),
        "protection": config.geometry.protection.to_string(), "generation": s.config.generation,
    })
}

fn destroy(args: &DestroyArgs) -> Result<()> {
    let devices = Devices::new();
    let candidates = host::candidates(&devices, &args.members)?;
    host::run_alone(&devices, async |io| {
        for candidate in &candidates {
            if let Err(error) = pool::read_superblock(&io, candidate.device).await {
                bail!("{} is not a member of a pool: {error}", candidate.path);
            }
        }
        if !args.yes {
            bail!("everything on these {} members would be lost: say --yes if that is meant", candidates.len());
        }
        for candidate in &candidates {
            pool::wipe(&io, candidate).await?;
        }
        println!("destroyed: {} members are free", candidates.len());
        Ok(())
    })?
}
