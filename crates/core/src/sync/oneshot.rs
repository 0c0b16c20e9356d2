//! One value passed from one task to another of the same thread.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The receiving end: resolves to the value once it is delivered.
pub struct Promise<T>(Rc<PromiseState<T>>);
/// The delivering end.
pub struct Fulfil<T>(Rc<PromiseState<T>>);

struct PromiseState<T> {
    value: Cell<Option<T>>,
    waker: Cell<Option<Waker>>,
}

/// A channel for one value: its delivering and its receiving end.
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
