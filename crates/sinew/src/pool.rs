//! Pools in this process: their members, making them, and opening them on a set of threads.

pub(crate) mod assembly;
pub(crate) mod cores;
pub(crate) mod create;
pub(crate) mod fault_member;
mod holders;
pub(crate) mod host;
pub(crate) mod in_use;
pub(crate) mod members;
pub(crate) mod preset;
pub(crate) mod table_cache;
pub(crate) mod this_host;
