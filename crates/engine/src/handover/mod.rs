//! The handover of requests between the threads of a pool, and of their answers.
//!
//! Each pair of threads has two rings of messages, one for each way, which no other thread touches. What is sent is put into its
//! ring, and the bell of the other thread is rung. There it wakes one task, the messenger, which runs after the tasks that are
//! ready and then takes everything that has come. So threads that are awake make no system calls for each other, take no lock
//! for a message, and are woken at most once for all that comes while they are busy.
//!
//! To ring for several messages together was slower: while one thread gathered them, the other one ran out of work.
//!
//! A ring bounds undelivered messages, not outstanding requests: the messenger drains the rings in each of its turns, and fair
//! queuing between volumes is done by the gate of the shard. While a ring is full, its sender queues messages; the receiver rings
//! the sender's bell when it has freed space.

mod bell;
mod ring;
#[cfg(test)]
mod tests;
mod workers;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use sinew_core::ids::VolumeId;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Fulfil, promise};
use sinew_core::volume::VolumeError;
use sinew_members::message::{Reply, Request};
use slab::Slab;

use crate::handover::bell::Bell;
use crate::handover::ring::{Receiver, Sender, ring};

/// Messages that each ring of `threads` threads has room for: 512, and fewer where all rings together would take more than some
/// tens of MiB.
pub fn usual_room(threads: usize) -> usize {
    ((1 << 18) / (threads * threads)).clamp(64, 512)
}

/// The result of a call.
type CallResult = Result<Reply, VolumeError>;

/// A request to a shard.
struct Call {
    number: u32,
    shard: u32,
    volume: VolumeId,
    request: Request,
}

/// What one thread sends another.
enum Message {
    Call(Call),
    Answer { number: u32, answer: CallResult },
}

/// The end of the handover that one thread is to have.
pub struct Endpoint {
    thread: usize,
    bells: Arc<[Bell]>,
    /// For each other thread: the rings to it and from it.
    rings: Vec<Option<(Sender<Message>, Receiver<Message>)>>,
}

/// The ends of a handover between `threads` threads, with rings that have room for this many messages.
pub fn endpoints(threads: usize, room: usize) -> Vec<Endpoint> {
    let bells: Arc<[Bell]> = (0..threads).map(|_| Bell::new(threads)).collect();
    let end =
        |thread| Endpoint { thread, bells: Arc::clone(&bells), rings: (0..threads).map(|_| None).collect() };
    let mut ends: Vec<Endpoint> = (0..threads).map(end).collect();
    for a in 0..threads {
        for b in 0..a {
            let (to_a, from_b) = ring(room);
            let (to_b, from_a) = ring(room);
            ends[b].rings[a] = Some((to_a, from_a));
            ends[a].rings[b] = Some((to_b, from_b));
        }
    }
    ends
}

/// Another thread, as this one sees it.
struct Peer {
    to: Sender<Message>,
    from: Receiver<Message>,
    is_gone: bool,
}

/// A call without an answer as yet.
struct Unanswered {
    thread: usize,
    answer: Fulfil<CallResult>,
}

/// One thread's end of the handover.
pub struct Handover {
    thread: usize,
    bells: Arc<[Bell]>,
    peers: Vec<Option<RefCell<Peer>>>,
    /// By the numbers of the calls, which are used again.
    unanswered: RefCell<Slab<Unanswered>>,
}

impl Handover {
    /// The end of this thread; its messenger is still to be started ([`Handover::start`]).
    pub fn new(endpoint: Endpoint) -> Rc<Handover> {
        let peer = |(to, from)| RefCell::new(Peer { to, from, is_gone: false });
        Rc::new(Handover {
            thread: endpoint.thread,
            bells: endpoint.bells,
            peers: endpoint.rings.into_iter().map(|rings| rings.map(peer)).collect(),
            unanswered: RefCell::default(),
        })
    }

    fn peer(&self, thread: usize) -> &RefCell<Peer> {
        self.peers[thread].as_ref().expect("a thread does not call itself")
    }

    /// Has a shard of another thread carry out a request.
    ///
    /// # Errors
    /// Those of the request; [`VolumeError::Gone`] when the thread has ended.
    pub(crate) async fn call(
        &self,
        thread: usize,
        shard: usize,
        volume: VolumeId,
        request: Request,
    ) -> CallResult {
        if self.peer(thread).borrow().is_gone {
            return Err(VolumeError::Gone);
        }
        let (answer, answered) = promise();
        let number = self.unanswered.borrow_mut().insert(Unanswered { thread, answer }) as u32;
        let call = Call { number, shard: shard as u32, volume, request };
        self.send(thread, Message::Call(call));
        answered.await
    }

    fn send(&self, thread: usize, message: Message) {
        let is_sent = self.peer(thread).borrow_mut().to.send(message);
        if is_sent {
            self.bells[thread].ring(self.thread);
        }
    }

    /// Answers a call of another thread.
    fn answer(&self, thread: usize, number: u32, answer: CallResult) {
        self.send(thread, Message::Answer { number, answer });
    }

    /// One turn of the messenger: takes what others have sent.
    fn deliver(&self, cx: &Context<'_>, answer: &impl Fn(usize, Call)) -> Poll<()> {
        let own = &self.bells[self.thread];
        own.listen(|from| self.receive(from, answer));
        if own.wait(cx.waker()) {
            // Tasks that are ready come first.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Takes the messages of another thread.
    fn receive(&self, from: usize, answer: &impl Fn(usize, Call)) {
        // Whether it has ended is asked first: what it sent before that is taken then.
        let has_ended = self.bells[from].is_gone();
        let mut peer = self.peer(from).borrow_mut();
        let wants_room = peer.from.receive(|message| match message {
            Message::Call(call) => answer(from, call),
            Message::Answer { number, answer } => self.answered(number, answer),
        });
        let is_sent = peer.to.send_waiting();
        if is_sent || wants_room && !mutation::on(Mutation::HideRoom) {
            self.bells[from].ring(self.thread);
        }
        if has_ended {
            peer.is_gone = true;
            peer.to.give_up();
            let unanswered = self.unanswered.borrow();
            let calls = unanswered.iter().filter(|(_, call)| call.thread == from);
            let numbers: Vec<u32> = calls.map(|(number, _)| number as u32).collect();
            drop(unanswered);
            numbers.into_iter().for_each(|number| self.answered(number, Err(VolumeError::Gone)));
        }
    }

    fn answered(&self, number: u32, answer: CallResult) {
        let call = self.unanswered.borrow_mut().remove(number as usize);
        call.answer.fulfil(answer);
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        self.bells[self.thread].set_gone();
        for (thread, peer) in self.peers.iter().enumerate() {
            if peer.is_some() {
                self.bells[thread].ring(self.thread);
            }
        }
    }
}
