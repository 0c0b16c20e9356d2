//! Opening a pool on a set of threads: shard i runs on thread i mod threads, the control on the first.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail};
use async_channel::{Receiver, Sender};
use sinew_engine::client::{PoolClient, ShardLink};
use sinew_engine::control::{Catalog, Control};
use sinew_engine::disk::superblock::Config;
use sinew_engine::io::{DeviceId, Io};
use sinew_engine::pool::{self, Candidate, Found};
use sinew_engine::recover::RecoveryReport;
use sinew_engine::serve::Order;
use sinew_engine::shard::{Event, Shard};
use sinew_uring::threads::spawn_pinned;
use sinew_uring::{Config as RuntimeConfig, Devices, OpenOptions, Runtime, UringIo, threads};

/// Orders waiting at a shard at most.
const MAILBOX: usize = 1024;

/// Opens files and block devices as candidates for members.
pub(crate) fn candidates(devices: &Devices, paths: &[PathBuf]) -> Result<Vec<Candidate>> {
    let open = |path: &PathBuf| {
        let device = devices.open(path, OpenOptions::default())?;
        Ok(Candidate { device, path: path.display().to_string() })
    };
    paths.iter().map(open).collect()
}

/// Runs one future on a runtime of its own on this thread.
pub(crate) fn run_alone<T>(devices: &Devices, main: impl AsyncFnOnce(UringIo) -> T) -> Result<T> {
    let config = RuntimeConfig { devices: devices.clone(), ..RuntimeConfig::default() };
    let runtime = Runtime::new(config).context("io_uring is not available")?;
    Ok(runtime.block_on(main(runtime.io())))
}

/// An open pool, as the first thread sees it.
pub(crate) struct Open {
    pub(crate) io: UringIo,
    pub(crate) devices: Devices,
    /// The devices opened so far.
    pub(crate) candidates: RefCell<Vec<Candidate>>,
    pub(crate) control: Rc<Control<UringIo>>,
    pub(crate) client: PoolClient<UringIo>,
    pub(crate) recovery: RecoveryReport,
    pub(crate) warnings: Vec<String>,
    /// Threads that run shards, the first included.
    pub(crate) threads: usize,
}

/// What each thread beside the first does once the pool is open; it ends when this does.
pub(crate) trait Worker: Clone + Send + 'static {
    /// Works on thread `thread`, from 1.
    fn work(
        self,
        thread: usize,
        io: UringIo,
        client: PoolClient<UringIo>,
        catalog: Catalog,
    ) -> impl Future<Output = ()>;
}

/// What a thread needs to open its shards.
struct ThreadSeed {
    thread: usize,
    threads: usize,
    config: Config,
    devices: Vec<Option<DeviceId>>,
    mailboxes: Vec<(usize, Receiver<Order>)>,
    senders: Vec<Sender<Order>>,
    events: Sender<Event>,
}

impl ThreadSeed {
    async fn open(self, io: &UringIo) -> Result<(PoolClient<UringIo>, RecoveryReport)> {
        let config = Rc::new(self.config);
        let mut links: Vec<ShardLink<UringIo>> = self.senders.into_iter().map(ShardLink::There).collect();
        let mut total = RecoveryReport::default();
        for (index, mailbox) in self.mailboxes {
            let opened =
                Shard::open(io.clone(), index, Rc::clone(&config), &self.devices, self.events.clone(), mailbox).await;
            let (shard, report) = opened?;
            links[index] = ShardLink::Here(shard);
            add_report(&mut total, &report);
        }
        Ok((PoolClient::new(links), total))
    }
}

fn add_report(total: &mut RecoveryReport, report: &RecoveryReport) {
    total.bytes_read += report.bytes_read;
    total.pages += report.pages;
    total.blocks_replayed += report.blocks_replayed;
    total.records_verified += report.records_verified;
    total.records_dropped += report.records_dropped;
    total.elapsed_ns = total.elapsed_ns.max(report.elapsed_ns);
}

/// Opens the pool that the candidates are members of, on up to `cores` threads, and runs `main` with it on this one.
pub(crate) fn with_pool<T>(
    devices: Devices,
    candidates: Vec<Candidate>,
    cores: usize,
    worker: impl Worker,
    main: impl AsyncFnOnce(Open) -> Result<T>,
) -> Result<T> {
    let config = RuntimeConfig { devices: devices.clone(), ..RuntimeConfig::default() };
    let runtime = Runtime::new(config.clone()).context("io_uring is not available")?;
    let io = runtime.io();
    runtime.block_on(async {
        let found = pool::discover(&io, &candidates).await?;
        let shards = found.config.geometry.shards;
        let threads = cores.clamp(1, shards);
        if threads > 1 {
            threads::pin_to(0)?;
        }
        let (events, inbox) = async_channel::bounded(MAILBOX);
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..shards).map(|_| async_channel::bounded(MAILBOX)).unzip();
        let control = Control::new(io.clone(), &found, senders.clone());
        io.spawn(Rc::clone(&control).run(inbox));
        let mut seeds = seeds(&found, threads, receivers, &senders, &events);
        let first = seeds.remove(0);
        let (opened, answers) = async_channel::bounded(threads);
        let mut handles = Vec::new();
        for seed in seeds {
            handles.push(start_thread(seed, config.clone(), control.catalog(), worker.clone(), opened.clone())?);
        }
        let (client, mut recovery) = first.open(&io).await?;
        for _ in 1..threads {
            match answers.recv().await {
                Ok(Ok(report)) => add_report(&mut recovery, &report),
                Ok(Err(error)) => bail!(error),
                Err(_) => bail!("a thread ended before its shards were open"),
            }
        }
        control.resume(&found).await;
        let candidates = RefCell::new(candidates);
        let open = Open { io: io.clone(), devices, candidates, control, client, recovery, warnings: found.warnings, threads };
        main(open).await
    })
}

fn seeds(
    found: &Found,
    threads: usize,
    receivers: Vec<Receiver<Order>>,
    senders: &[Sender<Order>],
    events: &Sender<Event>,
) -> Vec<ThreadSeed> {
    let seed = |thread| ThreadSeed {
        thread,
        threads,
        config: (*found.config).clone(),
        devices: found.devices.clone(),
        mailboxes: Vec::new(),
        senders: senders.to_vec(),
        events: events.clone(),
    };
    let mut seeds: Vec<ThreadSeed> = (0..threads).map(seed).collect();
    for (shard, mailbox) in receivers.into_iter().enumerate() {
        seeds[shard % threads].mailboxes.push((shard, mailbox));
    }
    seeds
}

fn start_thread(
    seed: ThreadSeed,
    config: RuntimeConfig,
    catalog: Catalog,
    worker: impl Worker,
    opened: Sender<Result<RecoveryReport, String>>,
) -> Result<JoinHandle<std::io::Result<()>>> {
    let (thread, cores) = (seed.thread, std::thread::available_parallelism().map_or(1, usize::from));
    let core = (seed.threads <= cores).then_some(thread);
    let handle = spawn_pinned(core, &format!("sinew-{thread}"), config, move |io| async move {
        match seed.open(&io).await {
            Ok((client, report)) => {
                let _ = opened.send(Ok(report)).await;
                worker.work(thread, io, client, catalog).await;
            }
            Err(error) => {
                let _ = opened.send(Err(format!("{error:#}"))).await;
            }
        }
    })?;
    Ok(handle)
}
