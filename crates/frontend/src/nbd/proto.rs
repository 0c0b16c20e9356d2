//! The words of the wire: constants, and the coding of messages as pure functions.
//!
//! Decoders take bytes and give values or `None`; no input makes them panic or allocate more than the input's size.
//! Encoders append to a vector. All integers are big-endian. Names follow the protocol's document.

mod words;

pub use words::*;

/// The headers of requests and replies, as the handshake agreed on. Each is more than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Headers {
    /// Compact requests, simple replies.
    #[default]
    Simple,
    /// Compact requests; replies with data are structured.
    Structured,
    /// Extended requests and replies.
    Extended,
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
    /// Bytes. Of a compact request 32 bits.
    pub len: u64,
}

impl Request {
    /// A compact request. `None` if the magic is wrong: the stream is out of step.
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
            len: u64::from(fields.u32()?),
        })
    }

    /// An extended request. `None` if the magic is wrong: the stream is out of step.
    pub fn decode_extended(bytes: &[u8; EXTENDED_BYTES]) -> Option<Request> {
        let mut fields = Fields(bytes);
        if fields.u32()? != EXTENDED_REQUEST_MAGIC {
            return None;
        }
        Some(Request {
            flags: fields.u16()?,
            command: fields.u16()?,
            cookie: fields.u64()?,
            offset: fields.u64()?,
            len: fields.u64()?,
        })
    }

    /// The header as a client sends it.
    ///
    /// # Panics
    /// When the length does not fit a compact request.
    pub fn encode(&self, out: &mut Vec<u8>, headers: Headers) {
        let is_extended = headers == Headers::Extended;
        let magic = if is_extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
        out.extend_from_slice(&magic.to_be_bytes());
        out.extend_from_slice(&self.flags.to_be_bytes());
        out.extend_from_slice(&self.command.to_be_bytes());
        out.extend_from_slice(&self.cookie.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
        if is_extended {
            out.extend_from_slice(&self.len.to_be_bytes());
        } else {
            let len = u32::try_from(self.len).expect("compact requests are shorter than 4 GiB");
            out.extend_from_slice(&len.to_be_bytes());
        }
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

/// The header of a chunk of an extended reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedChunk {
    /// See [`chunk`].
    pub flags: u16,
    /// See [`chunk`].
    pub kind: u16,
    /// Of the request answered.
    pub cookie: u64,
    /// Of the request answered.
    pub offset: u64,
    /// Bytes of payload that follow.
    pub len: u64,
}

impl ExtendedChunk {
    /// `None` if the magic is wrong: the stream is out of step.
    pub fn decode(bytes: &[u8; EXTENDED_BYTES]) -> Option<ExtendedChunk> {
        let mut fields = Fields(bytes);
        if fields.u32()? != EXTENDED_CHUNK_MAGIC {
            return None;
        }
        Some(ExtendedChunk {
            flags: fields.u16()?,
            kind: fields.u16()?,
            cookie: fields.u64()?,
            offset: fields.u64()?,
            len: fields.u64()?,
        })
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

/// The request that chunks answer, and the headers that they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyTo {
    /// Structured headers.
    Structured {
        /// Of the request.
        cookie: u64,
    },
    /// Extended headers.
    Extended {
        /// Of the request.
        cookie: u64,
        /// Of the request.
        offset: u64,
    },
}

/// A chunk's header; `len` bytes of payload follow it.
pub fn chunk_header(out: &mut Vec<u8>, to: ReplyTo, kind: u16, flags: u16, len: u32) {
    let (magic, cookie) = match to {
        ReplyTo::Structured { cookie } => (CHUNK_MAGIC, cookie),
        ReplyTo::Extended { cookie, .. } => (EXTENDED_CHUNK_MAGIC, cookie),
    };
    out.extend_from_slice(&magic.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    if let ReplyTo::Extended { offset, .. } = to {
        out.extend_from_slice(&offset.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
    }
    out.extend_from_slice(&len.to_be_bytes());
}

/// What precedes `len` bytes of data at `offset`.
pub fn data_chunk(out: &mut Vec<u8>, to: ReplyTo, flags: u16, offset: u64, len: u32) {
    chunk_header(out, to, chunk::OFFSET_DATA, flags, len + 8);
    out.extend_from_slice(&offset.to_be_bytes());
}

/// `len` bytes of zeros at `offset`.
pub fn hole_chunk(out: &mut Vec<u8>, to: ReplyTo, flags: u16, offset: u64, len: u32) {
    chunk_header(out, to, chunk::OFFSET_HOLE, flags, 12);
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
}

/// A reply that is one error.
pub fn error_chunk(out: &mut Vec<u8>, to: ReplyTo, error: Errno, message: &str) {
    let message = &message.as_bytes()[..message.len().min(STRING_BYTES_MAX)];
    chunk_header(out, to, chunk::ERROR, chunk::FLAG_DONE, 6 + message.len() as u32);
    out.extend_from_slice(&(error as u32).to_be_bytes());
    out.extend_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(message);
}

/// A reply that is the extents (length, [`state`] bits) of one context. Of a compact request none is longer than 32 bits.
pub fn status_chunk(out: &mut Vec<u8>, to: ReplyTo, context: u32, extents: &[(u64, u32)]) {
    let count = extents.len() as u32;
    match to {
        ReplyTo::Structured { .. } => {
            chunk_header(out, to, chunk::BLOCK_STATUS, chunk::FLAG_DONE, 4 + 8 * count);
            out.extend_from_slice(&context.to_be_bytes());
            for (bytes, state) in extents {
                out.extend_from_slice(&(*bytes as u32).to_be_bytes());
                out.extend_from_slice(&state.to_be_bytes());
            }
        }
        ReplyTo::Extended { .. } => {
            chunk_header(out, to, chunk::BLOCK_STATUS_EXT, chunk::FLAG_DONE, 8 + 16 * count);
            out.extend_from_slice(&context.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
            for (bytes, state) in extents {
                out.extend_from_slice(&bytes.to_be_bytes());
                out.extend_from_slice(&u64::from(*state).to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests;
