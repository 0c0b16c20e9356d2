//! The record layer of one connection: plaintext in and out above, records on a stream below.
//!
//! Memory is bounded: a receive holds one buffer of records, a send at most [`SEND_BYTES`] and their records. The end of the
//! stream below counts as the end, also without the peer's goodbye: messages of the protocol above tell where they end, so a
//! connection that was cut is noticed there.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice, Read, Write};
use std::rc::Rc;

use rustls::{AlertDescription, CertificateError, Connection, Error};
use sinew_core::buf::Buf;

use super::names::names_of;
use crate::transport::{Part, Stream};

/// The most that is encrypted before it is sent.
const SEND_BYTES: usize = 256 << 10;
/// Records that are received at once: four of the largest.
const RECEIVE_BYTES: usize = 64 << 10;

/// Why there is no TLS on a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The peer closed the connection, or the network did.
    #[error("the connection was closed during the TLS handshake")]
    Closed,
    /// One side does not accept the other; says why.
    #[error("{0}")]
    Refused(String),
}

/// What the record layer reports, in words about the peer.
fn refused(error: &Error) -> TlsError {
    let why = match error {
        Error::NoCertificatesPresented => "it has no certificate".to_owned(),
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "its certificate has expired".to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "its certificate is not valid yet".to_owned(),
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is not from the certificate authority that is believed here".to_owned()
        }
        // Another authority with the same name.
        Error::InvalidCertificate(CertificateError::BadSignature) => {
            "its certificate is not signed by the certificate authority that is believed here".to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "its certificate is for another name".to_owned(),
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "it demands a certificate of this side".to_owned()
        }
        Error::AlertReceived(alert) => format!("it refused this side's certificate or TLS ({alert:?})"),
        Error::InvalidMessage(_) => "what it sends is not TLS".to_owned(),
        other => other.to_string(),
    };
    TlsError::Refused(why)
}

/// Records that were received and not yet passed on.
#[derive(Default)]
struct Incoming {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

/// A stream with TLS on it.
pub(crate) struct TlsStream<S> {
    stream: Rc<S>,
    tls: RefCell<Connection>,
    incoming: RefCell<Incoming>,
    /// For records to be sent, to be used again.
    outgoing: RefCell<Vec<u8>>,
    /// Why no more comes.
    failure: RefCell<Option<TlsError>>,
    is_sending: Cell<bool>,
}

impl<S: Stream> TlsStream<S> {
    /// Does the handshake of TLS. The stream must have nothing behind it that was already received.
    ///
    /// # Errors
    /// When the stream ends, or a side does not accept the other.
    pub(crate) async fn open(
        stream: Rc<S>,
        tls: Result<Connection, TlsError>,
    ) -> Result<Rc<TlsStream<S>>, TlsError> {
        let mut tls = tls?;
        tls.set_buffer_limit(Some(SEND_BYTES));
        let incoming = Incoming { bytes: vec![0; RECEIVE_BYTES], start: 0, end: 0 };
        let session = TlsStream {
            stream,
            tls: RefCell::new(tls),
            incoming: RefCell::new(incoming),
            outgoing: RefCell::default(),
            failure: RefCell::default(),
            is_sending: Cell::new(false),
        };
        loop {
            session.flush().await.map_err(|_| TlsError::Closed)?;
            if !session.tls.borrow().is_handshaking() {
                return Ok(Rc::new(session));
            }
            let digested = session.digest();
            match digested {
                Ok(true) => {}
                Ok(false) => {
                    if !session.receive().await.unwrap_or(false) {
                        return Err(TlsError::Closed);
                    }
                }
                Err(error) => {
                    // Tells the peer why; it may have left.
                    let _ = session.flush().await;
                    return Err(refused(&error));
                }
            }
        }
    }

    /// The names in the peer's certificate; none if it has shown none.
    pub(crate) fn peer_names(&self) -> Vec<String> {
        let tls = self.tls.borrow();
        let certificate = tls.peer_certificates().and_then(|chain| chain.first());
        certificate.map_or_else(Vec::new, |der| names_of(der))
    }

    /// Why the peer, or this side, ended the session. A client hears that its certificate is not believed only when it has
    /// done its own part of the handshake.
    pub(crate) fn failure(&self) -> Option<TlsError> {
        self.failure.borrow().clone()
    }

    /// Receives plaintext into `room`, which is not empty. Zero bytes mean the end.
    async fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.decrypt(room) {
                Ok(Some(len)) => return Ok(len),
                Ok(None) => {}
                Err(error) => {
                    self.failure.replace(Some(refused(&error)));
                    if !self.is_sending.get() {
                        let _ = self.flush().await;
                    }
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
            if !self.receive().await? {
                return Ok(0);
            }
        }
    }

