//! The journal of an array: groups of blocks on f + 1 members, and their way to the stripes.

pub(crate) mod destage;
pub(crate) mod dirty_blocks;
pub(crate) mod flush;
pub(crate) mod group_builder;
pub(crate) mod log;
