//! Issuing the requests of a workload to a target, and filling volumes before that.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use sinew_core::io::Io;
use sinew_sim::{Rng, SimIo, World};
use sinew_workload::{Boxed, Done, Issue, Kind, Next, Pace, Recorder, Replay, Request};

use crate::results::simulated::LoadResult;
use crate::results::summary::is_quantile_known;
use crate::run::backlog::Backlog;
use crate::run::histogram::{KindHistogram, VolumeHistogram};
use crate::system::target::Target;
use crate::{Error, Result};

/// Bytes of each write that fills a volume.
const FILL_BYTES: u64 = 1 << 20;
/// The number of concurrent writes that fill or overwrite a volume.
const FILL_DEPTH: usize = 16;
/// A load overwhelms a system if this many requests are outstanding, and more than a quarter of all that were issued, once a
/// quarter of the time has passed. Bursts that are worked off are shorter.
const OVERWHELMING_REQUESTS: u64 = 256;

/// Clients of a load.
pub(crate) struct LoadClients {
    pub(crate) pace: Pace,
    /// When they begin, in nanoseconds after the load does.
    pub(crate) starts_ns: u64,
    pub(crate) requests: Boxed,
    /// The volumes, with what these clients write.
    pub(crate) target: Target,
}

/// Clients that issue requests at one pace.
struct Clients {
    replay: RefCell<Replay<Boxed>>,
    target: Target,
    /// Whether requests have times at which they are due.
    is_timed: bool,
    /// The issuing task, while it waits for a completion.
    waiting: RefCell<Option<Waker>>,
}

/// A load in progress.
pub(crate) struct Load {
    clients: Vec<Clients>,
    /// The number of volumes.
    volumes: usize,
    measured: RefCell<Records>,
    /// Requests that completed since the present window began: of the warm-up, or a quarter of the measured time.
    window: RefCell<Recorder>,
    /// Bytes of completed writes and of completed reads, warm-up included.
    written_bytes: Cell<u64>,
    read_bytes: Cell<u64>,
    /// The load was found to overwhelm the system.
    overwhelmed: Cell<bool>,
    failure: RefCell<Option<Error>>,
    /// Clients whose last request has not completed.
    working: Cell<usize>,
    /// No further requests are issued.
    stopped: Cell<bool>,
}

/// What is recorded of the measured requests.
struct Records {
    /// Requests due before are not measured.
    from: u64,
    /// By kind, in the order of `Kind::ALL`.
    kinds: Vec<KindHistogram>,
    /// By volume.
    volumes: Vec<VolumeHistogram>,
    backlog: Backlog,
}

impl Records {
    fn new(times: Times, volumes: usize) -> Records {
        let Times { measure_from: from, end, interval, .. } = times;
        let volume = || VolumeHistogram::new(from, end - from);
        Records {
            from,
            kinds: Kind::ALL.iter().map(|&kind| KindHistogram::new(kind, from, interval)).collect(),
            volumes: std::iter::repeat_with(volume).take(volumes).collect(),
            backlog: Backlog::new(from, end - from),
        }
    }
}

/// When a load starts, is measured from, and ends; and the interval of time series. All in virtual nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) start: u64,
    pub(crate) measure_from: u64,
    pub(crate) end: u64,
    pub(crate) interval: u64,
}

impl Load {
    /// Starts issuing the requests of these clients. Requests due before `measure_from` are not measured.
    pub(crate) fn start(world: &World, clients: Vec<LoadClients>, times: Times) -> Rc<Load> {
        let volumes = clients.iter().map(|clients| clients.target.volumes()).max().unwrap_or(0);
        let started = |clients: LoadClients| {
            let LoadClients { pace, starts_ns, requests, target } = clients;
            Clients {
                replay: RefCell::new(Replay::new(requests, pace, times.start + starts_ns).until(times.end)),
                target,
                is_timed: matches!(pace, Pace::Timed { .. }),
                waiting: RefCell::default(),
            }
        };
        let clients: Vec<Clients> = clients.into_iter().map(started).collect();
        let load = Rc::new(Load {
            working: Cell::new(clients.len()),
            clients,
            measured: RefCell::new(Records::new(times, volumes)),
            volumes,
            window: RefCell::new(Recorder::new(times.start, u64::MAX)),
            written_bytes: Cell::new(0),
            read_bytes: Cell::new(0),
            overwhelmed: Cell::new(false),
            failure: RefCell::new(None),
            stopped: Cell::new(false),
        });
        for index in 0..load.clients.len() {
            let (issuing, io) = (Rc::clone(&load), world.io());
            world.spawn(async move {
                if let Err(error) = issuing.issue_all(index, &io).await {
                    issuing.failure.borrow_mut().get_or_insert(error);
                }
                issuing.working.set(issuing.working.get() - 1);
            });
        }
        load
    }

