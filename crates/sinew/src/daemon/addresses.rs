//! Where a daemon that is ready can be reached.

use std::net::SocketAddr;
use std::path::PathBuf;

use sinew_frontend::nbd::{NbdUri, UriTls};

use super::vhost_sockets::VhostSocket;
use crate::protocol::state::BlockDevicePlace;
use crate::tls::TlsChoice;

/// The sockets of a daemon.
#[derive(Clone)]
pub(crate) struct Addresses {
    /// For NBD.
    pub(crate) unix: Option<PathBuf>,
    /// For NBD.
    pub(crate) tcp: Option<SocketAddr>,
    /// Whether clients over TCP need TLS.
    pub(super) tls: TlsChoice,
    /// For metrics, over HTTP.
    pub(crate) metrics: Option<SocketAddr>,
    /// For the page, over HTTP.
    pub(crate) http: Option<SocketAddr>,
    /// For vhost-user.
    pub(crate) vhost_user: Vec<VhostSocket>,
    /// Block devices.
    pub(crate) block_devices: Vec<BlockDevicePlace>,
    /// The control socket.
    pub(crate) control: PathBuf,
}

impl Addresses {
    /// The sockets for NBD, for people.
    pub(crate) fn nbd_places(&self) -> Vec<String> {
        let unix = self.unix.as_ref().map(|path| path.display().to_string());
        let tcp = self.tcp.map(|address| match self.tls {
            TlsChoice::Off => address.to_string(),
            choice => format!("{address} (TLS: {})", choice.name()),
        });
        unix.into_iter().chain(tcp).collect()
    }

    /// The URIs of a volume.
    pub(crate) fn uris(&self, volume: &str) -> Vec<String> {
        let unix = self.unix.as_ref().map(|path| NbdUri::unix(path, volume));
        let tls = (self.tls == TlsChoice::Require).then(UriTls::default);
        let tcp = self.tcp.map(|address| NbdUri { tls, ..NbdUri::tcp(address, volume) });
        unix.into_iter().chain(tcp).map(|uri| uri.to_string()).collect()
    }
}
