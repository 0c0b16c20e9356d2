//! The driver of a connection: handshake, then requests, until the end.
//!
//! It ends only when every request it started is finished, so nothing of the volume is in use afterwards. It never drops
//! a future with I/O in flight: what must end early, ends because the stream is shut down.

use std::rc::Rc;
use std::sync::Arc;

use sinew_core::io::Io;
use sinew_core::volume::Volume;

use super::connection::Connection;
pub use super::connection::{BYTES_MAX, REQUESTS_MAX};
use super::deadline::within;
use super::execute::STATUS_HELD_BYTES;
use super::handshake::{Handshake, HandshakeEnd, Progress, Protection, Session};
use super::input::{Closed, Input};
use super::proto::{Headers, Request, command};
use super::transmission::{Terms, Verdict, check_request};
use crate::exports::Exports;
use crate::tls::{Grant, ServerTls, TlsStream};
use crate::transport::{Part, Stream};
use crate::zeroes::ZEROES_BYTES;

/// How long the handshake may take, with that of TLS.
pub const HANDSHAKE_NS_MAX: u64 = 30_000_000_000;
/// How long the last words of TLS may take.
const GOODBYE_NS_MAX: u64 = 1_000_000_000;

/// Whether the clients of a listener must, may or cannot use TLS.
#[derive(Clone, Debug, Default)]
pub enum TlsMode {
    /// There is none.
    #[default]
    Off,
    /// Clients that ask for it get it.
    Allow(Arc<ServerTls>),
    /// Clients that do not ask for it get nothing.
    Require(Arc<ServerTls>),
}

impl TlsMode {
    fn server(&self) -> Option<&ServerTls> {
        match self {
            TlsMode::Off => None,
            TlsMode::Allow(server) | TlsMode::Require(server) => Some(server),
        }
    }

