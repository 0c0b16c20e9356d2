//! Parts of an SSD that a drive may have or not, as a file describes them. docs/device-models.md has the models.

use serde::{Deserialize, Serialize};
use sinew_workload::ByteSize;

/// Parts that the model of an SSD does not have by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// The write buffer survives a power failure, so a flush has nothing to do.
    #[serde(default)]
    pub protected: bool,
    /// The difference of erases within a die from which cold data is moved for the sake of wear; no such moves where not given.
    #[serde(default)]
    pub wear_spread: Option<u32>,
    /// Bytes of the mapping table, of 4 bytes for each block, that are in memory; all of it where not given.
    #[serde(default)]
    pub mapping_memory: Option<ByteSize>,
    /// The flash stores what blocks compress to, in units of this many bytes, and is as large as `physical` and the spare space.
    /// Where not given, it stores whole blocks, and has a place for each address.
    #[serde(default)]
    pub granule: Option<ByteSize>,
    /// Erase blocks that are programmed with one bit per cell.
    #[serde(default)]
    pub slc_cache: Option<SlcCacheSpec>,
}

/// An SLC cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcCacheSpec {
    /// Erase blocks of each die, beside those of the size and the spare space.
    pub erase_blocks: u32,
    /// Bits per cell of the other erase blocks.
    #[serde(default = "three")]
    pub bits: u32,
    /// Microseconds to sense a unit.
    #[serde(default = "sense")]
    pub sense_us: f64,
    /// Microseconds to program a unit.
    #[serde(default = "program")]
    pub program_us: f64,
    /// Milliseconds of silence of the host after which the cache is folded.
    #[serde(default = "silence")]
    pub fold_after_ms: f64,
}

fn three() -> u32 {
    3
}

/// The times of single-level cells in N. Agrawal et al., "Design tradeoffs for SSD performance" (ATC 2008).
fn sense() -> f64 {
    25.0
}

fn program() -> f64 {
    200.0
}

fn silence() -> f64 {
    100.0
}
