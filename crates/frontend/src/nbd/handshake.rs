//! The handshake: a state machine that takes bytes and appends its answers to a vector.
//!
//! It guarantees that no client makes it hold more than one option of [`OPTION_BYTES_MAX`] or answer more than
//! [`OPTIONS_MAX`] of them. Time is the driver's business. A client that does not claim the fixed newstyle is served
//! all the same: it just won't send the options it does not know.

use sinew_core::volume::Volume;

use super::proto::{
    self, Headers, InfoRequest, MetaRequest, OptionHeader, handshake_flag, info, option, option_reply,
};
use crate::exports::{Export, Exports};
use crate::tls::Grant;

/// The longest option kept in memory. Longer ones are skipped and refused. Holds dozens of the longest names.
pub const OPTION_BYTES_MAX: usize = 32 << 10;
/// The longest option that is skipped; a longer one closes the connection.
pub const OPTION_SKIP_BYTES_MAX: u32 = 1 << 20;
/// Options before one that ends the handshake. Enough to ask about every export of a large pool, one by one.
pub const OPTIONS_MAX: u32 = 4096;

/// The only context of block status served.
const ALLOCATION: &str = "base:allocation";
/// Its number on the wire.
pub const ALLOCATION_CONTEXT: u32 = 1;
/// Padding after the answer to EXPORT_NAME, for clients from before NO_ZEROES.
const PADDING_BYTES: usize = 124;

/// How a connection is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protection {
    /// By nothing; TLS is not offered.
    None,
    /// Not yet by TLS; the client may ask for it.
    Offered,
    /// Not yet by TLS; the server refuses every other option until the client has asked for TLS.
    Required,
    /// By TLS.
    Tls {
        /// The names in the client's certificate.
        names: Vec<String>,
        /// What the client may use.
        grant: Grant,
    },
}

/// What the handshake agreed on.
#[derive(Debug)]
pub struct Session<V> {
    /// What is served.
    pub export: Export<V>,
    /// The headers of requests and replies.
    pub headers: Headers,
    /// Block status tells `base:allocation`.
    pub allocation: bool,
}

/// Why a handshake ended without a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeEnd {
    /// The client asked for the end.
    Aborted,
    /// The client broke the protocol or a limit; says how.
    Violation(&'static str),
    /// The client chose an export that does not exist, with an option that has no error reply.
    UnknownExport,
}

/// How far a step got. The answer appended to the output must be sent in every case.
#[derive(Debug)]
pub enum Progress<V> {
    /// The number of bytes of input consumed; 0 if more input is needed.
    Consumed(usize),
    /// TLS begins behind this number of bytes of input, which must be all that has come. Goes on with
    /// [`Handshake::protected`].
    StartTls(usize),
    /// The handshake is over. The number of bytes of input consumed; requests follow them.
    Done(usize, Session<V>),
    /// The connection must be closed.
    End(HandshakeEnd),
}

#[derive(Clone, Copy)]
enum State {
    ClientFlags,
    Option,
    Skip { option: u32, left: usize },
}

/// A handshake under way.
pub struct Handshake<E> {
    exports: E,
    protection: Protection,
    state: State,
    options: u32,
    no_zeroes: bool,
    headers: Headers,
    /// The client has asked for something that only TLS gives.
    is_refused: bool,
    /// The export whose allocation context the client selected.
    allocation_of: Option<String>,
}

