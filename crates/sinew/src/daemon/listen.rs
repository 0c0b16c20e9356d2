//! Where and how a daemon serves, as its options say.

use std::ffi::OsString;
use std::fs::Permissions;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use sinew_engine::pool::preset::Preset;
use sinew_uring::UringIo;
use sinew_uring::net::Listener;

use super::block_devices::{self, BlockDevice};
use super::settings::Settings;
use super::tls_options::TlsOptions;
use super::vhost_sockets::VhostSocket;
use crate::pool::cores::{self, CoreList};
use crate::pool::fault_member::{self, FaultMember};
use crate::pool::in_use;
use crate::pool::preset;
use crate::pool::table_cache::TableCache;
use crate::protocol::socket;
use crate::units;

/// Where and how to serve.
#[derive(Args, Clone, Default)]
pub(crate) struct Listen {
    /// Unix socket for NBD; by default, without --tcp and without sockets from the starter of the process (LISTEN_FDS),
    /// nbd/NAME.sock beside the default control socket.
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,
    /// Serve a volume at this Unix socket as a disk of virtual machines, over vhost-user (docs/howto/vhost-user.md), for
    /// example vm1=/run/vm1.sock; can be given several times.
    #[arg(long, value_name = "VOLUME=PATH", value_parser = VhostSocket::parse)]
    pub(crate) vhost_user: Vec<VhostSocket>,
    /// Serve a volume as the block device /dev/ublkbNUMBER of this machine, or another number if none is given
    /// (docs/howto/block-device.md), for example vm1=0; can be given several times.
    #[arg(long, value_name = "VOLUME[=NUMBER]", value_parser = BlockDevice::parse)]
    pub(crate) ublk: Vec<BlockDevice>,
    /// Permissions of the Unix sockets for NBD and vhost-user, in octal, for example 0660.
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub(crate) socket_mode: Option<u32>,
    /// Group of the Unix sockets for NBD and vhost-user, by name or number; its members may connect if the mode lets them
    /// (0660 if none is given).
    #[arg(long, value_name = "GROUP", value_parser = parse_group)]
    pub(crate) socket_group: Option<u32>,
    /// TCP address for NBD, for example 127.0.0.1:10809 or localhost:10809.
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    pub(crate) tcp: Option<SocketAddr>,
    /// Allow a TCP address that other machines can reach, although clients need not prove their identity: without TLS, or
    /// with TLS that does not demand certificates of clients.
    #[arg(long)]
    pub(crate) public: bool,
    #[command(flatten)]
    pub(crate) tls: TlsOptions,
    /// TCP address for metrics over HTTP, for Prometheus, for example 127.0.0.1:9809 (docs/metrics.md).
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Allow an address for metrics that other machines can reach. They can read names, sizes and loads of volumes.
    #[arg(long, requires = "metrics")]
    pub(crate) metrics_public: bool,
    /// TCP address for a page that shows the pool to browsers, for example 127.0.0.1:9810 (docs/page.md).
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    pub(crate) http: Option<SocketAddr>,
    /// Allow an address for the page that other machines can reach. They can read the state of the pool.
    #[arg(long, requires = "http")]
    pub(crate) http_public: bool,
    /// Control socket; by default NAME.sock in $XDG_RUNTIME_DIR/sinew or /run/sinew.
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// Processor cores to serve with, for example 0-3,6: one thread on each, at most one per shard; by default all.
    #[arg(long, value_name = "LIST", value_parser = cores::parse)]
    pub(crate) cores: Option<CoreList>,
    /// Memory of the table cache of a mapped pool, for example 2G, or `none` for no bound; an eighth of the machine's memory
    /// by default (docs/howto/size.md).
    #[arg(long, value_name = "SIZE", value_parser = TableCache::parse)]
    pub(crate) table_cache: Option<TableCache>,
    /// Set the policy and the spike avoidance of a preset: sinew, fusionraid, fusion-nd, raid50, elastic,
    /// elastic-raid5-only, elastic-raid10-only (docs/presets.md).
    #[arg(long, value_parser = preset::parse)]
    pub(crate) preset: Option<Preset>,
    /// Rebuild what a member held into the free space of the others once it has been failed or missing for this long, for
    /// example 10m. A member that was taken offline is waited for. By default it takes `sinew member replace N`.
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub(crate) rebuild_after: Option<Duration>,
    /// Run this program for each event, with the event as JSON on its standard input (docs/events.md). Given again: its
    /// arguments.
    #[arg(long, value_name = "PROGRAM", allow_hyphen_values = true)]
    pub(crate) hook: Vec<OsString>,
    /// Inject a fault into a member, by its place in the list of members, from 0, for example
    /// 2:spikes,period=200ms,length=50ms,height=20ms or 2:corrupt-reads,rate=0.01 (docs/fault-members.md); can be given
    /// several times.
    #[arg(long, value_name = "FAULT", value_parser = fault_member::parse)]
    pub(crate) fault_member: Vec<FaultMember>,
    /// Set before clients can connect.
    #[arg(skip)]
    pub(crate) settings: Settings,
}

