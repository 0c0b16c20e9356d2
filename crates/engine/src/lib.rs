//! The Sinew storage engine.
//!
//! See ARCHITECTURE.md for the way of a request and the invariants.

pub mod buf;
pub mod io;
pub mod parity;
pub mod placement;
pub mod run_map;
pub mod volume;
