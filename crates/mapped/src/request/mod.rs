//! Requests of clients and of the pool's control to a shard of a mapped pool.

pub(crate) mod admission;
pub(crate) mod discard;
pub(crate) mod merge;
pub(crate) mod read;
pub(crate) mod serve;
pub(crate) mod write;