impl Listen {
    /// Refuses TCP addresses that other machines can reach, unless that is allowed, and block devices that this machine cannot
    /// have.
    ///
    /// # Errors
    /// When an address is not a loopback address, and `--public`, `--metrics-public` or `--http-public` was not given; when a
    /// block device is wanted, and the kernel has no driver for it or this process may not use it.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.ublk.is_empty() {
            block_devices::check()?;
        }
        self.tcp.map_or(Ok(()), |address| self.check_nbd(address))?;
        let (metrics, page) = ("they could read the metrics", "they could read the state of the pool");
        let listeners = [
            (self.metrics, self.metrics_public, metrics, "--metrics-public"),
            (self.http, self.http_public, page, "--http-public"),
        ];
        for (address, is_allowed, risk, option) in listeners {
            address
                .filter(|_| !is_allowed)
                .map_or(Ok(()), |address| check_loopback(address, risk, "", option))?;
        }
        Ok(())
    }

    /// Refuses a TCP address for NBD that other machines can reach, unless that is allowed or clients prove their identity.
    ///
    /// # Errors
    /// When it is not a loopback address, and neither `--public` nor TLS that demands certificates was given.
    pub(super) fn check_nbd(&self, address: SocketAddr) -> Result<()> {
        if self.public || self.tls.authenticates() {
            return Ok(());
        }
        let instead =
            "demand TLS with certificates (`sinew serve --tls-certificates DIR`, docs/howto/tls.md), ";
        check_loopback(address, "they need not prove their identity", instead, "--public")
    }

    /// The path of the control socket of a pool.
    ///
    /// # Errors
    /// When none was given, and the directory of control sockets cannot be made.
    pub(crate) fn control_path(&self, pool: &str) -> Result<PathBuf> {
        match &self.control {
            Some(path) => Ok(std::path::absolute(path)?),
            None => Ok(socket::make_directory()?.join(format!("{pool}.sock"))),
        }
    }

    /// The path of the Unix socket for NBD, if there is to be one: not if there is another socket, for example one that the
    /// process was started with.
    ///
    /// # Errors
    /// When none was given, and the directory of these sockets cannot be made.
    pub(crate) fn nbd_path(&self, pool: &str, has_others: bool) -> Result<Option<PathBuf>> {
        match &self.unix {
            Some(path) => Ok(Some(std::path::absolute(path)?)),
            None if self.tcp.is_some() || has_others => Ok(None),
            None => {
                // In a directory of its own: every socket beside the control sockets is taken for one.
                let above = socket::make_directory()?;
                let dir = above.join("nbd");
                std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
                if self.socket_mode().is_some() {
                    // Others must be able to reach the socket. They cannot list the directories, and the control sockets are
                    // their owner's alone.
                    for dir in [&above, &dir] {
                        set_mode(dir, 0o711)?;
                    }
                }
                Ok(Some(dir.join(format!("{pool}.sock"))))
            }
        }
    }

    fn socket_mode(&self) -> Option<u32> {
        self.socket_mode.or(self.socket_group.map(|_| 0o660))
    }

    /// Listens at all vhost-user sockets.
    ///
    /// # Errors
    /// When two are at one path, or one cannot be bound, or not with the access that was asked for.
    pub(super) fn bind_vhost(
        &self,
        mut bind: impl FnMut(&Path) -> Result<Listener>,
    ) -> Result<Vec<(VhostSocket, Listener)>> {
        let bound = self.vhost_user.iter().map(|socket| {
            let listener = bind(&socket.path)?;
            self.set_access(&socket.path)?;
            Ok((socket.clone(), listener))
        });
        bound.collect()
    }

    /// Gives a Unix socket for volumes to the group, with the mode, that were asked for.
    ///
    /// # Errors
    /// When this user may not do that.
    pub(crate) fn set_access(&self, socket: &Path) -> Result<()> {
        if let Some(group) = self.socket_group {
            std::os::unix::fs::chown(socket, None, Some(group))
                .with_context(|| format!("cannot give {} to group {group}", socket.display()))?;
        }
        self.socket_mode().map_or(Ok(()), |mode| set_mode(socket, mode))
    }
}

