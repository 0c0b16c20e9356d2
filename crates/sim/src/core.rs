//! Requests, the event queue and the clock.
//!
//! A request lives in a slab from its first poll until its future has taken the outcome; an event is (time, order of
//! issue, slot). Nothing is allocated per request once the slab and the heap have grown. A slot knows the order number
//! of its valid event, so rescheduling a request needs no search: the old event finds another number and is skipped.
//! A device with a model has one event of its own, for the model's next event; a request that the model serves gets its
//! event when the model has completed it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::io::{DeviceId, Gather, IoError};
use sinew_devices::Completion;

use crate::blocks::{Content, deep_copy};
use crate::controller::Controller;
use crate::device::{CrashPolicy, DeviceState};
use crate::domain;
use crate::faults::OpKind;
use crate::latency::Work;
use crate::model::error_of;
use crate::op::{Op, Place, half_done};
use crate::random::Rng;
use crate::trace::{TraceHash, crc};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// How long a request to a device that is gone takes to fail.
const GONE_NS: u64 = 10_000;

/// The `event` of a request that a model serves: no event has this number.
const IN_MODEL: u64 = u64::MAX;
/// The bit of an event's slot that makes it the number of a device.
const OF_DEVICE: u32 = 1 << 31;

struct Request {
    generation: u32,
    /// Order number of the event that completes the request; 0 when there is none.
    event: u64,
    op: Op,
    /// Nanoseconds added to the model's time.
    delay_ns: u64,
    /// The controller before the device has the request; the model gets it at the next event.
    in_controller: bool,
    /// The outcome, if it is known before the device is asked.
    verdict: Option<IoError>,
    outcome: Option<Result<(), IoError>>,
    waker: Option<Waker>,
    /// The future is gone, or has been told that the device was abandoned; the outcome is not taken.
    orphan: bool,
    /// The device was abandoned; the future is still to be told.
    abandoned: bool,
}

/// The handle of a request's future.
#[derive(Clone, Copy)]
pub(crate) struct Ticket {
    slot: u32,
    generation: u32,
}

impl Ticket {
    /// The handle as a model carries it.
    fn to_tag(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    fn of_tag(tag: u64) -> Ticket {
        Ticket { slot: tag as u32, generation: (tag >> 32) as u32 }
    }
}

/// The result of one turn of the event queue.
pub(crate) enum Turn {
    /// There is no event.
    Idle,
    /// A request completed; this wakes its task.
    Done(Option<Waker>),
}

/// The requests in flight at the end of an incarnation.
pub(crate) struct Forgotten {
    /// Writes and discards in flight, by device.
    pub(crate) in_flight: Vec<Vec<Content>>,
    /// Wakers of their tasks. To be dropped while the core is not borrowed.
    pub(crate) wakers: Vec<Waker>,
}

/// When a request completes.
enum Admission {
    /// At this time, with this outcome if it is known already.
    At(u64, Option<IoError>),
    /// When the model of this device completes it, plus this delay.
    Model(Place, u64),
}

/// The state of the world without its tasks.
pub(crate) struct Core {
    pub(crate) now: u64,
    /// Counts crashes. A future of an earlier incarnation never completes.
    pub(crate) incarnation: u32,
    events: BinaryHeap<Reverse<(u64, u64, u32)>>,
    order: u64,
    requests: Vec<Request>,
    free: Vec<u32>,
    pub(crate) devices: Vec<DeviceState>,
    pub(crate) controllers: Vec<Controller>,
    /// Requests that a model has just completed; empty between two turns.
    ended: Vec<Completion>,
    pub(crate) trace: TraceHash,
    /// Whether the trace covers the data read and written.
    pub(crate) hashes_content: bool,
    pub(crate) engine_rng: Rng,
    gone_rng: Rng,
}

impl Core {
    pub(crate) fn new(seed: u64) -> Core {
        Core {
            now: 0,
            incarnation: 0,
            events: BinaryHeap::new(),
            order: 0,
            requests: Vec::new(),
            free: Vec::new(),
            devices: Vec::new(),
            controllers: Vec::new(),
            ended: Vec::new(),
            trace: TraceHash::default(),
            hashes_content: true,
            engine_rng: Rng::stream(seed, "engine", 0),
            gone_rng: Rng::stream(seed, "gone", 0),
        }
    }

    pub(crate) fn device(&self, id: DeviceId) -> Option<&DeviceState> {
        self.devices.get(id.0 as usize)
    }