    fn protection(&self) -> Protection {
        match self {
            TlsMode::Off => Protection::None,
            TlsMode::Allow(_) => Protection::Offered,
            TlsMode::Require(_) => Protection::Required,
        }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The client took its leave.
    Disconnected,
    /// The stream ended, by an error or without a word, or our side shut it down.
    Vanished,
    /// The client chose an export that does not exist, in a way that has no other answer.
    UnknownExport,
    /// The client broke the protocol or a limit; says how.
    Violation(&'static str),
    /// The handshake took too long.
    TimedOut,
    /// The client and we could not agree on TLS.
    NoTls,
}

impl From<HandshakeEnd> for ConnectionEnd {
    fn from(end: HandshakeEnd) -> ConnectionEnd {
        match end {
            HandshakeEnd::Aborted => ConnectionEnd::Disconnected,
            HandshakeEnd::Violation(how) => ConnectionEnd::Violation(how),
            HandshakeEnd::UnknownExport => ConnectionEnd::UnknownExport,
        }
    }
}

/// Serves one client from the greeting to the end, and shuts the stream down.
///
/// To end it from outside, shut the stream down: requests under way are finished, their replies are dropped.
pub async fn serve_connection<I: Io, S: Stream, E: Exports>(
    io: I,
    stream: Rc<S>,
    exports: E,
    tls: &TlsMode,
) -> ConnectionEnd {
    let mut input = Input::new(Rc::clone(&stream));
    let negotiation = negotiate(&stream, &mut input, exports, tls);
    let end = match within(&io, &stream, HANDSHAKE_NS_MAX, negotiation).await {
        Some(Ok(Negotiated::Plain(session))) => transmit(&io, &stream, &mut input, session).await,
        Some(Ok(Negotiated::Tls(secured))) => Box::pin(transmit_secured(&io, &stream, *secured)).await,
        Some(Err(end)) => end,
        None => ConnectionEnd::TimedOut,
    };
    stream.shutdown();
    end
}

/// What a handshake has led to.
enum Negotiated<S, V> {
    Plain(Session<V>),
    Tls(Box<Secured<S, V>>),
}

/// A connection that is to go on through TLS: its stream, what was received and not used, what was agreed on.
struct Secured<S, V> {
    stream: Rc<TlsStream<S>>,
    input: Input<TlsStream<S>>,
    session: Session<V>,
}

async fn negotiate<S: Stream, E: Exports>(
    stream: &Rc<S>,
    input: &mut Input<S>,
    exports: E,
    tls: &TlsMode,
) -> Result<Negotiated<S, E::Volume>, ConnectionEnd> {
    let mut out = Vec::new();
    let mut handshake = Handshake::start(exports, tls.protection(), &mut out);
    if let Haggled::Session(session) = haggle(stream, input, &mut handshake, out).await? {
        return Ok(Negotiated::Plain(session));
    }
    if !input.unread().is_empty() {
        // It could be the words of another, put in front of what the client will say.
        handshake.exports().refused(&[], "it sent more behind STARTTLS before that was answered");
        return Err(ConnectionEnd::Violation("data behind STARTTLS"));
    }
    let server = tls.server().expect("it was offered");
    let stream = match TlsStream::open(Rc::clone(stream), server.connection()).await {
        Ok(stream) => stream,
        Err(error) => {
            handshake.exports().refused(&[], &error.to_string());
            return Err(ConnectionEnd::NoTls);
        }
    };
    let names = stream.peer_names();
    let grant = server.allowed.as_ref().map_or(Grant::All, |allowed| allowed.grant(&names));
    handshake.protected(names, grant);
    let mut input = Input::new(Rc::clone(&stream));
    match haggle(&stream, &mut input, &mut handshake, Vec::new()).await? {
        Haggled::Session(session) => Ok(Negotiated::Tls(Box::new(Secured { stream, input, session }))),
        Haggled::StartTls => unreachable!("refused inside of TLS"),
    }
}

/// Why options end.
enum Haggled<V> {
    /// An export was chosen.
    Session(Session<V>),
    /// TLS begins.
    StartTls,
}

/// Answers options, after `out` was sent.
async fn haggle<S: Stream, E: Exports>(
    stream: &Rc<S>,
    input: &mut Input<S>,
    handshake: &mut Handshake<E>,
    mut out: Vec<u8>,
) -> Result<Haggled<E::Volume>, ConnectionEnd> {
    loop {
        let progress = handshake.advance(input.unread(), &mut out);
        if !out.is_empty() {
            let (_, sent) = stream.send(vec![Part::Bytes(std::mem::take(&mut out))]).await;
            sent.map_err(|_| ConnectionEnd::Vanished)?;
        }
        match progress {
            Progress::Consumed(0) => input.fill().await.map_err(|Closed| ConnectionEnd::Vanished)?,
            Progress::Consumed(len) => input.consume(len),
            Progress::StartTls(len) => {
                input.consume(len);
                return Ok(Haggled::StartTls);
            }
            Progress::Done(len, session) => {
                input.consume(len);
                return Ok(Haggled::Session(session));
            }
            Progress::End(end) => return Err(end.into()),
        }
    }
}

async fn transmit_secured<I: Io, S: Stream, V: Volume>(
    io: &I,
    stream: &Rc<S>,
    secured: Secured<S, V>,
) -> ConnectionEnd {
    let Secured { stream: tls, mut input, session } = secured;
    let end = transmit(io, &tls, &mut input, session).await;
    if end == ConnectionEnd::Disconnected {
        within(io, stream, GOODBYE_NS_MAX, tls.goodbye()).await;
    }
    end
}

async fn transmit<I: Io, S: Stream, V: Volume>(
    io: &I,
    stream: &Rc<S>,
    input: &mut Input<S>,
    session: Session<V>,
) -> ConnectionEnd {
    let Session { export, headers, allocation } = session;
    let announced_bytes = export.volume.size_bytes();
    let terms = Terms { headers, allocation, read_only: export.read_only, announced_bytes };
    let connection = Rc::new(Connection::new(Rc::clone(stream), export.volume, terms));
    let end = match requests(io, &connection, input).await {
        Ok(end) => end,
        Err(Closed) => ConnectionEnd::Vanished,
    };
    if end != ConnectionEnd::Disconnected {
        // The client reads no more replies; a send that waits for it must not wait forever.
        stream.shutdown();
    }
    connection.idle().await;
    end
}

/// Reads requests and starts their tasks until the client disconnects, vanishes or breaks the protocol.
async fn requests<I: Io, S: Stream, V: Volume>(
    io: &I,
    connection: &Rc<Connection<S, V>>,
    input: &mut Input<S>,
) -> Result<ConnectionEnd, Closed> {
    loop {
        let request = match connection.terms.headers {
            Headers::Extended => Request::decode_extended(&input.header().await?),
            Headers::Simple | Headers::Structured => Request::decode(&input.header().await?),
        };
        let Some(request) = request else {
            return Ok(ConnectionEnd::Violation("bad magic of a request"));
        };
        let Some(payload_bytes) = connection.terms.payload_bytes(&request) else {
            return Ok(ConnectionEnd::Violation("a payload of more than 4 GiB"));
        };
        let verdict = check_request(&request, connection.terms, connection.volume.size_bytes());
        let bytes = match verdict {
            Verdict::Disconnect => return Ok(ConnectionEnd::Disconnected),
            Verdict::Run(_) => held_bytes(&request),
            Verdict::Refuse(_) => 0,
        };
        if !connection.admit(bytes).await {
            return Err(Closed);
        }
        let work = match verdict {
            Verdict::Run(command) if payload_bytes > 0 => {
                Ok((command, Some(input.payload(payload_bytes).await?)))
            }
            Verdict::Run(command) => Ok((command, None)),
            Verdict::Refuse(refusal) => {
                input.skip(payload_bytes).await?;
                Err(refusal)
            }
            Verdict::Disconnect => unreachable!("returned above"),
        };
        io.spawn(Rc::clone(connection).serve(request, bytes, work));
    }
}

/// The memory a request's data takes, at most.
fn held_bytes(request: &Request) -> u64 {
    match request.command {
        command::READ | command::WRITE => request.len,
        command::BLOCK_STATUS => STATUS_HELD_BYTES,
        command::WRITE_ZEROES => ZEROES_BYTES.min(request.len),
        _ => 0,
    }
}
