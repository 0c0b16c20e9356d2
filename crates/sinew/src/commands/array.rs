//! `sinew array`: make arrays, and look at them.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use sinew_engine::pool::PoolKind;
use sinew_format::model::array_geometry::{ArrayGeometry, ArraySpec};
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::config::Config;
use sinew_format::model::pool_geometry::Shape;
use sinew_layout::{Level, Rotation};

use crate::api::{Request, Target};
use crate::commands::examine::{ExamineArgs, examine};
use crate::commands::member;
use crate::commands::pool::{self, NewPool, StatusArgs};
use crate::members;
use crate::out::say;
use crate::size;

/// Make and look at arrays: RAID 0, 1, 10, 5, 6, 50 and 60 as md lays them out.
///
/// An array is a pool of another kind: one volume, named as the array, spans it. `sinew serve`, `up`, `member`, `scrub`,
/// `throttle`, `pool import` and `pool destroy` work on it as on any pool. Unlike mapped pools (`sinew pool`), arrays keep
/// no checksums: what a member returns is believed, and silent corruption is not noticed except where a scrub finds
/// that copies or parity differ.
#[derive(Subcommand)]
pub(crate) enum ArrayCommand {
    Create(CreateArgs),
    Grow(GrowArgs),
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
    #[arg(long, value_enum)]
    level: LevelName,
    /// How parity rotates.
    #[arg(long, value_enum, default_value_t)]
    layout: RotationName,
    /// Bytes of a chunk, a multiple of 4096 and at most 1M.
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = size::parse)]
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
    /// Shards, each served by one core; by default one for every two cores.
    #[arg(long, value_name = "N")]
    shards: Option<usize>,
    /// Take members that hold something. What is on them is lost.
    #[arg(long)]
    force: bool,
    /// Make members that do not exist, as files of this size.
    #[arg(long, value_parser = size::parse)]
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
    #[arg(long, value_enum)]
    method: Option<MethodName>,
    /// Take members that hold something. What is on them is lost.
    #[arg(long)]
    force: bool,
    /// Make members that do not exist, as files of this size.
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Wait until the array has grown.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    target: Target,
}

/// How an array grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MethodName {
    /// Moves the least, in long runs.
    Fastscale,
    /// Moves the least, chunk by chunk; gains no space. For comparison.
    SemiRoundRobin,
    /// Moves nearly everything, chunk by chunk. For comparison.
    RoundRobin,
    /// Moves nearly everything, in windows; ends as a new array would be.
    Slas,
    /// Moves nearly everything as md does, with requests waiting. For comparison.
    MdReshape,
    /// Levels 5 and 6: takes a few stripes apart to widen the others.
    Spread,
    /// Levels 5 and 6: makes every stripe anew; ends as a new array would be. Only with one shard, and with room in the journal.
    Restripe,
}

impl From<MethodName> for GrowMethod {
    fn from(name: MethodName) -> GrowMethod {
        match name {
            MethodName::Fastscale => GrowMethod::FastScale,
            MethodName::SemiRoundRobin => GrowMethod::SemiRoundRobin,
            MethodName::RoundRobin => GrowMethod::RoundRobin,
            MethodName::Slas => GrowMethod::Slas,
            MethodName::MdReshape => GrowMethod::MdReshape,
            MethodName::Spread => GrowMethod::Spread,
            MethodName::Restripe => GrowMethod::Restripe,
        }
    }
}

/// The level of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelName {
    /// Striping without redundancy.
    #[value(name = "0", alias = "raid0")]
    Raid0,
    /// Every member holds everything.
    #[value(name = "1", alias = "raid1")]
    Raid1,
    /// Near copies of every chunk, on consecutive members.
    #[value(name = "10", alias = "raid10")]
    Raid10,
    /// One parity chunk in each stripe.
    #[value(name = "5", alias = "raid5")]
    Raid5,
    /// Two parity chunks in each stripe.
    #[value(name = "6", alias = "raid6")]
    Raid6,
    /// RAID 0 over groups that are RAID 5.
    #[value(name = "50", alias = "raid50")]
    Raid50,
    /// RAID 0 over groups that are RAID 6.
    #[value(name = "60", alias = "raid60")]
    Raid60,
}

