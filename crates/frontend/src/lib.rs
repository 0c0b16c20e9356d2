//! Serves volumes to clients: bytes on a wire in, [`Volume`](sinew_core::volume::Volume) calls out.
//!
//! The frontend knows neither sockets nor members. It runs on any [`transport::Stream`], spawns its tasks through the
//! engine's [`Io`](sinew_core::io::Io), and finds volumes through [`exports::Exports`]. Beside the server is a client
//! of the same protocol, [`nbd::client`]. Either may put TLS on its connections ([`tls`]). Virtual machines are served without
//! a wire, in memory that they share ([`vhost`]), and so is the kernel, for its block devices ([`ublk`]).

pub mod exports;
pub mod nbd;
pub mod tls;
pub mod transport;
pub mod ublk;
pub mod vhost;
mod zeroes;
