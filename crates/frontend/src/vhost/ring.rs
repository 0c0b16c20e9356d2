//! One ring on the thread that serves it: takes requests off it, one task each, and puts the answers back.
//!
//! The ring itself is state that these tasks share; none of them waits for another. A request holds its descriptor, and the
//! bytes of its data, until it has been answered. So a guest has at most as many requests in flight as its ring has entries,
//! and of data at most [`BYTES_MAX`]; what is beyond stays in the ring.
//!
//! The guest need not kick while requests keep coming: the ring is looked at until [`EMPTY_LOOKS`] looks in a row have found none.
//!
//! A ring is given up when its guest breaks a rule: it is served no more until the guest makes it anew.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use async_channel::{Receiver, Sender};
use sinew_core::io::{Io, yield_now};
use sinew_core::sync::Signal;
use sinew_core::volume::Volume;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::GuestAddress;

use super::bell::Bell;
use super::chain::{Chain, RingError};
use super::execute::execute;
use super::inflight::InflightQueue;
use super::memory::Guest;
use super::request::{self, Command, REQUEST_BYTES_MAX, Status};
use super::terms::{QUEUE_SIZE_MAX, Terms};

/// Bytes of data that the requests of a ring may hold. Two of the largest requests.
const BYTES_MAX: u64 = 2 * REQUEST_BYTES_MAX;

/// Looks at a ring, one in each turn of the thread, that find no request before its guest has to kick again: some tens of
/// microseconds on an idle thread.
const EMPTY_LOOKS: u32 = 128;

/// Where a ring is in the guest's memory, and where the guest and this side have got to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) size: u16,
    pub(super) descriptors: GuestAddress,
    pub(super) available: GuestAddress,
    pub(super) used: GuestAddress,
    /// The next entry to take.
    pub(super) next: u16,
}

/// All that a thread needs to serve a ring.
pub struct RingStart {
    pub(super) index: u16,
    pub(super) place: Place,
    pub(super) memory: Guest,
    pub(super) terms: Terms,
    pub(super) inflight: Option<InflightQueue>,
    pub(super) kick: OwnedFd,
    pub(super) call: Option<OwnedFd>,
    pub(super) error: Option<OwnedFd>,
    pub(super) orders: Receiver<Order>,
    pub(super) fault: Arc<dyn Fn(&str) + Send + Sync>,
}

impl RingStart {
    /// The number of the queue, from 0. Queues should be spread over threads by it.
    pub fn index(&self) -> u16 {
        self.index
    }
}

/// What the control socket tells a ring.
pub enum Order {
    /// The memory of the guest has changed.
    Memory(Arc<vm_memory::GuestMemoryMmap>, Sender<()>),
    /// The bell of the guest has changed.
    Call(Option<OwnedFd>, Sender<()>),
    /// End; tells the next entry to take when all requests have been answered.
    Stop(Sender<u16>),
}

