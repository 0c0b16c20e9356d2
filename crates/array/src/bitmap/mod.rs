//! Regions of an array that may differ from what they should be.

pub(crate) mod clear;
pub(crate) mod regions;
