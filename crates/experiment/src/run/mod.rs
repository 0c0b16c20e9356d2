//! The execution of one run: a simulation under load, or the arithmetic of growth or reliability.

mod addressing_times;
mod backlog;
pub(crate) mod capacity;
mod elastic;
mod figures;
pub(crate) mod growth_arithmetic;
mod histogram;
mod load;
mod measure;
mod member_failure;
mod online_growth;
pub(crate) mod reliability_arithmetic;
pub(crate) mod simulation;
mod steady;
mod wear_model;
