//! The world as a test holds it: clock, tasks, devices, crashes, and the way in for the engine.
//!
//! A step is one poll of a task or one event. Tasks run first, in the order in which they became ready; when none is
//! ready, the clock jumps to the next event. A run ends when its condition holds, or is [`Stuck`]: nothing can happen
//! any more, too many steps were taken, or a task broke the rule that I/O in flight is never dropped.
//!
//! A crash may come between any two steps: [`World::run_steps`], then [`World::crash`]. Afterwards the devices hold what
//! survived, and new tasks make up the next incarnation. Futures of an earlier one never complete.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::MarkName;
use sinew_core::io::{DeviceId, Discards, Gather, Io, IoError, Space};
use sinew_core::physical::Physical;

use crate::controller::{Controller, ControllerLimits, ControllerUsage};
use crate::core::{Core, Ticket, Turn};
use crate::device::{CrashPolicy, DeviceConfig, DeviceState, DiscardReads};
use crate::faults::{Corruption, FaultCounts};
use crate::handle::Device;
use crate::op::Op;
use crate::processor::{ProcessorCosts, ProcessorUsage};
use crate::random::Rng;
use crate::shared::Shared;

/// Coverage marks in one step after which a task counts as an endless loop: the step would not end, and time would stop.
const REACHED_IN_A_STEP: u64 = 1_000_000;

/// A virtual world. Dropping it drops its tasks.
pub struct World {
    shared: Rc<Shared>,
    seed: u64,
    steps: Cell<u64>,
    step_limit: Cell<u64>,
}

/// Why a run cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StuckReason {
    /// No task is ready and no event is due.
    Deadlock,
    /// The run took as many steps as it may.
    StepLimit,
    /// A task dropped a future whose device I/O was in flight.
    DroppedInFlight,
}

/// A run that cannot go on, and what was pending.
#[derive(Clone, Debug)]
pub struct Stuck {
    /// Why.
    pub reason: StuckReason,
    /// Virtual time.
    pub now_ns: u64,
    /// Steps since the world began.
    pub steps: u64,
    /// Where each task that has not ended was spawned.
    pub tasks: Vec<&'static Location<'static>>,
    /// The requests in flight.
    pub requests: Vec<String>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {} ns after {} steps", self.reason, self.now_ns, self.steps)?;
        write!(f, "; {} tasks:", self.tasks.len())?;
        self.tasks.iter().take(20).try_for_each(|task| write!(f, " {task}"))?;
        write!(f, "; {} requests: {}", self.requests.len(), {
            let shown: Vec<_> = self.requests.iter().take(20).map(String::as_str).collect();
            shown.join(", ")
        })
    }
}

impl std::error::Error for Stuck {}

impl World {
    /// An empty world. Everything random in it comes from `seed`.
    pub fn new(seed: u64) -> World {
        let shared = Shared {
            core: RefCell::new(Core::new(seed)),
            executor: Rc::default(),
            dropped_in_flight: Cell::new(false),
            reached: RefCell::new(sinew_engine::coverage_marks().map(|mark| (mark, 0)).collect()),
            reached_now: Cell::new(0),
        };
        World { shared: Rc::new(shared), seed, steps: Cell::new(0), step_limit: Cell::new(1_000_000_000) }
    }

    /// The seed it was made from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Virtual time in nanoseconds, from 0.
    pub fn now(&self) -> u64 {
        self.shared.core.borrow().now
    }

