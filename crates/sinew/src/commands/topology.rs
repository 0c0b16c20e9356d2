//! `sinew topology`: where drives hang, how fast the links on their way are, and which one holds them back.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use sinew_topology::discover::discover;
use sinew_topology::report::Report;
use sinew_topology::sysfs::Sysfs;
use sinew_topology::tree::Topology;

use crate::out::say;

mod measure;

/// I/O topology of the machine, its bottleneck, and advice.
///
/// Shows where drives hang: NUMA nodes, PCIe links, switches, controllers.
///
/// Everything comes from sysfs; what it does not say is shown as unknown. Nothing is written to any drive.
///
/// Examples:
///   sinew topology
///   sinew topology /dev/nvme0n1 /dev/nvme1n1 --measure
///   sinew topology --sysfs copy-of-sys --json
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct TopologyArgs {
    /// Block devices; all drives where none is given.
    #[arg(value_name = "DEVICE")]
    devices: Vec<PathBuf>,
    /// Read from each drive alone and from the drives below each link together, to find the link that limits them.
    #[arg(long)]
    measure: bool,
    /// Seconds to read from each set of drives.
    #[arg(long, value_name = "S", default_value_t = 2.0, requires = "measure")]
    seconds: f64,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Read this tree instead of /sys: a copy from another machine.
    #[arg(long, value_name = "DIR", conflicts_with = "measure")]
    sysfs: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// When there is no such tree or device, or a drive cannot be read.
pub(crate) fn run(args: &TopologyArgs) -> Result<()> {
    let root = args.sysfs.as_deref().unwrap_or(Path::new("/sys"));
    let sysfs = Sysfs::new(root).with_context(|| format!("cannot open {}", root.display()))?;
    ensure!(
        sysfs.exists("block"),
        "{} has no directory block, so it is no sysfs tree; copy /sys with its links",
        root.display()
    );
    let names: Result<Vec<String>> = args.devices.iter().map(|device| name_of(device)).collect();
    let names = names?;
    let find = || -> Result<Topology> {
        let found = discover(&sysfs, &names);
        found.map_err(|name| {
            anyhow::anyhow!("{} has no block device {name}; `ls {0}/block` lists them", root.display())
        })
    };
    let topology = find()?;
    if topology.drives.is_empty() {
        bail!("there are no drives in {}; name block devices to see others", root.display());
    }
    let report = if args.measure {
        ensure!(
            args.seconds > 0.0 && args.seconds <= 600.0,
            "--seconds {}: the time for each set of drives is above 0 and at most 600",
            args.seconds
        );
        let (measured, under_load) = measure::measure(&topology, args.seconds, &find)?;
        Report::new(under_load, Some(measured))
    } else {
        Report::new(topology, None)
    };
    if args.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        say!("{}", report.text().trim_end());
    }
    Ok(())
}

/// The name of a block device in sysfs, after all links: /dev/disk/by-id names lead to it.
fn name_of(device: &Path) -> Result<String> {
    let path = device.canonicalize().unwrap_or_else(|_| device.to_owned());
    let name = path.file_name().with_context(|| format!("{} names no block device", device.display()))?;
    Ok(name.to_string_lossy().into_owned())
}
