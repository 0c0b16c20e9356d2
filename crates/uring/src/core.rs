//! The state that the handle, the futures and the loop of one runtime share.
//!
//! Borrows of the cells below last for one statement: nothing is awaited, woken or dropped under them that could call
//! back in.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use io_uring::squeue::Entry;
use pin_project_lite::pin_project;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::io::{DeviceId, IoError};
use slab::Slab;

use crate::clock::now;
use crate::config::Config;
use crate::devices::Devices;
use crate::executor::Executor;
use crate::idle_polling::IdlePolling;
use crate::ring::{Handle, Payload, Ring};
use crate::timers::{TimerKey, Timers};

/// The state of one runtime.
pub(crate) struct Core {
    pub(crate) executor: Arc<Executor>,
    pub(crate) ring: RefCell<Ring>,
    pub(crate) timers: RefCell<Timers>,
    /// A waker of every task that has not ended, so that all can be dropped with the runtime.
    pub(crate) tasks: RefCell<Slab<Waker>>,
    pub(crate) config: Config,
    pub(crate) polling: IdlePolling,
    /// Bytes that may still be moved synchronously before the loop serves the ring and other tasks.
    pub(crate) inline_left: Cell<usize>,
    /// Scratch for synchronous gathered system calls.
    pub(crate) iovecs: RefCell<Vec<libc::iovec>>,
    /// The time last read from the clock: at the beginning of a turn, and every few tasks.
    pub(crate) looked_at: Cell<u64>,
    devices: RefCell<Vec<Option<Handle>>>,
    closings_seen: Cell<u64>,
}

impl Core {
    pub(crate) fn new(config: Config, executor: Arc<Executor>, ring: Ring) -> Core {
        Core {
            executor,
            ring: RefCell::new(ring),
            timers: RefCell::default(),
            tasks: RefCell::default(),
            inline_left: Cell::new(config.burst_bytes),
            iovecs: RefCell::default(),
            polling: IdlePolling::new(config.spin),
            looked_at: Cell::new(now()),
            devices: RefCell::default(),
            closings_seen: Cell::new(config.devices.closings()),
            config,
        }
    }

    /// The device of a request, from this runtime's cache if it is there.
    pub(crate) fn device(&self, id: DeviceId) -> Result<Handle, IoError> {
        let cached = self.devices.borrow().get(id.0 as usize).cloned().flatten();
        let handle = match cached {
            Some(handle) => handle,
            None => self.cache(id)?,
        };
        if handle.is_closed() { Err(IoError::Gone) } else { Ok(handle) }
    }

    fn cache(&self, id: DeviceId) -> Result<Handle, IoError> {
        let handle = Rc::new(self.registry().get(id).ok_or(IoError::Gone)?);
        let mut devices = self.devices.borrow_mut();
        if devices.len() <= id.0 as usize {
            devices.resize(id.0 as usize + 1, None);
        }
        devices[id.0 as usize] = Some(Rc::clone(&handle));
        Ok(handle)
    }

    fn registry(&self) -> &Devices {
        &self.config.devices
    }

