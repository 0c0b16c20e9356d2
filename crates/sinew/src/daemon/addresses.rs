//! Where a daemon that is ready can be reached.

use std::net::SocketAddr;
use std::path::PathBuf;

use sinew_frontend::nbd::NbdUri;

/// The sockets of a daemon.
#[derive(Clone)]
pub(crate) struct Addresses {
    /// For NBD.
    pub(crate) unix: Option<PathBuf>,
    /// For NBD.
    pub(crate) tcp: Option<SocketAddr>,
    /// For metrics, over HTTP.
    pub(crate) metrics: Option<SocketAddr>,
    /// For the page, over HTTP.
    pub(crate) http: Option<SocketAddr>,
    /// The control socket.
    pub(crate) control: PathBuf,
}

impl Addresses {
    /// The sockets for NBD, for people.
    pub(crate) fn nbd_places(&self) -> Vec<String> {
        let unix = self.unix.as_ref().map(|path| path.display().to_string());
        unix.into_iter().chain(self.tcp.map(|address| address.to_string())).collect()
    }

    /// The URIs of a volume.
    pub(crate) fn uris(&self, volume: &str) -> Vec<String> {
        let unix = self.unix.as_ref().map(|path| NbdUri::unix(path, volume));
        let tcp = self.tcp.map(|address| NbdUri::tcp(address, volume));
        unix.into_iter().chain(tcp).map(|uri| uri.to_string()).collect()
    }
}