    /// How many crashes and process kills there were.
    pub fn incarnation(&self) -> u32 {
        self.shared.core.borrow().incarnation
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Bounds the steps of each later `run_until`, `run_for` and `block_on`. The default is 10^9.
    pub fn set_step_limit(&self, steps: u64) {
        self.step_limit.set(steps);
    }

    /// The engine's way into the world.
    pub fn io(&self) -> SimIo {
        SimIo { shared: Rc::clone(&self.shared) }
    }

    /// A random stream of the caller's own, apart from all others. The same name gives the same stream again.
    pub fn rng(&self, purpose: &str) -> Rng {
        Rng::stream(self.seed, purpose, u64::MAX)
    }

    /// Adds an empty device; ids count up from 0.
    pub fn add_device(&self, config: DeviceConfig) -> DeviceId {
        let mut core = self.shared.core.borrow_mut();
        let id = DeviceId(core.devices.len() as u32);
        core.devices.push(DeviceState::new(id, config, self.seed));
        id
    }

    /// Adds a controller, which devices with a model share from now on; controllers count up from 0. A device behind another
    /// controller leaves that one.
    pub fn add_controller(&self, limits: ControllerLimits, devices: &[DeviceId]) -> usize {
        let mut core = self.shared.core.borrow_mut();
        let number = core.controllers.len();
        core.controllers.push(Controller::new(limits));
        for &id in devices {
            core.device_mut(id).into_iter().for_each(|device| device.controller = Some(number));
        }
        number
    }

    /// For how long the parts of a controller have worked; `None` if there is none of this number.
    pub fn controller_usage(&self, number: usize) -> Option<ControllerUsage> {
        self.shared.core.borrow().controllers.get(number).map(Controller::usage)
    }

    /// The handle of a device.
    ///
    /// # Panics
    /// When there is no such device.
    pub fn device(&self, id: DeviceId) -> Device {
        assert!(self.shared.core.borrow().device(id).is_some(), "no device {}", id.0);
        Device::new(Rc::clone(&self.shared), id)
    }

    /// The ids of all devices.
    pub fn devices(&self) -> Vec<DeviceId> {
        self.shared.core.borrow().devices.iter().map(|device| device.id).collect()
    }

    /// From now on there are at least this many cores, and things take this long on each.
    pub fn set_processors(&self, cores: usize, costs: ProcessorCosts) {
        self.shared.executor.processors().set(cores, costs);
    }

    /// What each core has done since the beginning.
    pub fn processor_usage(&self) -> Vec<ProcessorUsage> {
        self.shared.executor.processors().usage()
    }

    /// Starts a task of the current incarnation, on the first core.
    #[track_caller]
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.shared.executor.spawn(task, Location::caller());
    }

    /// Takes one step; false when there is nothing to do.
    pub fn step(&self) -> bool {
        self.step_until(u64::MAX)
    }

    /// One step, if a task is ready or an event is due by `end`.
    fn step_until(&self, end: u64) -> bool {
        self.shared.reached_now.set(0);
        let executor = &self.shared.executor;
        let turned = executor.run_one(self.now()) || {
            // Tasks that are ready wait for their cores.
            let free_at = executor.processors().next_at();
            let turn = self.shared.core.borrow_mut().turn(free_at.map_or(end, |at| at.min(end)));
            match (turn, free_at) {
                (Turn::Idle, Some(at)) if at <= end => {
                    self.shared.core.borrow_mut().now = at;
                    true
                }
                (Turn::Idle, _) => false,
                (Turn::Done(waker), _) => {
                    if let Some(waker) = waker {
                        executor.processors().set_now(self.now());
                        waker.wake();
                    }
                    true
                }
            }
        };
        self.steps.set(self.steps.get() + u64::from(turned));
        turned
    }

    /// Takes up to `steps` steps and returns how many there were to take.
    pub fn run_steps(&self, steps: u64) -> u64 {
        (0..steps).take_while(|_| self.step()).count() as u64
    }

    /// Runs until `done`, which is asked before every step.
    ///
    /// # Errors
    /// [`Stuck`] when it cannot become true within the step limit.
    pub fn run_until(&self, mut done: impl FnMut() -> bool) -> Result<(), Stuck> {
        let limit = self.steps_allowed();
        loop {
            self.check_in_flight()?;
            if done() {
                return Ok(());
            }
            if self.steps.get() >= limit {
                return Err(self.stuck(StuckReason::StepLimit));
            }
            if !self.step() {
                return Err(self.stuck(StuckReason::Deadlock));
            }
        }
    }

    /// Runs for `ns` nanoseconds of virtual time, idle or not.
    ///
    /// # Errors
    /// [`Stuck`] when the steps run out first.
    pub fn run_for(&self, ns: u64) -> Result<(), Stuck> {
        let (end, limit) = (self.now().saturating_add(ns), self.steps_allowed());
        while self.step_until(end) {
            self.check_in_flight()?;
            if self.steps.get() >= limit {
                return Err(self.stuck(StuckReason::StepLimit));
            }
        }
        self.shared.core.borrow_mut().now = end;
        Ok(())
    }

