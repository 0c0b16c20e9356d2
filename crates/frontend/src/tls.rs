//! TLS below the NBD protocol: the option STARTTLS makes a plain connection a protected one.
//!
//! ```text
//!     credentials   PEM texts -> what a side proves itself with, and which certificates it believes
//!     names         a certificate -> the names of its owner
//!     allow_list    names of a client -> the exports that it may use
//!     session       the record layer: plaintext <-> records on a stream
//!     channel       the stream of a client: plain, or with a session on it
//! ```
//!
//! The protocol is that of rustls, with TLS 1.3 and 1.2. A plain connection passes what it carries as it is. Bytes of a
//! protected one are encrypted from where they lie, and decrypted to where they belong, through the buffers of the record
//! layer; keys are not handed to the kernel.

pub mod allow_list;
mod channel;
pub mod credentials;
mod names;
mod session;

pub use allow_list::{AllowList, Grant};
pub(crate) use channel::Channel;
pub use credentials::{ClientTls, CredentialsError, ServerTls};
pub use session::TlsError;
pub(crate) use session::TlsStream;
