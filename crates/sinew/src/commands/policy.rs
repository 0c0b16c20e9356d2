//! `sinew policy`: how a mapped pool lays out small writes, and when it converts what it mirrors.

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use sinew_format::model::policy::{Packing, Policy};

use crate::api::{Request, Target};
use crate::out::say;
use crate::size;

/// Sets how a mapped pool lays out small writes and when mirrored stripes become parity stripes, until the server ends; what is
/// not given stays as it is. Without options shows it.
#[derive(Args)]
pub(crate) struct PolicyArgs {
    #[command(flatten)]
    change: PolicyChange,
    #[command(flatten)]
    target: Target,
}

/// What is to be changed.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PolicyChange {
    /// How small writes lie in stripes.
    #[arg(long, value_enum)]
    #[serde(default)]
    packing: Option<PackingName>,
    /// Whether blocks that lie together in a volume are brought together when they are read in sequence.
    #[arg(long, value_name = "BOOL")]
    #[serde(default)]
    gather: Option<bool>,
    /// Whether members that make use of it (block devices that take discards) are told what is free.
    #[arg(long, value_name = "BOOL")]
    #[serde(default)]
    discard: Option<bool>,
    /// Convert while less than so much of the room is free.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    #[serde(default)]
    convert_below_free: Option<u8>,
    /// Convert also while mirrored stripes take more than so much of the room.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    #[serde(default)]
    convert_above_mirrored: Option<u8>,
    /// Pause conversion while clients move more bytes per second than this on a member; `none` is never.
    #[arg(long, value_name = "RATE", value_parser = size::rate)]
    #[serde(default)]
    convert_pause_above: Option<u64>,
}

/// How small writes lie in stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PackingName {
    /// One behind the other.
    Packed,
    /// Each in chunks of its own, as FusionRAID has it.
    WholeChunks,
}

impl PolicyChange {
    /// What comes of a policy.
    pub(crate) fn apply(self, policy: Policy) -> Policy {
        let packing = self.packing.map(|name| match name {
            PackingName::Packed => Packing::Packed,
            PackingName::WholeChunks => Packing::WholeChunks,
        });
        Policy {
            packing: packing.unwrap_or(policy.packing),
            gather: self.gather.unwrap_or(policy.gather),
            discard: self.discard.unwrap_or(policy.discard),
            convert_below_free: self.convert_below_free.unwrap_or(policy.convert_below_free),
            convert_above_mirrored: self.convert_above_mirrored.unwrap_or(policy.convert_above_mirrored),
            convert_pause_above: self.convert_pause_above.unwrap_or(policy.convert_pause_above),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: PolicyArgs) -> Result<()> {
    let policy = args.target.ask(&Request::Policy { change: args.change })?;
    let text = |name: &str| policy[name].to_string().trim_matches('"').to_owned();
    say!("small writes       {}", text("packing"));
    say!(
        "gather             {}",
        if policy["gather"] == true { "what is read in sequence" } else { "nothing" }
    );
    say!("discard            {}", if policy["discard"] == true { "what is free" } else { "nothing" });
    say!(
        "convert            below {} % free, or above {} % mirrored",
        text("convert_below_free"),
        text("convert_above_mirrored")
    );
    match policy["convert_pause_above"].as_u64().unwrap_or(0) {
        0 => say!("pause conversion   never"),
        rate => say!("pause conversion   above {} per second of clients' on a member", size::show(rate)),
    }
    Ok(())
}
