//! Tasks on one thread, run first in first out on each simulated core, and dropped all at once at a crash.
//!
//! The order of polls is a function of the order of wakes and of the [cores](crate::processor), nothing else. A crash is the
//! only moment at which tasks are dropped before they end; it works even if tasks refer to each other, since the executor
//! drops each of them itself, and drops tasks that wake or start meanwhile as well.

use std::cell::RefCell;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_task::Task;

use crate::processor::Processors;

/// Wakers may be sent to other threads, so the queues behind them must allow it, though here there is one thread.
type RunQueues = Arc<Mutex<Processors>>;

struct Running {
    task: Task<()>,
    spawned: &'static Location<'static>,
}

/// The tasks of a world.
#[derive(Default)]
pub(crate) struct Executor {
    processors: RunQueues,
    tasks: RefCell<Vec<Option<Running>>>,
    free: RefCell<Vec<usize>>,
}

fn lock(queues: &RunQueues) -> MutexGuard<'_, Processors> {
    queues.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Executor {
    /// The cores and the tasks that are ready on them.
    pub(crate) fn processors(&self) -> MutexGuard<'_, Processors> {
        lock(&self.processors)
    }

    /// Starts a task on the core of the one that is being polled, or on the first; it is polled for the first time after
    /// everything that is ready there now.
    pub(crate) fn spawn(
        self: &Rc<Self>,
        task: impl Future<Output = ()> + 'static,
        spawned: &'static Location<'static>,
    ) {
        let core = self.processors().current_core();
        self.spawn_on(core, task, spawned);
    }

    /// Starts a task on this core.
    pub(crate) fn spawn_on(
        self: &Rc<Self>,
        core: usize,
        task: impl Future<Output = ()> + 'static,
        spawned: &'static Location<'static>,
    ) {
        let slot = self.free.borrow_mut().pop().unwrap_or_else(|| {
            self.tasks.borrow_mut().push(None);
            self.tasks.borrow().len() - 1
        });
        let executor = Rc::clone(self);
        let whole = async move {
            task.await;
            executor.ended(slot);
        };
        let queues = Arc::clone(&self.processors);
        let (runnable, task) =
            async_task::spawn_local(whole, move |runnable| lock(&queues).wake(core, runnable));
        self.tasks.borrow_mut()[slot] = Some(Running { task, spawned });
        runnable.schedule();
    }

    fn ended(&self, slot: usize) {
        if let Some(running) = self.tasks.borrow_mut()[slot].take() {
            running.task.detach();
            self.free.borrow_mut().push(slot);
        }
    }

    /// Polls the task that has been ready for longest on a core that is free; false when there is none.
    pub(crate) fn run_one(&self, now: u64) -> bool {
        let Some(runnable) = ({ self.processors().begin_poll(now) }) else { return false };
        runnable.run();
        self.processors().end_poll();
        true
    }

    /// Whether a task is being polled right now, that is, whether the caller is inside one.
    pub(crate) fn is_polling(&self) -> bool {
        self.processors().is_polling()
    }

    /// Where the tasks that have not ended were started.
    pub(crate) fn pending(&self) -> Vec<&'static Location<'static>> {
        self.tasks.borrow().iter().flatten().map(|running| running.spawned).collect()
    }

    /// Drops every task at the await it stands at, and those that start or wake while that happens.
    pub(crate) fn drop_all(&self) {
        loop {
            self.free.borrow_mut().clear();
            let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
            // Dropping the handle cancels the task and puts it on the run queue, dropping it there drops its future.
            drop(tasks);
            while let Some(runnable) = { self.processors().take_any() } {
                drop(runnable);
            }
            if self.tasks.borrow().is_empty() && self.processors().next_at().is_none() {
                return;
            }
        }
    }
}