    pub(crate) fn device_mut(&mut self, id: DeviceId) -> Option<&mut DeviceState> {
        self.devices.get_mut(id.0 as usize)
    }

    /// Issues a request. `may_end`: it may end at once, if its device can do that.
    ///
    /// # Panics
    /// When the buffer of a read is shared.
    pub(crate) fn submit(&mut self, mut op: Op, may_end: bool) -> Ticket {
        if let Op::Read { buf, .. } = &mut op {
            buf.bytes_mut();
        }
        if let Op::Write { device, data, .. } = &mut op
            && self.device(*device).is_some_and(|device| !device.config.share_writes)
        {
            *data = deep_copy(data);
        }
        let (now, admission) = (self.now, self.admit(&op));
        let device = op.place().and_then(|place| self.device(place.device));
        let may_end = may_end && device.is_some_and(|device| device.config.inline);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.requests.push(Request::unused());
            self.requests.len() as u32 - 1
        });
        let request = &mut self.requests[slot as usize];
        request.op = op;
        let ticket = Ticket { slot, generation: request.generation };
        match admission {
            Admission::At(at, verdict) => {
                request.verdict = verdict;
                self.schedule(slot, at);
                if may_end && at == now {
                    self.complete(slot);
                }
            }
            Admission::Model(place, delay_ns) => {
                request.delay_ns = delay_ns;
                match self.controller_of(place.device) {
                    None => self.submit_to_model(ticket, place),
                    Some(controller) => {
                        let at = controller.take_in(now, place);
                        self.requests[slot as usize].in_controller = true;
                        self.schedule(slot, at);
                    }
                }
            }
        }
        ticket
    }

    fn submit_to_model(&mut self, ticket: Ticket, place: Place) {
        let request = &mut self.requests[ticket.slot as usize];
        request.event = IN_MODEL;
        let index = place.device.0 as usize;
        if let Op::Write { offset, data, .. } = &request.op {
            self.devices[index].announce(*offset, data);
        }
        let modelled = self.devices[index].model.as_mut().expect("admitted for it");
        modelled.submit(self.now, ticket.to_tag(), place.kind, place.offset, place.bytes);
        self.schedule_model(index);
    }

    fn controller_of(&mut self, device: DeviceId) -> Option<&mut Controller> {
        let controller = self.device(device)?.controller?;
        self.controllers.get_mut(controller)
    }

    /// When the host has the answer to a request that a model ends now.
    fn send_back(&mut self, place: Place) -> u64 {
        let now = self.now;
        self.controller_of(place.device).map_or(now, |controller| controller.send_back(now, place))
    }

    /// Schedules an event for a model's next one.
    fn schedule_model(&mut self, index: usize) {
        let Some(modelled) = &mut self.devices[index].model else { return };
        match modelled.next_event() {
            None => modelled.event = 0,
            Some(at) if modelled.event != 0 && modelled.event_at == at => {}
            Some(at) => {
                self.order += 1;
                (modelled.event, modelled.event_at) = (self.order, at);
                self.events.push(Reverse((at, self.order, OF_DEVICE | index as u32)));
            }
        }
    }

    /// Moves a model to the present. Requests that it has completed get an event like any other request.
    fn advance_model(&mut self, index: usize) {
        let mut ended = std::mem::take(&mut self.ended);
        if let Some(modelled) = &mut self.devices[index].model {
            modelled.event = 0;
            modelled.advance(self.now, &mut ended);
        }
        for completion in ended.drain(..) {
            let ticket = Ticket::of_tag(completion.tag);
            // It may have failed meanwhile because its device went away, or be of an earlier incarnation.
            let request = &mut self.requests[ticket.slot as usize];
            if request.generation == ticket.generation && request.event == IN_MODEL {
                let delay_ns = request.delay_ns;
                let device = &mut self.devices[index];
                if let Some(error) = error_of(completion.outcome, device.announces, &mut device.counts) {
                    request.verdict = Some(error);
                }
                let sent = request.op.place().map_or(self.now, |place| self.send_back(place));
                self.schedule(ticket.slot, sent + delay_ns);
            }
        }
        self.ended = ended;
        self.schedule_model(index);
    }

    /// The device that a request is for, if the request leaves the controller before that now. A device that lost its model
    /// meanwhile has nothing to hand it to.
    fn leaves_controller(&mut self, slot: u32) -> Option<Place> {
        let request = &mut self.requests[slot as usize];
        let leaves = std::mem::take(&mut request.in_controller) && request.verdict.is_none();
        let place = request.op.place().filter(|_| leaves)?;
        self.device(place.device).is_some_and(|device| device.model.is_some()).then_some(place)
    }

    fn schedule(&mut self, slot: u32, at: u64) {
        self.order += 1;
        self.requests[slot as usize].event = self.order;
        self.events.push(Reverse((at, self.order, slot)));
    }

    fn admit(&mut self, op: &Op) -> Admission {
        let now = self.now;
        if let Op::Sleep { until } = op {
            return Admission::At((*until).max(now), None);
        }
        let Some(place) = op.place() else { return Admission::At(now, None) };
        let gone = Admission::At(now + GONE_NS, Some(IoError::Gone));
        let Some(device) = self.devices.get_mut(place.device.0 as usize) else { return gone };
        if device.gone || device.abandoned {
            return gone;
        }
        let outside = place.offset.checked_add(place.bytes).is_none_or(|end| end > device.config.bytes);
        if outside || !(place.offset | place.bytes).is_multiple_of(BLOCK) || !op.is_aligned() {
            return Admission::At(now, Some(IoError::OutOfRange));
        }
        let blocks = place.bytes / BLOCK;
        let arrival = device.arrive(now, place.kind, place.offset / BLOCK, blocks);
        if arrival.gone {
            self.detach(place.device, CrashPolicy::Random);
            return gone;
        }
        if device.is_battery_backed(place.offset, place.bytes) {
            return Admission::At(now + arrival.delay_ns, None);
        }
        let (work, blocks) = match place.kind {
            OpKind::Read => (Work::Read, blocks),
            OpKind::Write => (Work::Write, blocks),
            OpKind::Discard => (Work::Write, 0),
            OpKind::Flush => (Work::Flush, 0),
        };
        // Models do not take empty requests.
        if device.model.is_some() && (place.bytes > 0 || place.kind == OpKind::Flush) {
            return Admission::Model(place, arrival.delay_ns + device.timing.slowness(now, work, blocks));
        }
        Admission::At(device.timing.completion(now, work, blocks) + arrival.delay_ns, None)
    }

    /// Takes the outcome of a request, or leaves a waker for it.
    pub(crate) fn collect(&mut self, ticket: Ticket, waker: &Waker) -> Option<(Op, Result<(), IoError>)> {
        let request = &mut self.requests[ticket.slot as usize];
        if request.outcome.is_none() && std::mem::take(&mut request.abandoned) {
            request.orphan = true;
            return Some((Op::Empty, Err(IoError::Gone)));
        }
        let Some(outcome) = request.outcome else {
            if !request.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
                request.waker = Some(waker.clone());
            }
            return None;
        };
        Some((self.release(ticket.slot), outcome))
    }

    fn release(&mut self, slot: u32) -> Op {
        let request = &mut self.requests[slot as usize];
        let generation = request.generation.wrapping_add(1);
        let old = std::mem::replace(request, Request { generation, ..Request::unused() });
        self.free.push(slot);
        old.op
    }

    /// The future of a request is dropped. True when device I/O is in flight, which the engine must never let happen.
    pub(crate) fn abandon(&mut self, ticket: Ticket) -> bool {
        let request = &mut self.requests[ticket.slot as usize];
        if request.generation != ticket.generation {
            return false;
        }
        if request.outcome.is_some() || matches!(request.op, Op::Sleep { .. }) {
            self.release(ticket.slot);
            return false;
        }
        request.orphan = true;
        request.waker = None;
        true
    }

    /// Whether an event has not been overtaken by another.
    fn is_valid(&self, order: u64, slot: u32) -> bool {
        if slot & OF_DEVICE != 0 {
            let modelled = &self.devices[(slot & !OF_DEVICE) as usize].model;
            return modelled.as_ref().is_some_and(|modelled| modelled.event == order);
        }
        self.requests[slot as usize].event == order
    }

    /// Moves the clock to the next event, if that is not after `end`, and completes its request.
    pub(crate) fn turn(&mut self, end: u64) -> Turn {
        while let Some(&Reverse((at, order, slot))) = self.events.peek() {
            let valid = self.is_valid(order, slot);
            if valid && at > end {
                break;
            }
            self.events.pop();
            if !valid {
                continue;
            }
            self.now = at;
            if slot & OF_DEVICE != 0 {
                self.advance_model((slot & !OF_DEVICE) as usize);
                return Turn::Done(None);
            }
            return Turn::Done(self.complete(slot));
        }
        Turn::Idle
    }

    fn complete(&mut self, slot: u32) -> Option<Waker> {
        if let Some(place) = self.leaves_controller(slot) {
            let generation = self.requests[slot as usize].generation;
            self.submit_to_model(Ticket { slot, generation }, place);
            return None;
        }
        if let Some(later) = self.silence_of(slot) {
            self.schedule(slot, later);
            return None;
        }
        let request = &mut self.requests[slot as usize];
        request.event = 0;
        let waker = request.waker.take();
        let orphan = request.orphan;
        let verdict = request.verdict;
        let op = std::mem::replace(&mut request.op, Op::Empty);
        let (op, outcome) = self.perform(op, verdict);
        let request = &mut self.requests[slot as usize];
        request.op = op;
        request.outcome = Some(outcome);
        if orphan {
            self.release(slot);
        }
        waker
    }

    /// Counts what the other devices that share the space of a device leave of it.
    pub(crate) fn count_space_beside(&mut self, id: DeviceId) {
        domain::count_beside(&mut self.devices, id, self.now);
    }

    /// Carries out a request and returns the result for its future.
    fn perform(&mut self, mut op: Op, verdict: Option<IoError>) -> (Op, Result<(), IoError>) {
        let Some(place) = op.place() else { return (op, Ok(())) };
        self.count_space_beside(place.device);
        let device = &mut self.devices.get_mut(place.device.0 as usize);
        let (Some(device), None) = (device, verdict) else {
            let outcome = Err(verdict.unwrap_or(IoError::Gone));
            self.trace_event(place, outcome, 0);
            return (op, outcome);
        };
        let (now, hashes) = (self.now, self.hashes_content);
        let mut content = 0;
        let outcome = match &mut op {
            Op::Empty | Op::Sleep { .. } => Ok(()),
            Op::Read { offset, buf, .. } => {
                let outcome = device.finish_read(now, *offset, buf);
                content = if hashes { crc(buf.bytes()) } else { 0 };
                outcome
            }
            Op::Write { offset, data, .. } => {
                if hashes {
                    content = data.iter().fold(0, |sum, buf| sum.rotate_left(32) ^ crc(buf.bytes()));
                }
                device.finish_write(now, *offset, Gather::clone(data))
            }
            Op::Flush { upto, .. } => device.finish_flush(*upto),
            Op::Discard { offset, bytes, .. } => device.finish_discard(*offset, *bytes),
        };
        self.trace_event(place, outcome, content);
        (op, outcome)
    }

    fn trace_event(&mut self, place: Place, outcome: Result<(), IoError>, content: u64) {
        let outcome = match outcome {
            Ok(()) => 0,
            Err(IoError::Failed(errno)) => 1 + u64::from(errno.unsigned_abs()),
            Err(IoError::Gone) => 1 << 32,
            Err(IoError::OutOfRange) => 2 << 32,
            Err(IoError::NoSpace) => 3 << 32,
        };
        self.trace.word(self.now);
        self.trace.word(u64::from(place.device.0) << 8 | place.kind as u64);
        self.trace.word(place.offset);
        self.trace.word(place.bytes);
        self.trace.word(content ^ outcome.rotate_left(32));
    }

    /// When a request to a hung device is answered.
    fn silence_of(&mut self, slot: u32) -> Option<u64> {
        let request = &self.requests[slot as usize];
        let place = request.op.place().filter(|_| request.verdict.is_none())?;
        let until = self.device(place.device)?.silent_until;
        (self.now < until).then(|| until + self.gone_rng.between(0, GONE_NS))
    }

    /// Abandons a device: the futures of its requests end; the requests take effect when the device carries them out.
    pub(crate) fn abandon_device(&mut self, id: DeviceId) -> Vec<Waker> {
        let Some(device) = self.device_mut(id) else { return Vec::new() };
        device.abandoned = true;
        let is_its = |request: &&mut Request| {
            let is_its = request.op.place().is_some_and(|place| place.device == id);
            is_its && request.outcome.is_none() && !request.orphan
        };
        let its = self.requests.iter_mut().filter(is_its);
        let wakers = its.filter_map(|request| {
            request.abandoned = true;
            request.waker.take()
        });
        let wakers = wakers.collect();
        self.trace.bytes(b"abandon");
        self.trace.word(u64::from(id.0));
        wakers
    }

    /// Opens an abandoned device again; false while requests to it are pending.
    pub(crate) fn reopen(&mut self, id: DeviceId) -> bool {
        let owes = |r: &Request| r.event != 0 && r.op.place().is_some_and(|place| place.device == id);
        let owes = self.requests.iter().any(owes);
        let Some(device) = self.device_mut(id) else { return false };
        device.abandoned &= owes;
        !device.abandoned
    }

    /// Detaches a device: its unflushed writes are kept, dropped or torn, and its requests soon fail.
    pub(crate) fn detach(&mut self, id: DeviceId, policy: CrashPolicy) {
        let Some(device) = self.devices.get_mut(id.0 as usize) else { return };
        if device.gone {
            return;
        }
        let mut lost = Vec::new();
        let mut failing = Vec::new();
        for (slot, request) in (0..).zip(&mut self.requests) {
            let ours = request.op.place().is_some_and(|place| place.device == id);
            if ours && request.event != 0 && request.verdict.is_none() {
                request.verdict = Some(IoError::Gone);
                lost.extend(half_done(&request.op, device));
                failing.push(slot);
            }
        }
        device.gone = true;
        device.counts.detached += 1;
        device.power_loss(policy, lost);
        for slot in failing {
            let at = self.now + self.gone_rng.between(0, GONE_NS);
            self.schedule(slot, at);
        }
        self.trace.bytes(b"detach");
        self.trace.word(u64::from(id.0));
    }

    /// A die of a device with the model of an SSD fails.
    pub(crate) fn lose_die(&mut self, id: DeviceId, die: u32) {
        let now = self.now;
        if let Some(device) = self.device_mut(id)
            && let Some(modelled) = &mut device.model
        {
            modelled.lose_die(now, die);
            device.counts.dies_lost += 1;
            self.schedule_model(id.0 as usize);
        }
    }

    /// From here on the device takes the time of its latency.
    pub(crate) fn remove_model(&mut self, id: DeviceId) {
        let waits = |r: &Request| r.event == IN_MODEL && r.op.place().is_some_and(|place| place.device == id);
        assert!(!self.requests.iter().any(waits), "requests of the model are under way");
        if let Some(device) = self.device_mut(id) {
            device.model = None;
        }
    }

    /// Ends the incarnation: every request is forgotten.
    pub(crate) fn forget_requests(&mut self) -> Forgotten {
        self.incarnation += 1;
        self.events.clear();
        self.free.clear();
        let mut in_flight: Vec<Vec<Content>> = self.devices.iter().map(|_| Vec::new()).collect();
        let mut wakers = Vec::new();
        for request in &mut self.requests {
            // A model may still serve it: its slot must not be mistaken for a later request.
            let generation = request.generation.wrapping_add(1);
            let request = std::mem::replace(request, Request { generation, ..Request::unused() });
            wakers.extend(request.waker);
            let Some(place) = request.op.place() else { continue };
            let index = place.device.0 as usize;
            if request.event != 0 && request.verdict.is_none() {
                in_flight[index].extend(half_done(&request.op, &mut self.devices[index]));
            }
        }
        self.free.extend((0..self.requests.len() as u32).rev());
        for index in 0..self.devices.len() {
            self.devices[index].abandoned = false;
            if let Some(modelled) = &mut self.devices[index].model {
                modelled.event = 0;
            }
            self.schedule_model(index);
        }
        self.trace.word(self.now);
        Forgotten { in_flight, wakers }
    }

    /// Descriptions of the requests in flight.
    pub(crate) fn describe_requests(&self) -> Vec<String> {
        let waiting = self.requests.iter().filter(|request| request.event != 0);
        waiting
            .map(|request| match (&request.op, request.op.place()) {
                (_, Some(at)) => {
                    format!("{:?} device {} offset {} bytes {}", at.kind, at.device.0, at.offset, at.bytes)
                }
                (Op::Sleep { until }, None) => format!("sleep until {until} ns"),
                _ => "nothing".to_string(),
            })
            .collect()
    }
}

impl Request {
    fn unused() -> Request {
        Request {
            generation: 0,
            event: 0,
            op: Op::Empty,
            delay_ns: 0,
            in_controller: false,
            verdict: None,
            outcome: None,
            waker: None,
            orphan: false,
            abandoned: false,
        }
    }
}
