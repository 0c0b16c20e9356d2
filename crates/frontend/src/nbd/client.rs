//! A client of the protocol: requests of this process to a server elsewhere.
//!
//! ```text
//!     uri          where a server and its export are
//!     handshake    greeting, TLS, structured replies, the choice of an export
//!     client       requests with their cookies, the task that receives, the bound on waiting
//!     error        refusals, and how a connection ends
//!     export_terms size and features of the export
//!     assembly     the data of one read from its chunks
//! ```
//!
//! Any number of requests may be under way. Whatever a server sends, the worst end is an error: a broken protocol, an end
//! of the stream or silence for too long ends the connection, and with it every request under way and to come. Memory is
//! bounded by what the requests asked for. A connection that has ended stays so.

mod assembly;
mod error;
mod export_terms;
mod handshake;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use sinew_core::buf::{Buf, Bufs};
use sinew_core::io::Io;

use super::deadline::within;
use super::input::Input;
use super::outbox::Outbox;
use super::proto::{
    self, Errno, ExtendedChunk, Headers, ReplyHeader, Request, chunk, command, command_flag,
    transmission_flag,
};
use super::server::HANDSHAKE_NS_MAX;
use crate::tls::{Channel, ClientTls, TlsStream};
use crate::transport::Stream;
use assembly::Assembly;
pub use error::ClientError;
pub use export_terms::ExportTerms;

/// The longest message of an error that is taken.
const ERROR_BYTES_MAX: u64 = 8 << 10;
/// Parts of a client's patience after which it looks whether a request has waited too long.
const LOOKS: u64 = 4;

/// One connection to an export. Clones are the same connection. It ends with [`Client::close`], or with its runtime.
pub struct Client<I, S> {
    shared: Rc<Shared<I, S>>,
}

impl<I, S> Clone for Client<I, S> {
    fn clone(&self) -> Self {
        Client { shared: Rc::clone(&self.shared) }
    }
}

struct Shared<I, S> {
    io: I,
    stream: Rc<Channel<S>>,
    terms: ExportTerms,
    patience_ns: u64,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// By cookie; cookies count up, so the first has waited longest.
    pending: BTreeMap<u64, Pending>,
    cookie: u64,
    outbox: Outbox,
    sending: bool,
    /// How the connection ended.
    end: Option<ClientError>,
}

type Outcome = Result<Option<Buf>, ClientError>;

/// A request under way.
struct Pending {
    since_ns: u64,
    /// Of a read: its data so far.
    data: Option<Assembly>,
    refusal: Option<ClientError>,
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

impl State {
    fn settle(&mut self, cookie: u64, outcome: Outcome) {
        if let Some(pending) = self.pending.get_mut(&cookie) {
            pending.outcome = Some(outcome);
            if let Some(waker) = pending.waker.take() {
                waker.wake();
            }
        }
    }

    /// The request that a reply is for.
    fn answered(&mut self, cookie: u64) -> Result<&mut Pending, ClientError> {
        let waiting = self.pending.get_mut(&cookie).filter(|pending| pending.outcome.is_none());
        waiting.ok_or(ClientError::Violation("a reply to no request"))
    }
}

impl<I: Io, S: Stream> Client<I, S> {
    /// Chooses the export on a fresh stream, with `tls` through TLS or not at all. `patience_ns` is how long an answer may
    /// take, before the connection counts as lost.
    ///
    /// # Errors
    /// When the connection breaks, the server does not answer in time, breaks the protocol, does not agree on TLS, or refuses
    /// the export.
    pub async fn connect(
        io: &I,
        stream: Rc<S>,
        export: &str,
        patience_ns: u64,
        tls: Option<&ClientTls>,
    ) -> Result<Client<I, S>, ClientError> {
        let result = within(io, &stream, HANDSHAKE_NS_MAX, negotiate(&stream, export, tls)).await;
        let (stream, input, terms) = match result.unwrap_or(Err(ClientError::Silent(HANDSHAKE_NS_MAX))) {
            Ok(negotiated) => negotiated,
            Err(error) => {
                stream.shutdown();
                return Err(error);
            }
        };
        let shared =
            Rc::new(Shared { io: io.clone(), stream, terms, patience_ns, state: RefCell::default() });
        io.spawn(Rc::clone(&shared).receive(input));
        io.spawn(watch(Rc::downgrade(&shared), io.clone(), patience_ns));
        Ok(Client { shared })
    }

