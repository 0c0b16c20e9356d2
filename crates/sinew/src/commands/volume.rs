//! `sinew volume`: make, list, delete and resize volumes of a running pool.

use anyhow::{Result, bail};
use clap::Subcommand;
use serde_json::{Value, json};

use crate::client::Target;
use crate::out::{complain, say};
use crate::protocol::Request;
use crate::{report, units};

/// Volumes of the running pool: create, list, delete, resize.
#[derive(Subcommand)]
pub(crate) enum VolumeCommand {
    /// Makes a volume.
    Create {
        /// Its name, which is also its NBD export's.
        name: String,
        /// Its size, for example 10G.
        #[arg(value_parser = units::parse_size)]
        size: u64,
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

/// Runs the command.
///
/// # Errors
/// When the server cannot be reached or refuses the request, or a loss of data was not confirmed.
pub(crate) fn run(command: VolumeCommand) -> Result<()> {
    match command {
        VolumeCommand::Create { name, size, json, target } => {
            let made = target.ask(&Request::VolumeCreate { name: name.clone(), bytes: size })?;
            match json {
                true => say!("{:#}", sized(&name, size, &made)),
                false => say!("made volume {name}, {}", units::bytes(size)),
            }
            warn_of_overcommitment(&made);
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
