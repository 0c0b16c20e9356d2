//! `sinew serve`: open a pool and serve its volumes until told to stop.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use sinew_engine::pool::md_arrays::MdOptions;
use sinew_format::model::array_geometry::Access;

use crate::daemon::{Listen, config_file, serve};
use crate::names::access_name;
use crate::out::say;
use crate::pool::assembly::Source;
use crate::pool::create::shards_default;
use crate::pool::host::Kind;

/// Serves the volumes of a pool over NBD and vhost-user.
///
/// Ctrl-C, SIGTERM and SIGHUP stop the server.
/// Members that are not there are left out as long as the pool can do without them; the status names them.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// The pool's members: files, block devices, or directories of them or of links to them, such as /dev/disk/by-id.
    #[arg(required_unless_present = "config", value_name = "MEMBER")]
    members: Vec<PathBuf>,
    /// Serve a pool as this file says, which names the pool, its sockets and its settings, for example
    /// /etc/sinew/tank.toml (docs/configuration.md). Waits for members that are not there yet.
    #[arg(long, value_name = "FILE", exclusive = true)]
    config: Option<PathBuf>,
    /// Serve the pool read-only: nothing at all is written to its members. A pool with checksums is served with more members
    /// missing than it survives, too: what can be read is read, all else fails.
    #[arg(long, conflicts_with_all = ["md", "preset", "rebuild_after"])]
    read_only: bool,
    /// The members are those of an array of md's (mdadm), by its own superblocks; it is served read-only, and nothing at
    /// all is written to them.
    #[arg(long)]
    md: bool,
    /// With --md: serve it for writing too, and keep md's superblocks as md does.
    #[arg(long, requires = "md")]
    write: bool,
    /// With --md --write: go on where md would not start the array by itself, not stopped cleanly with a member missing.
    #[arg(long, requires = "write")]
    force: bool,
    #[command(flatten)]
    listen: Listen,
}

/// Runs the command.
///
/// # Errors
/// When the pool cannot be opened or served.
pub(crate) fn run(args: ServeArgs) -> Result<()> {
    let kind = match args.md {
        true => md_kind(args.write, args.force),
        false if args.read_only => Kind::ReadOnly,
        false => Kind::Pool,
    };
    let (source, kind, listen) = match &args.config {
        Some(file) => config_file::read(file)?,
        None => (Source::Named(args.members), kind, args.listen),
    };
    serve(source, kind, listen, |open, at| {
        match kind {
            Kind::Pool => say!("serving pool {}", open.control.config().name),
            Kind::ReadOnly => {
                say!("serving pool {}, {}", open.control.config().name, open.control.mode().name());
            }
            Kind::Md(options) => {
                say!("serving md array {}, {}", open.control.config().name, access_name(options.access))
            }
        }
        for place in at.nbd_places() {
            say!("  NBD      {place}");
        }
        for socket in &at.vhost_user {
            say!("  vhost    {} at {}", socket.volume, socket.path.display());
        }
        for device in &at.block_devices {
            say!("  block    {} at {}", device.volume, device.device);
        }
        if let Some(address) = at.metrics {
            say!("  metrics  http://{address}/metrics");
        }
        if let Some(address) = at.http {
            say!("  page     http://{address}/");
        }
        say!("  control  {}", at.control.display());
    })
}

fn md_kind(write: bool, force: bool) -> Kind {
    let access = if write { Access::ReadWrite } else { Access::ReadOnly };
    let seconds = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    Kind::Md(MdOptions { access, force, shards: shards_default(), seconds })
}
