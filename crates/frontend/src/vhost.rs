//! The vhost-user-blk protocol: a volume as a virtio disk of a virtual machine, in memory that the machine shares.
//!
//! The way of a request:
//!
//! ```text
//!     device     messages of the control socket -> queues, memory; starts and stops rings
//!     ring       takes chains of descriptors off a ring, one task per request, and puts them back
//!     chain      descriptors -> checked segments of guest memory
//!     request    header and segments -> checked command, or a status that refuses it
//!     inflight   which requests are in flight, for the server that comes after this one
//!     execute    command -> Volume call; data is copied once, between guest memory and a Buf
//! ```
//!
//! The control socket ([`serve_session`]) blocks on a thread of its own; messages are rare. Rings run on the threads of the
//! volume ([`serve_ring`]), and need nothing of the control socket but the end: [`Order`]s.
//!
//! Guest memory may change at any time, whatever it is read for. So every value is read once, into memory of our own, and
//! checked there. A guest that breaks the rules of its ring ([`RingError`]) loses the ring, and harms none but itself. The
//! process that connects is trusted further: it must not truncate the memory that it shares.

mod bell;
mod chain;
mod config;
mod device;
mod execute;
mod inflight;
mod memory;
mod request;
mod ring;
mod terms;

pub use bell::Bell;
pub use chain::RingError;
pub use device::{Rings, SessionEnd, serve_session};
pub use ring::{Order, RingStart, serve_ring};
pub use terms::{Disk, QUEUES_MAX};
