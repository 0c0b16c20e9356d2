//! The stream of a client's connection: plain, or with TLS on it.
//!
//! A client is of one type, whichever it uses. The server has code for each, so that its plain connections do not even choose.

use std::io;
use std::rc::Rc;

use sinew_core::buf::Buf;

use super::session::{TlsError, TlsStream};
use crate::transport::{Part, Stream};

/// A stream, plain or with TLS on it. What TLS needs for a transfer is boxed, so that plain transfers stay small.
pub(crate) enum Channel<S> {
    /// As it is.
    Plain(Rc<S>),
    /// With TLS.
    Tls(Rc<TlsStream<S>>),
}

impl<S: Stream> Channel<S> {
    /// Why TLS ended, if it did not end well.
    pub(crate) fn failure(&self) -> Option<TlsError> {
        match self {
            Channel::Plain(_) => None,
            Channel::Tls(session) => session.failure(),
        }
    }

    /// Ends TLS, so that the peer knows the end for one.
    pub(crate) async fn goodbye(&self) {
        if let Channel::Tls(session) = self {
            session.goodbye().await;
        }
    }
}

impl<S: Stream> Stream for Channel<S> {
    async fn recv(&self, buf: Vec<u8>, at: usize) -> (Vec<u8>, io::Result<usize>) {
        match self {
            Channel::Plain(stream) => stream.recv(buf, at).await,
            Channel::Tls(session) => Box::pin(session.recv(buf, at)).await,
        }
    }

    async fn recv_buf(&self, buf: Buf, at: usize) -> (Buf, io::Result<usize>) {
        match self {
            Channel::Plain(stream) => stream.recv_buf(buf, at).await,
            Channel::Tls(session) => Box::pin(session.recv_buf(buf, at)).await,
        }
    }

    async fn send(&self, parts: Vec<Part>) -> (Vec<Part>, io::Result<()>) {
        match self {
            Channel::Plain(stream) => stream.send(parts).await,
            Channel::Tls(session) => Box::pin(session.send(parts)).await,
        }
    }

    fn shutdown(&self) {
        match self {
            Channel::Plain(stream) => stream.shutdown(),
            Channel::Tls(session) => session.shutdown(),
        }
    }
}
