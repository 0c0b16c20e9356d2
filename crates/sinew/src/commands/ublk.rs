//! `sinew ublk`: the block devices of this machine that processes serve.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use serde_json::{Value, json};
use sinew_uring::ublk::{Control, DeviceState};

use crate::client::{Target, running};
use crate::out::say;
use crate::protocol::Request;
use crate::table::{Align, Table};

/// Shows and removes block devices that processes serve.
///
/// `sinew serve --ublk` makes them, takes over those that wait for it, and removes them when it stops and nothing uses them
/// (docs/howto/block-device.md).
#[derive(Subcommand)]
pub(crate) enum UblkCommand {
    /// List the devices, those of other programs too.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove a device that no process serves: for one whose pool is lost.
    ///
    /// Requests that wait fail, and so does what uses the device. A device whose pool is there is better served once more.
    Remove {
        /// The device, for example /dev/ublkb0.
        device: PathBuf,
        /// Do it.
        #[arg(long)]
        yes: bool,
    },
}

/// Runs the command.
///
/// # Errors
/// When the kernel has no driver for such devices, this process may not use it, or a device cannot be removed.
pub(crate) fn run(command: UblkCommand) -> Result<()> {
    match command {
        UblkCommand::List { json } => list(json),
        UblkCommand::Remove { device, yes } => remove(&device, yes),
    }
}

fn state_name(state: DeviceState) -> &'static str {
    match state {
        DeviceState::New => "new",
        DeviceState::Live => "served",
        DeviceState::Waiting => "waiting",
        DeviceState::Failing => "failing",
    }
}

fn list(as_json: bool) -> Result<()> {
    let devices = Control::open()?.devices()?;
    let volumes = volumes();
    let entries: Vec<Value> = devices
        .iter()
        .map(|device| {
            let path = device.path().display().to_string();
            let volume = volumes.iter().find(|(at, _)| *at == path).map(|(_, volume)| volume);
            json!({ "device": path, "state": state_name(device.state), "process": device.server, "volume": volume })
        })
        .collect();
    if as_json {
        say!("{:#}", json!(entries));
        return Ok(());
    }
    if entries.is_empty() {
        say!("there are none");
        return Ok(());
    }
    let mut table = Table::new(&[
        ("device", Align::Left),
        ("state", Align::Left),
        ("process", Align::Right),
        ("volume", Align::Left),
    ]);
    for entry in &entries {
        let text = |key: &str| entry[key].as_str().unwrap_or("").to_owned();
        table.row([text("device"), text("state"), entry["process"].to_string(), text("volume")]);
    }
    table.print();
    Ok(())
}

/// The devices of the pools that are served on this machine, and their volumes, as `POOL/VOLUME`.
fn volumes() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for control in running().unwrap_or_default() {
        let Ok(state) = Target::at(&control).ask(&Request::Status) else { continue };
        let pool = state["pool"].as_str().unwrap_or("?");
        for place in state["ublk"].as_array().into_iter().flatten() {
            if let (Some(device), Some(volume)) = (place["device"].as_str(), place["volume"].as_str()) {
                all.push((device.to_owned(), format!("{pool}/{volume}")));
            }
        }
    }
    all
}

fn remove(path: &Path, yes: bool) -> Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = name.strip_prefix("ublkb").and_then(|number| number.parse().ok());
    let number = number.with_context(|| {
        format!("{} is no device of a process: write for example /dev/ublkb0", path.display())
    })?;
    let mut control = Control::open()?;
    let device = control
        .device(number)
        .with_context(|| format!("there is no {}; `sinew ublk list`", path.display()))?;
    let path = device.path();
    let path = path.display();
    ensure!(
        control.settle(&device)?.state != DeviceState::Live,
        "{path} is served by process {}; stop that, which removes it unless it is in use",
        device.server
    );
    if !yes {
        bail!(
            "what uses {path} would get errors, and requests that wait would be lost; nothing was changed; say --yes to do it"
        );
    }
    control.stop(&device)?;
    control.remove(&device)?;
    say!("removed {path}");
    Ok(())
}
