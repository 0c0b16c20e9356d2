//! Where and how a daemon serves, as its options say.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use sinew_engine::pool::preset::Preset;
use sinew_uring::UringIo;
use sinew_uring::net::Listener;

use crate::pool::cores::{self, CoreList};
use crate::pool::fault_member::{self, FaultMember};
use crate::pool::preset;
use crate::protocol::socket;

/// Where and how to serve.
#[derive(Args, Clone, Default)]
pub(crate) struct Listen {
    /// Unix socket for NBD; by default, without --tcp, nbd/NAME.sock beside the default control socket.
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,
    /// TCP address for NBD, for example 127.0.0.1:10809.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) tcp: Option<SocketAddr>,
    /// Allow a TCP address that other machines can reach. There is no authentication and no encryption.
    #[arg(long)]
    pub(crate) public: bool,
    /// Control socket; by default NAME.sock in $XDG_RUNTIME_DIR/sinew or /run/sinew.
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// Processor cores to serve with, for example 0-3,6: one thread on each, at most one per shard; by default all.
    #[arg(long, value_name = "LIST", value_parser = cores::parse)]
    pub(crate) cores: Option<CoreList>,
    /// Set the policy and the spike avoidance of a preset: sinew, fusionraid, fusion-nd, raid50 (docs/presets.md).
    #[arg(long, value_parser = preset::parse)]
    pub(crate) preset: Option<Preset>,
    /// Inject a fault into a member, by its place in the list of members, from 0, for example
    /// 2:spikes,period=200ms,length=50ms,height=20ms or 2:corrupt-reads,rate=0.01 (docs/fault-members.md); can be given
    /// several times.
    #[arg(long, value_name = "FAULT", value_parser = fault_member::parse)]
    pub(crate) fault_member: Vec<FaultMember>,
}

impl Listen {
    /// Refuses a TCP address that other machines can reach, unless that is allowed.
    ///
    /// # Errors
    /// When the address is not a loopback address and `--public` was not given.
    pub(crate) fn check(&self) -> Result<()> {
        match self.tcp {
            Some(address) if !address.ip().is_loopback() && !self.public => bail!(
                "{address} can be reached by other machines, and there is no authentication and no encryption; \
                 use a loopback address such as 127.0.0.1:{}, or say --public to allow it",
                address.port()
            ),
            _ => Ok(()),
        }
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

    /// The path of the Unix socket for NBD, if there is to be one.
    ///
    /// # Errors
    /// When none was given, and the directory of these sockets cannot be made.
    pub(crate) fn nbd_path(&self, pool: &str) -> Result<Option<PathBuf>> {
        match &self.unix {
            Some(path) => Ok(Some(std::path::absolute(path)?)),
            None if self.tcp.is_some() => Ok(None),
            None => {
                // In a directory of its own: every socket beside the control sockets is taken for one.
                let dir = socket::make_directory()?.join("nbd");
                std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
                Ok(Some(dir.join(format!("{pool}.sock"))))
            }
        }
    }
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
        if socket::is_alive(path) {
            bail!("{} is in use by another server; stop it, or choose another path", path.display());
        }
        std::fs::remove_file(path)
            .with_context(|| format!("cannot remove the stale socket {}", path.display()))?;
    }
    let listener = Listener::bind_unix(io, path);
    listener.with_context(|| format!("cannot listen on {}", path.display()))
}
