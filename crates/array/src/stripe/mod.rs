//! Stripes of an array: locks, what a change must read, and the change itself.

pub(crate) mod hedged;
pub(crate) mod locks;
pub(crate) mod parity_plan;
pub(crate) mod update;