    /// What the server says of the export.
    pub fn terms(&self) -> ExportTerms {
        self.shared.terms
    }

    /// Reads `len` bytes at `offset`; the parts, in order, add up to `len`.
    ///
    /// # Errors
    /// When the server reports an error or the connection is lost; see [`ClientError`].
    pub async fn read(&self, offset: u64, len: u32) -> Result<Bufs, ClientError> {
        let mut parts = Bufs::new();
        let most = u64::from(self.terms().payload_bytes_max);
        for (offset, len) in pieces(offset, u64::from(len), most) {
            parts.extend(self.shared.call(command::READ, offset, len, None).await?);
        }
        Ok(parts)
    }

    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// When the export is read-only, the server reports an error, or the connection is lost; see [`ClientError`].
    pub async fn write(&self, offset: u64, data: &Buf) -> Result<(), ClientError> {
        self.check(None, "the export is read-only")?;
        let most = u64::from(self.terms().payload_bytes_max);
        for (at, len) in pieces(offset, data.len() as u64, most) {
            let piece = data.slice((at - offset) as usize, len as usize);
            self.shared.call(command::WRITE, at, len, Some(piece)).await?;
        }
        Ok(())
    }

    /// Makes every write that returned before this call survive power loss.
    ///
    /// # Errors
    /// When the server reports an error or the connection is lost; see [`ClientError`].
    pub async fn flush(&self) -> Result<(), ClientError> {
        self.check(Some(transmission_flag::SEND_FLUSH), "the server knows no flush")?;
        self.shared.call(command::FLUSH, 0, 0, None).await.map(drop)
    }

    /// Tells the server that the range is no longer needed; what it reads as afterwards is the server's choice.
    ///
    /// # Errors
    /// When the export is read-only, the server reports an error, or the connection is lost; see [`ClientError`].
    pub async fn trim(&self, offset: u64, len: u64) -> Result<(), ClientError> {
        self.check(None, "the export is read-only")?;
        self.check(Some(transmission_flag::SEND_TRIM), "the server knows no trim")?;
        let bits = if self.terms().headers == Headers::Extended { u64::MAX } else { u64::from(u32::MAX) };
        let block = u64::from(self.terms().block_bytes);
        for (offset, len) in pieces(offset, len, bits / block * block) {
            self.shared.call(command::TRIM, offset, len, None).await?;
        }
        Ok(())
    }

    /// Takes leave of the server. Requests under way fail.
    pub async fn close(&self) {
        let shared = &self.shared;
        if shared.queue(command::DISC, 0, 0, 0, None) {
            let send = Rc::clone(shared).send();
            let leave = async {
                send.await;
                shared.stream.goodbye().await;
            };
            let _ = within(&shared.io, &shared.stream, shared.patience_ns, leave).await;
        }
        shared.end(ClientError::Closed);
    }

    /// Refuses what this export cannot do: a change if `flag` is `None`, else what the flag stands for.
    fn check(&self, flag: Option<u16>, message: &str) -> Result<(), ClientError> {
        let (able, errno) = match flag {
            None => (!self.terms().can(transmission_flag::READ_ONLY), Errno::Perm),
            Some(flag) => (self.terms().can(flag), Errno::NotSup),
        };
        if able { Ok(()) } else { Err(ClientError::refused(errno, message)) }
    }
}

/// A range in requests of at most `most` bytes.
fn pieces(offset: u64, len: u64, most: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..len.div_ceil(most)).map(move |i| (offset + i * most, most.min(len - i * most)))
}

/// A connection behind its handshake: its stream, what was received and not used, what was agreed on.
type Negotiated<S> = (Rc<Channel<S>>, Input<Channel<S>>, ExportTerms);

async fn negotiate<S: Stream>(
    stream: &Rc<S>,
    export: &str,
    tls: Option<&ClientTls>,
) -> Result<Negotiated<S>, ClientError> {
    let mut channel = Rc::new(Channel::Plain(Rc::clone(stream)));
    let mut input = Input::new(Rc::clone(&channel));
    handshake::greet(&channel, &mut input).await?;
    if let Some(tls) = tls {
        handshake::start_tls(&channel, &mut input).await?;
        let secured = TlsStream::open(Rc::clone(stream), tls.connection()).await;
        channel = Rc::new(Channel::Tls(secured.map_err(ClientError::NoTls)?));
        input = Input::new(Rc::clone(&channel));
    }
    match handshake::choose(&channel, &mut input, export).await {
        Ok(terms) => Ok((channel, input, terms)),
        Err(error) => Err(channel.failure().map_or(error, ClientError::NoTls)),
    }
}