/// Serves a ring until an order to stop, or until its control socket is closed. Returns when all its requests are answered.
pub async fn serve_ring<I: Io, V: Volume, B: Bell>(
    io: I,
    volume: V,
    start: RingStart,
    bell: impl Fn(OwnedFd) -> B,
) {
    let RingStart { index, place, memory, terms, mut inflight, kick, call, error, orders, fault } = start;
    let mut queue = match queue_at(&place, &memory, &terms) {
        Ok(queue) => Some(queue),
        Err(problem) => {
            fault(&format!("ring {index} is given up: {problem}"));
            None
        }
    };
    let left = queue.as_mut().map_or(Vec::new(), |queue| take_over(queue, inflight.as_mut()));
    let ring = Rc::new(Ring {
        io: io.clone(),
        volume,
        terms,
        table: place.descriptors,
        is_given_up: Cell::new(queue.is_none()),
        queue: RefCell::new(queue.unwrap_or_else(|| Queue::new(QUEUE_SIZE_MAX).expect("a power of two"))),
        memory: RefCell::new(memory),
        inflight: RefCell::new(inflight),
        left: RefCell::new(left.into()),
        busy: RefCell::new(vec![false; place.size.into()]),
        kick: bell(kick),
        call: RefCell::new(call.map(&bell)),
        error: error.map(&bell),
        fault: Box::new(move |problem| fault(&format!("ring {index} is given up: {problem}"))),
        in_flight: Cell::new(0),
        bytes: Cell::new(0),
        is_full: Cell::new(false),
        is_telling: Cell::new(false),
        is_polling: Cell::new(false),
        is_stopping: Cell::new(false),
        is_listening: Cell::new(true),
        ended: Signal::default(),
    });
    io.spawn(Rc::clone(&ring).listen());
    // A ring that is taken over: the guest has kicked already, and an earlier server may have ended between an answer and the
    // call for it.
    ring.ring_call();
    ring.take();
    while let Ok(order) = orders.recv().await {
        match order {
            Order::Memory(memory, done) => {
                *ring.memory.borrow_mut() = memory;
                let _ = done.send(()).await;
            }
            Order::Call(call, done) => {
                *ring.call.borrow_mut() = call.map(&bell);
                // A call that the old bell has lost.
                ring.ring_call();
                let _ = done.send(()).await;
            }
            Order::Stop(done) => {
                ring.stop().await;
                let next = if ring.is_given_up.get() { place.next } else { ring.queue.borrow().next_avail() };
                let _ = done.send(next).await;
                return;
            }
        }
    }
    ring.stop().await;
}

/// # Errors
/// When the ring is not in the memory of the guest.
fn queue_at(place: &Place, memory: &Guest, terms: &Terms) -> Result<Queue, RingError> {
    let mut queue = Queue::new(QUEUE_SIZE_MAX).map_err(|_| RingError::Place)?;
    queue.try_set_size(place.size).map_err(|_| RingError::Place)?;
    queue.try_set_desc_table_address(place.descriptors).map_err(|_| RingError::Place)?;
    queue.try_set_avail_ring_address(place.available).map_err(|_| RingError::Place)?;
    queue.try_set_used_ring_address(place.used).map_err(|_| RingError::Place)?;
    queue.set_event_idx(terms.event_index);
    queue.set_ready(true);
    if !queue.is_valid(&**memory) {
        return Err(RingError::Place);
    }
    let used = queue.used_idx(&**memory, std::sync::atomic::Ordering::Acquire);
    queue.set_next_used(used.map_err(|_| RingError::Place)?.0);
    queue.set_next_avail(place.next);
    Ok(queue)
}

/// The requests that an earlier server took and did not answer; the ring goes on behind them. Entries are answered in any order,
/// but those taken are always as many as those answered and those in flight.
fn take_over(queue: &mut Queue, inflight: Option<&mut InflightQueue>) -> Vec<u16> {
    let Some(inflight) = inflight else { return Vec::new() };
    let left = inflight.recover(queue.next_used());
    queue.set_next_avail(queue.next_used().wrapping_add(left.len() as u16));
    left
}

/// The state that the tasks of a ring share. No borrow is held across a wait.
struct Ring<I, V, B> {
    io: I,
    volume: V,
    terms: Terms,
    table: GuestAddress,
    queue: RefCell<Queue>,
    memory: RefCell<Guest>,
    /// Tells a later server what is in flight, if the client keeps it.
    inflight: RefCell<Option<InflightQueue>>,
    /// Requests that an earlier server has taken off the ring, and that are not taken up again yet.
    left: RefCell<VecDeque<u16>>,
    /// Which descriptors began a request that is in flight.
    busy: RefCell<Vec<bool>>,
    kick: B,
    call: RefCell<Option<B>>,
    error: Option<B>,
    fault: Box<dyn Fn(RingError)>,
    /// Tasks of requests.
    in_flight: Cell<u32>,
    /// Bytes that they hold.
    bytes: Cell<u64>,
    /// Requests wait in the ring until others have released their bytes.
    is_full: Cell<bool>,
    /// A task is about to tell the guest of answers.
    is_telling: Cell<bool>,
    /// The ring is looked at, and the guest need not kick.
    is_polling: Cell<bool>,
    is_given_up: Cell<bool>,
    is_stopping: Cell<bool>,
    /// Whether the task is there that waits for the guest's kicks.
    is_listening: Cell<bool>,
    ended: Signal,
}

