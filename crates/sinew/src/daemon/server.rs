//! A daemon: opens a pool, listens on its sockets, deals their connections over the threads, and stops in order.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_channel::{Receiver, Sender};
use sinew_core::io::Io;
use sinew_engine::client::PoolClient;
use sinew_engine::control::Catalog;
use sinew_uring::net::{Listener, Stream};
use sinew_uring::signal::{Signal, Signals};
use sinew_uring::threads::spawn_pinned;
use sinew_uring::{Config, Devices, UringIo, inherited};

use super::addresses::Addresses;
use super::block_devices::BlockDevices;
use super::hook::Hook;
use super::listen::{Listen, bind_unix, set_mode};
use super::nbd_sockets::{Connections, Door, Entrance};
use super::pool_thread::{Handed, PoolThread};
use super::served::Served;
use super::site::{MetricsSite, PoolSite};
use super::vhost_sockets::{Guests, VhostSocket};
use super::volume_stats::{ThreadStats, VolumeStats};
use super::{control_socket, event_log, http, latecomers, member_watch, readiness, refusals};
use crate::out::complain;
use crate::pool::assembly::Source;
use crate::pool::host::{self, Kind, Open, Resources, Worker};
use crate::pool::{fault_member, members, preset};
use crate::units;

/// Connections handed to a thread and not yet taken.
const HANDOVER: usize = 64;
/// The time that requests in flight have to complete after the signal to stop.
const STOP: Duration = Duration::from_secs(10);

/// Serves a pool until a signal ends it; calls `ready` once clients can connect.
///
/// # Errors
/// When the pool cannot be opened, a socket cannot be bound, or not everything could be written at the end.
pub(crate) fn serve(
    source: Source,
    kind: Kind,
    listen: Listen,
    ready: impl FnOnce(&Open, &Addresses),
) -> Result<()> {
    listen.check()?;
    // First, before this process opens descriptors itself.
    let inherited = inherited::sockets().context("cannot take the sockets that LISTEN_FDS names")?;
    let entrance = Entrance { tls: listen.tls.load()?, ..Entrance::default() };
    event_log::begin();
    let stop = stop_signal()?;
    let (named, assembly) = match source {
        Source::Named(named) => (named, None),
        Source::Pool(assembly) => {
            let is_stopped = || stop.try_recv().is_ok() || stop.is_closed();
            (assembly.members(tell_of_wait, is_stopped)?, Some(assembly))
        }
    };
    let patience = assembly.as_ref().map_or(Duration::ZERO, |assembly| assembly.wait);
    let devices = Devices::new();
    let available = members::open_available(&devices, &named, kind, patience)?;
    for problem in &available.problems {
        complain!("warning: {problem}");
    }
    fault_member::give(&devices, &available.candidates, &listen.fault_member)?;
    let (senders, receivers) = (0..64).map(|_| async_channel::bounded(HANDOVER)).unzip();
    let (work, work_receivers) = (0..64).map(|_| async_channel::bounded(HANDOVER)).unzip();
    let stats = VolumeStats::default();
    let worker = Others { receivers, work: work_receivers, stats: stats.clone(), entrance: entrance.clone() };
    let mut doors = Doors { inherited, senders, work, worker: worker.clone() };
    let resources =
        Resources { cores: listen.cores.clone(), table_cache: listen.table_cache.unwrap_or_default() };
    host::with_pool(devices, kind, available.candidates, resources, worker, async |open| {
        let open = Rc::new(open);
        for warning in &open.warnings {
            complain!("warning: {warning}");
        }
        report_recovery(&open);
        let is_read_only = open.control.mode().is_read_only();
        if let Some(preset) = listen.preset.as_ref().filter(|_| !is_read_only) {
            preset::apply(preset, &open.control).await?;
        }
        let settings = if is_read_only { listen.settings.of_reading() } else { listen.settings };
        settings.apply(&open.control).await?;
        if let Some(after) = listen.rebuild_after.filter(|_| !is_read_only) {
            open.control.set_rebuild_after(Some(after.as_nanos() as u64))?;
        }
        open.devices.begin_faults();
        let block_devices = doors.begin(&open, &listen).await?;
        let server = match Server::start(Rc::clone(&open), &listen, doors, Rc::clone(&block_devices)) {
            Ok(server) => server,
            Err(error) => {
                block_devices.stop().await;
                return Err(error);
            }
        };
        if let Some(assembly) = assembly.filter(|_| !is_read_only) {
            open.io.spawn(latecomers::take_back(Rc::clone(&open), assembly, named));
        }
        ready(&open, &server.addresses);
        readiness::ready(&format!("serving pool {}", open.control.config().name));
        let _ = stop.recv().await;
        readiness::stopping();
        complain!("stopping");
        if let Err(error) = server.stop().await {
            // Something hangs; waiting for the threads would hang too.
            complain!("{error:#}");
            std::process::exit(1);
        }
        complain!("{}", if is_read_only { "stopped" } else { "stopped, everything is on the members" });
        Ok(())
    })
}

fn tell_of_wait(status: &str) {
    complain!("{status}");
    readiness::status(status);
}