/// How parity rotates, by md's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RotationName {
    /// Parity moves left, data begins on the first member.
    LeftAsymmetric,
    /// Parity moves right, data begins on the first member.
    RightAsymmetric,
    /// Parity moves left, data begins behind it; md's default.
    #[default]
    LeftSymmetric,
    /// Parity moves right, data begins behind it.
    RightSymmetric,
}

impl LevelName {
    /// The level with these parts, as far as it has them.
    pub(crate) fn level(self, rotation: RotationName, copies: u32, groups: u32) -> Level {
        let rotation = match rotation {
            RotationName::LeftAsymmetric => Rotation::LeftAsymmetric,
            RotationName::RightAsymmetric => Rotation::RightAsymmetric,
            RotationName::LeftSymmetric => Rotation::LeftSymmetric,
            RotationName::RightSymmetric => Rotation::RightSymmetric,
        };
        match self {
            LevelName::Raid0 => Level::Raid0,
            LevelName::Raid1 => Level::Raid1,
            LevelName::Raid10 => Level::Raid10 { copies },
            LevelName::Raid5 => Level::Raid5(rotation),
            LevelName::Raid6 => Level::Raid6(rotation),
            LevelName::Raid50 => Level::Raid50 { groups, rotation },
            LevelName::Raid60 => Level::Raid60 { groups, rotation },
        }
    }
}

/// Runs the command.
pub(crate) fn run(command: ArrayCommand) -> Result<()> {
    match command {
        ArrayCommand::Create(args) => create(&args),
        ArrayCommand::Grow(args) => grow(&args),
        ArrayCommand::Status(args) => pool::status(&args),
        ArrayCommand::Examine(args) => examine(&args),
    }
}

fn grow(args: &GrowArgs) -> Result<()> {
    let paths = args.members.iter().map(std::path::absolute).collect::<Result<Vec<_>, _>>()?;
    members::make_files(&paths, args.size)?;
    args.target.ask(&Request::ArrayGrow { paths, method: args.method, force: args.force })?;
    if !args.wait {
        say!("the array grows; `sinew array status` tells how far that is");
        return Ok(());
    }
    let left = |status: &serde_json::Value| {
        let growing = !status["array"]["growing"].is_null();
        status["growth_chunks_left"].as_u64().unwrap_or(0).max(u64::from(growing))
    };
    member::wait_for(&args.target, "growth", left)?;
    let status = args.target.ask(&Request::Status)?;
    let bytes = status["volumes"][0]["bytes"].as_u64().unwrap_or(0);
    say!("the array has grown: {} members, volume of {}", status["array"]["members"], size::show(bytes));
    Ok(())
}

fn create(args: &CreateArgs) -> Result<()> {
    let new = NewPool {
        name: &args.name,
        members: &args.members,
        size: args.size,
        shards: args.shards,
        force: args.force,
        volumes: &[],
    };
    let config = new.create(|made| {
        Ok(PoolKind::Array(ArraySpec {
            level: args.level.level(args.layout, args.copies, args.groups),
            chunk_bytes: u32::try_from(args.chunk).unwrap_or(u32::MAX),
            journal: !args.no_journal,
            spares: args.spares,
            zeroed: made || args.assume_zeroed,
        }))
    })?;
    let Shape::Array(array) = config.shape else { unreachable!("an array was made") };
    if args.json {
        say!(
            "{:#}",
            serde_json::json!({
                "array": config.name, "uuid": sinew_core::ids::uuid_text(&config.pool),
                "protection": array.name(), "members": array.members(), "spares": args.spares,
                "shards": array.shards, "chunk_bytes": array.layout.chunk_bytes(), "journal": array.journal,
                "bytes": array.data_bytes(), "checksums": false,
            })
        );
    } else {
        say_made(&config, &array);
    }
    Ok(())
}

/// Says what array was made.
pub(crate) fn say_made(config: &Config, array: &ArrayGeometry) {
    say!(
        "made array {}: {}, {} members{}, chunks of {}, {}, volume of {}, {} {}; no checksums",
        config.name,
        array.name(),
        array.members(),
        match config.members.len() - array.members() {
            0 => String::new(),
            1 => " and 1 spare".to_owned(),
            n => format!(" and {n} spares"),
        },
        size::show(u64::from(array.layout.chunk_bytes())),
        crate::report::journal_text(array),
        size::show(array.data_bytes()),
        array.shards,
        if array.shards == 1 { "shard" } else { "shards" }
    );
}
