//! The vhost-user sockets: each a volume as a disk of virtual machines.
//!
//! A client has a thread of its own for its control socket, which blocks and has little to do. Its rings are served by the
//! threads of the pool: ring i by thread i mod threads. All of them together are one connection of the volume.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use async_channel::Sender;
use sinew_core::io::Io;
use sinew_engine::client::Connection;
use sinew_engine::control::Catalog;
use sinew_frontend::vhost::{Bell, Disk, RingStart, Rings, SessionEnd, serve_ring, serve_session};
use sinew_uring::UringIo;
use sinew_uring::event::Event;
use sinew_uring::net::Listener;

use super::pool_thread::{Handed, PoolThread};
use super::refusals::Refusals;
use crate::out::complain;

/// How often a server that stops looks whether the last client has ended.
const STOP_POLL_NS: u64 = 5_000_000;
/// Clients of all sockets together, at most: each is a thread.
const CLIENTS_MAX: usize = 1024;

/// A volume, and the socket at which it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VhostSocket {
    pub(crate) volume: String,
    pub(crate) path: PathBuf,
}

impl VhostSocket {
    /// From `VOLUME=PATH`.
    ///
    /// # Errors
    /// When one of them is missing.
    pub(crate) fn parse(text: &str) -> Result<VhostSocket> {
        let (volume, path) = text.split_once('=').unwrap_or_default();
        ensure!(
            !volume.is_empty() && !path.is_empty(),
            "{text} does not name a volume and its socket: write VOLUME=PATH, for example vm1=/run/vm1.sock"
        );
        VhostSocket::new(volume, Path::new(path))
    }

    /// # Errors
    /// When there is no working directory.
    pub(crate) fn new(volume: &str, path: &Path) -> Result<VhostSocket> {
        let path = std::path::absolute(path).context("cannot tell where a vhost-user socket is")?;
        Ok(VhostSocket { volume: volume.to_owned(), path })
    }
}

struct EventBell(Event);

impl Bell for EventBell {
    async fn rung(&self) -> bool {
        self.0.happened().await
    }

    fn silence(&self) {
        self.0.silence();
    }

    fn ring(&self) {
        self.0.send();
    }
}

/// Begins to serve a ring, until its client stops it.
fn begin(thread: &PoolThread, connection: &Connection, ring: RingStart) {
    let io = thread.io.clone();
    let bell = move |fd| EventBell(Event::from_fd(&io, fd));
    thread.io.spawn(serve_ring(thread.io.clone(), thread.volume(connection), ring, bell));
}

/// The ways to the threads of the pool, for the rings of one client.
struct PoolRings {
    threads: Vec<Sender<Handed>>,
    connection: Connection,
}

impl Rings for PoolRings {
    fn start(&self, ring: RingStart) {
        let thread = &self.threads[usize::from(ring.index()) % self.threads.len()];
        let connection = self.connection.clone();
        // A thread that has ended serves nothing; the ring is then as if it had been stopped.
        let _ = thread.send_blocking(Box::new(move |thread| begin(thread, &connection, ring)));
    }
}

/// The clients whose control sockets are open.
#[derive(Clone, Default)]
struct Clients(Arc<Mutex<BTreeMap<u64, UnixStream>>>);

impl Clients {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, UnixStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a client from the list when its thread ends, however it ends.
struct Listed(Clients, u64);

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

/// The vhost-user clients of a server. Lives on the first thread.
pub(super) struct Guests {
    io: UringIo,
    catalog: Catalog,
    refusals: Refusals,
    threads: Vec<Sender<Handed>>,
    clients: Clients,
    next: Cell<u64>,
    stopping: Cell<bool>,
}

impl Guests {
    /// Without clients; `threads` are the ways to the threads of the pool.
    pub(super) fn new(
        io: UringIo,
        catalog: Catalog,
        refusals: Refusals,
        threads: Vec<Sender<Handed>>,
    ) -> Rc<Guests> {
        let (clients, next, stopping) = (Clients::default(), Cell::new(0), Cell::new(false));
        Rc::new(Guests { io, catalog, refusals, threads, clients, next, stopping })
    }

    /// Serves the clients of one socket.
    pub(super) async fn accept(self: Rc<Self>, socket: VhostSocket, listener: Listener) {
        loop {
            let accepted = listener.accept().await;
            if self.stopping.get() {
                return;
            }
            let started = match accepted {
                Ok(stream) => match stream.into_fd() {
                    Ok(fd) => self.start(&socket.volume, fd),
                    Err(_) => continue,
                },
                Err(error) => Err(error).context("cannot accept a connection"),
            };
            if let Err(error) = started {
                complain!("{}: {error:#}", socket.path.display());
                self.io.sleep(100_000_000).await;
            }
        }
    }

    /// Starts the thread of a client.
    ///
    /// # Errors
    /// When the system has no thread or descriptor for it.
    fn start(&self, volume: &str, fd: OwnedFd) -> Result<()> {
        let client = format!("of the vhost-user socket of volume {volume}");
        let Some(shared) = self.catalog.get(volume) else {
            self.refusals.count(&client, "there is no such volume");
            return Ok(());
        };
        if self.clients.lock().len() >= CLIENTS_MAX {
            self.refusals.count(&client, "there are too many clients");
            return Ok(());
        }
        let (refusals, name) = (self.refusals.clone(), client.clone());
        let size = Arc::clone(&shared);
        let disk = Disk {
            serial: volume.to_owned(),
            read_only: shared.read_only,
            bytes: Arc::new(move || size.bytes()),
            fault: Arc::new(move |problem| refusals.count(&name, problem)),
        };
        let rings = PoolRings { threads: self.threads.clone(), connection: Connection::new(shared) };
        let socket = UnixStream::from(fd);
        let key = self.next.replace(self.next.get() + 1);
        self.clients.lock().insert(key, socket.try_clone().context("cannot serve a client")?);
        let (listed, refusals) = (Listed(self.clients.clone(), key), self.refusals.clone());
        let session = move || {
            let _listed = listed;
            if let SessionEnd::Failed(why) = serve_session(socket, disk, rings) {
                refusals.count(&client, &why);
            }
        };
        thread::Builder::new()
            .name("sinew-vhost".into())
            .spawn(session)
            .context("cannot start a thread for a client")?;
        Ok(())
    }

    /// Takes no more clients, ends those there are, and waits until their requests have been answered.
    pub(super) async fn stop(&self) {
        self.stopping.set(true);
        for socket in self.clients.lock().values() {
            // It fails only when the client has left.
            let _ = socket.shutdown(Shutdown::Both);
        }
        while !self.clients.lock().is_empty() {
            self.io.sleep(STOP_POLL_NS).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_a_volume_and_a_path() {
        let socket = VhostSocket::parse("vm=/run/a=b.sock").expect("right");
        assert_eq!(socket, VhostSocket { volume: "vm".into(), path: "/run/a=b.sock".into() });
        for wrong in ["vm", "vm=", "=/run/x", ""] {
            assert!(VhostSocket::parse(wrong).is_err(), "{wrong}");
        }
    }
}
