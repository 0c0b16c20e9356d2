//! One helper thread for the rare system call that can neither go through the ring nor may hold up a core.

use std::future::poll_fn;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// Where the helper leaves a result, and whom it wakes.
struct Reply<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

fn helper() -> &'static Sender<Job> {
    static HELPER: OnceLock<Sender<Job>> = OnceLock::new();
    HELPER.get_or_init(|| {
        let (jobs, inbox) = channel::<Job>();
        thread::Builder::new()
            .name("sinew-aside".into())
            .spawn(move || inbox.into_iter().for_each(|job| job()))
            .expect("start the helper thread");
        jobs
    })
}

/// Runs `job` on the helper thread.
pub(crate) async fn run<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
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
    helper().send(Box::new(job)).expect("the helper thread never ends");
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
