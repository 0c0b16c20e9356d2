//! The words of the wire: constants, and the coding of messages as pure functions.
//!
//! Decoders take bytes and give values or `None`; no input makes them panic or allocate more than the input's size.
//! Encoders append to a vector. All integers are big-endian. Names follow the protocol's document.

/// Opens the greeting.
pub const GREETING_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// Ends the greeting's magic and opens every option.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// Opens every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Opens every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Opens a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Opens a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Bytes of an option's header.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Bytes of a request's header.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of the greeting.
pub const GREETING_BYTES: usize = 18;
/// Bytes of the header of a reply to an option.
pub const OPTION_REPLY_BYTES: usize = 20;
/// Bytes of a simple reply, and of a chunk's header without the length that ends it.
pub const REPLY_BYTES: usize = 16;
/// The longest name or other string the protocol allows.
pub const STRING_BYTES_MAX: usize = 4096;
/// The largest payload of a read or write we accept and announce.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Handshake flags, sent by the server; the client answers with the same bits.
pub mod handshake_flag {
    /// Options and their replies are framed.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// No padding after the answer to `EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Options of the handshake.
pub mod option {
    /// Choose an export, without a way to report errors.
    pub const EXPORT_NAME: u32 = 1;
    /// End the handshake without choosing.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Upgrade to TLS.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe and choose an export.
    pub const GO: u32 = 7;
    /// Turn structured replies on.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List what block status can tell.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose what block status tells.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to options.
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export's name.
    pub const SERVER: u32 = 2;
    /// One piece of information about an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The bit that all errors have.
    pub const ERR: u32 = 1 << 31;
    /// The option is unknown.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The server's configuration forbids it.
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    /// The option's data makes no sense.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// Only after an upgrade to TLS.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Kinds of information about an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The canonical name.
    pub const NAME: u16 = 1;
    /// A line for people.
    pub const DESCRIPTION: u16 = 2;
    /// Minimum, preferred and maximum sizes of requests.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what an export can do.
pub mod transmission_flag {
    /// The field is valid.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Nothing can be changed.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is known.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The FUA flag is known.
    pub const SEND_FUA: u16 = 1 << 3;
    /// TRIM is known.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is known.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The DF flag is known; only with structured replies.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers the writes completed on all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is known.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// The FAST_ZERO flag is known.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Commands.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write; the payload follows the header.
    pub const WRITE: u16 = 1;
    /// Disconnect; has no reply.
    pub const DISC: u16 = 2;
    /// Make completed writes durable.
    pub const FLUSH: u16 = 3;
    /// Forget a range.
    pub const TRIM: u16 = 4;
    /// A range will soon be read.
    pub const CACHE: u16 = 5;
    /// Make a range read as zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// What is stored in a range.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of a command.
pub mod command_flag {
    /// Reply only once durable.
    pub const FUA: u16 = 1 << 0;
    /// Zeroed blocks stay allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Reply with one chunk of data.
    pub const DF: u16 = 1 << 2;
    /// Reply with one extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Zero only if faster than writing.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Types of chunks.
pub mod chunk {
    /// Only ends the reply.
    pub const NONE: u16 = 0;
    /// Data at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Zeros at an offset.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents and their state.
    pub const BLOCK_STATUS: u16 = 5;
    /// The bit that all errors have.
    pub const ERRORS: u16 = 1 << 15;
    /// An error with a message.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// Flag: the reply's last chunk.
    pub const FLAG_DONE: u16 = 1 << 0;
}

/// State bits of an extent in the context `base:allocation`.
pub mod state {
    /// Nothing is allocated.
    pub const HOLE: u32 = 1 << 0;
    /// Reads as zeros.
    pub const ZERO: u32 = 1 << 1;
}

/// Errors as a reply carries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// The export is read-only.
    Perm = 1,
    /// The data cannot be read or written.
    Io = 5,
    /// The request makes no sense.
    Inval = 22,
    /// No space left, or a write past the end.
    NoSpc = 28,
    /// The request is too large to answer.
    Overflow = 75,
    /// Not possible as asked.
    NotSup = 95,
    /// The server is closing.
    Shutdown = 108,
}

impl Errno {
    /// What a number in a reply means. Numbers that the protocol does not know count as [`Errno::Inval`], as it asks for.
    pub fn of(number: u32) -> Errno {
        use Errno::*;
        let known = [Perm, Io, Inval, NoSpc, Overflow, NotSup, Shutdown];
        known.into_iter().find(|errno| *errno as u32 == number).unwrap_or(Inval)
    }
}

/// Takes integers and strings off the front of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string of the protocol, preceded by its length.
    fn string(&mut self) -> Option<&'a str> {
        let len = self.u32()? as usize;
        if len > STRING_BYTES_MAX {
            return None;
        }
        std::str::from_utf8(self.take(len)?).ok()
    }
}

/// An option's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// Which option; see [`option`].
    pub option: u32,
    /// Bytes of data that follow.
    pub len: u32,
}

