//! `sinew array`: make arrays, and look at them.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use sinew_engine::pool::PoolKind;
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::form::Elastic;
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_layout::{LevelName, LevelParts, ParityWeights, Rotation};

use super::elastic_policy::{self, PolicyArgs, ShareArgs};
use super::examine::{self, ExamineArgs};
use super::status::{self, StatusArgs};
use crate::client::{Target, wait_for};
use crate::names::named;
use crate::out::say;
use crate::pool::create::NewPool;
use crate::pool::members;
use crate::protocol::Request;
use crate::{report, units};

/// Arrays of RAID 0, 1, 10, 5, 6, 50 and 60, as md lays them out.
///
/// An array is a pool of another kind: one volume, named as the array, spans it. `sinew serve`, `up`, `member`, `scrub`,
/// `throttle`, `pool find` and `pool destroy` work on it as on any pool. Unlike mapped pools (`sinew pool`), arrays keep
/// no checksums: what a member returns is believed, and silent corruption is not noticed except where a scrub finds
/// that copies or parity differ.
#[derive(Subcommand)]
pub(crate) enum ArrayCommand {
    Create(CreateArgs),
    Grow(GrowArgs),
    Share(ShareArgs),
    Policy(PolicyArgs),
    Status(StatusArgs),
    Examine(ExamineArgs),
}

/// Makes an array of files or block devices. Arrays keep no checksums.
#[derive(Args)]
pub(crate) struct CreateArgs {
    /// Name of the array, and of its volume.
    name: String,
    /// Its members in their order, spares last. Each is used as far as the smallest reaches.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    /// The level.
    #[arg(long, value_parser = named::<LevelName>())]
    level: LevelName,
    /// How parity rotates.
    #[arg(long, value_parser = named::<Rotation>(), default_value_t)]
    layout: Rotation,
    /// Levels 5 and 6: members hold parity in proportion to these numbers, one for each member, spares not counted, instead
    /// of equal shares. Members with more parity are written more, so SSDs wear out one after the other. For example 4,2,1,1.
    /// Only ratios count. Such an array cannot grow.
    #[arg(long, value_name = "N,N,...", conflicts_with_all = ["layout", "elastic"])]
    parity_weights: Option<ParityWeights>,
    /// Bytes of a chunk, a multiple of 4096 and at most 1M.
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = units::parse_size)]
    chunk: u64,
    /// Copies of every chunk, for level 10.
    #[arg(long, value_name = "N", default_value_t = 2)]
    copies: u32,
    /// Groups of equally many members, for levels 50 and 60.
    #[arg(long, value_name = "N", default_value_t = 2)]
    groups: u32,
    /// How many of the members are spares: the last ones. They take the place of a member that fails.
    #[arg(long, value_name = "N", default_value_t = 0)]
    spares: usize,
    /// Levels with parity: no journal. Small writes cost less, but the write hole is open: after a crash while a member
    /// is missing, blocks that were not written lately may be lost.
    #[arg(long)]
    no_journal: bool,
    /// The members are known to hold nothing but zeros, so no first resync is needed. Files made with --size are known
    /// to.
    #[arg(long)]
    assume_zeroed: bool,
    /// Levels 5 and 6, on members that compress or have more addresses than space: stripes change between parity and mirrors,
    /// and discarded stripes take no space. The members need twice the addresses of the data and parity, thrice at level 6.
    #[arg(long)]
    elastic: bool,
    /// Elastic arrays: the ratio of compression to expect of data and parity together, from 1 to 16. With the physical space of
    /// the members it gives the size of the volume.
    #[arg(long, value_name = "RATIO", requires = "elastic", default_value_t = 1.0)]
    expect: f64,
    /// The physical space that the array may use of each member, if that has more addresses; by default as much as the member
    /// tells. With it, or with an expected ratio, the size of an elastic array's volume follows from space and ratio, otherwise
    /// from the addresses.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    physical: Option<u64>,
    /// Shards, each served by one core; by default one for every two cores.
    #[arg(long, value_name = "N")]
    shards: Option<usize>,
    /// Use members that are not empty. Their content is lost.
    #[arg(long)]
    force: bool,
    /// Make members that do not exist, as files of this size.
    #[arg(long, value_parser = units::parse_size)]
    size: Option<u64>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Grows a running array of level 0, 10, 5 or 6 onto more members, while it is in use. Its volume has the new size once all is
