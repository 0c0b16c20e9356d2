//! What the tests of the frontend share: a volume in memory, a wire whose ends are cut at will, a client's words.

#![allow(dead_code)]

pub(crate) mod client;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod wire;
