//! The tasks that answer calls of other threads. One that has answered waits for the next call, since to start a task for each is
//! much of the cost of a small read.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;

use sinew_core::io::Io;
use sinew_core::sync::{Fulfil, promise};
use sinew_core::volume::VolumeError;

use crate::handover::{Call, CallResult, Handover};
use crate::shard::Shard;

/// Workers of a thread that wait for calls, at most: one that has answered while as many wait ends.
const IDLE_MAX: usize = 256;

impl Handover {
    /// Starts the messenger, which has calls of other threads answered by these shards.
    pub fn start<I: Io>(self: &Rc<Self>, io: &I, shards: BTreeMap<usize, Shard<I>>) {
        let handover = Rc::clone(self);
        let workers = Workers { io: io.clone(), handover: Rc::clone(self), shards, idle: RefCell::default() };
        let workers = Rc::new(workers);
        io.spawn(async move {
            let answer = |from, call| workers.answer(from, call);
            poll_fn(|cx| handover.deliver(cx, &answer)).await
        });
    }
}

/// The workers of one thread.
struct Workers<I: Io> {
    io: I,
    handover: Rc<Handover>,
    shards: BTreeMap<usize, Shard<I>>,
    /// Those that wait, the last one to answer on top: its memory is still in the caches.
    idle: RefCell<Vec<Fulfil<FromThread>>>,
}

/// A call, and the thread that it came from.
type FromThread = (usize, Call);

impl<I: Io> Workers<I> {
    /// Has a call of another thread answered.
    fn answer(self: &Rc<Self>, from: usize, call: Call) {
        let idle = self.idle.borrow_mut().pop();
        match idle {
            Some(worker) => worker.fulfil((from, call)),
            None => self.io.spawn(work(Rc::clone(self), (from, call))),
        }
    }
}

/// A worker: answers calls one after the other.
async fn work<I: Io>(workers: Rc<Workers<I>>, mut next: FromThread) {
    loop {
        let (from, Call { number, shard, volume, request }) = next;
        let answer: CallResult = match workers.shards.get(&(shard as usize)) {
            Some(shard) => shard.serve(volume, request).await,
            None => Err(VolumeError::Gone),
        };
        workers.handover.answer(from, number, answer);
        if workers.idle.borrow().len() >= IDLE_MAX {
            return;
        }
        let (call, called) = promise();
        workers.idle.borrow_mut().push(call);
        next = called.await;
    }
}