/// Hears of Ctrl-C, SIGTERM and SIGHUP on a thread of its own, so that they work while the pool is still being opened too.
/// A second Ctrl-C ends the process at once, which is as safe as a crash. A second SIGTERM or SIGHUP does nothing: scripts
/// and service managers send several.
fn stop_signal() -> Result<Receiver<()>> {
    let signals = Signals::take_over().context("cannot wait for signals")?;
    let (told, stop) = async_channel::bounded(1);
    let config = Config { spin: Duration::ZERO, ..Config::default() };
    spawn_pinned(None, "sinew-signals", config, async move |io| {
        if signals.next(&io).await.is_err() || told.send(()).await.is_err() {
            return;
        }
        while let Ok(signal) = signals.next(&io).await {
            if signal == Signal::Interrupt {
                complain!("ended at once; the next start replays the journal");
                std::process::exit(1);
            }
        }
    })
    .context("cannot wait for signals")?;
    Ok(stop)
}

fn report_recovery(open: &Open) {
    let r = open.recovery;
    if r.blocks_missing > 0 || r.blocks_unknown > 0 {
        complain!(
            "warning: as a last resort: {} blocks of the journal are on no member, so what they changed may have its older \
             content; the place of {} blocks that were found is unknown, so they cannot be read",
            r.blocks_missing,
            r.blocks_unknown
        );
    }
    if open.control.mode().is_read_only() {
        complain!("nothing is written to the members");
    } else if r.blocks_replayed > 0 && (r.pages > 0 || r.records_verified > 0) {
        complain!(
            "recovered in {:.1} ms: {} read, {} pages, {} journal blocks replayed, {} of {} unflushed records dropped",
            r.elapsed_ns as f64 / 1e6,
            units::bytes(r.bytes_read),
            r.pages,
            r.blocks_replayed,
            r.records_dropped,
            r.records_verified
        );
    }
}

/// A message from the first thread to another.
enum Handover {
    Connection(OwnedFd, Door),
    /// End all connections, answer, and end.
    Stop(Sender<()>),
}

/// The threads beside the first.
#[derive(Clone)]
struct Others {
    receivers: Vec<Receiver<Handover>>,
    /// Other work for each thread, the first included.
    work: Vec<Receiver<Handed>>,
    stats: VolumeStats,
    entrance: Entrance,
}

impl Worker for Others {
    async fn work(self, thread: usize, io: UringIo, client: PoolClient<UringIo>, catalog: Catalog) {
        let stats = Rc::new(ThreadStats::new(self.stats));
        let this = PoolThread::new(io.clone(), client.clone(), Rc::clone(&stats));
        io.spawn(this.serve(self.work[thread].clone()));
        let connections = Connections::new(io.clone(), client, catalog, stats, self.entrance);
        while let Ok(handover) = self.receivers[thread - 1].recv().await {
            match handover {
                Handover::Connection(fd, door) => connections.start(Stream::from_fd(&io, fd), door),
                Handover::Stop(done) => {
                    connections.stop().await;
                    let _ = done.send(()).await;
                }
            }
        }
    }
}

/// What clients come through, and the ways to the threads that serve them.
struct Doors {
    inherited: Vec<OwnedFd>,
    senders: Vec<Sender<Handover>>,
    work: Vec<Sender<Handed>>,
    worker: Others,
}

impl Doors {
    /// Begins the work of the first thread, and starts the block devices: it takes all threads to start one.
    ///
    /// # Errors
    /// As for [`BlockDevices::start`].
    async fn begin(&mut self, open: &Open, listen: &Listen) -> Result<Rc<BlockDevices>> {
        self.senders.truncate(open.threads - 1);
        self.work.truncate(open.threads);
        let stats = Rc::new(ThreadStats::new(self.worker.stats.clone()));
        let this = PoolThread::new(open.io.clone(), open.client.clone(), stats);
        open.io.spawn(this.serve(self.worker.work[0].clone()));
        let (pool, catalog) = (open.control.config().pool, open.control.catalog());
        BlockDevices::start(open.io.clone(), self.work.clone(), pool, &catalog, &listen.ublk).await
    }
}

/// Unix sockets that were bound, and are removed again unless the server starts.
#[derive(Default)]
struct Bound(Vec<PathBuf>);

