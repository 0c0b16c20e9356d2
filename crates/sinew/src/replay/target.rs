//! The target by its name, and requests to it: volumes of a pool opened in this process, or exports over NBD.

use std::cell::Cell;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use sinew_core::buf::{BLOCK_BYTES, Buf, Bufs};
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::client::VolumeHandle;
use sinew_frontend::nbd::proto::{Errno, transmission_flag};
use sinew_frontend::nbd::uri::Place;
use sinew_frontend::nbd::{Client, ClientError, NbdUri};
use sinew_frontend::tls::ClientTls;
use sinew_uring::{Devices, UringIo, net};
use sinew_workload::{Kind, Request};

use crate::client;
use crate::nbd_stream::NbdStream;
use crate::pool::host::{Kind as PoolKind, Open};
use crate::pool::members::{self, Available, InUse};
use crate::protocol::{Request as ControlRequest, socket};
use crate::tls;

/// How long a server's machine may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// A target, found but not opened.
pub(crate) enum Named {
    /// Exports of a server, one for each volume.
    Served(Vec<NbdUri>),
    /// Members of a pool that no server has.
    Members(Available),
}

/// Finds what is named: an NBD URI, a pool's members, or a volume of a running pool. `volumes` are more names, for what
/// has several.
///
/// # Errors
/// When it is no target, or its server cannot be reached.
pub(crate) fn find(
    named: &str,
    volumes: &[String],
    control: &client::Target,
    devices: &Devices,
) -> Result<Named> {
    if NbdUri::is_meant(named) {
        let uri = NbdUri::parse(named)?;
        let more = volumes.iter().map(|export| NbdUri { export: export.clone(), ..uri.clone() });
        return Ok(Named::Served(if volumes.is_empty() { vec![uri] } else { more.collect() }));
    }
    let path = Path::new(named);
    if path.exists() {
        return match members::open_available(devices, &[path.to_owned()], PoolKind::Pool, Duration::ZERO) {
            Ok(available) => Ok(Named::Members(available)),
            Err(error) if error.is::<InUse>() => {
                let status = ask_server_of(path, control, devices)?;
                Ok(Named::Served(exports(&status, volumes)?))
            }
            Err(error) => Err(error),
        };
    }
    let status = control.ask(&ControlRequest::Status).with_context(|| {
        format!(
            "{named} is neither an NBD URI (nbd://…) nor a directory of members, and it cannot be a volume"
        )
    })?;
    Ok(Named::Served(exports(&status, &[&[named.to_owned()], volumes].concat())?))
}

/// The state of the pool that a server has these members of.
fn ask_server_of(path: &Path, control: &client::Target, devices: &Devices) -> Result<Value> {
    let member = members::expand(&[path.to_owned()])?.into_iter().next().context("no Sinew member there")?;
    let name = members::superblock(devices, &member)?.superblock.config.name;
    // Where `sinew up` puts it if it has no other place.
    let beside = path.join("control.sock");
    let control = if socket::is_alive(&beside) { control.or_path(&beside) } else { control.or_pool(&name) };
    let status = control.ask(&ControlRequest::Status);
    let status = status.with_context(|| format!("a server has pool {name}; say its --control PATH"))?;
    match status["pool"].as_str() {
        Some(found) if found == name => Ok(status),
        found => {
            bail!("the members are of pool {name}, the control socket is of {}", found.unwrap_or("another"))
        }
    }
}

/// The URIs of volumes of a running pool; without names, of all.
fn exports(status: &Value, volumes: &[String]) -> Result<Vec<NbdUri>> {
    let known = status["volumes"].as_array().into_iter().flatten();
    let known: Vec<String> = known.filter_map(|v| Some(v["name"].as_str()?.to_owned())).collect();
    let names = choose(&known, volumes)?;
    let place = match (status["nbd"]["unix"].as_str(), status["nbd"]["tcp"].as_str()) {
        (Some(path), _) => Place::Unix(path.into()),
        (None, Some(address)) if status["nbd"]["tls"] == "require" => bail!(
            "the server takes only TLS at {address}; name an nbds:// URI with tls-certificates=DIR (docs/howto/tls.md)"
        ),
        (None, Some(address)) => {
            let address: std::net::SocketAddr = address.parse().context("the server's address")?;
            NbdUri::tcp(address, "").place
        }
        (None, None) => bail!("the server does not say where it serves NBD; name an NBD URI"),
    };
    Ok(names.into_iter().map(|export| NbdUri { place: place.clone(), export, tls: None }).collect())
}

