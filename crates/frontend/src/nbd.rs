//! The NBD protocol: fixed newstyle handshake, simple and structured replies, block status.
//!
//! The way of a request:
//!
//! ```text
//!     server         reads, admits, spawns one task per request
//!     transmission   request -> checked command, or refusal
//!     execute        command -> Volume call -> encoded reply
//!     outbox         replies that wait for one gathered send
//!     proto          bytes <-> values
//! ```
//!
//! The other way, [`client`] sends requests to a server elsewhere, which [`uri`] names.
//!
//! All of it runs on any stream: that of the connection, or one with TLS ([`crate::tls`]) on it.
//!
//! The handshake before it is a state machine without I/O ([`handshake`]). Whatever a client sends, memory per
//! connection is bounded and the worst end is a closed connection.

pub mod client;
mod connection;
mod deadline;
mod execute;
pub mod handshake;
mod input;
mod outbox;
pub mod proto;
pub mod server;
pub mod transmission;
pub mod uri;

pub use client::{Client, ClientError, ExportTerms};
pub use server::{ConnectionEnd, TlsMode, serve_connection};
pub use uri::{NbdUri, UriTls};