impl<E: Exports> Handshake<E> {
    /// Starts a handshake; the greeting is appended to `out`.
    pub fn start(exports: E, protection: Protection, out: &mut Vec<u8>) -> Handshake<E> {
        proto::greeting(out, handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
        Handshake {
            exports,
            protection,
            state: State::ClientFlags,
            options: 0,
            no_zeroes: false,
            headers: Headers::Simple,
            is_refused: false,
            allocation_of: None,
        }
    }

    /// Goes on with TLS, for a client with these names. What was agreed on before is forgotten: it may be the words of another sender.
    pub fn protected(&mut self, names: Vec<String>, grant: Grant) {
        self.protection = Protection::Tls { names, grant };
        self.headers = Headers::Simple;
        self.allocation_of = None;
    }

    /// What the handshake is about.
    pub fn exports(&self) -> &E {
        &self.exports
    }

    /// Does one step on the input not yet used. Input of [`OPTION_BYTES_MAX`] and a header is always enough for one.
    pub fn advance(&mut self, input: &[u8], out: &mut Vec<u8>) -> Progress<E::Volume> {
        match self.state {
            State::ClientFlags => self.client_flags(input),
            State::Option => self.option(input, out),
            State::Skip { option, left } => self.skip(option, left, input, out),
        }
    }

    fn client_flags(&mut self, input: &[u8]) -> Progress<E::Volume> {
        let Some(flags) = input.first_chunk() else { return Progress::Consumed(0) };
        let flags = u32::from_be_bytes(*flags);
        let known = u32::from(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
        if flags & !known != 0 {
            return Progress::End(HandshakeEnd::Violation("unknown handshake flag"));
        }
        let fixed = flags & u32::from(handshake_flag::FIXED_NEWSTYLE) != 0;
        if !fixed {
            if self.protection == Protection::Required {
                self.exports.refused(&[], "TLS is required, and it does not know the handshake for that");
                return Progress::End(HandshakeEnd::Violation("TLS is required"));
            }
            self.protection = Protection::None;
        }
        self.no_zeroes = flags & u32::from(handshake_flag::NO_ZEROES) != 0;
        self.state = State::Option;
        Progress::Consumed(4)
    }

    fn option(&mut self, input: &[u8], out: &mut Vec<u8>) -> Progress<E::Volume> {
        let Some((header, rest)) = input.split_first_chunk() else { return Progress::Consumed(0) };
        let Some(header) = OptionHeader::decode(header) else {
            return Progress::End(HandshakeEnd::Violation("bad magic of an option"));
        };
        if header.len > OPTION_SKIP_BYTES_MAX {
            return Progress::End(HandshakeEnd::Violation("option too long"));
        }
        let len = header.len as usize;
        if len > OPTION_BYTES_MAX {
            if header.option == option::EXPORT_NAME {
                return Progress::End(HandshakeEnd::Violation("export name too long"));
            }
            if header.option == option::SET_META_CONTEXT {
                self.allocation_of = None;
            }
            self.state = State::Skip { option: header.option, left: len };
            return Progress::Consumed(proto::OPTION_HEADER_BYTES);
        }
        let Some(data) = rest.get(..len) else { return Progress::Consumed(0) };
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Progress::End(HandshakeEnd::Violation("too many options"));
        }
        self.answer(header.option, data, proto::OPTION_HEADER_BYTES + len, out)
    }

    fn skip(&mut self, option: u32, left: usize, input: &[u8], out: &mut Vec<u8>) -> Progress<E::Volume> {
        let skipped = left.min(input.len());
        self.state = State::Skip { option, left: left - skipped };
        if skipped == left {
            self.state = State::Option;
            self.options += 1;
            let kind = match self.protection {
                Protection::Required => option_reply::ERR_TLS_REQD,
                _ => option_reply::ERR_TOO_BIG,
            };
            proto::option_reply(out, option, kind, &[b"option too long"]);
        }
        Progress::Consumed(skipped)
    }

    fn answer(&mut self, code: u32, data: &[u8], used: usize, out: &mut Vec<u8>) -> Progress<E::Volume> {
        if self.protection == Protection::Required && !matches!(code, option::STARTTLS | option::ABORT) {
            if !std::mem::replace(&mut self.is_refused, true) {
                self.exports.refused(&[], "it did not ask for TLS, which is required");
            }
            if code == option::EXPORT_NAME {
                return Progress::End(HandshakeEnd::Violation("TLS is required"));
            }
            proto::option_reply(out, code, option_reply::ERR_TLS_REQD, &[b"TLS is required"]);
            return Progress::Consumed(used);
        }
        match code {
            option::STARTTLS => return self.start_tls(data, used, out),
            option::EXPORT_NAME => return self.export_name(data, used, out),
            option::ABORT => {
                proto::option_reply(out, code, option_reply::ACK, &[]);
                return Progress::End(HandshakeEnd::Aborted);
            }
            option::GO | option::INFO => {
                let chosen = self.info(code, data, out);
                if let Some(export) = chosen
                    && code == option::GO
                {
                    return Progress::Done(used, self.session(export));
                }
            }
            option::LIST => self.list(data, out),
            option::STRUCTURED_REPLY | option::EXTENDED_HEADERS => self.choose_headers(code, data, out),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.meta_context(code, data, out),
            _ => proto::option_reply(out, code, option_reply::ERR_UNSUP, &[]),
        }
        Progress::Consumed(used)
    }

    fn start_tls(&self, data: &[u8], used: usize, out: &mut Vec<u8>) -> Progress<E::Volume> {
        let kind = match self.protection {
            Protection::None => option_reply::ERR_POLICY,
            Protection::Tls { .. } => option_reply::ERR_INVALID,
            _ if !data.is_empty() => option_reply::ERR_INVALID,
            Protection::Offered | Protection::Required => option_reply::ACK,
        };
        proto::option_reply(out, option::STARTTLS, kind, &[]);
        if kind == option_reply::ACK { Progress::StartTls(used) } else { Progress::Consumed(used) }
    }

    /// Finds an export that the client may use; the empty name stands for the default. Otherwise the error: of names that the
    /// client may not use it does not tell whether they exist.
    fn open(&self, name: &str) -> Result<Export<E::Volume>, (u32, &'static [u8])> {
        let unknown = (option_reply::ERR_UNKNOWN, &b"no such export"[..]);
        let default = if name.is_empty() { Some(self.default_name().ok_or(unknown)?) } else { None };
        let name = default.as_deref().unwrap_or(name);
        if let Protection::Tls { names, grant } = &self.protection
            && !grant.covers(name)
        {
            self.exports.refused(names, &format!("it may not use export {name:?}"));
            return Err((
                option_reply::ERR_POLICY,
                b"the certificate of this client does not allow this export",
            ));
        }
        self.exports.open(name).ok_or(unknown)
    }

    /// The names of all exports that the client may use.
    fn names(&self) -> Vec<String> {
        let mut names = self.exports.names();
        if let Protection::Tls { grant, .. } = &self.protection {
            names.retain(|name| grant.covers(name));
        }
        names
    }

    fn default_name(&self) -> Option<String> {
        match &self.protection {
            Protection::Tls { grant: Grant::Only(_), .. } => {
                let mut names = self.names();
                if names.len() == 1 { names.pop() } else { None }
            }
            _ => self.exports.default_name(),
        }
    }

    fn session(&mut self, export: Export<E::Volume>) -> Session<E::Volume> {
        let allocation = self.allocation_of.as_deref() == Some(export.name.as_str());
        Session { export, headers: self.headers, allocation }
    }

    fn export_name(&mut self, data: &[u8], used: usize, out: &mut Vec<u8>) -> Progress<E::Volume> {
        if self.headers == Headers::Extended {
            // The option is older than extended headers, and the protocol forbids both together.
            return Progress::End(HandshakeEnd::Violation("EXPORT_NAME with extended headers"));
        }
        let Some(export) = std::str::from_utf8(data).ok().and_then(|name| self.open(name).ok()) else {
            return Progress::End(HandshakeEnd::UnknownExport);
        };
        out.extend_from_slice(&export.volume.size_bytes().to_be_bytes());
        out.extend_from_slice(&transmission_flags(export.read_only, self.headers).to_be_bytes());
        if !self.no_zeroes {
            out.resize(out.len() + PADDING_BYTES, 0);
        }
        Progress::Done(used, self.session(export))
    }

    /// Answers INFO and GO; gives the export if the answer was positive.
    fn info(&self, code: u32, data: &[u8], out: &mut Vec<u8>) -> Option<Export<E::Volume>> {
        let Some(request) = InfoRequest::decode(data) else {
            proto::option_reply(out, code, option_reply::ERR_INVALID, &[]);
            return None;
        };
        let export = match self.open(request.name) {
            Ok(export) => export,
            Err((kind, why)) => {
                proto::option_reply(out, code, kind, &[why]);
                return None;
            }
        };
        let mut piece = |kind: u16, data: &[&[u8]]| {
            let kind = kind.to_be_bytes();
            let pieces: Vec<&[u8]> = std::iter::once(&kind[..]).chain(data.iter().copied()).collect();
            proto::option_reply(out, code, option_reply::INFO, &pieces);
        };
        let size = export.volume.size_bytes().to_be_bytes();
        let flags = transmission_flags(export.read_only, self.headers).to_be_bytes();
        piece(info::EXPORT, &[&size, &flags]);
        if request.wants(info::NAME) {
            piece(info::NAME, &[export.name.as_bytes()]);
        }
        if request.wants(info::DESCRIPTION) && !export.description.is_empty() {
            piece(info::DESCRIPTION, &[export.description.as_bytes()]);
        }
        if request.wants(info::BLOCK_SIZE) {
            let [minimum, preferred] = [1u32.to_be_bytes(), 4096u32.to_be_bytes()];
            piece(info::BLOCK_SIZE, &[&minimum, &preferred, &proto::PAYLOAD_BYTES_MAX.to_be_bytes()]);
        }
        proto::option_reply(out, code, option_reply::ACK, &[]);
        Some(export)
    }

    fn list(&self, data: &[u8], out: &mut Vec<u8>) {
        if !data.is_empty() {
            return proto::option_reply(out, option::LIST, option_reply::ERR_INVALID, &[]);
        }
        for name in self.names().iter().filter(|name| name.len() <= proto::STRING_BYTES_MAX) {
            let len = (name.len() as u32).to_be_bytes();
            proto::option_reply(out, option::LIST, option_reply::SERVER, &[&len, name.as_bytes()]);
        }
        proto::option_reply(out, option::LIST, option_reply::ACK, &[]);
    }

    /// Structured replies or extended headers, which contain them.
    fn choose_headers(&mut self, code: u32, data: &[u8], out: &mut Vec<u8>) {
        let wanted = if code == option::EXTENDED_HEADERS { Headers::Extended } else { Headers::Structured };
        let kind = match self.headers {
            _ if !data.is_empty() => option_reply::ERR_INVALID,
            Headers::Extended if wanted == Headers::Structured => option_reply::ERR_EXT_HEADER_REQD,
            _ => {
                self.headers = wanted;
                option_reply::ACK
            }
        };
        proto::option_reply(out, code, kind, &[]);
    }

    fn meta_context(&mut self, code: u32, data: &[u8], out: &mut Vec<u8>) {
        let set = code == option::SET_META_CONTEXT;
        if set {
            // A selection replaces the one before even when it fails.
            self.allocation_of = None;
        }
        let Some(request) = MetaRequest::decode(data).filter(|_| self.headers >= Headers::Structured) else {
            return proto::option_reply(out, code, option_reply::ERR_INVALID, &[]);
        };
        let export = match self.open(request.name) {
            Ok(export) => export,
            Err((kind, why)) => return proto::option_reply(out, code, kind, &[why]),
        };
        let named = request.queries.contains(&ALLOCATION);
        // Wildcards list, but never select.
        let wildcard = !set && (request.queries.is_empty() || request.queries.contains(&"base:"));
        if named || wildcard {
            let context = if set { ALLOCATION_CONTEXT } else { 0 }.to_be_bytes();
            proto::option_reply(out, code, option_reply::META_CONTEXT, &[&context, ALLOCATION.as_bytes()]);
        }
        if set && named {
            self.allocation_of = Some(export.name);
        }
        proto::option_reply(out, code, option_reply::ACK, &[]);
    }
}

/// What an export can do, as announced. Several connections are fine: a volume's flush covers all its completed writes.
fn transmission_flags(read_only: bool, headers: Headers) -> u16 {
    use super::proto::transmission_flag::*;
    let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN | SEND_CACHE;
    flags |= if read_only { READ_ONLY } else { SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO };
    if headers >= Headers::Structured {
        flags |= SEND_DF;
    }
    flags
}
