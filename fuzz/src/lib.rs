//! What the fuzz targets of the on-disk structures share, and the generator of their first inputs.
//!
//! Random bytes never have the right checksum, so every target takes its input as the inside of a structure and seals
//! it: [`seal`]. The offsets there are those of docs/on-disk-format.md, stated a second time.

pub mod input;
pub mod pool;
pub mod seal;
