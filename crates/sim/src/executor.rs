//! Tasks on one thread, run first in first out, and dropped all at once at a crash.
//!
//! The order of polls is a function of the order of wakes, nothing else. A crash is the only moment at which tasks are
//! dropped before they end; it works even if tasks refer to each other, since the executor drops each of them itself, and
//! drops tasks that wake or start meanwhile as well.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_task::{Runnable, Task};

/// Wakers may be sent to other threads, so the queue behind them must allow it, though here there is one thread.
type RunQueue = Arc<Mutex<VecDeque<Runnable>>>;

struct Running {
    task: Task<()>,
    spawned: &'static Location<'static>,
}

/// The tasks of a world.
#[derive(Default)]
pub(crate) struct Executor {
    ready: RunQueue,
    tasks: RefCell<Vec<Option<Running>>>,
    free: RefCell<Vec<usize>>,
    polling: Cell<bool>,
}

fn lock(queue: &RunQueue) -> MutexGuard<'_, VecDeque<Runnable>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Executor {
    /// Starts a task; it is polled for the first time after everything that is ready now.
    pub(crate) fn spawn(
        self: &Rc<Self>,
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
        let ready = Arc::clone(&self.ready);
        let (runnable, task) =
            async_task::spawn_local(whole, move |runnable| lock(&ready).push_back(runnable));
        self.tasks.borrow_mut()[slot] = Some(Running { task, spawned });
        runnable.schedule();
    }

    fn ended(&self, slot: usize) {
        if let Some(running) = self.tasks.borrow_mut()[slot].take() {
            running.task.detach();
            self.free.borrow_mut().push(slot);
        }
    }

    /// Polls the task that has been ready for longest; false when none is.
    pub(crate) fn run_one(&self) -> bool {
        let Some(runnable) = lock(&self.ready).pop_front() else { return false };
        self.polling.set(true);
        runnable.run();
        self.polling.set(false);
        true
    }

    /// Whether a task is being polled right now, that is, whether the caller is inside one.
    pub(crate) fn is_polling(&self) -> bool {
        self.polling.get()
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
            while let Some(runnable) = { lock(&self.ready).pop_front() } {
                drop(runnable);
            }
            if self.tasks.borrow().is_empty() && lock(&self.ready).is_empty() {
                return;
            }
        }
    }
}
