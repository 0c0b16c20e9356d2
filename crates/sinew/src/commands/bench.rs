//! `sinew bench`: load in this process, on a fresh pool of memory members, of files or of devices.
//!
//! It measures the engine and its members without a network protocol in between. The room `bench` makes the requests and
//! the results, this file the pool.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use clap::Args;
use sinew_core::buf::Buf;
use sinew_core::io::{Gather, Io};
use sinew_core::volume::Volume;
use sinew_engine::pool::preset::Preset;
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::mapped_geometry::Protection;
use sinew_layout::{LevelName, LevelParts};
use sinew_members::latency::SpikeAvoidance;
use sinew_uring::{Devices, IoRoute};

use crate::bench::load::{self, Load, LoadSpec, Pattern};
use crate::bench::results::{self, Measured};
use crate::names::{self, named};
use crate::out::say;
use crate::pool::fault_member::{self, FaultMember};
use crate::pool::host::{self, Open, Resources};
use crate::pool::table_cache::TableCache;
use crate::pool::{members, preset};
use crate::units;

/// The pool and the volume that a benchmark makes, and knows as its own later.
const NAME: &str = "bench";
/// Bytes of a memory member touched at once.
const TOUCH_BYTES: u64 = 1 << 20;

/// Benchmark of a pool under load from this process.
///
/// Without MEMBER it makes a fresh pool of memory members, or of files in a directory that go afterwards. With MEMBER it
/// makes one on those and leaves it; a pool that is there already is used only if a benchmark made it, or with
/// --existing.
#[derive(Args, Clone)]
pub(crate) struct BenchArgs {
    /// Files or block devices to use as members.
    #[arg(value_name = "MEMBER", conflicts_with_all = ["dir", "memory", "members", "size"])]
    paths: Vec<PathBuf>,
    /// Use memory members; the default.
    #[arg(long, conflicts_with = "dir")]
    memory: bool,
    /// Use file members in this directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Number of members.
    #[arg(long, default_value_t = 8)]
    members: usize,
    /// Size of each member.
    #[arg(long, default_value = "512M", value_parser = units::parse_size)]
    size: u64,
    /// Use any pool on MEMBER: its volume `bench` is made if it does not exist, and overwritten.
    #[arg(long, requires = "paths")]
    existing: bool,
    /// Use members that are not empty. Their content is lost.
    #[arg(long, requires = "paths", conflicts_with = "existing")]
    force: bool,
    /// Size of the volume; by default half of what the pool can store.
    #[arg(long, value_parser = units::parse_size)]
    volume_size: Option<u64>,
    /// The pattern of requests.
    #[arg(long, value_enum, default_value = "randwrite")]
    rw: Pattern,
    /// Write the whole volume first, as is always done for reads.
    #[arg(long)]
    fill: bool,
    /// Take this many members offline before measuring.
    #[arg(long, value_name = "N", default_value_t = 0)]
    offline: usize,
    /// Bytes per request.
    #[arg(long, default_value = "4K", value_parser = units::parse_size)]
    bs: u64,
    /// Requests under way at the same time, over all threads.
    #[arg(long, default_value_t = 32)]
    depth: usize,
    /// Duration.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Shards, each on a thread of its own as far as there are cores.
    #[arg(long, default_value_t = 1)]
    shards: usize,
    /// The failures that the pool survives.
    #[arg(long, value_parser = named::<Protection>(), default_value_t)]
    protection: Protection,
    /// Data columns of a stripe; 0 for the default.
    #[arg(long, value_name = "K", default_value_t = 0)]
    data_columns: usize,
    /// Keep no checksums.
    #[arg(long)]
    no_checksums: bool,
    /// Measure a preset: sinew, fusionraid, fusion-nd, raid50, elastic,
    /// elastic-raid5-only, elastic-raid10-only (docs/presets.md).
    #[arg(long, value_parser = preset::parse,
        conflicts_with_all = ["protection", "data_columns", "level", "spike_avoidance"])]
    preset: Option<Preset>,
    /// Measure an array of this level instead of a mapped pool.
    #[arg(long, value_parser = named::<LevelName>(),
        conflicts_with_all = ["protection", "data_columns", "no_checksums"])]
    level: Option<LevelName>,
    /// Of an array: bytes of a chunk.
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = units::parse_size, requires = "level")]
    chunk: u64,
    /// Of an array: no journal, the write hole stays open.
    #[arg(long, requires = "level")]
    no_journal: bool,
    /// How members in a latency spike are detected.
    #[arg(long, alias = "step-around", value_parser = names::spike_avoidance(), default_value_t)]
    spike_avoidance: SpikeAvoidance,
    /// Of a mapped pool: memory of the table cache, or `none` for no bound.
    #[arg(long, value_name = "SIZE", default_value = "none", value_parser = TableCache::parse,
        conflicts_with = "level")]
    table_cache: TableCache,
    /// Requests per second at most, in all, each due at its time however long those before it take; latency counts from
    /// that time. Without it each client issues its next request at once.
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Inject a fault into a member, by its number, while it is measured: 2:spikes,period=200ms,length=50ms,height=20ms
    /// (docs/fault-members.md); can be given several times.
    #[arg(long, value_name = "FAULT", value_parser = fault_member::parse)]
    fault_member: Vec<FaultMember>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl BenchArgs {
    fn kind(&self, members: usize) -> Result<PoolKind> {
        if let Some(preset) = &self.preset {
            return preset::kind(preset, members, true, !self.no_checksums);
        }
        Ok(match self.level {
            Some(level) => PoolKind::Array(ArraySpec {
                level: level.level(LevelParts::default()),
                chunk_bytes: u32::try_from(self.chunk).unwrap_or(u32::MAX),
                journal: !self.no_journal,
                spares: 0,
                // Members of files and memory are made for this; on others a resync would be measured as well.
                zeroed: true,
                elastic: None,
            }),
            None => PoolKind::Mapped {
                protection: self.protection,
                data_columns: self.data_columns,
                checksums: !self.no_checksums,
            },
        })
    }
}