/// A request that was taken off the ring.
struct Taken {
    head: u16,
    chain: Chain,
    command: Result<Command, Status>,
    memory: Guest,
}

impl<I: Io, V: Volume, B: Bell> Ring<I, V, B> {
    /// The task that waits for the guest's kicks.
    async fn listen(self: Rc<Self>) {
        while self.kick.rung().await {
            self.poll().await;
        }
        self.is_listening.set(false);
        self.ended.notify();
    }

    /// Takes requests until none has come for a while.
    async fn poll(self: &Rc<Self>) {
        if self.queue.borrow_mut().disable_notification(&**self.memory.borrow()).is_err() {
            return self.give_up(RingError::Place);
        }
        self.is_polling.set(true);
        let mut empty = 0;
        while empty < EMPTY_LOOKS && self.is_open() {
            // A full ring is looked at by the request that releases bytes.
            empty = if !self.is_full.get() && self.take() { 0 } else { empty + 1 };
            yield_now().await;
        }
        self.is_polling.set(false);
        // The guest has to kick for what comes from now on.
        self.take();
    }

    /// Takes no more requests, and waits until all have been answered.
    async fn stop(&self) {
        self.is_stopping.set(true);
        self.kick.silence();
        let has_ended = || self.in_flight.get() == 0 && !self.is_open() && !self.is_listening.get();
        self.ended.wait(|| has_ended().then_some(())).await;
    }

    /// Whether requests are taken. Those that an earlier server took are behind the place that a stopped ring tells.
    fn is_open(&self) -> bool {
        !self.is_given_up.get() && (!self.is_stopping.get() || !self.left.borrow().is_empty())
    }

    /// Takes all requests off the ring that there is room for, and starts their tasks. Returns whether there were any.
    fn take(self: &Rc<Self>) -> bool {
        let mut is_any = false;
        while self.is_open() {
            match self.next() {
                Ok(Some(next)) => {
                    self.start(next);
                    is_any = true;
                }
                // What is left is taken when a request has released its bytes, or at the next look at the ring.
                Ok(None) if self.is_full.get() || self.is_polling.get() => break,
                Ok(None) => {
                    let memory = self.memory.borrow().clone();
                    match self.queue.borrow_mut().enable_notification(&*memory) {
                        Ok(false) => break,
                        Ok(true) => continue,
                        Err(_) => {}
                    }
                    self.give_up(RingError::Place);
                }
                Err(problem) => self.give_up(problem),
            }
        }
        is_any
    }

    /// The request that begins with a descriptor.
    fn read(&self, head: u16, memory: &Guest) -> Result<Taken, RingError> {
        let size = self.queue.borrow().size();
        let chain = Chain::walk(memory, self.table, size, head)?;
        let command = request::decode(&chain, memory, &self.terms);
        Ok(Taken { head, chain, command, memory: Arc::clone(memory) })
    }

