//! Calls between real threads, and what becomes of them when a thread ends or a caller forgets them.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the test is of real threads")]

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use sinew_core::sync::{both, join_all};
use sinew_core::volume::Extent;
use sinew_members::message::Reply;

use super::*;

const THREADS: usize = 3;
/// A thread that waits for this time has missed a ring.
const LOST: Duration = Duration::from_secs(60);

struct Unpark {
    thread: thread::Thread,
    is_woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Runs a future on this thread, beside the messenger, whose calls are answered with their numbers of blocks.
fn run<T>(handover: &Rc<Handover>, future: impl Future<Output = T>) -> T {
    let woken = Arc::new(Unpark { thread: thread::current(), is_woken: AtomicBool::new(true) });
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    let called = RefCell::new(Vec::new());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        let _ = handover.deliver(&cx, &|from, call| called.borrow_mut().push((from, call)));
        for (from, call) in called.take() {
            let Request::Read { local, .. } = call.request else { unreachable!("the tests read") };
            let extents = vec![Extent { bytes: local, allocated: true }];
            handover.answer(from, call.number, Ok(Reply::Extents(extents)));
        }
        while !woken.is_woken.swap(false, Ordering::SeqCst) {
            let before = Instant::now();
            thread::park_timeout(LOST);
            assert!(before.elapsed() < LOST, "a message was sent, and its bell not heard");
        }
    }
}

async fn echo(handover: &Handover, thread: usize, number: u64) -> Result<u64, VolumeError> {
    let request = Request::Read { local: number, count: 1 };
    match handover.call(thread, 0, VolumeId(0), request).await? {
        Reply::Extents(extents) => Ok(extents[0].bytes),
        _ => unreachable!("what the tests answer"),
    }
}

#[test]
fn each_call_of_many_threads_gets_its_answer() {
    let working = Arc::new(AtomicUsize::new(THREADS));
    let threads: Vec<_> = endpoints(THREADS, 2)
        .into_iter()
        .enumerate()
        .map(|(own, endpoint)| {
            let working = Arc::clone(&working);
            thread::spawn(move || {
                let handover = Handover::new(endpoint);
                let clients = (0..8).map(|client| {
                    let handover = &handover;
                    async move {
                        for number in 0..5_000 {
                            let other = (own + 1 + (number + client) as usize % (THREADS - 1)) % THREADS;
                            assert_eq!(echo(handover, other, number).await, Ok(number));
                        }
                    }
                });
                run(&handover, join_all(clients));
                working.fetch_sub(1, Ordering::SeqCst);
                // The others may have calls under way.
                let others = (0..THREADS).filter(|&other| other != own);
                let ended = others.map(|other| {
                    let (handover, working) = (&handover, &working);
                    async move {
                        while working.load(Ordering::SeqCst) > 0 && echo(handover, other, 1).await.is_ok() {}
                    }
                });
                run(&handover, join_all(ended));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
}

#[test]
fn calls_to_a_thread_that_ends_fail() {
    let mut ends = endpoints(2, 1).into_iter();
    let (one, two) = (Handover::new(ends.next().unwrap()), Handover::new(ends.next().unwrap()));
    let ended = Cell::new(Some(two));
    let calls = (0..3).map(|number| echo(&one, 1, number));
    let end = async { drop(ended.take()) };
    let (answers, ()) = run(&one, both(join_all(calls), end));
    assert_eq!(answers, vec![Err(VolumeError::Gone); 3]);
    assert_eq!(run(&one, echo(&one, 1, 3)), Err(VolumeError::Gone));
}

#[test]
fn calls_that_are_forgotten_end() {
    let mut ends = endpoints(2, 4).into_iter();
    let (one, two) = (Handover::new(ends.next().unwrap()), Handover::new(ends.next().unwrap()));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..10 {
        let mut forgotten = Box::pin(echo(&one, 1, 7));
        assert!(forgotten.as_mut().poll(&mut cx).is_pending());
        drop(forgotten);
        let mut kept = Box::pin(echo(&one, 1, 8));
        assert!(kept.as_mut().poll(&mut cx).is_pending());
        let called = RefCell::new(Vec::new());
        let _ = two.deliver(&cx, &|from, call| called.borrow_mut().push((from, call.number)));
        for (from, number) in called.take() {
            two.answer(from, number, Ok(Reply::Done));
        }
        let _ = one.deliver(&cx, &|_, _| unreachable!("nothing calls"));
        drop(kept);
    }
    assert_eq!(one.unanswered.borrow().len(), 0);
}

#[test]
fn messages_that_wait_for_room_keep_their_order() {
    let (mut sender, mut receiver) = ring(2);
    let told: Vec<bool> = (0..5).map(|number| sender.send(number)).collect();
    assert_eq!(told, [true, true, false, false, false]);
    let mut received = Vec::new();
    assert!(receiver.receive(|number| received.push(number)), "the sender waits for room");
    assert!(sender.send_waiting());
    assert!(!sender.send(5), "one before it still waits");
    assert!(receiver.receive(|number| received.push(number)));
    assert!(sender.send_waiting());
    assert!(!receiver.receive(|number| received.push(number)), "nothing waits any more");
    assert!(!sender.send_waiting());
    assert!(sender.send(6));
    receiver.receive(|number| received.push(number));
    assert_eq!(received, [0, 1, 2, 3, 4, 5, 6]);
}
