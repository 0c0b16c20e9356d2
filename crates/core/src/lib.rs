//! What every part of Sinew shares: the interface to the outside world ([`io`]), buffers, identifiers, the [`volume`] that
//! frontends serve, waiting among the tasks of a thread, coverage marks and mutations for the tests.
//!
//! This crate imports nothing of Sinew.

pub mod buf;
pub mod checksum;
pub mod completion;
pub mod coverage;
pub mod ids;
pub mod io;
pub mod mutation;
pub mod physical;
pub mod sync;
pub mod transport;
pub mod volume;
