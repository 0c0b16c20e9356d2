//! The commands of the laboratory, which are built with the feature `lab`: the engine on simulated members.
//!
//! `without_lab` has the same names for a binary without the feature.

mod experiment;
mod scaling;
mod torture;

pub(crate) use experiment::{ExperimentArgs, run as experiment};
pub(crate) use scaling::{ScalingArgs, run as scaling};
pub(crate) use torture::{TortureArgs, expects_panics, run as torture};
