//! Requests of clients and of the pool's control to a shard of a mapped pool.

pub(crate) mod serve;
pub(crate) mod write;
