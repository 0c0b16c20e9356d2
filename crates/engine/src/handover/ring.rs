//! A ring of messages from one thread to another. The sender queues messages while the ring is full.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rtrb::{Consumer, Producer, PushError, RingBuffer};

/// The end of a ring that sends.
pub(super) struct Sender<T> {
    ring: Producer<T>,
    /// The sender waits for room. Both ends swap it: the later one of two swaps sees what the other end did before its own.
    wants_room: Arc<AtomicBool>,
    /// Messages for which the ring had no space. The receiver tells when it has freed some.
    waiting: VecDeque<T>,
}

/// The end of a ring that receives.
pub(super) struct Receiver<T> {
    ring: Consumer<T>,
    wants_room: Arc<AtomicBool>,
}

/// A ring with room for this many messages.
pub(super) fn ring<T>(messages: usize) -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = RingBuffer::new(messages);
    let wants_room = Arc::new(AtomicBool::new(false));
    let sender = Sender { ring: producer, wants_room: Arc::clone(&wants_room), waiting: VecDeque::new() };
    (sender, Receiver { ring: consumer, wants_room })
}

impl<T> Sender<T> {
    /// Sends a message after those that wait. Returns whether the receiver is to be told of new messages.
    pub(super) fn send(&mut self, message: T) -> bool {
        if !self.waiting.is_empty() {
            self.waiting.push_back(message);
            return false;
        }
        let Err(PushError::Full(message)) = self.ring.push(message) else {
            return true;
        };
        self.waiting.push_back(message);
        self.send_waiting()
    }

    /// Sends the messages that wait, as far as there is room. Returns whether the receiver is to be told of new ones.
    pub(super) fn send_waiting(&mut self) -> bool {
        let before = self.waiting.len();
        while !self.waiting.is_empty() && self.has_room() {
            let message = self.waiting.pop_front().expect("one waits");
            if self.ring.push(message).is_err() {
                unreachable!("there is room");
            }
        }
        self.waiting.len() < before
    }

    /// Whether the ring has space. If not, the receiver will tell of it.
    fn has_room(&self) -> bool {
        if !self.ring.is_full() {
            return true;
        }
        self.wants_room.swap(true, Ordering::AcqRel);
        // Space that was freed before the swap is seen here. For space that is freed later, the receiver sees the swap.
        !self.ring.is_full()
    }

    /// Drops the messages that wait, since none is received any more.
    pub(super) fn give_up(&mut self) {
        self.waiting.clear();
    }
}

impl<T> Receiver<T> {
    /// Calls `received` with each message that has come. Returns whether the sender waits for the room that this makes.
    pub(super) fn receive(&mut self, received: impl FnMut(T)) -> bool {
        let come = self.ring.slots();
        let Ok(messages) = self.ring.read_chunk(come) else { unreachable!("these have come") };
        messages.into_iter().for_each(received);
        self.wants_room.swap(false, Ordering::AcqRel)
    }
}
