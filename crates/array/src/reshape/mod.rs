//! Growth of an array onto more members.

pub(crate) mod chunks;
pub(crate) mod rows;
