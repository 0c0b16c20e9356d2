//! Pools: made, found again, opened, changed while in use, and used by clients.
//!
//! From the outside in: [`pool`] makes and finds pools, [`control`] changes them, [`shard`] is a slice of one of either
//! kind, [`client`] gives volumes to frontends. ARCHITECTURE.md has the way of a request and the invariants.

pub mod client;
pub mod control;
pub mod pool;
pub mod shard;