/// Runs the command.
///
/// # Errors
/// When the pool cannot be made or opened, or a request fails.
pub(crate) fn run(args: BenchArgs) -> Result<()> {
    if args.bs == 0 || !args.bs.is_multiple_of(4096) || args.bs > 32 << 20 {
        bail!("a request has a multiple of 4096 bytes and at most 32M");
    }
    if args.depth == 0 || !(0.0..1e6).contains(&args.seconds) {
        bail!("--depth is at least 1, and --seconds a reasonable time");
    }
    let devices = Devices::new();
    let mut made = Vec::new();
    let result = match &args.dir {
        Some(dir) => make_files(dir, args.members, args.size, &mut made)
            .and_then(|()| on_made(&args, &devices, members::open_all(&devices, &made)?)),
        None if !args.paths.is_empty() => on_given(&args, &devices),
        None => {
            let member = |i| Ok(Candidate { device: devices.memory(args.size)?, path: format!("memory{i}") });
            let members = (0..args.members).map(member).collect::<Result<Vec<_>>>();
            members.and_then(|members| on_made(&args, &devices, members))
        }
    };
    for path in made {
        let _ = std::fs::remove_file(path);
    }
    result
}

/// On members made for this.
fn on_made(args: &BenchArgs, devices: &Devices, members: Vec<Candidate>) -> Result<()> {
    touch(devices, &members)?;
    on_fresh(args, devices, members, true)
}

/// Writes members in memory from end to end: the system gives memory page by page at the first write, which takes longer
/// than the engine does and is no part of it.
fn touch(devices: &Devices, members: &[Candidate]) -> Result<()> {
    let zeros: Gather = Rc::new([Buf::zeroed(TOUCH_BYTES as usize)]);
    host::run_alone(devices, async |io| {
        for member in members.iter().filter(|m| devices.route(m.device) != Some(IoRoute::Ring)) {
            let bytes = io.space(member.device)?.bytes;
            for offset in (0..bytes / TOUCH_BYTES).map(|i| i * TOUCH_BYTES) {
                io.write(member.device, offset, Rc::clone(&zeros)).await?;
            }
        }
        Ok(())
    })?
}

