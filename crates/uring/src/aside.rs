//! Threads for rare system calls that the ring does not support and that may block. Each call gets a thread of its own,
//! since it may hang with its device.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;

/// The result of the thread, and the task that waits for it.
struct Reply<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

/// Runs `job` on a thread of its own.
pub async fn run<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
    let reply = Arc::new(Mutex::new(Reply { value: None, waker: None }));
    let there = Arc::clone(&reply);
    let job = move || {
        let value = job();
        let mut reply = there.lock().unwrap_or_else(PoisonError::into_inner);
        reply.value = Some(value);
        if let Some(waker) = reply.waker.take() {
            waker.wake();
        }
    };
    thread::Builder::new().name("sinew-aside".into()).spawn(job).expect("start a thread");
    poll_fn(|context| {
        let mut reply = reply.lock().unwrap_or_else(PoisonError::into_inner);
        match reply.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                reply.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}
