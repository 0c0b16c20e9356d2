//! `sinew up`: one command to a served volume.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use sinew_engine::pool::PoolKind;
use sinew_format::model::mapped_geometry::Protection;

use crate::daemon::{Addresses, Listen, parse_address, serve};
use crate::names::named;
use crate::out::say;
use crate::pool::assembly::Source;
use crate::pool::create::NewPool;
use crate::pool::fault_member::{self, FaultMember};
use crate::pool::host::Kind;
use crate::pool::members;
use crate::protocol::socket;
use crate::{report, units};

/// The longest path a Unix socket can have.
const SOCKET_PATH_MAX: usize = 107;

/// Makes a small pool of file members in a directory, if there is none yet, and serves it until Ctrl-C.
///
/// Stop it with Ctrl-C and start it again any time: what was written stays.
#[derive(Args)]
pub(crate) struct UpArgs {
    /// The directory.
    #[arg(default_value = "sinew-data")]
    dir: PathBuf,
    /// Members of a new pool.
    #[arg(long, default_value_t = 4)]
    members: usize,
    /// Size of each member of a new pool; the files take space only as it is used.
    #[arg(long, default_value = "1G", value_parser = units::parse_size)]
    size: u64,
    /// Protection of a new pool.
    #[arg(long, value_parser = named::<Protection>(), default_value_t)]
    protection: Protection,
    /// Size of the volume `vol0` of a new pool.
    #[arg(long, default_value = "2G", value_parser = units::parse_size)]
    volume_size: u64,
    /// Serve on this TCP address too, for example 127.0.0.1:10809.
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    tcp: Option<std::net::SocketAddr>,
    /// Allow a TCP address that other machines can reach. There is no authentication and no encryption.
    #[arg(long)]
    public: bool,
    /// Inject a fault into a member, as `sinew serve` does.
    #[arg(long, value_name = "FAULT", value_parser = fault_member::parse)]
    fault_member: Vec<FaultMember>,
}

/// Runs the command.
///
/// # Errors
/// When the pool cannot be made, opened or served.
pub(crate) fn run(args: UpArgs) -> Result<()> {
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot make {}", args.dir.display()))?;
    let dir = args.dir.canonicalize()?;
    let unix = dir.join("nbd.sock");
    if unix.as_os_str().len() > SOCKET_PATH_MAX {
        bail!(
            "{} is too long for the path of a socket; choose a directory nearer to the root",
            unix.display()
        );
    }
    let mut named = members::expand(std::slice::from_ref(&dir))?;
    if named.is_empty() {
        named = make(&args, &dir)?;
    }
    // The usual place if this user may use it, so that other commands find the pool by themselves.
    let control = if socket::make_directory().is_ok() { None } else { Some(dir.join("control.sock")) };
    let (tcp, public, fault_member) = (args.tcp, args.public, args.fault_member);
    let listen =
        Listen { unix: Some(unix), tcp, public, control: control.clone(), fault_member, ..Listen::default() };
    serve(Source::Named(named), Kind::Pool, listen, |open, at| {
        let target = control.map(|path| format!(" --control {}", path.display())).unwrap_or_default();
        introduce(&dir, &open.control.catalog().names(), at, &target);
    })
}

fn make(args: &UpArgs, dir: &Path) -> Result<Vec<PathBuf>> {
    let paths: Vec<PathBuf> = (0..args.members).map(|i| dir.join(format!("member{i}"))).collect();
    if let Some(taken) = paths.iter().find(|path| path.exists()) {
        bail!("{} is there already and not a Sinew member; choose another directory", taken.display());
    }
    let name = dir.file_name().map(|n| n.to_string_lossy().trim_start_matches('.').to_owned());
    let name = name.filter(|n| !n.is_empty()).unwrap_or_else(|| "sinew".to_owned());
    let new = NewPool {
        name: &name,
        members: &paths,
        size: Some(args.size),
        shards: None,
        force: false,
        volumes: &[("vol0".to_owned(), args.volume_size)],
        physical: None,
    };
    let kind = PoolKind::Mapped { protection: args.protection, data_columns: 0, checksums: true };
    report::made(&new.create(|_| Ok(kind))?);
    Ok(paths)
}

fn introduce(dir: &Path, volumes: &[String], at: &Addresses, target: &str) {
    say!("serving {} from {}", volumes.join(", "), dir.display());
    for uri in volumes.iter().flat_map(|name| at.uris(name)) {
        say!("  {uri}");
    }
    let Some(uri) = volumes.first().and_then(|name| at.uris(name).into_iter().next()) else {
        say!("there is no volume; make one with: sinew volume create vol0 1G{target}");
        return;
    };
    say!("\ntry, in another terminal:");
    say!("  sinew pool status{target}");
    say!("  nbdinfo '{uri}'");
    say!("  fio --name=try --ioengine=nbd --uri='{uri}' --rw=randwrite --bs=4k --iodepth=32 --size=256M");
    say!("  qemu-img convert -p -n -O raw IMAGE '{uri}'");
    say!("\nCtrl-C stops; `sinew up {}` goes on where it was", dir.display());
}
