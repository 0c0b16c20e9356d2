//! What a shard of a mapped pool tells of its state.

pub(crate) mod leak_check;
pub(crate) mod status;