impl OptionHeader {
    /// `None` if the magic is wrong.
    pub fn decode(bytes: &[u8; OPTION_HEADER_BYTES]) -> Option<OptionHeader> {
        let mut fields = Fields(bytes);
        if fields.u64()? != OPTION_MAGIC {
            return None;
        }
        Some(OptionHeader { option: fields.u32()?, len: fields.u32()? })
    }
}

/// The data of INFO and GO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    /// Which export.
    pub name: &'a str,
    kinds: &'a [u8],
}

impl<'a> InfoRequest<'a> {
    /// `None` if the lengths do not add up or the name is not UTF-8.
    pub fn decode(data: &'a [u8]) -> Option<InfoRequest<'a>> {
        let mut fields = Fields(data);
        let name = fields.string()?;
        let count = usize::from(fields.u16()?);
        (fields.0.len() == count * 2).then_some(InfoRequest { name, kinds: fields.0 })
    }

    /// The data as a client sends it.
    pub fn encode(out: &mut Vec<u8>, name: &str, kinds: &[u16]) {
        out.extend_from_slice(&(name.len() as u32).to_be_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&(kinds.len() as u16).to_be_bytes());
        kinds.iter().for_each(|kind| out.extend_from_slice(&kind.to_be_bytes()));
    }

    /// Whether this kind of information (see [`info`]) was asked for.
    pub fn wants(&self, kind: u16) -> bool {
        self.kinds.chunks_exact(2).any(|k| k == kind.to_be_bytes())
    }
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaRequest<'a> {
    /// Which export.
    pub name: &'a str,
    /// What was asked for, in order.
    pub queries: Vec<&'a str>,
}

impl<'a> MetaRequest<'a> {
    /// `None` if the lengths do not add up or a string is not UTF-8.
    pub fn decode(data: &'a [u8]) -> Option<MetaRequest<'a>> {
        let mut fields = Fields(data);
        let name = fields.string()?;
        let count = fields.u32()? as usize;
        // A query takes at least its length field, so a larger count is a lie; checked before anything is allocated.
        if count > fields.0.len() / 4 {
            return None;
        }
        let queries = (0..count).map(|_| fields.string()).collect::<Option<Vec<_>>>()?;
        fields.0.is_empty().then_some(MetaRequest { name, queries })
    }
}

/// A request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// See [`command_flag`].
    pub flags: u16,
    /// See [`command`].
    pub command: u16,
    /// What the client tells replies apart by.
    pub cookie: u64,
    /// Bytes from the export's start.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

impl Request {
    /// `None` if the magic is wrong: the stream is out of step.
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Request> {
        let mut fields = Fields(bytes);
        if fields.u32()? != REQUEST_MAGIC {
            return None;
        }
        Some(Request {
            flags: fields.u16()?,
            command: fields.u16()?,
            cookie: fields.u64()?,
            offset: fields.u64()?,
            len: fields.u32()?,
        })
    }

    /// The header as a client sends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&REQUEST_MAGIC.to_be_bytes());
        out.extend_from_slice(&self.flags.to_be_bytes());
        out.extend_from_slice(&self.command.to_be_bytes());
        out.extend_from_slice(&self.cookie.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
        out.extend_from_slice(&self.len.to_be_bytes());
    }
}

/// The greeting, first bytes of a connection.
pub fn greeting(out: &mut Vec<u8>, flags: u16) {
    out.extend_from_slice(&GREETING_MAGIC.to_be_bytes());
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
}

/// The handshake flags of a greeting; `None` if it is not that of a newstyle server.
pub fn decode_greeting(bytes: &[u8; GREETING_BYTES]) -> Option<u16> {
    let mut fields = Fields(bytes);
    let newstyle = fields.u64()? == GREETING_MAGIC && fields.u64()? == OPTION_MAGIC;
    fields.u16().filter(|_| newstyle)
}

/// An option as a client sends it.
pub fn option(out: &mut Vec<u8>, option: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// The header of a reply to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionReplyHeader {
    /// The option answered.
    pub option: u32,
    /// See [`option_reply`](mod@option_reply).
    pub kind: u32,
    /// Bytes of data that follow.
    pub len: u32,
}

impl OptionReplyHeader {
    /// `None` if the magic is wrong.
    pub fn decode(bytes: &[u8; OPTION_REPLY_BYTES]) -> Option<OptionReplyHeader> {
        let mut fields = Fields(bytes);
        if fields.u64()? != OPTION_REPLY_MAGIC {
            return None;
        }
        Some(OptionReplyHeader { option: fields.u32()?, kind: fields.u32()?, len: fields.u32()? })
    }
}

/// One piece of information about an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Info {
    /// Its size in bytes and its [`transmission_flag`]s.
    Export(u64, u16),
    /// The smallest, the preferred and the largest size of a request.
    BlockSize(u32, u32, u32),
    /// Something else.
    Other,
}

impl Info {
    /// `None` if the data is shorter or longer than its kind asks for.
    pub fn decode(data: &[u8]) -> Option<Info> {
        let mut fields = Fields(data);
        let info = match fields.u16()? {
            info::EXPORT => Info::Export(fields.u64()?, fields.u16()?),
            info::BLOCK_SIZE => Info::BlockSize(fields.u32()?, fields.u32()?, fields.u32()?),
            _ => return Some(Info::Other),
        };
        fields.0.is_empty().then_some(info)
    }
}

/// The beginning of a reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyHeader {
    /// A simple reply. The data follows if it is the success of a read.
    Simple {
        /// Of the request answered.
        cookie: u64,
        /// 0 for success.
        error: u32,
    },
    /// A chunk of a structured reply. A length of four bytes follows, then a payload of that length.
    Chunk {
        /// Of the request answered.
        cookie: u64,
        /// See [`chunk`].
        kind: u16,
        /// See [`chunk`].
        flags: u16,
    },
}

