//! The NBD connections of one thread, and the pool's volumes as their exports.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use sinew_core::io::Io;
use sinew_engine::client::{PoolClient, VolumeHandle};
use sinew_engine::control::Catalog;
use sinew_frontend::exports::{Export, Exports};
use sinew_frontend::nbd::{TlsMode, serve_connection};
use sinew_uring::UringIo;
use sinew_uring::net;

use super::refusals::Refusals;
use super::tls_options::TlsModes;
use super::volume_stats::{Counted, ThreadStats};
use crate::nbd_stream::NbdStream;

/// How often a thread that stops looks whether its last connection has ended.
const STOP_POLL_NS: u64 = 5_000_000;

/// What a connection may find.
struct PoolExports {
    all: Rc<Connections>,
    /// The client of the connection, for people.
    client: String,
}

/// The listener that a connection came through.
#[derive(Clone, Copy)]
pub(super) enum Door {
    Unix,
    Tcp,
}

/// How clients are let in, on all threads.
#[derive(Clone, Default)]
pub(super) struct Entrance {
    pub(super) tls: TlsModes,
    pub(super) refusals: Refusals,
    /// What clients are told of a volume beside its name.
    pub(super) description: Arc<OnceLock<String>>,
}

impl Entrance {
    fn tls(&self, door: Door) -> &TlsMode {
        match door {
            Door::Unix => &self.tls.unix,
            Door::Tcp => &self.tls.tcp,
        }
    }
}

impl Exports for PoolExports {
    type Volume = Counted<UringIo, VolumeHandle<UringIo>>;

    fn names(&self) -> Vec<String> {
        self.all.catalog.names()
    }

    fn open(&self, name: &str) -> Option<Export<Self::Volume>> {
        let Connections { io, client, catalog, stats, entrance, .. } = &*self.all;
        let shared = catalog.get(name)?;
        let (id, read_only) = (shared.id, shared.read_only);
        let volume = stats.counted(io, id, client.volume(shared));
        let description = entrance.description.get().cloned().unwrap_or_default();
        Some(Export { name: name.to_owned(), description, volume, read_only })
    }

    fn refused(&self, names: &[String], why: &str) {
        let client = match names {
            [] => self.client.clone(),
            names => format!("{} ({})", self.client, names.join(", ").escape_debug()),
        };
        self.all.entrance.refusals.count(&client, why);
    }
}

/// The connections of one thread.
pub(crate) struct Connections {
    io: UringIo,
    client: PoolClient<UringIo>,
    catalog: Catalog,
    stats: Rc<ThreadStats>,
    entrance: Entrance,
    streams: RefCell<BTreeMap<u64, net::Stream>>,
    next: Cell<u64>,
    stopping: Cell<bool>,
}

impl Connections {
    pub(crate) fn new(
        io: UringIo,
        client: PoolClient<UringIo>,
        catalog: Catalog,
        stats: Rc<ThreadStats>,
        entrance: Entrance,
    ) -> Rc<Connections> {
        let (streams, next, stopping) = (RefCell::default(), Cell::new(0), Cell::new(false));
        Rc::new(Connections { io, client, catalog, stats, entrance, streams, next, stopping })
    }

    /// Serves a connection on this thread.
    pub(super) fn start(self: &Rc<Self>, stream: net::Stream, door: Door) {
        if self.stopping.get() {
            return;
        }
        let key = self.next.replace(self.next.get() + 1);
        self.streams.borrow_mut().insert(key, stream.clone());
        let all = Rc::clone(self);
        self.io.spawn(async move {
            let client = match door {
                Door::Unix => "of the Unix socket".to_owned(),
                Door::Tcp => stream.peer().map_or("that has left".to_owned(), |peer| peer.ip().to_string()),
            };
            let exports = PoolExports { all: Rc::clone(&all), client };
            let (stream, tls) = (Rc::new(NbdStream(stream)), all.entrance.tls(door));
            // How a client's connection ends is the client's business.
            let _ = serve_connection(all.io.clone(), stream, exports, tls).await;
            all.streams.borrow_mut().remove(&key);
        });
    }

    /// Takes no more connections, ends those there are, and waits until their requests are done.
    pub(crate) async fn stop(&self) {
        self.stopping.set(true);
        for stream in self.streams.borrow().values() {
            stream.shutdown();
        }
        while !self.streams.borrow().is_empty() {
            self.io.sleep(STOP_POLL_NS).await;
        }
    }
}
