//! `sinew serve`: open a pool and serve its volumes until told to stop.

use std::cell::Cell;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use async_channel::{Receiver, Sender};
use clap::Args;
use sinew_engine::client::PoolClient;
use sinew_engine::control::Catalog;
use sinew_engine::io::Io;
use sinew_uring::net::{Listener, Stream};
use sinew_uring::signal::Signals;
use sinew_uring::{Devices, UringIo};

use crate::host::{self, Open, Worker};
use crate::{api, nbd, size};

/// Connections handed to a thread and not yet taken.
const HANDOVER: usize = 64;

/// Opens a pool and serves its volumes over NBD until Ctrl-C or SIGTERM.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// The pool's members: files or block devices.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) listen: Listen,
}

/// Where to serve.
#[derive(Args, Default)]
pub(crate) struct Listen {
    /// Unix socket for NBD.
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,
    /// TCP address for NBD, for example 127.0.0.1:10809.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) tcp: Option<SocketAddr>,
    /// Allow a TCP address that other machines can reach. There is no authentication and no encryption.
    #[arg(long)]
    pub(crate) public: bool,
    /// Control socket; by default NAME.sock in the runtime directory.
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// Threads to serve with, at most one per shard; by default one per core.
    #[arg(long, value_name = "N")]
    pub(crate) cores: Option<usize>,
}

/// Serves connections that the first thread hands over.
#[derive(Clone)]
struct Connections(Vec<Receiver<OwnedFd>>);

impl Worker for Connections {
    async fn work(self, thread: usize, io: UringIo, client: PoolClient<UringIo>, catalog: Catalog) {
        while let Ok(fd) = self.0[thread - 1].recv().await {
            let stream = Stream::from_fd(&io, fd);
            io.spawn(nbd::serve(io.clone(), stream, client.clone(), catalog.clone()));
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: ServeArgs) -> Result<()> {
    serve(&args.members, args.listen, |_, listen| {
        for (kind, at) in [("unix", listen.unix.as_ref().map(|p| p.display().to_string())), ("tcp", listen.tcp.map(|a| a.to_string()))] {
            if let Some(at) = at {
                println!("serving NBD on {kind} {at}");
            }
        }
    })
}

/// Serves a pool; `ready` is told once clients can connect.
pub(crate) fn serve(members: &[PathBuf], mut listen: Listen, ready: impl FnOnce(&Open, &Listen)) -> Result<()> {
    if let Some(address) = listen.tcp
        && !address.ip().is_loopback()
        && !listen.public
    {
        bail!("{address} can be reached by other machines, and NBD here has no authentication: say --public if that is meant");
    }
    let signals = Signals::take_over()?;
    let devices = Devices::new();
    let candidates = host::candidates(&devices, members)?;
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let (senders, receivers): (Vec<_>, Vec<_>) = (1..64).map(|_| async_channel::bounded(HANDOVER)).unzip();
    let cores = listen.cores.unwrap_or(available);
    let served = host::with_pool(devices, candidates, cores, Connections(receivers), async |open| {
        let open = Rc::new(open);
        for warning in &open.warnings {
            eprintln!("sinew: {warning}");
        }
        let control = control_socket(&open, &listen)?;
        listen.control = Some(control.clone());
        let sockets = [Some(control.clone()), listen.unix.clone()];
        let listener = bind_unix(&open.io, &control)?;
        open.io.spawn(api::serve(Rc::clone(&open), listener));
        let dealer = Rc::new(Dealer { open: Rc::clone(&open), senders, next: Cell::new(0) });
        if let Some(path) = &listen.unix {
            let listener = bind_unix(&open.io, path)?;
            open.io.spawn(Rc::clone(&dealer).accept(listener));
        }
        if let Some(address) = listen.tcp {
            let listener = Listener::bind_tcp(&open.io, address).with_context(|| format!("cannot listen on {address}"))?;
            listen.tcp = listener.address();
            open.io.spawn(Rc::clone(&dealer).accept(listener));
        }
        report_recovery(&open);
        ready(&open, &listen);
        signals.next(&open.io).await?;
        eprintln!("sinew: stopping");
        let closed = open.control.close().await;
        for path in sockets.into_iter().flatten() {
            let _ = std::fs::remove_file(path);
        }
        Ok(closed?)
    });
    served?;
    // The other threads still wait for connections; there is nothing left to do for them.
    std::process::exit(0)
}

fn report_recovery(open: &Open) {
    let r = open.recovery;
    if r.blocks_replayed > 0 {
        eprintln!(
            "sinew: recovered in {:.1} ms: {} read, {} pages, {} journal blocks replayed, {} of {} unflushed records dropped",
            r.elapsed_ns as f64 / 1e6, size::show(r.bytes_read), r.pages, r.blocks_replayed, r.records_dropped, r.records_verified
        );
    }
}

fn control_socket(open: &Open, listen: &Listen) -> Result<PathBuf> {
    if let Some(path) = &listen.control {
        return Ok(path.clone());
    }
    let dir = api::directory();
    std::fs::create_dir_all(&dir)
        .with_context(|| format!("cannot make {} for the control socket; say --control PATH", dir.display()))?;
    Ok(dir.join(format!("{}.sock", open.control.config().name)))
}

/// Listens at a path, taking the place of a socket that nobody answers at any more.
fn bind_unix(io: &UringIo, path: &Path) -> Result<Listener> {
    if path.exists() {
        if api::is_alive(path) {
            bail!("{} is in use by another server", path.display());
        }
        std::fs::remove_file(path)?;
    }
    Listener::bind_unix(io, path).with_context(|| format!("cannot listen on {}", path.display()))
}

/// Deals connections over the threads.
struct Dealer {
    open: Rc<Open>,
    senders: Vec<Sender<OwnedFd>>,
    next: Cell<usize>,
}

impl Dealer {
    async fn accept(self: Rc<Self>, listener: Listener) {
        let io = &self.open.io;
        loop {
            let stream = match listener.accept().await {
                Ok(stream) => stream,
                Err(error) => {
                    // Out of descriptors, most likely: others must end first.
                    eprintln!("sinew: cannot accept a connection: {error}");
                    io.sleep(100_000_000).await;
                    continue;
                }
            };
            let thread = self.next.get() % self.open.threads;
            self.next.set(thread + 1);
            if thread == 0 {
                let (client, catalog) = (self.open.client.clone(), self.open.control.catalog());
                io.spawn(nbd::serve(io.clone(), stream, client, catalog));
            } else if let Ok(fd) = stream.into_fd() {
                let _ = self.senders[thread - 1].send(fd).await;
            }
        }
    }
}
