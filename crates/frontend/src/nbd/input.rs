//! Read-ahead: bytes received from the client and not yet decoded.
//!
//! One receive brings in as many requests as the socket has and the buffer holds. A large payload goes around the
//! buffer, straight into aligned memory; only its part that was already read ahead is copied.

use std::rc::Rc;

use sinew_core::buf::Buf;

use super::handshake::OPTION_BYTES_MAX;
use super::proto::OPTION_HEADER_BYTES;
use crate::transport::Stream;

/// Holds about fifteen small writes at once, and the longest option.
const READ_AHEAD_BYTES: usize = 64 << 10;
const _: () = assert!(READ_AHEAD_BYTES >= OPTION_BYTES_MAX + OPTION_HEADER_BYTES);

/// The rest of a payload shorter than this comes through the read-ahead buffer: the copy is cheaper than a receive that
/// brings nothing of the requests behind it.
const DIRECT_BYTES_MIN: usize = 16 << 10;

/// The client is gone: end of stream or error, which is the same to us.
#[derive(Debug)]
pub(super) struct Closed;

/// The receiving half of a connection.
pub(super) struct Input<S> {
    stream: Rc<S>,
    buf: Vec<u8>,
    start: usize,
    end: usize,
}

impl<S: Stream> Input<S> {
    pub(super) fn new(stream: Rc<S>) -> Input<S> {
        Input { stream, buf: vec![0; READ_AHEAD_BYTES], start: 0, end: 0 }
    }

    /// What is read ahead.
    pub(super) fn unread(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }

    /// Marks the first `len` unread bytes as read.
    pub(super) fn consume(&mut self, len: usize) {
        assert!(len <= self.end - self.start, "consumed more than was read");
        self.start += len;
    }

    /// Receives more behind what is unread, which must not fill the buffer.
    pub(super) async fn fill(&mut self) -> Result<(), Closed> {
        self.buf.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        assert!(self.end < self.buf.len(), "a message larger than the read-ahead buffer");
        let (buf, received) = self.stream.recv(std::mem::take(&mut self.buf), self.end).await;
        self.buf = buf;
        match received {
            Ok(0) | Err(_) => Err(Closed),
            Ok(len) => {
                self.end += len;
                Ok(())
            }
        }
    }

    /// The next `N` bytes, as a message header.
    pub(super) async fn header<const N: usize>(&mut self) -> Result<[u8; N], Closed> {
        loop {
            if let Some(header) = self.unread().first_chunk() {
                let header = *header;
                self.consume(N);
                return Ok(header);
            }
            self.fill().await?;
        }
    }

    /// The next `len` bytes, in aligned memory.
    pub(super) async fn payload(&mut self, len: usize) -> Result<Buf, Closed> {
        let mut payload = Buf::stale(len);
        let mut at = 0;
        loop {
            let ready = (len - at).min(self.end - self.start);
            payload.bytes_mut()[at..at + ready].copy_from_slice(&self.unread()[..ready]);
            self.consume(ready);
            at += ready;
            if at == len {
                return Ok(payload);
            }
            if len - at < DIRECT_BYTES_MIN {
                self.fill().await?;
                continue;
            }
            let (buf, received) = self.stream.recv_buf(payload, at).await;
            payload = buf;
            match received {
                Ok(0) | Err(_) => return Err(Closed),
                Ok(received) => at += received,
            }
        }
    }

    /// Throws the next `len` bytes away.
    pub(super) async fn skip(&mut self, len: usize) -> Result<(), Closed> {
        let mut left = len;
        loop {
            let ready = left.min(self.end - self.start);
            self.consume(ready);
            left -= ready;
            if left == 0 {
                return Ok(());
            }
            self.fill().await?;
        }
    }
}