    /// The next request of the ring, if there is one and there is room for it.
    fn next(&self) -> Result<Option<Taken>, RingError> {
        let memory = self.memory.borrow().clone();
        let left = self.left.borrow().front().copied();
        let next = match left {
            Some(head) => Some(head),
            None => self.next_head(&memory)?,
        };
        let Some(head) = next else { return Ok(None) };
        if *self.busy.borrow().get(usize::from(head)).ok_or(RingError::OutsideTable)? {
            return Err(RingError::InFlight);
        }
        let taken = self.read(head, &memory)?;
        if self.in_flight.get() > 0 && self.bytes.get() + held_bytes(&taken.command) > BYTES_MAX {
            if left.is_none() {
                self.queue.borrow_mut().go_to_previous_position();
            }
            self.is_full.set(true);
            return Ok(None);
        }
        if left.is_some() {
            self.left.borrow_mut().pop_front();
        } else if let Some(inflight) = &mut *self.inflight.borrow_mut() {
            inflight.take(head);
        }
        Ok(Some(taken))
    }

    fn next_head(&self, memory: &Guest) -> Result<Option<u16>, RingError> {
        let mut queue = self.queue.borrow_mut();
        let mut entries = queue.iter(&**memory).map_err(|error| match error {
            virtio_queue::Error::InvalidAvailRingIndex => RingError::Index,
            _ => RingError::Place,
        })?;
        Ok(entries.next().map(|entry| entry.head_index()))
    }

    fn start(self: &Rc<Self>, taken: Taken) {
        self.busy.borrow_mut()[usize::from(taken.head)] = true;
        self.in_flight.set(self.in_flight.get() + 1);
        self.bytes.set(self.bytes.get() + held_bytes(&taken.command));
        self.io.spawn(Rc::clone(self).serve(taken));
    }

    /// The task of a request.
    async fn serve(self: Rc<Self>, taken: Taken) {
        let Taken { head, chain, command, memory } = taken;
        let bytes = held_bytes(&command);
        let (status, written) = match command {
            Ok(command) => execute(&self.volume, command, &chain, &memory, &self.terms).await,
            Err(status) => (status, 0),
        };
        chain.write_status(&memory, status as u8);
        drop(memory);
        self.answer(head, written + 1);
        self.bytes.set(self.bytes.get() - bytes);
        if self.is_full.take() {
            self.take();
        }
        self.tell().await;
        self.in_flight.set(self.in_flight.get() - 1);
        if self.in_flight.get() == 0 {
            self.ended.notify();
        }
    }

    /// Puts an answered request back on the ring.
    fn answer(&self, head: u16, written: u32) {
        self.busy.borrow_mut()[usize::from(head)] = false;
        if self.is_given_up.get() {
            return;
        }
        let memory = self.memory.borrow().clone();
        let (mut queue, inflight) = (self.queue.borrow_mut(), self.inflight.borrow());
        if let Some(inflight) = &*inflight {
            inflight.before_answer(head);
        }
        let answered = queue.add_used(&*memory, head, written);
        if let Some(inflight) = inflight.as_ref().filter(|_| answered.is_ok()) {
            inflight.after_answer(head, queue.next_used());
        }
        drop(queue);
        if answered.is_err() {
            self.give_up(RingError::Place);
        }
    }

    /// Tells the guest of answers; once for all requests that are answered now.
    async fn tell(&self) {
        if self.is_telling.replace(true) {
            return;
        }
        if self.in_flight.get() > 1 {
            yield_now().await;
        }
        self.is_telling.set(false);
        if self.is_given_up.get() {
            return;
        }
        let memory = self.memory.borrow().clone();
        let wants = self.queue.borrow_mut().needs_notification(&*memory);
        match wants {
            Ok(true) => self.ring_call(),
            Ok(false) => {}
            Err(_) => self.give_up(RingError::Place),
        }
    }

    fn ring_call(&self) {
        if let Some(call) = &*self.call.borrow() {
            call.ring();
        }
    }

    fn give_up(&self, problem: RingError) {
        if !self.is_given_up.replace(true) {
            (self.fault)(problem);
            if let Some(error) = &self.error {
                error.ring();
            }
        }
    }
}

fn held_bytes(command: &Result<Command, Status>) -> u64 {
    command.as_ref().map_or(0, Command::held_bytes)
}
