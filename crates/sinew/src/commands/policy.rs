//! `sinew policy`: how a mapped pool lays out small writes, when it converts what it mirrors, and what its volumes get.

use anyhow::Result;
use clap::Args;
use sinew_format::model::policy::{Packing, Shares};

use crate::client::Target;
use crate::names::named;
use crate::out::say;
use crate::protocol::{PolicyChange, Request};
use crate::units;

/// Small writes, conversion to parity, shares of volumes.
///
/// Sets how a mapped pool lays out small writes, when mirrored stripes become parity stripes, and what volumes get that are active
/// at the same time, until the server ends.
/// Options that are absent change nothing; without options the command shows the policy.
#[derive(Args)]
pub(crate) struct PolicyArgs {
    /// How small writes lie in stripes.
    #[arg(long, value_parser = named::<Packing>())]
    packing: Option<Packing>,
    /// Whether blocks that are adjacent in a volume, but scattered over stripes, are rewritten together when they are read
    /// in sequence.
    #[arg(long, alias = "gather", value_name = "BOOL")]
    defragment: Option<bool>,
    /// Whether free chunks are discarded on members that support it.
    #[arg(long, value_name = "BOOL")]
    discard: Option<bool>,
    /// Convert while less than this part of the capacity is free.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    convert_below_free: Option<u8>,
    /// Convert also while mirrored stripes take more than this part of the capacity.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    convert_above_mirrored: Option<u8>,
    /// Pause conversion while clients move more bytes per second than this on a member; `none` for never.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    convert_pause_above: Option<u64>,
    /// What volumes get that are active at the same time.
    #[arg(long, value_parser = named::<Shares>())]
    shares: Option<Shares>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
///
/// # Errors
/// When the server cannot be reached, or has an array.
pub(crate) fn run(args: PolicyArgs) -> Result<()> {
    let change = PolicyChange {
        packing: args.packing,
        defragment: args.defragment,
        discard: args.discard,
        convert_below_free: args.convert_below_free,
        convert_above_mirrored: args.convert_above_mirrored,
        convert_pause_above: args.convert_pause_above,
        shares: args.shares,
    };
    let policy = args.target.ask(&Request::Policy { change })?;
    if args.json {
        say!("{policy:#}");
        return Ok(());
    }
    let text = |name: &str| policy[name].to_string().trim_matches('"').to_owned();
    say!("small writes       {}", text("packing"));
    say!(
        "defragment         {}",
        if policy["defragment"] == true { "blocks read in sequence" } else { "nothing" }
    );
    say!("discard            {}", if policy["discard"] == true { "free chunks" } else { "nothing" });
    say!(
        "convert            below {} % free, or above {} % mirrored",
        text("convert_below_free"),
        text("convert_above_mirrored")
    );
    match policy["convert_pause_above"].as_u64().unwrap_or(0) {
        0 => say!("pause conversion   never"),
        rate => say!("pause conversion   above {} per second of client I/O on a member", units::bytes(rate)),
    }
    say!("shares             {}", text("shares"));
    Ok(())
}
