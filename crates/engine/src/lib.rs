//! The Sinew storage engine.
//!
//! See ARCHITECTURE.md for the way of a request and the invariants.

pub mod addr;
pub mod buf;
pub mod checksum;
pub mod disk;
pub mod geometry;
pub mod io;
mod sync;
pub mod volume;
