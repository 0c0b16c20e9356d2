//! The stream a connection runs on.
//!
//! Only owned buffers cross an `.await`, so that io_uring can implement the trait: the kernel may use the memory until
//! the call completes. For the same reason the frontend never drops a future of this trait that is under way.

use std::future::Future;
use std::io;

use sinew_core::buf::Buf;
pub use sinew_core::transport::Part;

/// A reliable, ordered byte stream to one client.
///
/// The frontend has at most one receive and one send under way at a time; the two may overlap.
pub trait Stream: 'static {
    /// Receives at least one byte into `buf[at..]`, which is not empty. Zero bytes mean that the client closed.
    ///
    /// # Errors
    /// When the connection is broken.
    fn recv(&self, buf: Vec<u8>, at: usize) -> impl Future<Output = (Vec<u8>, io::Result<usize>)>;

    /// Receives at least one byte into `buf` from byte `at`; `buf` is the only handle to its memory and longer than
    /// `at`. Zero bytes mean that the client closed.
    ///
    /// # Errors
    /// When the connection is broken.
    fn recv_buf(&self, buf: Buf, at: usize) -> impl Future<Output = (Buf, io::Result<usize>)>;

    /// Sends all parts in order, however many there are, and gives them back for reuse.
    ///
    /// # Errors
    /// When the connection is broken; an unknown part of the parts was sent.
    fn send(&self, parts: Vec<Part>) -> impl Future<Output = (Vec<Part>, io::Result<()>)>;

    /// Closes both directions: the client sees the end of the stream, a send under way or to come fails soon, a receive
    /// gives at most what has already arrived and then zero bytes. Safe to call at any time and more than once.
    fn shutdown(&self);
}
