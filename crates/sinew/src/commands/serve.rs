//! `sinew serve`: open a pool and serve its volumes until told to stop.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_channel::{Receiver, Sender};
use clap::Args;
use sinew_core::io::{DeviceId, Io};
use sinew_engine::client::PoolClient;
use sinew_engine::control::Catalog;
use sinew_engine::pool::md_arrays::MdOptions;
use sinew_engine::pool::preset::Preset;
use sinew_format::model::array_geometry::Access;
use sinew_frontend::nbd::NbdUri;
use sinew_uring::net::{Listener, Stream};
use sinew_uring::signal::Signals;
use sinew_uring::threads::spawn_pinned;
use sinew_uring::{Config, Devices, Harm, UringIo};

use crate::api;
use crate::commands::pool::shards_default;
use crate::cores::{self, CoreList};
use crate::fault_member::{self, FaultMember};
use crate::host::{self, Kind, Open, Worker};
use crate::nbd::Connections;
use crate::out::{complain, say};
use crate::{members, preset, report, size};

/// Connections handed to a thread and not yet taken.
const HANDOVER: usize = 64;
/// How long requests under way may take once the server is told to stop.
const STOP: Duration = Duration::from_secs(10);
/// How often the members' files are looked at.
const WATCH_NS: u64 = 1_000_000_000;

/// Opens a pool and serves its volumes over NBD until Ctrl-C or SIGTERM.
///
/// Members that are not there are left out as long as the pool can do without them; the status names them.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// The pool's members: files, block devices, or directories of member files.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    /// The members are those of an array of md's (mdadm), by its own superblocks; it is served read-only, and nothing at
    /// all is written to them.
    #[arg(long)]
    md: bool,
    /// With --md: serve it for writing too, and keep md's superblocks as md does.
    #[arg(long, requires = "md")]
    write: bool,
    /// With --md --write: go on where md would not start the array by itself, not stopped cleanly with a member missing.
    #[arg(long, requires = "write")]
    force: bool,
    #[command(flatten)]
    listen: Listen,
}

/// Where to serve.
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
    /// Do with spikes and small writes as a preset says: sinew, fusionraid, fusion-nd, raid50 (docs/presets.md).
    #[arg(long, value_parser = preset::parse)]
    pub(crate) preset: Option<Preset>,
    /// Give a member a fault on purpose, by its place in the list of members, from 0, for example
    /// 2:spikes,period=200ms,length=50ms,height=20ms or 2:corrupt-reads,rate=0.01 (docs/fault-members.md); can be said
    /// several times.
    #[arg(long, value_name = "FAULT", value_parser = fault_member::parse)]
    pub(crate) fault_member: Vec<FaultMember>,
}

/// Runs the command.
pub(crate) fn run(args: ServeArgs) -> Result<()> {
    let kind = if args.md { md_kind(args.write, args.force) } else { Kind::Pool };
    serve(&args.members, kind, args.listen, |open, at| {
        match kind {
            Kind::Pool => say!("serving pool {}", open.control.config().name),
            Kind::Md(options) => say!(
                "serving md array {}, {}",
                open.control.config().name,
                report::access_name(options.access)
            ),
        }
        for place in at.nbd_places() {
            say!("  NBD      {place}");
        }
        say!("  control  {}", at.control.display());
    })
}

fn md_kind(write: bool, force: bool) -> Kind {
    let access = if write { Access::ReadWrite } else { Access::ReadOnly };
    let seconds = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    Kind::Md(MdOptions { access, force, shards: shards_default(), seconds })
}

/// Where a server that is ready can be reached.
#[derive(Clone)]
pub(crate) struct Ready {
    pub(crate) unix: Option<PathBuf>,
    pub(crate) tcp: Option<SocketAddr>,
    pub(crate) control: PathBuf,
}