impl Bound {
    fn bind(&mut self, io: &UringIo, path: &Path) -> Result<Listener> {
        let listener = bind_unix(io, path)?;
        self.0.push(path.to_owned());
        Ok(listener)
    }

    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The sockets of a server, and the threads that serve their connections. Lives on the first thread.
struct Server {
    open: Rc<Open>,
    addresses: Addresses,
    /// The Unix sockets for volumes that this server made.
    made: Vec<PathBuf>,
    here: Rc<Connections>,
    guests: Rc<Guests>,
    block_devices: Rc<BlockDevices>,
    others: Vec<Sender<Handover>>,
    next: Cell<usize>,
    stopping: Cell<bool>,
}

impl Server {
    fn start(
        open: Rc<Open>,
        listen: &Listen,
        doors: Doors,
        block_devices: Rc<BlockDevices>,
    ) -> Result<Rc<Server>> {
        let Doors { inherited, senders: others, work, worker } = doors;
        let Others { stats, entrance, .. } = worker;
        let pool = open.control.config().name;
        let control = listen.control_path(&pool)?;
        let hook = match listen.hook.as_slice() {
            [] => None,
            command => Some(Hook::start(command.to_vec(), pool.clone())?),
        };
        let io = open.io.clone();
        let mut bound = Bound::default();
        let controls = bound.bind(&io, &control)?;
        // Access to it is access to the pool.
        set_mode(&control, 0o600)?;
        let inherited: Vec<_> = inherited.into_iter().map(|fd| Listener::from_fd(&io, fd)).collect();
        for address in inherited.iter().filter_map(Listener::address) {
            listen.check_nbd(address)?;
        }
        let unix_path = listen.nbd_path(&pool, !inherited.is_empty())?;
        let unix = unix_path.as_deref().map(|path| bound.bind(&io, path)).transpose()?;
        unix_path.as_deref().map_or(Ok(()), |path| listen.set_access(path))?;
        let guest_sockets = listen.bind_vhost(|path| bound.bind(&io, path))?;
        let bind =
            |address| Listener::bind_tcp(&io, address).with_context(|| format!("cannot listen on {address}"));
        let tcp = listen.tcp.map(bind).transpose()?;
        let metrics = listen.metrics.map(bind).transpose()?;
        let page = listen.http.map(bind).transpose()?;
        bound.keep();
        let listeners: Vec<Listener> = unix.into_iter().chain(tcp).chain(inherited).collect();
        let _ = entrance.description.set(format!("volume of the Sinew pool {pool}"));
        let refusals = entrance.refusals.clone();
        let catalog = open.control.catalog();
        for VhostSocket { volume, path } in &listen.vhost_user {
            if catalog.get(volume).is_none() {
                complain!("warning: {} is for volume {volume}, which the pool does not have", path.display());
            }
        }
        let mine = Rc::new(ThreadStats::new(stats.clone()));
        let server = Rc::new(Server {
            guests: Guests::new(io.clone(), catalog.clone(), refusals.clone(), work),
            here: Connections::new(io.clone(), open.client.clone(), catalog, mine, entrance),
            addresses: Addresses {
                unix: listeners.iter().find_map(Listener::path),
                tcp: listeners.iter().find_map(Listener::address),
                tls: listen.tls.choice(),
                metrics: metrics.as_ref().and_then(Listener::address),
                http: page.as_ref().and_then(Listener::address),
                vhost_user: listen.vhost_user.clone(),
                block_devices: block_devices.places(),
                control,
            },
            block_devices,
            made: unix_path.into_iter().chain(listen.vhost_user.iter().map(|at| at.path.clone())).collect(),
            others,
            next: Cell::new(0),
            stopping: Cell::new(false),
            open: Rc::clone(&open),
        });
        io.spawn(event_log::write(Rc::clone(&open), hook));
        io.spawn(member_watch::watch_members(Rc::clone(&open)));
        io.spawn(refusals::watch(Rc::clone(&open), refusals));
        let served = Served::new(open, server.addresses.clone(), stats);
        served.watch();
        if let Some(listener) = metrics {
            let site = MetricsSite(Rc::clone(&served));
            io.spawn(http::serve(io.clone(), Rc::new(site), listener));
        }
        if let Some(listener) = page {
            let site = PoolSite { served: Rc::clone(&served), is_public: listen.http_public };
            io.spawn(http::serve(io.clone(), Rc::new(site), listener));
        }
        io.spawn(control_socket::serve(served, controls));
        for listener in listeners {
            let door = if listener.address().is_some() { Door::Tcp } else { Door::Unix };
            io.spawn(Rc::clone(&server).accept(listener, door));
        }
        for (socket, listener) in guest_sockets {
            io.spawn(Rc::clone(&server.guests).accept(socket, listener));
        }
        Ok(server)
    }

    /// Deals connections over the threads.
    async fn accept(self: Rc<Self>, listener: Listener, door: Door) {
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
                self.here.start(stream, door);
            } else if let Ok(fd) = stream.into_fd() {
                let _ = self.others[thread - 1].send(Handover::Connection(fd, door)).await;
            }
        }
    }

    /// Ends all connections and writes everything out.
    async fn stop(&self) -> Result<()> {
        self.stopping.set(true);
        self.open.control.catalog().lift_limits();
        for path in self.made.iter().chain([&self.addresses.control]) {
            let _ = std::fs::remove_file(path);
        }
        let (done, ended) = async_channel::bounded(self.others.len().max(1));
        for other in &self.others {
            let _ = other.send(Handover::Stop(done.clone())).await;
        }
        let (here, guests, mine) = (Rc::clone(&self.here), Rc::clone(&self.guests), done);
        let block_devices = Rc::clone(&self.block_devices);
        self.open.io.spawn(async move {
            here.stop().await;
            guests.stop().await;
            block_devices.stop().await;
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
