//! A stream in memory whose other end a test holds: cuts, limits and ends as the test wants.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};

use sinew_core::buf::Buf;
use sinew_frontend::transport::{Part, Stream};

#[derive(Default)]
struct Ends {
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// No receive gives more than the next of these, in turn.
    cuts: VecDeque<usize>,
    /// Bytes the client's side buffers; a send waits beyond it.
    room: Option<usize>,
    client_closed: bool,
    server_closed: bool,
    sends: usize,
    wakers: Vec<Waker>,
}

impl Ends {
    fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

/// Both ends of a connection.
#[derive(Clone, Default)]
pub(crate) struct Wire(Rc<RefCell<Ends>>);

impl Wire {
    /// A wire on which no receive gives more than the next of `cuts`, in turn.
    pub(crate) fn cut(cuts: &[usize]) -> Wire {
        let wire = Wire::default();
        wire.0.borrow_mut().cuts = cuts.iter().copied().collect();
        wire
    }

    /// The client sends.
    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut ends = self.0.borrow_mut();
        ends.to_server.extend(bytes);
        ends.wake();
    }

    /// The client takes what has arrived.
    pub(crate) fn pull(&self) -> Vec<u8> {
        let mut ends = self.0.borrow_mut();
        ends.wake();
        ends.to_client.drain(..).collect()
    }

    /// Limits the bytes that the client buffers.
    pub(crate) fn limit(&self, room: usize) {
        self.0.borrow_mut().room = Some(room);
    }

    /// The client vanishes.
    pub(crate) fn close(&self) {
        let mut ends = self.0.borrow_mut();
        ends.client_closed = true;
        ends.wake();
    }

    /// Bytes the server has not received.
    pub(crate) fn unreceived(&self) -> usize {
        self.0.borrow().to_server.len()
    }

    /// Sends so far.
    pub(crate) fn sends(&self) -> usize {
        self.0.borrow().sends
    }

    /// Whether the server shut the stream down.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.0.borrow().server_closed
    }

    async fn receive(&self, into: &mut [u8], is_server: bool) -> io::Result<usize> {
        assert!(!into.is_empty(), "a receive into nothing");
        poll_fn(|context| {
            let ends = &mut *self.0.borrow_mut();
            let (mine, other) = if is_server {
                (ends.server_closed, ends.client_closed)
            } else {
                (ends.client_closed, ends.server_closed)
            };
            if mine {
                return Poll::Ready(Ok(0));
            }
            let from = if is_server { &mut ends.to_server } else { &mut ends.to_client };
            if from.is_empty() {
                if other {
                    return Poll::Ready(Ok(0));
                }
                ends.wakers.push(context.waker().clone());
                return Poll::Pending;
            }
            let cut = ends.cuts.pop_front().inspect(|cut| ends.cuts.push_back(*cut)).unwrap_or(usize::MAX);
            let len = into.len().min(from.len()).min(cut.max(1));
            into.iter_mut().zip(from.drain(..len)).for_each(|(to, from)| *to = from);
            ends.wake();
            Poll::Ready(Ok(len))
        })
        .await
    }

    /// The server sends.
    pub(crate) fn push_replies(&self, bytes: &[u8]) {
        let mut ends = self.0.borrow_mut();
        ends.to_client.extend(bytes);
        ends.wake();
    }
}

/// The client's end as a stream.
pub(crate) struct ClientEnd(pub(crate) Wire);

impl Stream for ClientEnd {
    async fn recv(&self, mut buf: Vec<u8>, at: usize) -> (Vec<u8>, io::Result<usize>) {
        let received = self.0.receive(&mut buf[at..], false).await;
        (buf, received)
    }

    async fn recv_buf(&self, mut buf: Buf, at: usize) -> (Buf, io::Result<usize>) {
        let received = self.0.receive(&mut buf.bytes_mut()[at..], false).await;
        (buf, received)
    }

    async fn send(&self, parts: Vec<Part>) -> (Vec<Part>, io::Result<()>) {
        let ends = &mut *self.0.0.borrow_mut();
        if ends.server_closed || ends.client_closed {
            return (parts, Err(io::ErrorKind::BrokenPipe.into()));
        }
        parts.iter().for_each(|part| ends.to_server.extend(part.bytes()));
        ends.wake();
        (parts, Ok(()))
    }

    fn shutdown(&self) {
        self.0.close();
    }
}

impl Stream for Wire {
    async fn recv(&self, mut buf: Vec<u8>, at: usize) -> (Vec<u8>, io::Result<usize>) {
        let received = self.receive(&mut buf[at..], true).await;
        (buf, received)
    }

    async fn recv_buf(&self, mut buf: Buf, at: usize) -> (Buf, io::Result<usize>) {
        let received = self.receive(&mut buf.bytes_mut()[at..], true).await;
        (buf, received)
    }

    async fn send(&self, parts: Vec<Part>) -> (Vec<Part>, io::Result<()>) {
        self.0.borrow_mut().sends += 1;
        for part in &parts {
            let mut left = part.bytes();
            while !left.is_empty() {
                let sent = poll_fn(|context| {
                    let ends = &mut *self.0.borrow_mut();
                    if ends.server_closed || ends.client_closed {
                        return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
                    }
                    let room = ends.room.map_or(usize::MAX, |room| room - ends.to_client.len().min(room));
                    if room == 0 {
                        ends.wakers.push(context.waker().clone());
                        return Poll::Pending;
                    }
                    let len = room.min(left.len());
                    ends.to_client.extend(&left[..len]);
                    ends.wake();
                    Poll::Ready(Ok(len))
                })
                .await;
                match sent {
                    Ok(len) => left = &left[len..],
                    Err(error) => return (parts, Err(error)),
                }
            }
        }
        (parts, Ok(()))
    }

    fn shutdown(&self) {
        let mut ends = self.0.borrow_mut();
        ends.server_closed = true;
        ends.wake();
    }
}
