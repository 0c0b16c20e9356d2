//! What kind of pool it is, and what everybody may ask of either kind.

use crate::model::array_geometry::ArrayGeometry;
use crate::model::mapped_geometry::{EXTENT_BLOCKS, Geometry};

/// The shape of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Volumes mapped block by block onto stripes that lie anywhere.
    Mapped(Geometry),
    /// One volume at computed places, as in md's arrays.
    Array(ArrayGeometry),
}

impl Shape {
    /// Shards the pool is cut into.
    pub fn shards(&self) -> usize {
        match self {
            Shape::Mapped(geometry) => geometry.shards,
            Shape::Array(array) => array.shards,
        }
    }

    /// Members that may be lost at the same time, whichever they are.
    pub fn failures(&self) -> usize {
        match self {
            Shape::Mapped(geometry) => geometry.failures(),
            Shape::Array(array) => array.layout.tolerates() as usize,
        }
    }

    /// Whether a checksum of every block is kept and checked when it is read.
    pub fn checksums(&self) -> bool {
        match self {
            Shape::Mapped(geometry) => geometry.checksums,
            Shape::Array(_) => false,
        }
    }

    /// Volumes are dealt over the shards in extents of so many blocks.
    pub fn extent_blocks(&self) -> u64 {
        match self {
            Shape::Mapped(_) => EXTENT_BLOCKS,
            Shape::Array(array) => array.extent_blocks(),
        }
    }

    /// What protects the data, in a few words.
    pub fn name(&self) -> String {
        match self {
            Shape::Mapped(geometry) => geometry.protection.to_string(),
            Shape::Array(array) => array.name(),
        }
    }
}