    /// Runs a task and everything beside it until the task ends.
    ///
    /// # Errors
    /// [`Stuck`] when it cannot end within the step limit.
    #[track_caller]
    pub fn block_on<T: 'static>(&self, task: impl Future<Output = T> + 'static) -> Result<T, Stuck> {
        let result = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&result);
        self.spawn(async move {
            let value = task.await;
            *slot.borrow_mut() = Some(value);
        });
        self.run_until(|| result.borrow().is_some())?;
        let value = result.borrow_mut().take();
        Ok(value.expect("run_until waited for it"))
    }

    /// The number of the last step that a run beginning now may take.
    fn steps_allowed(&self) -> u64 {
        self.steps.get().saturating_add(self.step_limit.get())
    }

    fn check_in_flight(&self) -> Result<(), Stuck> {
        if self.shared.dropped_in_flight.take() {
            return Err(self.stuck(StuckReason::DroppedInFlight));
        }
        Ok(())
    }

    fn stuck(&self, reason: StuckReason) -> Stuck {
        Stuck {
            reason,
            now_ns: self.now(),
            steps: self.steps.get(),
            tasks: self.shared.executor.pending(),
            requests: self.shared.core.borrow().describe_requests(),
        }
    }

    /// The power of the whole world fails: all tasks are dropped, every device loses what `policy` says.
    ///
    /// # Panics
    /// When called by a task.
    pub fn crash(&self, policy: CrashPolicy) {
        self.crash_each(|_| policy);
    }

    /// As [`World::crash`], with a policy for each device.
    ///
    /// # Panics
    /// When called by a task.
    pub fn crash_each(&self, mut policy: impl FnMut(DeviceId) -> CrashPolicy) {
        self.end_incarnation(|device, in_flight| device.power_loss(policy(device.id), in_flight));
    }

    /// The process dies and the devices live on: completed writes stay, those in flight happen, or not, or in part.
    ///
    /// # Panics
    /// When called by a task.
    pub fn kill_process(&self) {
        self.end_incarnation(DeviceState::process_kill);
    }

    fn end_incarnation(&self, mut end: impl FnMut(&mut DeviceState, Vec<crate::blocks::Content>)) {
        assert!(!self.shared.executor.is_polling(), "a task cannot end its own incarnation");
        let mut core = self.shared.core.borrow_mut();
        let forgotten = core.forget_requests();
        for (device, in_flight) in core.devices.iter_mut().zip(forgotten.in_flight) {
            if !device.gone {
                end(device, in_flight);
            }
        }
        // Wakers and tasks may hold futures, and those look into the core when they are dropped.
        drop(core);
        drop(forgotten.wakers);
        self.shared.executor.drop_all();
        self.shared.dropped_in_flight.set(false);
    }

    /// Allows random faults to destroy data in a byte range of a device. At first it is allowed nowhere.
    pub fn allow_corruption(&self, device: DeviceId, range: Range<u64>) {
        let mut core = self.shared.core.borrow_mut();
        if let Some(device) = core.device_mut(device) {
            let block = BLOCK_BYTES as u64;
            let range = range.start.div_ceil(block)..(range.end / block).min(device.blocks());
            if !range.is_empty() {
                device.allowed.push(range);
            }
        }
    }

    /// Allows random faults to destroy data nowhere any more.
    pub fn forbid_corruption(&self) {
        self.shared.core.borrow_mut().devices.iter_mut().for_each(|device| device.allowed.clear());
    }

    /// Every block destroyed so far, device by device, in order of time.
    pub fn corruptions(&self) -> Vec<Corruption> {
        self.shared.core.borrow().devices.iter().flat_map(DeviceState::corruptions).collect()
    }

    /// The faults of all devices together.
    pub fn fault_counts(&self) -> FaultCounts {
        let mut sum = FaultCounts::default();
        self.shared.core.borrow().devices.iter().for_each(|device| sum += device.counts);
        sum
    }

    /// How often each coverage mark of the engine was reached.
    pub fn marks_reached(&self) -> BTreeMap<MarkName, u64> {
        self.shared.reached.borrow().clone()
    }

    /// Adds something of the caller's to the trace.
    pub fn trace(&self, bytes: &[u8]) {
        self.shared.core.borrow_mut().trace.bytes(bytes);
    }

    /// Leaves out of the trace what is read and written, which takes real time. When and where stays in it.
    pub fn trace_no_content(&self) {
        self.shared.core.borrow_mut().hashes_content = false;
    }

    /// The hash of everything that happened so far; equal for equal runs.
    pub fn trace_hash(&self) -> u64 {
        self.shared.core.borrow().trace.value()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Tasks hold the world and the world holds the tasks. In a panic they are leaked: dropping them could panic
        // again and hide the reason.
        if !std::thread::panicking() {
            let forgotten = self.shared.core.borrow_mut().forget_requests();
            drop(forgotten);
            self.shared.executor.drop_all();
        }
    }
}

/// The simulator's `Io`.
#[derive(Clone)]
pub struct SimIo {
    shared: Rc<Shared>,
}

impl SimIo {
    /// Starts a task on this core; tasks that it starts run there, too.
    ///
    /// # Panics
    /// When there is no such core.
    #[track_caller]
    pub fn spawn_on(&self, core: usize, task: impl Future<Output = ()> + 'static) {
        self.shared.executor.spawn_on(core, task, Location::caller());
    }

    /// The task makes a request that a shard of another core answers; it takes the time of that.
    pub fn cross(&self) {
        self.shared.executor.processors().cross();
    }

