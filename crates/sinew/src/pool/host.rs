//! Opening a pool on a set of threads: shard i runs on thread i mod threads, the control on the first.
//!
//! An opening that fails half way is torn down whole: dropping a thread's runtime drops its shards. If one member was
//! the reason, the pool is opened again without it.

use std::cell::RefCell;
use std::rc::Rc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use async_channel::Sender;
use sinew_core::io::Io;
use sinew_engine::client::PoolClient;
use sinew_engine::control::{Catalog, Control};
use sinew_engine::pool::md_arrays::{self, MdError, MdOptions};
use sinew_engine::pool::{self, Candidate, Found, PoolError};
use sinew_engine::thread_shards::{ThreadSeed, ThreadShards, thread_seeds};
use sinew_members::open_error::RecoverError;
use sinew_members::recovery_report::RecoveryReport;
use sinew_uring::threads::{pin_to, spawn_pinned};
use sinew_uring::{Config as RuntimeConfig, Devices, Runtime, UringIo};

use super::cores::{self, CoreList};
use super::table_cache::TableCache;
use super::this_host;

/// Orders waiting at a shard at most.
const MAILBOX: usize = 1024;

/// Runs one future on a runtime of its own on this thread.
///
/// # Errors
/// When io_uring is not available.
pub(crate) fn run_alone<T>(devices: &Devices, main: impl AsyncFnOnce(UringIo) -> T) -> Result<T> {
    let runtime = runtime(devices)?;
    Ok(runtime.block_on(main(runtime.io())))
}

fn runtime_config(devices: &Devices) -> RuntimeConfig {
    RuntimeConfig { devices: devices.clone(), ..RuntimeConfig::default() }
}

fn runtime(devices: &Devices) -> Result<Runtime> {
    Runtime::new(runtime_config(devices))
        .context("io_uring is not available; is it disabled (sysctl kernel.io_uring_disabled) or filtered?")
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

impl Open {
    /// The faults injected into the member at a path, and the requests each of them struck, whether or not it still takes
    /// part.
    pub(crate) fn faults(&self, path: &str) -> Vec<(String, u64)> {
        let candidates = self.candidates.borrow();
        let known = candidates.iter().find(|known| known.path == path);
        known.map(|known| self.devices.faults(known.device)).unwrap_or_default()
    }
}

/// The work of each thread beside the first once the pool is open. The thread's shards live until the pool is closed.
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

/// Threads beside the first only run shards.
#[derive(Clone)]
pub(crate) struct Idle;

impl Worker for Idle {
    async fn work(self, _: usize, _: UringIo, _: PoolClient<UringIo>, _: Catalog) {}
}

/// The kind of thing that the members belong to.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A pool or array of ours.
    Pool,
    /// The same, so that nothing is written to its members.
    ReadOnly,
    /// An array of md's.
    Md(MdOptions),
}

/// Why one attempt to open failed.
enum Failure {
    /// Because of this member: without it, it may work.
    Member(Candidate, String),
    /// Because tables or journal are lost; what is left can be read.
    Lost(anyhow::Error),
    /// For good.
    Other(anyhow::Error),
}

impl Failure {
    fn of_recovery(error: RecoverError, found: &Found, candidates: &[Candidate]) -> Failure {
        if let RecoverError::MemberFailed { member, .. } = &error {
            let device = found.devices.get(usize::from(member.0)).copied().flatten();
            if let Some(candidate) = candidates.iter().find(|c| Some(c.device) == device) {
                return Failure::Member(candidate.clone(), error.to_string());
            }
        }
        if found.has_last_resort(&error) {
            return Failure::Lost(error.into());
        }
        Failure::Other(error.into())
    }

    fn of_discovery(error: PoolError, candidates: &[Candidate]) -> Failure {
        if let PoolError::Device { path, .. } = &error
            && let Some(candidate) = candidates.iter().find(|c| c.path == *path)
        {
            return Failure::Member(candidate.clone(), error.to_string());
        }
        Failure::Other(match error {
            PoolError::OpenElsewhere { pool, host } => anyhow!(this_host::refusal(&pool, &host)),
            error => error.into(),
        })
    }
}

impl Kind {
    async fn discover(self, io: &UringIo, candidates: &[Candidate]) -> Result<Found, Failure> {
        match self {
            Kind::Pool | Kind::ReadOnly => {
                let found = match self {
                    Kind::ReadOnly => pool::discover_read_only(io, candidates).await,
                    _ => pool::discover(io, candidates, &this_host::opener()).await,
                };
                found.map_err(|error| Failure::of_discovery(error, candidates))
            }
            Kind::Md(options) => md_arrays::discover(io, candidates, &options).await.map_err(|error| {
                let bad = |path: &String| candidates.iter().find(|c| c.path == *path).cloned();
                match &error {
                    MdError::Device { path, .. } => match bad(path) {
                        Some(candidate) => Failure::Member(candidate, error.to_string()),
                        None => Failure::Other(error.into()),
                    },
                    _ => Failure::Other(error.into()),
                }
            }),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Other(error)
    }
}

/// A thread beside the first: it waits for the word that all shards are open, and ends when `go` is dropped.
struct Thread {
    go: Sender<()>,
    handle: JoinHandle<std::io::Result<()>>,
}

/// What a pool may use of the machine: by default any core, and the usual part of the memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources {
    /// The cores that run shards; any where not given.
    pub(crate) cores: Option<CoreList>,
    pub(crate) table_cache: TableCache,
}

