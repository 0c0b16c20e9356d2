//! `sinew volume`: make, list, delete, resize and limit volumes of a running pool.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use sinew_format::model::mapped_geometry::Protection;

use crate::client::Target;
use crate::names::named;
use crate::out::{complain, say};
use crate::protocol::{LimitsChange, Request};
use crate::{report, units};

/// Volumes of the running pool: create, list, resize, limit, delete.
#[derive(Subcommand)]
pub(crate) enum VolumeCommand {
    /// Makes a volume.
    Create {
        /// Its name, which is also its NBD export's.
        name: String,
        /// Its size, for example 10G.
        #[arg(value_parser = units::parse_size)]
        size: u64,
        /// Its protection, if it is not to be that of the pool: in a pool with parity a mirror with as many copies as members
        /// may fail and one more. Its blocks stay mirrored, so they are written and read without parity, and take more room.
        #[arg(long, value_parser = named::<Protection>())]
        protection: Option<Protection>,
        #[command(flatten)]
        limits: LimitArgs,
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Sets limits of a volume, or changes its protection. They are kept on the members. Without an option the command shows the
    /// limits.
    Set {
        /// Its name.
        name: String,
        /// Its protection from now on. What it stores moves in the background, while clients use it.
        #[arg(long, value_parser = named::<Protection>())]
        protection: Option<Protection>,
        #[command(flatten)]
        limits: LimitArgs,
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Lists the volumes.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Deletes a volume and everything in it.
    Delete {
        /// Its name.
        name: String,
        /// Really do it.
        #[arg(long)]
        yes: bool,
        /// Delete it even while clients are connected to it: their requests fail from then on.
        #[arg(long)]
        force: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Changes a volume's size.
    Resize {
        /// Its name.
        name: String,
        /// Its new size.
        #[arg(value_parser = units::parse_size)]
        size: u64,
        /// Allow a smaller size; the data beyond it is lost.
        #[arg(long)]
        shrink: bool,
        /// Shrink it even while clients are connected to it: their requests beyond the new end fail from then on.
        #[arg(long)]
        force: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
}

/// Limits of what clients may ask of a volume. Requests beyond them wait.
#[derive(Args)]
pub(crate) struct LimitArgs {
    /// Requests per second: reads, writes, discards and writes of zeros, but not flushes; `none` for no limit.
    #[arg(long, value_name = "REQUESTS", value_parser = parse_iops)]
    iops: Option<u64>,
    /// Bytes per second read and written, for example 100M; `none` for no limit.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    bytes: Option<u64>,
    /// The volume saves up what the limits allow in this time, while it is idle, and may use that at once; 1s unless set.
    #[arg(long, value_name = "TIME", value_parser = parse_burst)]
    burst: Option<u32>,
}

impl LimitArgs {
    fn change(&self) -> LimitsChange {
        LimitsChange { iops: self.iops, bytes_per_second: self.bytes, burst_ms: self.burst }
    }
}

/// Requests per second; 0 for `none`.
fn parse_iops(text: &str) -> Result<u64> {
    match text.parse() {
        _ if text == "none" => Ok(0),
        Ok(iops) if iops > 0 => Ok(iops),
        _ => bail!("{text} is no number of requests per second; write for example 2000, or none"),
    }
}

/// Milliseconds of a time.
fn parse_burst(text: &str) -> Result<u32> {
    Ok(u32::try_from(units::parse_time(text)?.as_millis())?)
}

/// Runs the command.
///
/// # Errors
/// When the server cannot be reached or refuses the request, or a loss of data was not confirmed.
pub(crate) fn run(command: VolumeCommand) -> Result<()> {
    match command {
        VolumeCommand::Create { name, size, protection, limits, json, target } => {
            let limits = limits.change();
            let request = Request::VolumeCreate { name: name.clone(), bytes: size, limits, protection };
            let made = target.ask(&request)?;
            match json {
                true => say!("{:#}", sized(&name, size, &made)),
                false => say!("made volume {name}, {}", units::bytes(size)),
            }
            warn_of_overcommitment(&made);
        }
        VolumeCommand::Set { name, protection, limits, json, target } => {
            let limits = limits.change();
            let limits = target.ask(&Request::VolumeSet { name: name.clone(), limits, protection })?;
            match json {
                true => say!("{limits:#}"),
                false if let Some(protection) = protection => {
                    say!("volume {name} has the protection {protection}; what it stores is being moved");
                }
                false => match report::limits(&limits) {
                    None => say!("volume {name} has no limits"),
                    Some(limits) => say!("volume {name} is limited to {limits}"),
                },
            }
        }
        VolumeCommand::List { json, target } => {
            let status = target.ask(&Request::Status)?;
            if json {
                say!("{:#}", status["volumes"]);
            } else {
                report::print_volumes(&status);
            }
        }
        VolumeCommand::Delete { name, yes, force, json, target } => {
            if !yes {
                let volumes = target.ask(&Request::Status)?["volumes"].take();
                if !volumes.as_array().into_iter().flatten().any(|volume| volume["name"] == name.as_str()) {
                    bail!("there is no volume {name}");
                }
                bail!("everything in {name} would be lost: say --yes to do it");
            }
            target.ask(&Request::VolumeDelete { name: name.clone(), force })?;
            match json {
                true => say!("{:#}", json!({ "name": name })),
                false => say!("deleted volume {name}"),
            }
        }
        VolumeCommand::Resize { name, size, shrink, force, json, target } => {
            let resized =
                target.ask(&Request::VolumeResize { name: name.clone(), bytes: size, shrink, force })?;
            match json {
                true => say!("{:#}", sized(&name, size, &resized)),
                false => say!("volume {name} has {} now", units::bytes(size)),
            }
            warn_of_overcommitment(&resized);
        }
    }
    Ok(())
}

/// A volume that was made or resized, with the sizes of all beside the capacity.
fn sized(name: &str, bytes: u64, answer: &Value) -> Value {
    json!({
        "name": name, "bytes": bytes, "provisioned_bytes": answer["provisioned_bytes"],
        "capacity_bytes": answer["capacity_bytes"],
    })
}

/// Says that the volumes can hold more than the pool, if that is so.
fn warn_of_overcommitment(answer: &Value) {
    let bytes = |key: &str| answer[key].as_u64().unwrap_or(0);
    let (provisioned, capacity) = (bytes("provisioned_bytes"), bytes("capacity_bytes"));
    if provisioned > capacity {
        complain!(
            "warning: the volumes have {} in all, and the pool can store {}: when it is full, writes are refused; watch \
             `sinew pool status`",
            units::bytes(provisioned),
            units::bytes(capacity)
        );
    }
}