fn make_files(dir: &Path, count: usize, bytes: u64, made: &mut Vec<PathBuf>) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for i in 0..count {
        members::make_file(&dir.join(format!("bench{i}")), bytes, made)?;
    }
    Ok(())
}

fn on_fresh(args: &BenchArgs, devices: &Devices, candidates: Vec<Candidate>, force: bool) -> Result<()> {
    let spec = PoolSpec {
        name: NAME.to_owned(),
        kind: args.kind(candidates.len())?,
        shards: args.shards,
        journal_blocks: None,
        force,
        physical: None,
    };
    host::run_alone(devices, async |io| pool::create(&io, &candidates, &spec).await)??;
    measure(args, devices, candidates)
}

/// On members that were named: nothing on them is touched unless it is a benchmark's, or that was asked for.
fn on_given(args: &BenchArgs, devices: &Devices) -> Result<()> {
    let candidates = members::open_all(devices, &args.paths)?;
    let names = host::run_alone(devices, async |io| {
        let mut names = Vec::new();
        for candidate in &candidates {
            names.extend(pool::read_superblock(&io, candidate.device).await.ok().map(|s| s.config.name));
        }
        names
    })?;
    if args.existing {
        return measure(args, devices, candidates);
    }
    if let Some(name) = names.iter().find(|name| *name != NAME) {
        bail!(
            "these are members of pool {name}, which no benchmark made; say --existing to use it all the same"
        );
    }
    // Others must be empty, which `create` sees to.
    let all_ours = names.len() == candidates.len();
    on_fresh(args, devices, candidates, all_ours || args.force)
}

fn measure(args: &BenchArgs, devices: &Devices, candidates: Vec<Candidate>) -> Result<()> {
    fault_member::give(devices, &candidates, &args.fault_member)?;
    let load = Load::new(LoadSpec {
        pattern: args.rw,
        request_bytes: args.bs,
        depth: args.depth,
        seconds: args.seconds,
        rate: args.rate,
        volume: NAME,
    });
    let resources = Resources { cores: None, table_cache: args.table_cache };
    host::with_pool(devices.clone(), host::Kind::Pool, candidates, resources, load.clone(), async |open| {
        make_volume(args, &open).await?;
        match &args.preset {
            Some(preset) => preset::apply(preset, &open.control).await?,
            None => open.control.set_spike_avoidance(args.spike_avoidance).await,
        }
        let shared = open.control.catalog().get(NAME).context("the volume was just made")?;
        let volume = open.client.volume(shared);
        if volume.size_bytes() < args.bs {
            bail!("the volume is smaller than one request");
        }
        if args.fill || args.rw.reads() {
            load::fill(&open.io, &volume).await?;
        }
        for member in 0..args.offline {
            open.control.offline(member).await?;
        }
        open.devices.begin_faults();
        let before = open.control.status().await?;
        let totals = load.run_all(&open, volume).await?;
        let after = open.control.status().await?;
        open.control.close().await?;
        let value = results::json(&Measured {
            pattern: args.rw,
            request_bytes: args.bs,
            depth: args.depth,
            shards: args.shards,
            totals: &totals,
            before: &before,
            after: &after,
        });
        if args.json {
            say!("{value:#}")
        } else {
            results::print(&value)
        }
        Ok(())
    })
}

async fn make_volume(args: &BenchArgs, open: &Open) -> Result<()> {
    if open.control.catalog().get(NAME).is_some() {
        return Ok(());
    }
    let bytes = match args.volume_size {
        Some(bytes) => bytes,
        None => open.control.status().await?.capacity_bytes / 2,
    };
    open.control.create_volume(NAME, bytes >> 20 << 20).await?;
    Ok(())
}