/// Opens the pool that the candidates are members of, with up to one thread per core, and runs `main` with it on this
/// thread. The other threads have ended when this returns.
///
/// # Errors
/// When the pool cannot be opened, a thread cannot be started, or `main` fails.
pub(crate) fn with_pool<T>(
    devices: Devices,
    kind: Kind,
    mut candidates: Vec<Candidate>,
    resources: Resources,
    worker: impl Worker,
    main: impl AsyncFnOnce(Open) -> Result<T>,
) -> Result<T> {
    let (mut warnings, mut is_last_resort) = (Vec::new(), false);
    loop {
        let runtime = runtime(&devices)?;
        let mut threads = Vec::new();
        let (devices, resources) = (&devices, &resources);
        let attempt = Attempt { devices, kind, is_last_resort, candidates: &candidates, resources };
        let failure = match runtime.block_on(attempt.open(runtime.io(), worker.clone(), &mut threads)) {
            Ok(mut open) => {
                open.warnings.splice(0..0, warnings);
                for thread in &threads {
                    let _ = thread.go.try_send(());
                }
                let result = runtime.block_on(main(open));
                drop(runtime);
                join(threads)?;
                return result;
            }
            Err(failure) => failure,
        };
        // The runtime goes first: a thread may be waiting for an answer of its control.
        drop(runtime);
        join(threads)?;
        match failure {
            Failure::Other(error) => return Err(error),
            Failure::Lost(why) => {
                warnings.push(why.to_string());
                is_last_resort = true;
            }
            Failure::Member(bad, why) => {
                devices.close(bad.device);
                candidates.retain(|c| c.device != bad.device);
                if candidates.is_empty() {
                    bail!(why);
                }
                warnings.push(format!("{}: {why}; opening the pool without it", bad.path));
            }
        }
    }
}

/// Waits for threads to end; dropping `go` ends those that still wait for it.
fn join(threads: Vec<Thread>) -> Result<()> {
    for Thread { go, handle } in threads {
        drop(go);
        let ended = handle.join().map_err(|_| anyhow!("a thread panicked"))?;
        ended.context("a thread could not be started")?;
    }
    Ok(())
}

/// One attempt to open a pool.
struct Attempt<'a> {
    devices: &'a Devices,
    kind: Kind,
    /// Tables or journal are known to be lost.
    is_last_resort: bool,
    candidates: &'a [Candidate],
    resources: &'a Resources,
}

impl Attempt<'_> {
    async fn open(
        &self,
        io: UringIo,
        worker: impl Worker,
        threads: &mut Vec<Thread>,
    ) -> Result<Open, Failure> {
        let mut found = match self.is_last_resort {
            true => pool::discover_as_last_resort(&io, self.candidates)
                .await
                .map_err(|error| Failure::of_discovery(error, self.candidates))?,
            false => self.kind.discover(&io, self.candidates).await?,
        };
        found.table_cache = self.resources.table_cache.bytes();
        if found.mode.is_read_only() {
            found.warnings.extend(this_host::warning_to_reader(&found.config));
        }
        let shards = found.config.geometry.shards();
        let allowed = cores::allowed();
        let named = self.resources.cores.as_ref();
        let cores = &named.unwrap_or(&allowed).0;
        let count = cores.len().clamp(1, shards);
        // A lone thread is better placed by the scheduler, unless cores were named.
        let pinned = |thread: usize| cores.get(thread).copied().filter(|_| count > 1 || named.is_some());
        if let Some(core) = pinned(0) {
            pin_to(core).with_context(|| format!("core {core} cannot be used"))?;
        }
        let (events, inbox) = async_channel::bounded(MAILBOX);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..shards).map(|_| async_channel::bounded(MAILBOX)).unzip();
        let control = Control::new(io.clone(), &found, senders.clone());
        io.spawn(Rc::clone(&control).run(inbox));
        let mut seeds = thread_seeds(&found, count, receivers, &events).into_iter();
        let first = seeds.next().context("a pool has at least one shard")?;
        let (opened, answers) = async_channel::bounded(count);
        for (i, seed) in seeds.enumerate() {
            let starter = Starter { thread: i + 1, core: pinned(i + 1), seed, opened: opened.clone() };
            threads.push(starter.start(self.devices, control.catalog(), worker.clone())?);
        }
        drop(opened);
        let failed = |error| Failure::of_recovery(error, &found, self.candidates);
        let ThreadShards { client, mut recovery, .. } = first.open(&io).await.map_err(failed)?;
        for _ in 1..count {
            let answer = answers.recv().await.context("a thread ended before its shards were open")?;
            recovery.add(&answer.map_err(failed)?);
        }
        control.resume(&found).await;
        Ok(Open {
            io,
            devices: self.devices.clone(),
            candidates: RefCell::new(self.candidates.to_vec()),
            control,
            client,
            recovery,
            warnings: found.warnings,
            threads: count,
        })
    }
}

/// The inputs of a thread beside the first.
struct Starter {
    thread: usize,
    core: Option<usize>,
    seed: ThreadSeed,
    opened: Sender<Result<RecoveryReport, RecoverError>>,
}

impl Starter {
    fn start(self, devices: &Devices, catalog: Catalog, worker: impl Worker) -> Result<Thread> {
        let Starter { thread, core, seed, opened } = self;
        let (go, told) = async_channel::bounded(1);
        let name = format!("sinew-{thread}");
        let handle = spawn_pinned(core, &name, runtime_config(devices), move |io| async move {
            match seed.open(&io).await {
                Ok(ThreadShards { client, recovery, .. }) => {
                    let _ = opened.send(Ok(recovery)).await;
                    if told.recv().await.is_ok() {
                        worker.work(thread, io, client, catalog).await;
                        // Its shards serve other threads until the end.
                        let _ = told.recv().await;
                    }
                }
                Err(error) => drop(opened.send(Err(error)).await),
            }
        });
        Ok(Thread { go, handle: handle.context("cannot start a thread")? })
    }
}
