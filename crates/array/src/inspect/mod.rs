//! What a shard of an array tells of its state.

pub(crate) mod leak_check;
pub(crate) mod status;