/// The volumes that were asked for, or all.
fn choose(known: &[String], wanted: &[String]) -> Result<Vec<String>> {
    if known.is_empty() {
        bail!("the pool has no volume; make one with `sinew volume create`");
    }
    if let Some(name) = wanted.iter().find(|name| !known.contains(name)) {
        bail!("there is no volume {name}; there are {}", known.join(", "));
    }
    Ok(if wanted.is_empty() { known.to_vec() } else { wanted.to_vec() })
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// One of a few words, to count by.
    pub(crate) kind: &'static str,
    /// For people.
    pub(crate) message: String,
    /// No request will succeed any more.
    pub(crate) is_end: bool,
}

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Failure {
        let kind = match error {
            VolumeError::OutOfRange => "invalid",
            VolumeError::NoSpace => "no space",
            VolumeError::Failed => "I/O error",
            VolumeError::Unsupported => "unsupported",
            VolumeError::ReadOnly => "read-only",
            VolumeError::Gone => "gone",
        };
        Failure { kind, message: error.to_string(), is_end: error == VolumeError::Gone }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let kind = match &error {
            ClientError::Refused { errno, .. } => match errno {
                Errno::Perm => "not permitted",
                Errno::Io => "I/O error",
                Errno::Inval => "invalid",
                Errno::NoSpc => "no space",
                Errno::Overflow => "too large",
                Errno::NotSup => "not supported",
                Errno::Shutdown => "gone",
            },
            ClientError::NoExport(_) | ClientError::NoTls(_) | ClientError::Closed => "connection lost",
            ClientError::Silent(_) => "no answer",
            ClientError::Violation(_) => "protocol broken",
        };
        Failure { kind, message: error.to_string(), is_end: error.is_end() }
    }
}

/// A volume, from this process.
enum Way {
    Volume(VolumeHandle<UringIo>),
    /// Connections to an export, used in turn.
    Export(Vec<Client<UringIo, NbdStream>>, Cell<usize>),
}

/// The volumes of a replay.
pub(crate) struct Target {
    ways: Vec<Way>,
    /// Their names, for people.
    pub(crate) names: Vec<String>,
}

impl Target {
    /// Volumes of a pool opened in this process; without names, all.
    ///
    /// # Errors
    /// When the pool has no such volume.
    pub(crate) fn in_process(open: &Open, volumes: &[String]) -> Result<Target> {
        let catalog = open.control.catalog();
        let names = choose(&catalog.names(), volumes)?;
        let way = |name: &String| Some(Way::Volume(open.client.volume(catalog.get(name)?)));
        let ways = names.iter().map(way).collect::<Option<Vec<_>>>().context("a volume has just gone")?;
        Ok(Target { ways, names })
    }

    /// Connects to exports, several times each.
    ///
    /// # Errors
    /// When a server cannot be reached or refuses the export.
    pub(crate) async fn connect(
        io: &UringIo,
        uris: &[NbdUri],
        connections: usize,
        patience: Duration,
    ) -> Result<Target> {
        let mut ways = Vec::new();
        for uri in uris {
            let mut clients = Vec::new();
            let tls = client_tls(uri)?;
            for _ in 0..connections {
                let stream = connected(&uri.place).with_context(|| format!("cannot connect to {uri}"))?;
                let stream = Rc::new(NbdStream(net::Stream::from_fd(io, stream)));
                let patience_ns = patience.as_nanos() as u64;
                let client = Client::connect(io, stream, &uri.export, patience_ns, tls.as_ref()).await;
                clients.push(client.with_context(|| format!("cannot connect to {uri}"))?);
            }
            if connections > 1 && !clients[0].terms().can(transmission_flag::CAN_MULTI_CONN) {
                bail!("{uri}: the server does not promise that connections see each other's writes; use one");
            }
            ways.push(Way::Export(clients, Cell::new(0)));
        }
        Ok(Target { ways, names: uris.iter().map(NbdUri::to_string).collect() })
    }

