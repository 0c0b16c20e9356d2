//! `sinew up`: one command to a served volume.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use sinew_engine::pool::PoolKind;
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::name;

use crate::daemon::{Addresses, Listen, parse_address, serve};
use crate::names::named;
use crate::out::{complain, say};
use crate::pool::assembly::Source;
use crate::pool::create::NewPool;
use crate::pool::fault_member::{self, FaultMember};
use crate::pool::host::Kind;
use crate::pool::members;
use crate::protocol::socket;
use crate::{report, units};

/// Members of a new pool, unless told otherwise.
const MEMBERS: usize = 4;

/// Bytes of each.
const MEMBER_BYTES: u64 = 1 << 30;

/// Bytes of the first volume at most, unless told otherwise.
const VOLUME_BYTES_MAX: u64 = 2 << 30;

const MIB: u64 = 1 << 20;

/// The longest path a Unix socket can have.
const SOCKET_PATH_MAX: usize = 107;

/// A small pool of files, made if there is none yet, and served.
///
/// The members are files in a directory. Stop the server with Ctrl-C and start it again any time: what was written stays.
#[derive(Args)]
pub(crate) struct UpArgs {
    /// The directory.
    #[arg(default_value = "sinew-data")]
    dir: PathBuf,
    /// Members of a new pool [default: 4].
    #[arg(long)]
    members: Option<usize>,
    /// Size of each member of a new pool [default: 1G]; the files take space only as it is used.
    #[arg(long, value_parser = units::parse_size)]
    size: Option<u64>,
    /// Protection of a new pool [default: parity1].
    #[arg(long, value_parser = named::<Protection>())]
    protection: Option<Protection>,
    /// Size of the volume `vol0` of a new pool [default: half of the members' space, at most 2G].
    #[arg(long, value_parser = units::parse_size)]
    volume_size: Option<u64>,
    /// Serve on this TCP address too, for example 127.0.0.1:10809.
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    tcp: Option<std::net::SocketAddr>,
    /// Allow a TCP address that other machines can reach. There is no authentication and no encryption; `sinew serve` has TLS.
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
    } else if args.describes_a_new_pool() {
        complain!(
            "{} holds a pool already: --members, --size, --protection and --volume-size change nothing",
            dir.display()
        );
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

impl UpArgs {
    /// Whether an option is given that only a new pool has.
    fn describes_a_new_pool(&self) -> bool {
        self.members.is_some()
            || self.size.is_some()
            || self.protection.is_some()
            || self.volume_size.is_some()
    }
}

fn make(args: &UpArgs, dir: &Path) -> Result<Vec<PathBuf>> {
    let (count, size) = (args.members.unwrap_or(MEMBERS), args.size.unwrap_or(MEMBER_BYTES));
    let half = (count as u64).saturating_mul(size) / 2;
    let volume = args.volume_size.unwrap_or(half.min(VOLUME_BYTES_MAX) / MIB * MIB);
    let paths: Vec<PathBuf> = (0..count).map(|i| dir.join(format!("member{i}"))).collect();
    if let Some(taken) = paths.iter().find(|path| path.exists()) {
        bail!("{} is there already and not a Sinew member; choose another directory", taken.display());
    }
    let name = name::fitting(&dir.file_name().unwrap_or_default().to_string_lossy(), "sinew");
    let new = NewPool {
        name: &name,
        members: &paths,
        size: Some(size),
        shards: None,
        force: false,
        volumes: &[("vol0".to_owned(), volume)],
        physical: None,
    };
    let kind = PoolKind::Mapped {
        protection: args.protection.unwrap_or_default(),
        data_columns: 0,
        checksums: true,
    };
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