impl Ready {
    fn nbd_places(&self) -> Vec<String> {
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

/// Serves a pool; `ready` is told once clients can connect.
pub(crate) fn serve(
    named: &[PathBuf],
    kind: Kind,
    listen: Listen,
    ready: impl FnOnce(&Open, &Ready),
) -> Result<()> {
    refuse_strangers(&listen)?;
    let stop = stop_signal()?;
    let devices = Devices::new();
    let gathered = members::gather(&devices, named, kind)?;
    for problem in &gathered.problems {
        complain!("warning: {problem}");
    }
    fault_member::give(&devices, &gathered.candidates, &listen.fault_member)?;
    let (senders, receivers) = (0..64).map(|_| async_channel::bounded(HANDOVER)).unzip();
    let worker = Others(receivers);
    let cores = listen.cores.clone();
    host::with_pool(devices, kind, gathered.candidates, cores, worker, async |open| {
        let open = Rc::new(open);
        for warning in &open.warnings {
            complain!("warning: {warning}");
        }
        report_recovery(&open);
        if let Some(preset) = &listen.preset {
            preset::apply(preset, &open.control).await?;
        }
        open.devices.begin_faults();
        let server = Server::start(Rc::clone(&open), &listen, senders)?;
        ready(&open, &server.ready);
        let _ = stop.recv().await;
        complain!("stopping");
        if let Err(error) = server.stop().await {
            // Something hangs; waiting for the threads would hang too.
            complain!("{error:#}");
            std::process::exit(1);
        }
        complain!("stopped, everything is on the members");
        Ok(())
    })
}

fn refuse_strangers(listen: &Listen) -> Result<()> {
    match listen.tcp {
        Some(address) if !address.ip().is_loopback() && !listen.public => bail!(
            "{address} can be reached by other machines, and there is no authentication and no encryption; \
             use a loopback address such as 127.0.0.1:{}, or say --public if that is meant",
            address.port()
        ),
        _ => Ok(()),
    }
}

/// Hears of Ctrl-C and SIGTERM on a thread of its own, so that they work while the pool is still being opened too. A
/// second one ends the process at once, which is as safe as a crash.
fn stop_signal() -> Result<Receiver<()>> {
    let signals = Signals::take_over().context("cannot wait for signals")?;
    let (told, stop) = async_channel::bounded(1);
    let config = Config { spin: Duration::ZERO, ..Config::default() };
    spawn_pinned(None, "sinew-signals", config, async move |io| {
        if signals.next(&io).await.is_err() || told.send(()).await.is_err() {
            return;
        }
        if signals.next(&io).await.is_ok() {
            complain!("ended at once; the next start replays the journal");
            std::process::exit(1);
        }
    })
    .context("cannot wait for signals")?;
    Ok(stop)
}

fn report_recovery(open: &Open) {
    let r = open.recovery;
    if r.blocks_replayed > 0 && (r.pages > 0 || r.records_verified > 0) {
        complain!(
            "recovered in {:.1} ms: {} read, {} pages, {} journal blocks replayed, {} of {} unflushed records dropped",
            r.elapsed_ns as f64 / 1e6,
            size::show(r.bytes_read),
            r.pages,
            r.blocks_replayed,
            r.records_dropped,
            r.records_verified
        );
    }
}

/// What the first thread hands to another.
enum Handover {
    Connection(OwnedFd),
    /// End all connections, answer, and end.
    Stop(Sender<()>),
}

/// The threads beside the first.
#[derive(Clone)]
struct Others(Vec<Receiver<Handover>>);

impl Worker for Others {
    async fn work(self, thread: usize, io: UringIo, client: PoolClient<UringIo>, catalog: Catalog) {
        let connections = Connections::new(io.clone(), client, catalog);
        while let Ok(handover) = self.0[thread - 1].recv().await {
            match handover {
                Handover::Connection(fd) => connections.start(Stream::from_fd(&io, fd)),
                Handover::Stop(done) => {
                    connections.stop().await;
                    let _ = done.send(()).await;
                }
            }
        }
    }
}

/// The sockets of a server, and who serves their connections. Lives on the first thread.
struct Server {
    open: Rc<Open>,
    ready: Ready,
    here: Rc<Connections>,
    others: Vec<Sender<Handover>>,
    next: Cell<usize>,
    stopping: Cell<bool>,
}

impl Server {
    fn start(open: Rc<Open>, listen: &Listen, mut others: Vec<Sender<Handover>>) -> Result<Rc<Server>> {
        others.truncate(open.threads - 1);
        let control = control_path(&open, listen)?;
        let io = open.io.clone();
        let controls = bind_unix(&io, &control)?;
        let unix_path = nbd_path(&open, listen)?;
        let unix = unix_path.as_deref().map(|path| bind_unix(&io, path)).transpose()?;
        let bind =
            |address| Listener::bind_tcp(&io, address).with_context(|| format!("cannot listen on {address}"));
        let tcp = listen.tcp.map(bind).transpose()?;
        let address = tcp.as_ref().and_then(Listener::address);
        let server = Rc::new(Server {
            here: Connections::new(io.clone(), open.client.clone(), open.control.catalog()),
            ready: Ready { unix: unix_path, tcp: address, control },
            others,
            next: Cell::new(0),
            stopping: Cell::new(false),
            open: Rc::clone(&open),
        });
        io.spawn(watch_members(Rc::clone(&open)));
        io.spawn(api::serve(open, Rc::new(server.ready.clone()), controls));
        for listener in unix.into_iter().chain(tcp) {
            io.spawn(Rc::clone(&server).accept(listener));
        }
        Ok(server)
    }

    /// Deals connections over the threads.
    async fn accept(self: Rc<Self>, listener: Listener) {
        loop {
            let stream = match listener.accept().await {
                Ok(stream) => stream,
                Err(error) => {
                    // Out of descriptors, most likely: others must end first.
                    complain!("cannot accept a connection: {error}");
                    self.open.io.sleep(100_000_000).await;
                    continue;
                }
            };
            if self.stopping.get() {
                return;
            }
            let thread = self.next.get() % self.open.threads;
            self.next.set(thread + 1);
            if thread == 0 {
                self.here.start(stream);
            } else if let Ok(fd) = stream.into_fd() {
                let _ = self.others[thread - 1].send(Handover::Connection(fd)).await;
            }
        }
    }

    /// Ends all connections and writes everything out.
    async fn stop(&self) -> Result<()> {
        self.stopping.set(true);
        for path in self.ready.unix.iter().chain([&self.ready.control]) {
            let _ = std::fs::remove_file(path);
        }
        let (done, ended) = async_channel::bounded(self.others.len().max(1));
        for other in &self.others {
            let _ = other.send(Handover::Stop(done.clone())).await;
        }
        let (here, mine) = (Rc::clone(&self.here), done);
        self.open.io.spawn(async move {
            here.stop().await;
            let _ = mine.send(()).await;
        });
        for _ in 0..self.open.threads {
            if !self.in_time(&ended).await {
                bail!(
                    "requests under way did not end within {} s, so pages were not written; \
                     nothing acknowledged is lost, the next start replays the journal",
                    STOP.as_secs()
                );
            }
        }
        self.open
            .control
            .close()
            .await
            .context("not everything could be written; the next start replays the journal")?;
        Ok(())
    }

    async fn in_time(&self, ended: &Receiver<()>) -> bool {
        let (late, over) = async_channel::bounded::<()>(1);
        let io = self.open.io.clone();
        let either = ended.clone();
        self.open.io.spawn(async move {
            io.sleep(STOP.as_nanos() as u64).await;
            if late.try_send(()).is_ok() {
                either.close();
            }
        });
        let done = ended.recv().await.is_ok();
        over.close();
        done
    }
}

/// Takes out members whose file was deleted or truncated under the pool, as long as it can do without them, and notes those
/// that nobody could find again.
async fn watch_members(open: Rc<Open>) {
    let asked: Rc<Asked> = Rc::default();
    loop {
        open.io.sleep(WATCH_NS).await;
        for (member, device) in open.control.devices_in_use() {
            // One that hangs keeps nobody else waiting.
            if asked.borrow_mut().insert(device) {
                open.io.spawn(watch_member(Rc::clone(&open), Rc::clone(&asked), member, device));
            }
        }
    }
}

/// Devices that are looked after, and those that need not be any more.
type Asked = RefCell<BTreeSet<DeviceId>>;

/// Looks after one member, once.
async fn watch_member(open: Rc<Open>, asked: Rc<Asked>, member: usize, device: DeviceId) {
    let harm = open.devices.harm(device).await;
    match harm {
        None => drop(open.unnamed.borrow_mut().remove(&device)),
        Some(Harm::Unnamed) => drop(open.unnamed.borrow_mut().insert(device)),
        Some(harm) => {
            match open.control.fail(member).await {
                Ok(()) => complain!("warning: member {member} is out: {harm}"),
                Err(error) => complain!("warning: member {member}: {harm}; {error}"),
            }
            return;
        }
    }
    asked.borrow_mut().remove(&device);
}

fn control_path(open: &Open, listen: &Listen) -> Result<PathBuf> {
    if let Some(path) = &listen.control {
        return Ok(std::path::absolute(path)?);
    }
    let dir = api::make_directory()?;
    Ok(dir.join(format!("{}.sock", open.control.config().name)))
}

/// The Unix socket for NBD, if there is to be one.
fn nbd_path(open: &Open, listen: &Listen) -> Result<Option<PathBuf>> {
    match &listen.unix {
        Some(path) => Ok(Some(std::path::absolute(path)?)),
        None if listen.tcp.is_some() => Ok(None),
        None => {
            // Beside them, not among them: what is in the directory itself is taken for a control socket.
            let dir = api::make_directory()?.join("nbd");
            std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
            Ok(Some(dir.join(format!("{}.sock", open.control.config().name))))
        }
    }
}

/// Listens at a path, taking the place of a socket that nobody answers at any more.
fn bind_unix(io: &UringIo, path: &Path) -> Result<Listener> {
    use std::os::unix::fs::FileTypeExt;
    if let Ok(meta) = path.symlink_metadata() {
        if !meta.file_type().is_socket() {
            bail!("{} is there already and is not a socket; choose another path", path.display());
        }
        if api::is_alive(path) {
            bail!("{} is in use by another server; stop it, or choose another path", path.display());
        }
        std::fs::remove_file(path)
            .with_context(|| format!("cannot remove the stale socket {}", path.display()))?;
    }
    let listener = Listener::bind_unix(io, path);
    listener.with_context(|| format!("cannot listen on {}", path.display()))
}
