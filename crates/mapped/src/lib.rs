//! The log-structured pool: volumes mapped block by block onto stripes that lie anywhere on the members.
//!
//! Rooms, each importing only those before it: `store` (tables, journal, free chunks), `stripe` (reading, appending and
//! repairing stripes), `request` and `background` (which never import each other), `recovery` and `inspect`, and `shard`,
//! which holds a shard together.

mod background;

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod inspect;
mod marks;
mod recovery;
mod request;
mod shard;
mod store;
mod stripe;

pub use marks::Mark;
pub use shard::MappedShard;
