//! Waiting among tasks of one thread.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::io::yield_now;

/// Wakes everybody who waits for a condition to be looked at again.
#[derive(Default)]
pub struct Signal {
    waiting: RefCell<Vec<Waker>>,
}

impl Signal {
    /// Lets every waiter look at its condition again.
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

    /// Resolves once `ready` gives a value; it is asked at once and after each `notify`.
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

/// Wakes one task that works until there is nothing left; a kick while it works is not lost.
#[derive(Default)]
pub struct Kick {
    kicked: Cell<bool>,
    signal: Signal,
}

impl Kick {
    /// Has the task look for work.
    pub fn kick(&self) {
        self.kicked.set(true);
        self.signal.notify();
    }

    /// Resolves after the next kick, or at once when there was one since the last.
    pub async fn kicked(&self) {
        self.signal.wait(|| self.kicked.take().then_some(())).await;
    }
}

/// Lets other tasks that are ready run as long as they add to a queue that is shorter than `enough`: what is ready at the
/// same time goes out together, at no cost in waiting for anything else.
pub async fn gather(len: impl Fn() -> usize, enough: usize) {
    let mut gathered = 0;
    while gathered < len() && len() < enough {
        gathered = len();
        yield_now().await;
    }
}

/// The receiving end of a value that another task of this thread will deliver once.
pub struct Promise<T>(Rc<PromiseState<T>>);
/// The delivering end.
pub struct Fulfil<T>(Rc<PromiseState<T>>);

struct PromiseState<T> {
    value: Cell<Option<T>>,
    waker: Cell<Option<Waker>>,
}

/// A pair through which one value passes.
pub fn promise<T>() -> (Fulfil<T>, Promise<T>) {
    let state = Rc::new(PromiseState { value: Cell::new(None), waker: Cell::new(None) });
    (Fulfil(Rc::clone(&state)), Promise(state))
}

impl<T> Fulfil<T> {
    /// Delivers the value.
    pub fn fulfil(self, value: T) {
        self.0.value.set(Some(value));
        if let Some(waker) = self.0.waker.take() {
            waker.wake();
        }
    }
}

impl<T> Future for Promise<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match self.0.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                self.0.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

/// Polls futures that have names: one that has ended, which is then not among them any more; none when none is left.
pub fn poll_next<K, F: Future>(
    cx: &mut Context<'_>,
    running: &mut Vec<(K, Pin<Box<F>>)>,
) -> Poll<Option<(K, F::Output)>> {
    for i in 0..running.len() {
        if let Poll::Ready(output) = running[i].1.as_mut().poll(cx) {
            return Poll::Ready(Some((running.swap_remove(i).0, output)));
        }
    }
    if running.is_empty() { Poll::Ready(None) } else { Poll::Pending }
}

/// As `poll_next`, and waits for it.
pub async fn next_of<K, F: Future>(running: &mut Vec<(K, Pin<Box<F>>)>) -> Option<(K, F::Output)> {
    std::future::poll_fn(|cx| poll_next(cx, running)).await
}

/// Waits for all of them; in the order in which they end.
pub async fn end_all<K, F: Future>(running: &mut Vec<(K, Pin<Box<F>>)>) -> Vec<(K, F::Output)> {
    let mut ended = Vec::with_capacity(running.len());
    while let Some(one) = next_of(running).await {
        ended.push(one);
    }
    ended
}

/// A future under way, or what came of it.
enum Joined<F: Future> {
    Running(Pin<Box<F>>),
    Done(F::Output),
}

/// Runs the futures together and gives their results in order.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<Joined<F>> = futures.into_iter().map(|f| Joined::Running(Box::pin(f))).collect();
    std::future::poll_fn(|cx| {
        let mut pending = false;
        for one in &mut all {
            if let Joined::Running(future) = one {
                match future.as_mut().poll(cx) {
                    Poll::Ready(output) => *one = Joined::Done(output),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let output = |one| match one {
        Joined::Done(output) => output,
        Joined::Running(_) => unreachable!("every future is done"),
    };
    all.into_iter().map(output).collect()
}