    /// The sizes of the volumes.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        let size = |way: &Way| match way {
            Way::Volume(volume) => volume.size_bytes(),
            Way::Export(clients, _) => clients[0].terms().bytes,
        };
        self.ways.iter().map(size).collect()
    }

    /// The unit of offsets and lengths of requests.
    pub(crate) fn block_bytes(&self) -> u64 {
        let block = |way: &Way| match way {
            Way::Volume(_) => 1,
            Way::Export(clients, _) => u64::from(clients[0].terms().block_bytes),
        };
        self.ways.iter().map(block).max().unwrap_or(1)
    }

    /// The bytes that a read finds as one write left them, if it or another write of them is in flight. A pool replaces blocks as
    /// a whole. NBD promises nothing of the kind: of two requests in flight, a server may serve each in parts.
    pub(crate) fn atomic_bytes(&self, volume: u32) -> usize {
        match self.ways[volume as usize] {
            Way::Volume(_) => BLOCK_BYTES,
            Way::Export(..) => 1,
        }
    }

    /// Carries a request out; `data` is what a write writes. Gives what a read read.
    ///
    /// # Errors
    /// When the request fails.
    pub(crate) async fn perform(&self, request: &Request, data: Buf) -> Result<Bufs, Failure> {
        let Request { offset, len, kind, .. } = *request;
        match &self.ways[request.volume as usize] {
            Way::Volume(volume) => match kind {
                Kind::Read => return Ok(volume.read(offset, len as u32).await?),
                Kind::Write => volume.write(offset, data, false).await?,
                Kind::Discard => volume.discard(offset, len).await?,
                Kind::Flush => volume.flush().await?,
            },
            Way::Export(clients, next) => {
                let client = &clients[next.replace((next.get() + 1) % clients.len())];
                match kind {
                    Kind::Read => return Ok(client.read(offset, len as u32).await?),
                    Kind::Write => client.write(offset, &data).await?,
                    Kind::Discard => client.trim(offset, len).await?,
                    Kind::Flush => client.flush().await?,
                }
            }
        }
        Ok(Bufs::new())
    }

    /// Takes leave of servers.
    pub(crate) async fn close(&self) {
        for way in &self.ways {
            if let Way::Export(clients, _) = way {
                for client in clients {
                    client.close().await;
                }
            }
        }
    }
}

/// What a URI says of TLS.
fn client_tls(uri: &NbdUri) -> Result<Option<ClientTls>> {
    let Some(said) = &uri.tls else { return Ok(None) };
    let certificates = said.certificates.as_deref().with_context(|| {
        format!(
            "{uri} does not say where the certificates are; add tls-certificates=DIR, with ca-cert.pem there"
        )
    })?;
    let name = match (&said.hostname, &uri.place) {
        (Some(name), _) => name,
        (None, Place::Tcp(host, _)) => host,
        (None, Place::Unix(_)) => bail!("{uri} does not name the server; add tls-hostname=NAME"),
    };
    tls::client(certificates, name).map(Some)
}

/// A connected socket. It blocks this thread: nothing else is under way yet.
fn connected(place: &Place) -> Result<OwnedFd> {
    match place {
        Place::Unix(path) => Ok(UnixStream::connect(path)?.into()),
        Place::Tcp(host, port) => {
            let addresses = (host.as_str(), *port).to_socket_addrs()?;
            let mut last = anyhow!("{host} has no address");
            for address in addresses {
                match TcpStream::connect_timeout(&address, CONNECT) {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        return Ok(stream.into());
                    }
                    Err(error) => last = error.into(),
                }
            }
            Err(last)
        }
    }
}
