//! Addresses of the chunks of static arrays, before and after growth: pure arithmetic, no I/O, no tables.
//!
//! [`geometry`] has md's levels, and parity by weights. [`history`], [`fastscale`] and [`round_robin`] address striped and mirrored arrays
//! that have grown any number of times; [`moves`] lists the copies of one growth, [`striping`] addresses an array during
//! one. [`restripe`] and [`spread`] address arrays with parity, [`rows`] does so during their growth. [`grown`] joins all of
//! them in one type. [`elastic`] has the further copies of elastic stripes. [`stats`] counts, and [`md`] reads and writes md's superblock.
//! docs/layouts.md has the formulas, their sources, and measurements.

// Arrays as they are made.
pub mod geometry;
mod level_name;
pub mod names;
mod parity_weights;
mod rotation;

// Arrays that have grown.
mod cursor;
pub mod fastscale;
pub mod grown;
pub mod history;
pub mod moves;
pub mod restripe;
pub mod round_robin;
pub mod rows;
pub mod spread;
pub mod striping;

pub mod md;
pub mod stats;

// Stripes that lie anywhere, and parity.
pub mod declustered;
pub mod elastic;
pub mod parity;

pub use cursor::Cursor;
pub use geometry::{Geometry, GeometryError, Home, Level, Role};
pub use level_name::{LevelName, LevelParts, NoParityWeights};
pub use parity_weights::{ParityWeights, WEIGHT_SUM_MAX, WeightsError};
pub use rotation::Rotation;

/// The most members of an array, as in the rest of Sinew.
pub const MEMBERS_MAX: u32 = 255;