    /// The request is issued at the first poll.
    fn request(&self, op: Op) -> Pending {
        let incarnation = self.shared.core.borrow().incarnation;
        Pending { shared: Rc::clone(&self.shared), incarnation, stage: Stage::New(op) }
    }

    async fn outcome(pending: Pending) -> Result<(), IoError> {
        pending.await.1
    }
}

impl Io for SimIo {
    fn now(&self) -> u64 {
        self.shared.core.borrow().now
    }

    fn sleep(&self, ns: u64) -> impl Future<Output = ()> {
        let pending = self.request(Op::Sleep { until: self.now().saturating_add(ns) });
        async move {
            let (_, _always_ok) = pending.await;
        }
    }

    #[track_caller]
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.shared.executor.spawn(task, Location::caller());
    }

    fn random(&self) -> u64 {
        self.shared.core.borrow_mut().engine_rng.bits()
    }

    fn read(
        &self,
        device: DeviceId,
        offset: u64,
        buf: Buf,
    ) -> impl Future<Output = (Buf, Result<(), IoError>)> {
        let pending = self.request(Op::Read { device, offset, buf });
        async move {
            match pending.await {
                (Op::Read { buf, .. }, result) => (buf, result),
                // The device has the buffer still.
                (_, result) => (Buf::stale(0), result),
            }
        }
    }

    fn write(
        &self,
        device: DeviceId,
        offset: u64,
        data: Gather,
    ) -> impl Future<Output = Result<(), IoError>> {
        SimIo::outcome(self.request(Op::Write { device, offset, data }))
    }

    fn flush(&self, device: DeviceId) -> impl Future<Output = Result<(), IoError>> {
        // What the flush covers is settled by the call, not by the first poll.
        let upto = self.shared.core.borrow().device(device).map_or(0, DeviceState::seq);
        SimIo::outcome(self.request(Op::Flush { device, upto }))
    }

    fn discard(
        &self,
        device: DeviceId,
        offset: u64,
        bytes: u64,
    ) -> impl Future<Output = Result<(), IoError>> {
        SimIo::outcome(self.request(Op::Discard { device, offset, bytes }))
    }

    fn abandon(&self, device: DeviceId) {
        let wakers = self.shared.core.borrow_mut().abandon_device(device);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn mark(&self, mark: impl Into<MarkName>) {
        let mark = mark.into();
        *self.shared.reached.borrow_mut().entry(mark).or_default() += 1;
        let now = &self.shared.reached_now;
        now.set(now.get() + 1);
        assert!(now.get() < REACHED_IN_A_STEP, "a task reaches {} for ever without giving way", mark.text());
    }

    fn discards(&self, device: DeviceId) -> Discards {
        let core = self.shared.core.borrow();
        match core.device(device).map(|device| device.config.discard) {
            None | Some(DiscardReads::Kept) => Discards::Ignored,
            Some(DiscardReads::Zeros) => Discards::Zeros,
            Some(DiscardReads::Anything | DiscardReads::Unstable) => Discards::Unspecified,
        }
    }

    fn space(&self, device: DeviceId) -> Result<Space, IoError> {
        let core = self.shared.core.borrow();
        let device = core.device(device).filter(|device| !device.gone && !device.abandoned);
        device.map(|device| Space { bytes: device.config.bytes }).ok_or(IoError::Gone)
    }

    async fn physical(&self, device: DeviceId) -> Option<Physical> {
        let mut core = self.shared.core.borrow_mut();
        core.count_space_beside(device);
        let now = core.now;
        core.device(device).filter(|device| !device.gone && !device.abandoned)?.physical(now)
    }
}

enum Stage {
    New(Op),
    Waiting(Ticket),
    Over,
}

/// A request as its caller awaits it.
struct Pending {
    shared: Rc<Shared>,
    incarnation: u32,
    stage: Stage,
}

impl Future for Pending {
    type Output = (Op, Result<(), IoError>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = Rc::clone(&self.shared);
        let mut core = shared.core.borrow_mut();
        if core.incarnation != self.incarnation {
            return Poll::Pending;
        }
        let ticket = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::New(op) => {
                let place = op.place();
                let may_end = place.is_some_and(|place| shared.executor.processors().request(place));
                core.submit(op, may_end)
            }
            Stage::Waiting(ticket) => ticket,
            Stage::Over => panic!("a request was polled after its end"),
        };
        match core.collect(ticket, context.waker()) {
            Some(done) => Poll::Ready(done),
            None => {
                self.stage = Stage::Waiting(ticket);
                Poll::Pending
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Stage::Waiting(ticket) = self.stage else { return };
        let mut core = self.shared.core.borrow_mut();
        if core.incarnation == self.incarnation && core.abandon(ticket) {
            self.shared.dropped_in_flight.set(true);
        }
    }
}
