//! The stream of a connection: plain, or with TLS on it.

use std::io;
use std::rc::Rc;

use rustls::Connection;
use sinew_core::buf::Buf;

use super::names::names_of;
use super::session::{Session, TlsError};
use crate::transport::{Part, Stream};

/// A stream, plain or with TLS on it. What TLS needs for a transfer is boxed, so that plain transfers stay small.
pub struct Channel<S>(Kind<S>);

enum Kind<S> {
    Plain(Rc<S>),
    Tls(Box<Session<S>>),
}

impl<S: Stream> Channel<S> {
    /// The stream as it is.
    pub(crate) fn plain(stream: Rc<S>) -> Rc<Channel<S>> {
        Rc::new(Channel(Kind::Plain(stream)))
    }

    /// The stream with TLS on it, after its handshake.
    ///
    /// # Errors
    /// When the stream ends, or a side does not accept the other.
    pub(crate) async fn secured(
        stream: Rc<S>,
        tls: Result<Connection, TlsError>,
    ) -> Result<Rc<Channel<S>>, TlsError> {
        let session = Session::open(stream, tls?).await?;
        Ok(Rc::new(Channel(Kind::Tls(Box::new(session)))))
    }

    /// The names in the peer's certificate; none if it has shown none.
    pub(crate) fn peer_names(&self) -> Vec<String> {
        match &self.0 {
            Kind::Plain(_) => Vec::new(),
            Kind::Tls(session) => session.peer_certificate().map_or_else(Vec::new, |der| names_of(&der)),
        }
    }

    /// Why TLS ended, if it did not end well.
    pub(crate) fn failure(&self) -> Option<TlsError> {
        match &self.0 {
            Kind::Plain(_) => None,
            Kind::Tls(session) => session.failure(),
        }
    }

    /// Ends TLS, so that the peer knows the end for one.
    pub(crate) async fn goodbye(&self) {
        if let Kind::Tls(session) = &self.0 {
            // The peer may have left already.
            let _ = session.goodbye().await;
        }
    }
}

impl<S: Stream> Stream for Channel<S> {
    async fn recv(&self, mut buf: Vec<u8>, at: usize) -> (Vec<u8>, io::Result<usize>) {
        match &self.0 {
            Kind::Plain(stream) => stream.recv(buf, at).await,
            Kind::Tls(session) => {
                let received = Box::pin(session.read(&mut buf[at..])).await;
                (buf, received)
            }
        }
    }

    async fn recv_buf(&self, mut buf: Buf, at: usize) -> (Buf, io::Result<usize>) {
        match &self.0 {
            Kind::Plain(stream) => stream.recv_buf(buf, at).await,
            Kind::Tls(session) => {
                let received = Box::pin(session.read(&mut buf.bytes_mut()[at..])).await;
                (buf, received)
            }
        }
    }

    async fn send(&self, parts: Vec<Part>) -> (Vec<Part>, io::Result<()>) {
        match &self.0 {
            Kind::Plain(stream) => stream.send(parts).await,
            Kind::Tls(session) => {
                let sent = Box::pin(session.write(&parts)).await;
                (parts, sent)
            }
        }
    }

    fn shutdown(&self) {
        match &self.0 {
            Kind::Plain(stream) => stream.shutdown(),
            Kind::Tls(session) => session.shutdown(),
        }
    }
}
