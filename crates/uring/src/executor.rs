//! The run queue of one thread, and the protocol by which other threads add tasks to it.
//!
//! A wake on the owning thread is a push to a plain queue. A wake from another thread takes a lock and makes a system
//! call only when the owner sleeps. `pending` and `sleeping` are the two flags of Dekker's protocol: the waker sets
//! `pending` and then looks at `sleeping`, the owner sets `sleeping` and then looks at `pending`, all sequentially
//! consistent, so at least one of them sees the other and no wake is lost.

use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use async_task::Runnable;

thread_local! {
    /// This thread's number, 0 until it owns a runtime. Not an address, as those are reused after a thread has ended.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        thread.get()
    })
}

/// Tasks woken by other threads.
struct Remote {
    woken: Vec<Runnable>,
    closed: bool,
}

/// The run queue of one runtime.
pub(crate) struct Executor {
    owner: u64,
    local: UnsafeCell<VecDeque<Runnable>>,
    remote: Mutex<Remote>,
    pending: AtomicBool,
    sleeping: AtomicBool,
    closed: AtomicBool,
    eventfd: OwnedFd,
}

// SAFETY: `local` is reached only through `with_local`, which asserts that the caller is the owning thread, and its
// borrow never leaves that function. All other fields are `Sync`.
unsafe impl Sync for Executor {}
// SAFETY: the queued tasks may hold futures that are not `Send`; they are run and dropped on the owner only: `close`
// empties the queues there, and what comes later from elsewhere is leaked by `schedule`.
unsafe impl Send for Executor {}

impl Executor {
    /// An executor owned by the calling thread.
    pub(crate) fn new() -> io::Result<Arc<Executor>> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Arc::new(Executor {
            owner: this_thread(),
            local: UnsafeCell::new(VecDeque::with_capacity(256)),
            remote: Mutex::new(Remote { woken: Vec::new(), closed: false }),
            pending: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            // SAFETY: the descriptor was just created and nothing else owns it.
            eventfd: unsafe { OwnedFd::from_raw_fd(fd) },
        }))
    }

    fn is_owner(&self) -> bool {
        THREAD.with(Cell::get) == self.owner
    }

    fn with_local<T>(&self, act: impl FnOnce(&mut VecDeque<Runnable>) -> T) -> T {
        assert!(self.is_owner(), "run queue touched by another thread");
        // SAFETY: only the owning thread gets here (asserted), and the closures passed below only move queue entries:
        // they run and drop no task, hence cannot call back into this function while the borrow lives.
        act(unsafe { &mut *self.local.get() })
    }

    fn remote(&self) -> MutexGuard<'_, Remote> {
        self.remote.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a task on the owning thread and puts it on the queue. Returns a waker that reschedules it.
    pub(crate) fn spawn(self: &Arc<Self>, future: impl Future<Output = ()> + 'static) -> Waker {
        assert!(self.is_owner(), "spawn from another thread");
        let executor = Arc::clone(self);
        let schedule = move |runnable| executor.schedule(runnable);
        // SAFETY: the future is 'static but may not be `Send`: its `Runnable` is run and dropped on the owner only (see
        // the impl of `Send` above). `schedule` is `Send + Sync + 'static`.
        let (runnable, task) = unsafe { async_task::spawn_unchecked(future, schedule) };
        task.detach();
        let waker = runnable.waker();
        runnable.schedule();
        waker
    }

    fn schedule(&self, runnable: Runnable) {
        if self.is_owner() {
            if self.closed.load(Ordering::Relaxed) {
                drop(runnable);
            } else {
                self.with_local(|queue| queue.push_back(runnable));
            }
            return;
        }
        let mut remote = self.remote();
        if remote.closed {
            // Its future belongs to a thread that has stopped running tasks, and must not be dropped on this one.
            mem::forget(runnable);
            return;
        }
        remote.woken.push(runnable);
        drop(remote);
        self.notify();
    }

    /// Wakes the owner, so that it takes what another thread has queued for it.
    pub(crate) fn notify(&self) {
        self.pending.store(true, Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst) && self.sleeping.swap(false, Ordering::SeqCst) {
            let one = 1u64;
            // SAFETY: writes eight bytes from a local. It fails only when the counter is near overflow, that is, when
            // the owner is certain to wake anyway.
            unsafe { libc::write(self.eventfd.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }

    /// The descriptor that becomes readable when another thread wakes a sleeping owner.
    pub(crate) fn eventfd(&self) -> RawFd {
        self.eventfd.as_raw_fd()
    }

    /// Whether another thread has woken something.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    /// Announces sleep. Returns false if another thread has queued work meanwhile.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        if self.pending.load(Ordering::SeqCst) {
            self.wake_up();
            return false;
        }
        true
    }

    /// Ends the announcement.
    pub(crate) fn wake_up(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    /// Moves what other threads woke to the run queue.
    pub(crate) fn accept_remote(&self) {
        if self.is_pending() && self.pending.swap(false, Ordering::SeqCst) {
            let mut remote = self.remote();
            self.with_local(|queue| queue.extend(remote.woken.drain(..)));
        }
    }

    /// Whether no task is ready.
    pub(crate) fn is_idle(&self) -> bool {
        self.with_local(|queue| queue.is_empty())
    }

    /// The task that has been ready longest.
    pub(crate) fn pop(&self) -> Option<Runnable> {
        self.with_local(VecDeque::pop_front)
    }

    /// Drops every task that is or becomes ready. Called by the owner, after which nothing is queued any more.
    pub(crate) fn close(&self) {
        let woken = {
            let mut remote = self.remote();
            remote.closed = true;
            mem::take(&mut remote.woken)
        };
        drop(woken);
        // Dropping a task may wake others; they queue up here instead of recursing.
        while let Some(runnable) = self.pop() {
            drop(runnable);
        }
        self.closed.store(true, Ordering::Relaxed);
    }
}

/// The waker of the future that `block_on` drives itself.
pub(crate) struct MainWaker {
    executor: Arc<Executor>,
    ready: AtomicBool,
}

impl MainWaker {
    /// A waker that is ready, so that the future is polled a first time.
    pub(crate) fn new(executor: &Arc<Executor>) -> Arc<MainWaker> {
        Arc::new(MainWaker { executor: Arc::clone(executor), ready: AtomicBool::new(true) })
    }

    /// Whether the future has been woken.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Resets the wake of the future.
    pub(crate) fn take(&self) -> bool {
        self.is_ready() && self.ready.swap(false, Ordering::AcqRel)
    }
}

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.store(true, Ordering::Release);
        if !self.executor.is_owner() {
            self.executor.notify();
        }
    }
}
