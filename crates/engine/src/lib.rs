//! Pools: made, found again, opened, changed while in use, and used by clients.
//!
//! From the outside in: [`pool`] makes and finds pools, [`control`] changes them, [`shard`] is a slice of one of either
//! kind, [`client`] gives volumes to frontends, [`handover`] takes their requests to shards of other threads, on which
//! [`thread_shards`] puts them. The gate lets requests of volumes into a shard in turn. ARCHITECTURE.md has the way of a request
//! and the invariants.

pub mod client;
pub mod control;
mod gate;
pub mod handover;
pub mod marks;
pub mod pool;
pub mod shard;
pub mod thread_shards;

use sinew_core::coverage::MarkName;

/// The coverage marks of all crates of the engine.
pub fn coverage_marks() -> impl Iterator<Item = MarkName> {
    let members = sinew_members::marks::Mark::ALL.iter().map(|mark| mark.name());
    let mapped = sinew_mapped::Mark::ALL.iter().map(|mark| mark.name());
    let array = sinew_array::Mark::ALL.iter().map(|mark| mark.name());
    members.chain(mapped).chain(array).chain(marks::Mark::ALL.iter().map(|mark| mark.name()))
}