impl ReplyHeader {
    /// `None` if the magic is wrong: the stream is out of step.
    pub fn decode(bytes: &[u8; REPLY_BYTES]) -> Option<ReplyHeader> {
        let mut fields = Fields(bytes);
        match fields.u32()? {
            SIMPLE_REPLY_MAGIC => Some(ReplyHeader::Simple { error: fields.u32()?, cookie: fields.u64()? }),
            CHUNK_MAGIC => {
                Some(ReplyHeader::Chunk { flags: fields.u16()?, kind: fields.u16()?, cookie: fields.u64()? })
            }
            _ => None,
        }
    }
}

/// The errno and the message of a chunk that is an error. What may follow the message belongs to its kind.
pub fn decode_error(data: &[u8]) -> Option<(u32, String)> {
    let mut fields = Fields(data);
    let (errno, len) = (fields.u32()?, fields.u16()?);
    Some((errno, String::from_utf8_lossy(fields.take(usize::from(len))?).into_owned()))
}

/// A reply to an option; `data` is its payload in pieces.
pub fn option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[&[u8]]) {
    let len: usize = data.iter().map(|piece| piece.len()).sum();
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(len as u32).to_be_bytes());
    for piece in data {
        out.extend_from_slice(piece);
    }
}

/// A simple reply; `error` is zero for success. A read's data follows it.
pub fn simple_reply(out: &mut Vec<u8>, cookie: u64, error: u32) {
    out.extend_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&error.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
}

/// A chunk's header; `len` bytes of payload follow it.
pub fn chunk_header(out: &mut Vec<u8>, cookie: u64, kind: u16, flags: u16, len: u32) {
    out.extend_from_slice(&CHUNK_MAGIC.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
}

/// What precedes `len` bytes of data at `offset` in a structured reply.
pub fn data_chunk(out: &mut Vec<u8>, cookie: u64, flags: u16, offset: u64, len: u32) {
    chunk_header(out, cookie, chunk::OFFSET_DATA, flags, len + 8);
    out.extend_from_slice(&offset.to_be_bytes());
}

/// `len` bytes of zeros at `offset` in a structured reply.
pub fn hole_chunk(out: &mut Vec<u8>, cookie: u64, flags: u16, offset: u64, len: u32) {
    chunk_header(out, cookie, chunk::OFFSET_HOLE, flags, 12);
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
}

/// A structured reply that is one error.
pub fn error_chunk(out: &mut Vec<u8>, cookie: u64, error: Errno, message: &str) {
    let message = &message.as_bytes()[..message.len().min(STRING_BYTES_MAX)];
    chunk_header(out, cookie, chunk::ERROR, chunk::FLAG_DONE, 6 + message.len() as u32);
    out.extend_from_slice(&(error as u32).to_be_bytes());
    out.extend_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(message);
}

/// A structured reply that is the extents (length, [`state`] bits) of one context.
pub fn status_chunk(out: &mut Vec<u8>, cookie: u64, context: u32, extents: &[(u32, u32)]) {
    let len = 4 + 8 * extents.len() as u32;
    chunk_header(out, cookie, chunk::BLOCK_STATUS, chunk::FLAG_DONE, len);
    out.extend_from_slice(&context.to_be_bytes());
    for (bytes, state) in extents {
        out.extend_from_slice(&bytes.to_be_bytes());
        out.extend_from_slice(&state.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