    /// Tells the peer that nothing follows. It may have left already.
    pub(crate) async fn goodbye(&self) {
        self.tls.borrow_mut().send_close_notify();
        let _ = self.flush().await;
    }

    /// Decrypts what was received. `None` if more must be received; zero bytes are the peer's goodbye.
    fn decrypt(&self, room: &mut [u8]) -> Result<Option<usize>, Error> {
        let mut len = 0;
        loop {
            let read = self.tls.borrow_mut().reader().read(&mut room[len..]);
            match read {
                Ok(0) => return Ok(Some(len)),
                Ok(more) => len += more,
                // There is no plaintext.
                Err(_) => {
                    if !self.digest()? {
                        return Ok((len > 0).then_some(len));
                    }
                }
            }
        }
    }

    /// Passes records that were received to TLS, as many as it takes at once. False if there are none.
    fn digest(&self) -> Result<bool, Error> {
        let incoming = &mut *self.incoming.borrow_mut();
        let mut records = &incoming.bytes[incoming.start..incoming.end];
        if records.is_empty() {
            return Ok(false);
        }
        let tls = &mut *self.tls.borrow_mut();
        let taken = tls.read_tls(&mut records).map_err(|error| Error::General(error.to_string()))?;
        // Behind the peer's goodbye nothing is taken.
        incoming.start = if taken == 0 { incoming.end } else { incoming.start + taken };
        tls.process_new_packets()?;
        Ok(true)
    }

    /// Receives records; all earlier ones have been passed on. False at the end of the stream.
    async fn receive(&self) -> io::Result<bool> {
        let bytes = std::mem::take(&mut self.incoming.borrow_mut().bytes);
        let (bytes, received) = self.stream.recv(bytes, 0).await;
        let end = *received.as_ref().unwrap_or(&0);
        *self.incoming.borrow_mut() = Incoming { bytes, start: 0, end };
        received.map(|len| len > 0)
    }

    async fn encrypt_and_send(&self, parts: &[Part]) -> io::Result<()> {
        let (mut part, mut at) = (0, 0);
        while part < parts.len() {
            let pieces = gather(&parts[part..], at);
            let mut left = self.tls.borrow_mut().writer().write_vectored(&pieces)?;
            while part < parts.len() && left >= parts[part].bytes().len() - at {
                left -= parts[part].bytes().len() - at;
                (part, at) = (part + 1, 0);
            }
            at += left;
            self.flush().await?;
        }
        Ok(())
    }

    /// Sends the records that are to be sent.
    async fn flush(&self) -> io::Result<()> {
        loop {
            let mut records = self.outgoing.take();
            records.clear();
            {
                let tls = &mut *self.tls.borrow_mut();
                while tls.wants_write() {
                    tls.write_tls(&mut records)?;
                }
            }
            if records.is_empty() {
                return Ok(());
            }
            let (mut parts, sent) = self.stream.send(vec![Part::Bytes(records)]).await;
            if let Some(Part::Bytes(records)) = parts.pop() {
                self.outgoing.replace(records);
            }
            sent?;
        }
    }
}

impl<S: Stream> Stream for TlsStream<S> {
    async fn recv(&self, mut buf: Vec<u8>, at: usize) -> (Vec<u8>, io::Result<usize>) {
        let received = self.read(&mut buf[at..]).await;
        (buf, received)
    }

    async fn recv_buf(&self, mut buf: Buf, at: usize) -> (Buf, io::Result<usize>) {
        let received = self.read(&mut buf.bytes_mut()[at..]).await;
        (buf, received)
    }

    async fn send(&self, parts: Vec<Part>) -> (Vec<Part>, io::Result<()>) {
        self.is_sending.set(true);
        let sent = self.encrypt_and_send(&parts).await;
        self.is_sending.set(false);
        (parts, sent)
    }

    fn shutdown(&self) {
        self.stream.shutdown();
    }
}

/// The bytes of parts from byte `at` of the first on, not many more than are sent at once.
fn gather(parts: &[Part], at: usize) -> Vec<IoSlice<'_>> {
    let mut bytes = 0;
    let enough = |part: &&Part| {
        let before = bytes;
        bytes += part.bytes().len();
        before < SEND_BYTES + at
    };
    let mut pieces: Vec<_> = parts.iter().take_while(enough).map(|part| IoSlice::new(part.bytes())).collect();
    if let Some(first) = pieces.first_mut() {
        first.advance(at);
    }
    pieces
}
