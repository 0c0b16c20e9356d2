//! Requests of clients to a shard of an array.

pub(crate) mod barrier;
pub(crate) mod read;
pub(crate) mod write;
