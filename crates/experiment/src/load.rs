//! Issuing the requests of a workload at a target, and filling volumes before.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use sinew_core::io::Io;
use sinew_sim::{Rng, SimIo, World};
use sinew_workload::{Boxed, Done, Issue, Kind, Next, Pace, Replay, Request};

use crate::meter::{Meter, VolumeMeter};
use crate::target::Target;
use crate::{Error, Result};

/// Bytes written at once when a volume is filled.
const FILL_BYTES: u64 = 1 << 20;
/// How many of those are under way.
const FILL_DEPTH: usize = 16;

/// A load under way.
pub(crate) struct Load {
    replay: RefCell<Replay<Boxed>>,
    target: Target,
    meters: RefCell<Vec<Meter>>,
    /// By volume.
    volumes: RefCell<Vec<VolumeMeter>>,
    measure_from: u64,
    /// Of writes that completed, in the measured time or before.
    written_bytes: Cell<u64>,
    failure: RefCell<Option<Error>>,
    ended: Cell<bool>,
    /// No more requests are to be issued.
    stopped: Cell<bool>,
    /// Who waits for a completion.
    waiting: RefCell<Option<Waker>>,
}

/// When a load begins, is measured and ends, in virtual nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) start: u64,
    pub(crate) measure_from: u64,
    pub(crate) end: u64,
    pub(crate) interval: u64,
}

impl Load {
    /// Starts issuing requests. What is due before `measure_from` is not measured.
    pub(crate) fn start(
        world: &World,
        target: Target,
        requests: Boxed,
        pace: Pace,
        times: Times,
    ) -> Rc<Load> {
        let meter = |&kind: &Kind| Meter::new(kind, times.measure_from, times.interval);
        let volume = || VolumeMeter::new(times.measure_from, times.end - times.measure_from);
        let volumes = std::iter::repeat_with(volume).take(target.volumes()).collect();
        let load = Rc::new(Load {
            replay: RefCell::new(Replay::new(requests, pace, times.start).until(times.end)),
            target,
            meters: RefCell::new(Kind::ALL.iter().map(meter).collect()),
            volumes: RefCell::new(volumes),
            measure_from: times.measure_from,
            written_bytes: Cell::new(0),
            failure: RefCell::new(None),
            ended: Cell::new(false),
            stopped: Cell::new(false),
            waiting: RefCell::default(),
        });
        let issuing = Rc::clone(&load);
        let io = world.io();
        world.spawn(async move {
            if let Err(error) = issuing.issue_all(&io).await {
                issuing.failure.borrow_mut().get_or_insert(error);
            }
            issuing.ended.set(true);
        });
        load
    }

    async fn issue_all(self: &Rc<Self>, io: &SimIo) -> Result<()> {
        loop {
            match self.next(io.now())? {
                Next::Issue(issue) => {
                    let (load, io_then) = (Rc::clone(self), io.clone());
                    io.spawn(async move { load.carry_out(issue, &io_then).await });
                }
                Next::At(at) => io.sleep(at - io.now()).await,
                Next::AfterCompletion => {
                    let mut asked = false;
                    poll_fn(|context| {
                        if std::mem::replace(&mut asked, true) && self.waiting.borrow().is_none() {
                            return Poll::Ready(());
                        }
                        *self.waiting.borrow_mut() = Some(context.waker().clone());
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

    /// Carries a request out, and then the next one, if it is due as soon as this one ends: a task that goes on costs less
    /// than a new one.
    async fn carry_out(&self, mut issue: Issue, io: &SimIo) {
        loop {
            let done = self.target.perform(issue.request).await;
            let now = io.now();
            self.record(&self.replay.borrow_mut().complete(issue, now, done.is_ok()), done.err());
            if self.waiting.borrow().is_none() {
                return;
            }
            match self.next(now) {
                Ok(Next::Issue(next)) => {
                    issue = next;
                    continue;
                }
                Ok(_) => {}
                Err(error) => *self.failure.borrow_mut() = Some(error),
            }
            return self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    fn next(&self, now: u64) -> Result<Next> {
        if self.stopped.get() {
            return Ok(Next::Done);
        }
        let next = self.replay.borrow_mut().next(now)?;
        if let Next::Issue(issue) = &next {
            self.target.check(&issue.request)?;
        }
        Ok(next)
    }

    fn record(&self, done: &Done, error: Option<String>) {
        let Request { kind, len, volume, .. } = done.issue.request;
        if kind == Kind::Write && done.ok {
            self.written_bytes.set(self.written_bytes.get() + len);
        }
        if done.issue.due_ns >= self.measure_from {
            self.meters.borrow_mut()[kind.index()].record(done, error);
            self.volumes.borrow_mut()[volume as usize].record(done);
        }
    }

    /// Issues no more requests.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
    }

    /// Whether all requests are issued and completed.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// Why no more requests are issued, if that is not because all are.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failure.borrow_mut().take()
    }

    /// Bytes of the writes that have completed.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.get()
    }

    /// The meters, in the order of the kinds.
    pub(crate) fn take_meters(&self) -> Vec<Meter> {
        std::mem::take(&mut self.meters.borrow_mut())
    }

    /// The meters of the volumes, in their order.
    pub(crate) fn take_volume_meters(&self) -> Vec<VolumeMeter> {
        std::mem::take(&mut self.volumes.borrow_mut())
    }
}

/// Writes a whole volume in order.
pub(crate) fn fill(
    world: &World,
    target: &Target,
    volume: u32,
    progress: impl Fn(f64) + 'static,
) -> Result<()> {
    let bytes = target.bytes(volume);
    let next = Cell::new(0);
    let place = move || {
        let at = next.replace(next.get() + FILL_BYTES);
        progress(at.min(bytes) as f64 / bytes as f64);
        (at < bytes).then(|| (at, FILL_BYTES.min(bytes - at)))
    };
    write_all(world, target, volume, place)
}

/// Writes as many bytes as the volume has, times `times`, at random places, `unit` bytes at each.
pub(crate) fn overwrite(
    world: &World,
    target: &Target,
    volume: u32,
    times: f64,
    unit: u64,
    progress: impl Fn(f64) + 'static,
) -> Result<()> {
    let slots = target.bytes(volume) / unit;
    let count = (slots as f64 * times) as u64;
    let (left, rng) = (Cell::new(count), RefCell::new(world.rng(&format!("overwrite {volume}"))));
    let place = move || {
        left.set(left.get().checked_sub(1)?);
        progress(1.0 - left.get() as f64 / count as f64);
        Some((Rng::below(&mut rng.borrow_mut(), slots) * unit, unit))
    };
    write_all(world, target, volume, place)
}

/// Writes where `place` says until it says nothing, and flushes.
fn write_all(
    world: &World,
    target: &Target,
    volume: u32,
    place: impl Fn() -> Option<(u64, u64)> + 'static,
) -> Result<()> {
    let place = Rc::new(place);
    let working = Rc::new(Cell::new(FILL_DEPTH));
    let failed: Rc<RefCell<Option<String>>> = Rc::default();
    for _ in 0..FILL_DEPTH {
        let (target, place, working, failed) =
            (target.clone(), Rc::clone(&place), Rc::clone(&working), Rc::clone(&failed));
        world.spawn(async move {
            while failed.borrow().is_none()
                && let Some((offset, len)) = place()
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