impl<I: Io, S: Stream> Shared<I, S> {
    /// One request and its reply: of a read, the data.
    async fn call(self: &Rc<Self>, command: u16, offset: u64, len: u64, payload: Option<Buf>) -> Outcome {
        let cookie = {
            let state = &mut *self.state.borrow_mut();
            if let Some(end) = &state.end {
                return Err(end.clone());
            }
            state.cookie += 1;
            let data = (command == command::READ).then(|| Assembly::new(offset, len as u32));
            let since_ns = self.io.now();
            let pending = Pending { since_ns, data, refusal: None, outcome: None, waker: None };
            state.pending.insert(state.cookie, pending);
            state.cookie
        };
        if self.queue(command, cookie, offset, len, payload) {
            // A task of its own: it takes along what others queue before its turn comes, and holds up no reply.
            self.io.spawn(Rc::clone(self).send());
        }
        self.outcome(cookie).await
    }

    fn outcome(&self, cookie: u64) -> impl Future<Output = Outcome> {
        poll_fn(move |context| {
            let state = &mut *self.state.borrow_mut();
            let pending = state.pending.get_mut(&cookie).expect("it is taken out here only");
            match pending.outcome.take() {
                Some(outcome) => {
                    state.pending.remove(&cookie);
                    Poll::Ready(outcome)
                }
                None => {
                    pending.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }

    /// Queues a request. True if the caller has to start sending.
    fn queue(&self, command: u16, cookie: u64, offset: u64, len: u64, payload: Option<Buf>) -> bool {
        let state = &mut *self.state.borrow_mut();
        let headers = self.terms.headers;
        let is_extended_write = headers == Headers::Extended && command == command::WRITE;
        let flags = if is_extended_write { command_flag::PAYLOAD_LEN } else { 0 };
        Request { flags, command, cookie, offset, len }.encode(state.outbox.bytes(), headers);
        if let Some(payload) = payload {
            state.outbox.data(payload);
        }
        !std::mem::replace(&mut state.sending, true)
    }

    /// Sends what is queued until nothing is.
    async fn send(self: Rc<Self>) {
        loop {
            let parts = {
                let state = &mut *self.state.borrow_mut();
                if state.outbox.is_empty() || state.end.is_some() {
                    state.outbox.clear();
                    state.sending = false;
                    return;
                }
                state.outbox.take()
            };
            let (parts, sent) = self.stream.send(parts).await;
            self.state.borrow_mut().outbox.recycle(parts);
            if sent.is_err() {
                self.end(ClientError::Closed);
            }
        }
    }

    /// Takes replies until the end of the connection.
    async fn receive(self: Rc<Self>, mut input: Input<Channel<S>>) {
        match self.replies(&mut input).await {
            Err(error) => self.end(error),
            Ok(never) => match never {},
        }
    }

    async fn replies(&self, input: &mut Input<Channel<S>>) -> Result<Infallible, ClientError> {
        loop {
            if self.terms.headers == Headers::Extended {
                let header = ExtendedChunk::decode(&input.header().await?);
                let header = header.ok_or(ClientError::Violation("bad magic of an extended reply"))?;
                self.chunk(input, header.cookie, header.kind, header.flags, header.len).await?;
                continue;
            }
            match ReplyHeader::decode(&input.header().await?) {
                Some(ReplyHeader::Simple { cookie, error }) => self.simple(input, cookie, error).await?,
                Some(ReplyHeader::Chunk { cookie, kind, flags })
                    if self.terms.headers == Headers::Structured =>
                {
                    let len = u32::from_be_bytes(input.header().await?);
                    self.chunk(input, cookie, kind, flags, u64::from(len)).await?;
                }
                Some(_) => return Err(ClientError::Violation("a structured reply that was not agreed on")),
                None => return Err(ClientError::Violation("bad magic of a reply")),
            }
        }
    }

    async fn simple(
        &self,
        input: &mut Input<Channel<S>>,
        cookie: u64,
        error: u32,
    ) -> Result<(), ClientError> {
        let read = self.state.borrow_mut().answered(cookie)?.data.as_ref().map(Assembly::len);
        let outcome = match (error, read) {
            (0, None) => Ok(None),
            (0, Some(_)) if self.terms.headers != Headers::Simple => {
                return Err(ClientError::Violation("a simple reply to a read"));
            }
            (0, Some(len)) => Ok(Some(input.payload(len).await?)),
            (error, _) => Err(ClientError::refused(Errno::of(error), "the server answered with an error")),
        };
        self.state.borrow_mut().settle(cookie, outcome);
        Ok(())
    }

    async fn chunk(
        &self,
        input: &mut Input<Channel<S>>,
        cookie: u64,
        kind: u16,
        flags: u16,
        len: u64,
    ) -> Result<(), ClientError> {
        let asked = self.state.borrow_mut().answered(cookie)?.data.as_ref().map_or(0, Assembly::len);
        match (kind, len) {
            (chunk::NONE, 0) => {}
            (chunk::OFFSET_DATA, 9..) if asked as u64 >= len - 8 => {
                let offset = u64::from_be_bytes(input.header().await?);
                let data = input.payload(len as usize - 8).await?;
                self.assemble(cookie, |assembly| assembly.put(offset, data))?;
            }
            (chunk::OFFSET_HOLE, 12) => {
                let offset = u64::from_be_bytes(input.header().await?);
                let len = u32::from_be_bytes(input.header().await?);
                self.assemble(cookie, |assembly| assembly.zero(offset, len))?;
            }
            (kind, 6..=ERROR_BYTES_MAX) if kind & chunk::ERRORS != 0 => {
                let data = input.payload(len as usize).await?;
                let bad = ClientError::Violation("an error that makes no sense");
                let (errno, message) = proto::decode_error(data.bytes()).ok_or(bad)?;
                let message = if message.is_empty() { "the server answered with an error" } else { &message };
                let refusal = ClientError::refused(Errno::of(errno), message);
                self.state.borrow_mut().answered(cookie)?.refusal.get_or_insert(refusal);
            }
            _ => return Err(ClientError::Violation("a chunk of a wrong kind or length")),
        }
        if flags & chunk::FLAG_DONE != 0 {
            let state = &mut *self.state.borrow_mut();
            let pending = state.answered(cookie)?;
            let outcome = match (pending.refusal.take(), pending.data.take()) {
                (Some(refusal), _) => Err(refusal),
                (None, None) => Ok(None),
                (None, Some(assembly)) => Ok(Some(assembly.finish().map_err(ClientError::Violation)?)),
            };
            state.settle(cookie, outcome);
        }
        Ok(())
    }

    fn assemble(
        &self,
        cookie: u64,
        add: impl FnOnce(&mut Assembly) -> Result<(), &'static str>,
    ) -> Result<(), ClientError> {
        let state = &mut *self.state.borrow_mut();
        let none = ClientError::Violation("data for a request that is no read");
        add(state.answered(cookie)?.data.as_mut().ok_or(none)?).map_err(ClientError::Violation)
    }

    /// Ends the connection for this reason, unless it has ended already.
    fn end(&self, error: ClientError) {
        let state = &mut *self.state.borrow_mut();
        let error = state.end.get_or_insert(error).clone();
        let waiting = state.pending.iter().filter(|(_, pending)| pending.outcome.is_none());
        let waiting: Vec<u64> = waiting.map(|(cookie, _)| *cookie).collect();
        waiting.into_iter().for_each(|cookie| state.settle(cookie, Err(error.clone())));
        // Ends a receive and a send under way too.
        self.stream.shutdown();
    }
}

/// Ends the connection when a request has waited too long.
async fn watch<I: Io, S: Stream>(client: Weak<Shared<I, S>>, io: I, patience_ns: u64) {
    loop {
        io.sleep((patience_ns / LOOKS).max(1)).await;
        let Some(shared) = client.upgrade() else { return };
        let oldest = {
            let state = shared.state.borrow();
            if state.end.is_some() {
                return;
            }
            state.pending.values().find(|pending| pending.outcome.is_none()).map(|pending| pending.since_ns)
        };
        if oldest.is_some_and(|since| io.now().saturating_sub(since) >= patience_ns) {
            shared.end(ClientError::Silent(patience_ns));
        }
    }
}