    /// Drops the references to devices closed since the last call, and ends the requests to abandoned ones.
    pub(crate) fn forget_closed(&self) {
        let closings = self.registry().closings();
        if closings == self.closings_seen.replace(closings) {
            return;
        }
        let mut closed: Vec<Handle> = Vec::new();
        for cached in self.devices.borrow_mut().iter_mut() {
            closed.extend(cached.take_if(|handle| handle.is_closed()));
        }
        if closed.iter().any(|handle| handle.is_abandoned()) {
            let wakers = self.ring.borrow_mut().abandon(|handle| handle.is_abandoned());
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Queues a request and waits for its result.
    ///
    /// # Safety
    /// All memory and descriptors `entry` refers to must be owned by `payload`, at addresses that moving it keeps.
    pub(crate) unsafe fn submit(self: &Rc<Self>, entry: Entry, payload: Payload) -> Op {
        // SAFETY: the caller's promise.
        let slot = unsafe { self.ring.borrow_mut().push(entry, payload) };
        Op { core: Rc::clone(self), slot: Some(slot) }
    }

    /// Waits until a descriptor is readable.
    pub(crate) async fn readable(self: &Rc<Self>, fd: &Rc<OwnedFd>) {
        self.becomes_readable(fd).await;
    }

    /// As [`Core::readable`], as a request that can be cancelled.
    pub(crate) fn becomes_readable(self: &Rc<Self>, fd: &Rc<OwnedFd>) -> Op {
        let entry = io_uring::opcode::PollAdd::new(io_uring::types::Fd(fd.as_raw_fd()), libc::POLLIN as u32);
        // SAFETY: the entry refers to a descriptor only, which the payload keeps open.
        unsafe { self.submit(entry.build(), Payload::Readable(Rc::clone(fd))) }
    }

    /// Called before a synchronous request of `bytes`. After a burst of such requests it yields to other tasks and the
    /// ring, since a task that never waits would block them.
    pub(crate) async fn breathe(&self, bytes: usize) {
        let left = self.inline_left.get();
        if left > 0 {
            self.inline_left.set(left.saturating_sub(bytes.max(BLOCK_BYTES)));
            return;
        }
        let mut yielded = false;
        poll_fn(|context| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Starts a task on this runtime.
    pub(crate) fn spawn(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) {
        let key = self.tasks.borrow().vacant_key();
        let waker = self.executor.spawn(ListedTask { task, _listed: Listed { core: Rc::clone(self), key } });
        // Still the vacant key: spawning runs nothing.
        self.tasks.borrow_mut().insert(waker);
    }

    /// A timer that is set when first polled.
    pub(crate) fn sleep(self: &Rc<Self>, ns: u64) -> Sleep {
        Sleep { core: Rc::clone(self), deadline: now().saturating_add(ns), key: None }
    }
}

/// A request in the ring. Resolves to its result and the payload of its slot; if it is dropped early, the slot keeps the
/// payload.
pub(crate) struct Op {
    core: Rc<Core>,
    slot: Option<usize>,
}

impl Op {
    /// The slot of the request, until it has resolved.
    pub(crate) fn slot(&self) -> Option<usize> {
        self.slot
    }
}

impl Future for Op {
    type Output = (i32, Payload);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = self.slot.expect("polled after completion");
        let polled = self.core.ring.borrow_mut().poll(slot, context.waker());
        if polled.is_ready() {
            self.slot = None;
        }
        polled
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            // Bound to a name so that what it owned is dropped after the borrow has ended.
            let _owned = self.core.ring.borrow_mut().orphan(slot);
        }
    }
}

/// Resolves at a deadline.
pub(crate) struct Sleep {
    core: Rc<Core>,
    deadline: u64,
    key: Option<TimerKey>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if now() >= self.deadline {
            return Poll::Ready(());
        }
        match self.key {
            Some(key) => self.core.timers.borrow_mut().update(key, context.waker()),
            None => {
                let key = self.core.timers.borrow_mut().set(self.deadline, context.waker().clone());
                self.key = Some(key);
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let _waker = self.core.timers.borrow_mut().cancel(key);
        }
    }
}

pin_project! {
    /// A task with its entry. An `async` block that waits for a task would hold it twice: as a capture, and as what it waits for.
    struct ListedTask<T> {
        #[pin]
        task: T,
        _listed: Listed,
    }
}

impl<T: Future<Output = ()>> Future for ListedTask<T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.project().task.poll(context)
    }
}

/// A task's entry in its runtime's list, removed when the task ends or is dropped.
struct Listed {
    core: Rc<Core>,
    key: usize,
}

impl Drop for Listed {
    fn drop(&mut self) {
        // Bound to a name so that the waker is dropped after the borrow has ended.
        let _waker = self.core.tasks.borrow_mut().try_remove(self.key);
    }
}
