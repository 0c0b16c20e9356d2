//! `sinew volume`: make, list, delete and resize volumes of a running pool.

use anyhow::{Result, bail};
use clap::Subcommand;

use crate::api::{Request, Target};
use crate::{report, size};

/// Make, list, delete and resize volumes of the running pool.
#[derive(Subcommand)]
pub(crate) enum VolumeCommand {
    /// Makes a volume.
    Create {
        /// Its name, which is also its NBD export's.
        name: String,
        /// Its size, for example 10G.
        size: String,
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
        #[command(flatten)]
        target: Target,
    },
    /// Changes a volume's size.
    Resize {
        /// Its name.
        name: String,
        /// Its new size.
        size: String,
        /// Allow a smaller size; what is beyond it is lost.
        #[arg(long)]
        shrink: bool,
        #[command(flatten)]
        target: Target,
    },
}

/// Runs the command.
pub(crate) fn run(command: VolumeCommand) -> Result<()> {
    match command {
        VolumeCommand::Create { name, size, target } => {
            let bytes = size::parse(&size)?;
            target.ask(&Request::VolumeCreate { name, bytes })?;
        }
        VolumeCommand::List { json, target } => {
            let status = target.ask(&Request::Status)?;
            if json {
                println!("{:#}", status["volumes"]);
            } else {
                report::print_volumes(&status);
            }
        }
        VolumeCommand::Delete { name, yes, target } => {
            if !yes {
                bail!("everything in {name} would be lost: say --yes if that is meant");
            }
            target.ask(&Request::VolumeDelete { name })?;
        }
        VolumeCommand::Resize { name, size, shrink, target } => {
            let bytes = size::parse(&size)?;
            target.ask(&Request::VolumeResize { name, bytes, shrink })?;
        }
    }
    Ok(())
}