    /// Measures requests from another time on, to another end. Forgets what was recorded.
    pub(crate) fn measure(&self, times: Times) {
        *self.measured.borrow_mut() = Records::new(times, self.volumes);
        self.clients.iter().for_each(|clients| clients.replay.borrow_mut().end_at(times.end));
    }

    /// Ends the present window at `now` and begins the next one. Returns the p99 of its reads and of its writes; nothing where
    /// too few requests are above it.
    pub(crate) fn next_window(&self, now: u64) -> [Option<u64>; 2] {
        let window = self.window.replace(Recorder::new(now, u64::MAX)).finish(now);
        [Kind::Read, Kind::Write].map(|kind| {
            let known = window.kinds.get(&kind).filter(|kind| is_quantile_known(0.99, kind.requests))?;
            Some(known.latency.p99_ns)
        })
    }

    /// The backlog of the measured time; nothing if all clients are closed loops, which have no backlog.
    pub(crate) fn backlog(&self, ran_ns: u64) -> Option<LoadResult> {
        let is_timed = self.clients.iter().any(|clients| clients.is_timed);
        is_timed.then(|| {
            let result = self.measured.borrow().backlog.result(ran_ns);
            LoadResult { saturated: result.saturated || self.overwhelmed.get(), ..result }
        })
    }

    /// Issues the requests of the clients of this index until there are no more, or until one fails its check.
    async fn issue_all(self: &Rc<Self>, index: usize, io: &SimIo) -> Result<()> {
        let clients = &self.clients[index];
        loop {
            match self.next(clients, io.now())? {
                Next::Issue(issue) => {
                    let (load, io_of_task) = (Rc::clone(self), io.clone());
                    io.spawn(async move { load.execute(&load.clients[index], issue, &io_of_task).await });
                }
                Next::At(at) => io.sleep(at - io.now()).await,
                Next::AfterCompletion => {
                    let mut polled = false;
                    poll_fn(|context| {
                        if std::mem::replace(&mut polled, true) && clients.waiting.borrow().is_none() {
                            return Poll::Ready(());
                        }
                        *clients.waiting.borrow_mut() = Some(context.waker().clone());
                        Poll::Pending
                    })
                    .await;
                    if self.failure.borrow().is_some() {
                        return Ok(());
                    }
                }
                Next::Done => return Ok(()),
            }
        }
    }

    /// Executes a request, and then the next one if it is due when this one completes: to continue a task costs less than to
    /// spawn one.
    async fn execute(&self, clients: &Clients, mut issue: Issue, io: &SimIo) {
        loop {
            let done = clients.target.perform(issue.request).await;
            let now = io.now();
            let completed = clients.replay.borrow_mut().complete(issue, now, done.is_ok());
            if clients.is_timed {
                self.measured.borrow_mut().backlog.record(&completed);
            }
            self.record(&completed, done.err());
            if clients.waiting.borrow().is_none() {
                return;
            }
            match self.next(clients, now) {
                Ok(Next::Issue(next)) => {
                    issue = next;
                    continue;
                }
                Ok(_) => {}
                Err(error) => *self.failure.borrow_mut() = Some(error),
            }
            return clients.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// The next step of these clients; a request is checked against its volume.
    fn next(&self, clients: &Clients, now: u64) -> Result<Next> {
        if self.stopped.get() {
            return Ok(Next::Done);
        }
        let next = clients.replay.borrow_mut().next(now)?;
        if let Next::Issue(issue) = &next {
            clients.target.check(&issue.request)?;
        }
        Ok(next)
    }

    fn record(&self, done: &Done, error: Option<String>) {
        let Request { kind, len, volume, .. } = done.issue.request;
        let bytes = match kind {
            Kind::Write => Some(&self.written_bytes),
            Kind::Read => Some(&self.read_bytes),
            _ => None,
        };
        if let Some(bytes) = bytes.filter(|_| done.ok) {
            bytes.set(bytes.get() + len);
        }
        self.window.borrow_mut().record(done);
        let mut measured = self.measured.borrow_mut();
        if done.issue.due_ns >= measured.from {
            measured.kinds[kind.index()].record(done, error);
            measured.volumes[volume as usize].record(done);
        }
    }

    /// Whether more requests are outstanding than the system will catch up with, or were; the load counts as saturated then.
    pub(crate) fn overwhelms(&self, times: Times, now: u64) -> bool {
        if now - times.start >= (times.end - times.start) / 4 {
            let timed = self.clients.iter().filter(|clients| clients.is_timed);
            let (outstanding, issued) = timed.fold((0, 0), |(outstanding, issued), clients| {
                let replay = clients.replay.borrow();
                (outstanding + u64::from(replay.in_flight()), issued + replay.issued())
            });
            let overwhelms = outstanding >= OVERWHELMING_REQUESTS && outstanding > issued / 4;
            self.overwhelmed.set(self.overwhelmed.get() || overwhelms);
        }
        self.overwhelmed.get()
    }

    /// Stops issuing requests.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
    }

    /// Whether the last request has completed.
    pub(crate) fn has_ended(&self) -> bool {
        self.working.get() == 0
    }

    /// The error that ended the load early, if one did.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failure.borrow_mut().take()
    }

