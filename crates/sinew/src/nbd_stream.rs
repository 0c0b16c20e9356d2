//! A socket of the Linux world as a stream of the NBD frontend, for the daemon and for the client of a replay.

use std::io;

use sinew_core::buf::Buf;
use sinew_frontend::transport::{Part, Stream};
use sinew_uring::net;

/// A socket as a stream of the frontend.
pub(crate) struct NbdStream(pub(crate) net::Stream);

impl Stream for NbdStream {
    async fn recv(&self, buf: Vec<u8>, at: usize) -> (Vec<u8>, io::Result<usize>) {
        self.0.recv(buf, at).await
    }

    async fn recv_buf(&self, buf: Buf, at: usize) -> (Buf, io::Result<usize>) {
        self.0.recv_buf(buf, at).await
    }

    async fn send(&self, parts: Vec<Part>) -> (Vec<Part>, io::Result<()>) {
        self.0.send(parts).await
    }

    fn shutdown(&self) {
        self.0.shutdown();
    }
}
