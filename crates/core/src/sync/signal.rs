//! Signals among the tasks of one thread: waiting for a condition, for work, and for a batch to fill.

use std::cell::{Cell, RefCell};
use std::task::{Poll, Waker};

use crate::io::yield_now;

/// Wakes all tasks that wait for a condition, so that each checks it again.
#[derive(Default)]
pub struct Signal {
    waiting: RefCell<Vec<Waker>>,
}

impl Signal {
    /// Wakes every waiting task.
    pub fn notify(&self) {
        // Taken out first: a waker may run arbitrary code that waits again.
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        for waker in waiting {
            waker.wake();
        }
    }

    /// Resolves after the next `notify`.
    pub async fn wait_once(&self) {
        let mut asked = false;
        self.wait(|| std::mem::replace(&mut asked, true).then_some(())).await;
    }

    /// Resolves once `ready` returns a value. It is called at once, and after each `notify`.
    pub async fn wait<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        std::future::poll_fn(|cx| match ready() {
            Some(value) => Poll::Ready(value),
            None => {
                self.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

/// Wakes one task that works until nothing is left to do. A kick while the task works is not lost.
#[derive(Default)]
pub struct Kick {
    kicked: Cell<bool>,
    signal: Signal,
}

impl Kick {
    /// Wakes the task.
    pub fn kick(&self) {
        self.kicked.set(true);
        self.signal.notify();
    }

    /// Whether there was a kick since the task was last woken; it counts as seen.
    pub fn take(&self) -> bool {
        self.kicked.take()
    }

    /// Resolves after the next kick, or at once when there was a kick since the last call resolved.
    pub async fn kicked(&self) {
        self.signal.wait(|| self.kicked.take().then_some(())).await;
    }
}

/// Lets a queue fill up to a batch: lets the tasks that are ready run as long as they add to the queue and it is shorter
/// than `enough`. Entries that are ready at the same time go out together, and no time is spent on waiting.
pub async fn batch(len: impl Fn() -> usize, enough: usize) {
    let mut before = 0;
    while before < len() && len() < enough {
        before = len();
        yield_now().await;
    }
}