    /// Bytes of completed writes, warm-up included.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.get()
    }

    /// Bytes of completed reads, warm-up included.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes.get()
    }

    /// Takes the histograms by kind, in the order of `Kind::ALL`.
    pub(crate) fn take_kinds(&self) -> Vec<KindHistogram> {
        std::mem::take(&mut self.measured.borrow_mut().kinds)
    }

    /// Takes the histograms by volume, in the order of the volumes.
    pub(crate) fn take_volumes(&self) -> Vec<VolumeHistogram> {
        std::mem::take(&mut self.measured.borrow_mut().volumes)
    }
}

/// Writes this part of a volume from its start, in sequential order.
///
/// # Errors
/// [`Error::Engine`] if a write fails.
pub(crate) fn fill(
    world: &World,
    target: &Target,
    volume: u32,
    part: f64,
    progress: impl Fn(f64) + 'static,
) -> Result<()> {
    let bytes = (target.bytes(volume) as f64 * part) as u64 / 4096 * 4096;
    let next = Cell::new(0);
    let extent = move || {
        let offset = next.replace(next.get() + FILL_BYTES);
        progress(offset.min(bytes) as f64 / bytes as f64);
        (offset < bytes).then(|| Extent { offset, len: FILL_BYTES.min(bytes - offset) })
    };
    write_all(world, target, volume, extent)
}

/// Random writes over a volume.
#[derive(Clone, Copy)]
pub(crate) struct Overwrite {
    /// The written bytes as a multiple of the size of the volume.
    pub(crate) times: f64,
    /// Bytes of each write.
    pub(crate) unit_bytes: u64,
}

/// Writes at random offsets of a volume, each a multiple of the length of a write.
///
/// # Errors
/// [`Error::Engine`] if a write fails.
pub(crate) fn overwrite(
    world: &World,
    target: &Target,
    volume: u32,
    Overwrite { times, unit_bytes }: Overwrite,
    progress: impl Fn(f64) + 'static,
) -> Result<()> {
    let slots = target.bytes(volume) / unit_bytes;
    let count = (slots as f64 * times) as u64;
    let (left, rng) = (Cell::new(count), RefCell::new(world.rng(&format!("overwrite {volume}"))));
    let extent = move || {
        left.set(left.get().checked_sub(1)?);
        progress(1.0 - left.get() as f64 / count as f64);
        let offset = Rng::below(&mut rng.borrow_mut(), slots) * unit_bytes;
        Some(Extent { offset, len: unit_bytes })
    };
    write_all(world, target, volume, extent)
}

/// A range of a volume, in bytes.
struct Extent {
    offset: u64,
    len: u64,
}

/// Writes the extents that `next` returns until it returns none, and flushes.
fn write_all(
    world: &World,
    target: &Target,
    volume: u32,
    next: impl Fn() -> Option<Extent> + 'static,
) -> Result<()> {
    let next = Rc::new(next);
    let working = Rc::new(Cell::new(FILL_DEPTH));
    let failed: Rc<RefCell<Option<String>>> = Rc::default();
    for _ in 0..FILL_DEPTH {
        let (target, next, working, failed) =
            (target.clone(), Rc::clone(&next), Rc::clone(&working), Rc::clone(&failed));
        world.spawn(async move {
            while failed.borrow().is_none()
                && let Some(Extent { offset, len }) = next()
            {
                let request = Request { at_ns: 0, offset, len, volume, kind: Kind::Write };
                if let Err(why) = target.perform(request).await {
                    *failed.borrow_mut() = Some(why);
                }
            }
            working.set(working.get() - 1);
        });
    }
    let flush = Request { at_ns: 0, offset: 0, len: 0, volume, kind: Kind::Flush };
    let what = "filling the volumes";
    world.run_until(|| working.get() == 0).map_err(|stuck| Error::engine(what, stuck))?;
    if let Some(why) = failed.borrow_mut().take() {
        return Err(Error::engine(what, why));
    }
    let target = target.clone();
    let flushed = world.block_on(async move { target.perform(flush).await });
    flushed.map_err(|stuck| Error::engine(what, stuck))?.map_err(|why| Error::engine(what, why))
}