/// # Errors
/// When it is not a loopback address.
fn check_loopback(address: SocketAddr, risk: &str, instead: &str, option: &str) -> Result<()> {
    ensure!(
        address.ip().is_loopback(),
        "{address} can be reached by other machines, and {risk}; {instead}use a loopback address such as 127.0.0.1:{}, or \
         say {option} to allow it",
        address.port()
    );
    Ok(())
}

/// # Errors
/// When this user may not do that.
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the permissions of {}", path.display()))
}

pub(super) fn parse_mode(text: &str) -> Result<u32> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.with_context(|| format!("{text} is no mode: write three octal digits, for example 0660"))
}

/// A group by its number, or by its name in /etc/group.
pub(super) fn parse_group(text: &str) -> Result<u32> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let groups = std::fs::read_to_string("/etc/group").context("cannot read /etc/group")?;
    let mut lines = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = lines.find_map(|fields| match fields.as_slice() {
        [name, _, number, ..] if *name == text => number.parse().ok(),
        _ => None,
    });
    found.with_context(|| format!("there is no group {text} in /etc/group; a number can be given too"))
}

/// An address with a port; the host may be a name.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr> {
    let mut found = text
        .to_socket_addrs()
        .with_context(|| format!("{text} is no address: write HOST:PORT, for example localhost:10809"))?;
    found.next().with_context(|| format!("{text} has no address"))
}

/// Whether a server goes on to answer at a socket.
fn is_in_use(path: &Path) -> bool {
    in_use::retry(Instant::now(), || socket::is_alive(path), |&is_alive| is_alive)
}

/// Listens at a path. A socket there that no server answers at is replaced.
///
/// # Errors
/// When a server answers there, the path is not a socket, or it cannot be bound.
pub(crate) fn bind_unix(io: &UringIo, path: &Path) -> Result<Listener> {
    use std::os::unix::fs::FileTypeExt;
    if let Ok(meta) = path.symlink_metadata() {
        if !meta.file_type().is_socket() {
            bail!("{} is there already and is not a socket; choose another path", path.display());
        }
        if is_in_use(path) {
            bail!("{} is in use by another server; stop it, or choose another path", path.display());
        }
        std::fs::remove_file(path)
            .with_context(|| format!("cannot remove the stale socket {}", path.display()))?;
    }
    let listener = Listener::bind_unix(io, path);
    listener.with_context(|| format!("cannot listen on {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::is_in_use;

    #[test]
    fn a_socket_that_is_being_closed_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(is_in_use(&path));
        // It answers once more.
        let ending = std::thread::spawn(move || listener.accept().map(drop));
        // The connection of the first look is accepted first.
        assert!(!is_in_use(&path));
        ending.join().unwrap().unwrap();
    }
}
