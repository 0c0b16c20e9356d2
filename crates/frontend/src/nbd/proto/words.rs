//! The constants of the wire, by the names of the protocol's document.

/// Opens the greeting.
pub const GREETING_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// Ends the greeting's magic and opens every option.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// Opens every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Opens every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Opens an extended request.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Opens a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Opens a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Opens a chunk of an extended reply.
pub const EXTENDED_CHUNK_MAGIC: u32 = 0x6e8a_278c;

/// Bytes of an option's header.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Bytes of a request's header.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of the header of an extended request, and of a chunk of an extended reply.
pub const EXTENDED_BYTES: usize = 32;
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
    /// Turn extended headers on, with lengths of 64 bits.
    pub const EXTENDED_HEADERS: u32 = 11;
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
    /// It is a matter of extended headers.
    pub const ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;
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
    /// The length is that of a payload; only with extended headers.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
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
    /// Extents and their state, with 64 bits for each.
    pub const BLOCK_STATUS_EXT: u16 = 6;
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
