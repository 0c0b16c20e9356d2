//! What a shard of an array does by itself.

pub(crate) mod rebuild;
pub(crate) mod scrub;
