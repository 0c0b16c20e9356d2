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

/// Turns without a new entry after which a batch goes out although it is smaller than the last one. More than eight gain nothing,
/// also with clients on other threads.
const EMPTY_TURNS: u32 = 8;

/// Batches of a queue: entries that are ready at about the same time go out together.
#[derive(Default)]
pub struct Batches {
    /// Entries of the last batch. Clients that wait for their requests send about as many again.
    last: usize,
}

impl Batches {
    /// Lets a queue fill up to the next batch: lets the tasks that are ready run as long as they add to the queue, or for some
    /// turns if it is shorter than the last batch. It ends once there is `enough`. No time is spent on sleep.
    pub async fn fill(&mut self, len: impl Fn() -> usize, enough: usize) {
        let (mut before, mut empty) = (0, 0);
        while len() < enough {
            empty = if len() > before { 0 } else { empty + 1 };
            before = len();
            if empty > EMPTY_TURNS || empty > 0 && before >= self.last {
                break;
            }
            yield_now().await;
        }
        self.last = len();
    }
}