/// moved; a growth that is cut off goes on when the array is served again.
#[derive(Args)]
pub(crate) struct GrowArgs {
    /// The new members, at least as large as those there are; at level 10, whole sets of as many as there are copies.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    /// How what is there is brought onto them: at levels 0 and 10 by fastscale if nothing is said, at levels 5 and 6 by
    /// spread. An array that has grown by fastscale, semi-round-robin or spread goes on so.
    #[arg(long, value_parser = named::<GrowMethod>())]
    method: Option<GrowMethod>,
    /// Use members that are not empty. Their content is lost.
    #[arg(long)]
    force: bool,
    /// Make members that do not exist, as files of this size.
    #[arg(long, value_parser = units::parse_size)]
    size: Option<u64>,
    /// Wait until the array has grown.
    #[arg(long)]
    wait: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
///
/// # Errors
/// When members cannot be used, the array cannot exist, or the server refuses the request.
pub(crate) fn run(command: ArrayCommand) -> Result<()> {
    match command {
        ArrayCommand::Create(args) => create(&args),
        ArrayCommand::Grow(args) => grow(&args),
        ArrayCommand::Share(args) => elastic_policy::share(&args),
        ArrayCommand::Policy(args) => elastic_policy::policy(&args),
        ArrayCommand::Status(args) => status::run(&args),
        ArrayCommand::Examine(args) => examine::run(&args),
    }
}

fn grow(args: &GrowArgs) -> Result<()> {
    let paths = args.members.iter().map(|path| members::absolute(path)).collect::<Result<Vec<_>>>()?;
    members::make_files(&paths, args.size)?;
    args.target.ask(&Request::ArrayGrow { paths, method: args.method, force: args.force })?;
    if args.wait {
        let left = |status: &Value| {
            let growing = !status["array"]["growing"].is_null();
            status["growth_chunks_left"].as_u64().unwrap_or(0).max(u64::from(growing))
        };
        wait_for(&args.target, "growth", left)?;
    }
    let status = args.target.ask(&Request::Status)?;
    let (array, bytes) = (&status["array"], &status["volumes"][0]["bytes"]);
    match (args.json, args.wait) {
        (true, _) => {
            let grown = json!({ "members": array["members"], "bytes": bytes, "growing": array["growing"] });
            say!("{grown:#}");
        }
        (false, false) => say!("the array grows; `sinew array status` shows the progress"),
        (false, true) => say!(
            "the array has grown: {} members, volume of {}",
            array["members"],
            units::bytes(bytes.as_u64().unwrap_or(0))
        ),
    }
    Ok(())
}

/// The request for an elastic array. An impossible ratio is refused where the geometry is computed.
fn elastic(args: &CreateArgs) -> Elastic {
    let expect_milli = (args.expect * 1000.0).round().clamp(0.0, f64::from(u32::MAX)) as u32;
    Elastic { expect_milli, physical: args.physical.unwrap_or(0), form_pages: 0 }
}

/// The rotation that --layout or --parity-weights ask for.
///
/// # Errors
/// When the level has no weights.
pub(super) fn rotation(
    level: LevelName,
    layout: Rotation,
    weights: Option<ParityWeights>,
) -> Result<Rotation> {
    Ok(match weights {
        Some(weights) => level.weighted(weights)?,
        None => layout,
    })
}

fn create(args: &CreateArgs) -> Result<()> {
    let new = NewPool {
        name: &args.name,
        members: &args.members,
        size: args.size,
        shards: args.shards,
        force: args.force,
        volumes: &[],
        physical: args.physical,
    };
    let rotation = rotation(args.level, args.layout, args.parity_weights)?;
    let config = new.create(|made| {
        Ok(PoolKind::Array(ArraySpec {
            level: args.level.level(LevelParts { rotation, copies: args.copies, groups: args.groups }),
            chunk_bytes: u32::try_from(args.chunk).unwrap_or(u32::MAX),
            journal: !args.no_journal,
            spares: args.spares,
            zeroed: made || args.assume_zeroed,
            elastic: args.elastic.then(|| elastic(args)),
        }))
    })?;
    let PoolGeometry::Array(array) = config.geometry else { unreachable!("an array was made") };
    if args.json {
        say!(
            "{:#}",
            json!({
                "array": config.name, "uuid": sinew_core::ids::uuid_text(&config.pool),
                "protection": array.name(), "members": array.members(), "spares": args.spares,
                "shards": array.shards, "chunk_bytes": array.layout.chunk_bytes(), "journal": array.journal,
                "bytes": array.data_bytes(), "checksums": false,
            })
        );
    } else {
        report::made(&config);
    }
    Ok(())
}
