//! What the requests of one connection share: the limit on what they hold, and the sending of their replies.
//!
//! A request holds its slot and the bytes of its data from admission until its reply was *sent*. So one limit bounds
//! requests in flight, payloads in memory and replies a slow client does not take; beyond it the connection stops
//! reading, and the client stalls only itself.
//!
//! There is no writer task. If no task is sending, the task of a request becomes the writer and sends until the queue is
//! empty: at once if it is the only request, otherwise after the other tasks that are ready have queued their replies.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};

use sinew_core::buf::Buf;
use sinew_core::io::yield_now;
use sinew_core::volume::Volume;

use super::execute::{Outcome, encode, execute};
use super::outbox::Outbox;
use super::proto::Request;
use super::transmission::{Command, Refusal, Terms, refusal_of};
use crate::transport::Stream;

/// Requests a connection may hold.
pub const REQUESTS_MAX: u32 = 256;
/// Bytes of data the requests of a connection may hold. Two of the largest requests.
pub const BYTES_MAX: u64 = 64 << 20;

/// What requests hold.
#[derive(Clone, Copy, Default)]
struct Held {
    requests: u32,
    bytes: u64,
}

impl Held {
    fn add(&mut self, other: Held) {
        self.requests += other.requests;
        self.bytes += other.bytes;
    }

    fn remove(&mut self, other: Held) {
        self.requests -= other.requests;
        self.bytes -= other.bytes;
    }
}

#[derive(Default)]
struct State {
    outbox: Outbox,
    /// Held by admitted requests.
    held: Held,
    /// The part of `held` whose replies are in the outbox.
    queued: Held,
    /// Requests spawned and not yet answered.
    executing: u32,
    /// Whether some request is in [`Connection::send`].
    sending: bool,
    /// A send failed: replies are dropped from now on.
    broken: bool,
    /// The driver, if it waits for room or for the end. No other task waits here.
    driver: Option<Waker>,
}

/// What the tasks of one connection share.
pub(super) struct Connection<S, V> {
    stream: Rc<S>,
    pub(super) volume: V,
    pub(super) terms: Terms,
    state: RefCell<State>,
}

impl<S: Stream, V: Volume> Connection<S, V> {
    pub(super) fn new(stream: Rc<S>, volume: V, terms: Terms) -> Connection<S, V> {
        Connection { stream, volume, terms, state: RefCell::default() }
    }

    /// Waits until there is room for a request holding `bytes`, and takes it. False if replies cannot be sent any more.
    pub(super) async fn admit(&self, bytes: u64) -> bool {
        self.until(|state| {
            let held = &mut state.held;
            // A request is always let in alone, whatever its size.
            let fits =
                held.requests == 0 || (held.requests < REQUESTS_MAX && held.bytes + bytes <= BYTES_MAX);
            if fits && !state.broken {
                held.add(Held { requests: 1, bytes });
            }
            (fits || state.broken).then_some(!state.broken)
        })
        .await
    }

    /// Waits until no request is under way and every reply was sent or dropped.
    pub(super) async fn idle(&self) {
        self.until(|state| (state.executing == 0 && !state.sending).then_some(())).await;
    }

    fn until<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> impl Future<Output = T> {
        poll_fn(move |context| {
            let state = &mut *self.state.borrow_mut();
            match ready(state) {
                Some(value) => Poll::Ready(value),
                None => {
                    state.driver = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }

    /// The task of an admitted request: carries it out, or only refuses it, and answers.
    ///
    /// Not an `async fn`, so that the request counts as under way from this call on and not from the first poll.
    pub(super) fn serve(
        self: Rc<Self>,
        request: Request,
        bytes: u64,
        work: Result<(Command, Option<Buf>), Refusal>,
    ) -> impl Future<Output = ()> + 'static {
        self.state.borrow_mut().executing += 1;
        async move {
            let result = match work {
                Ok((command, payload)) => execute(&self.volume, command, payload)
                    .await
                    .map_err(|error| refusal_of(error, request.command)),
                Err(refusal) => Err(refusal),
            };
            if self.queue(&request, bytes, result) {
                self.send().await;
            }
        }
    }

    /// Queues a reply. True if the caller has to send.
    fn queue(&self, request: &Request, bytes: u64, result: Result<Outcome, Refusal>) -> bool {
        let state = &mut *self.state.borrow_mut();
        let held = Held { requests: 1, bytes };
        state.executing -= 1;
        if state.broken {
            state.held.remove(held);
            state.wake_driver();
            return false;
        }
        encode(&mut state.outbox, request, self.terms.headers, result);
        state.queued.add(held);
        !std::mem::replace(&mut state.sending, true)
    }

    /// Sends what is queued until nothing is.
    async fn send(&self) {
        loop {
            if self.state.borrow().executing > 0 {
                yield_now().await;
            }
            let (parts, held) = {
                let state = &mut *self.state.borrow_mut();
                if state.outbox.is_empty() {
                    state.sending = false;
                    state.wake_driver();
                    return;
                }
                (state.outbox.take(), std::mem::take(&mut state.queued))
            };
            let (parts, sent) = self.stream.send(parts).await;
            let state = &mut *self.state.borrow_mut();
            state.outbox.recycle(parts);
            state.held.remove(held);
            if sent.is_err() {
                state.broken = true;
                state.outbox.clear();
                state.held.remove(std::mem::take(&mut state.queued));
                // Ends the driver's receive too.
                self.stream.shutdown();
            }
            state.wake_driver();
        }
    }
}

impl State {
    fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}
