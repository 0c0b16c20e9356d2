//! The execution of one run: a simulation under load, or the arithmetic of an array that grows.

mod addressing_times;
mod figures;
pub(crate) mod growth_arithmetic;
mod histogram;
mod load;
mod measure;
mod online_growth;
pub(crate) mod simulation;
