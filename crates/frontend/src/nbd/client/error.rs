//! Errors of a client.

use super::super::input::Closed;
use super::super::proto::Errno;
use crate::tls::TlsError;

/// Why a request was not carried out, or that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The server, or the client for it, refused this request; others may succeed.
    #[error("{message} ({errno:?})")]
    Refused {
        /// For programs.
        errno: Errno,
        /// For people.
        message: String,
    },
    /// The server did not agree to serve the export; says why.
    #[error("the server refused the connection: {0}")]
    NoExport(String),
    /// Server and client could not agree on TLS; says why.
    #[error("no TLS with the server: {0}")]
    NoTls(TlsError),
    /// The server closed the connection, or the network did.
    #[error("the server closed the connection")]
    Closed,
    /// The server did not answer in time.
    #[error("the server did not answer within {} s", .0 / 1_000_000_000)]
    Silent(
        /// How long was waited, in nanoseconds.
        u64,
    ),
    /// The server broke the protocol; says how.
    #[error("the server broke the protocol: {0}")]
    Violation(&'static str),
}

impl ClientError {
    /// Whether the connection has ended with it.
    pub fn is_end(&self) -> bool {
        !matches!(self, ClientError::Refused { .. })
    }

    pub(super) fn refused(errno: Errno, message: &str) -> ClientError {
        ClientError::Refused { errno, message: message.to_owned() }
    }
}

impl From<Closed> for ClientError {
    fn from(Closed: Closed) -> ClientError {
        ClientError::Closed
    }
}
