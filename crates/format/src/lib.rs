//! The on-disk format: every structure that Sinew writes to a member besides volume data, defined here and nowhere else.
//!
//! All integers are little-endian. Every structure carries a magic number, the format version, the pool's identity and a
//! CRC32C, and decoding checks all of them, so that only structures which this pool wrote are accepted. See
//! docs/on-disk-format.md.

pub mod codec;
pub mod foreign;
pub mod form_page;
pub mod group_striping;
pub mod journal_block;
pub mod log_group;
pub mod model;
pub mod page_reach;
mod pool_geometry_codec;
pub mod record_check;
pub mod superblock;
pub mod table_page;
mod volume_codec;

// Crates above this one name their settings in the same way.
pub use sinew_layout::named;

/// The version of everything on the members. A member with another version is refused.
pub const FORMAT_VERSION: u16 = 2;
/// The version of the superblocks of a pool with volumes whose protection is not the pool's: versions of Sinew that do not
/// know such volumes refuse it.
pub const PROTECTIONS_VERSION: u16 = 3;
/// The versions of superblocks that can be read.
pub const VERSIONS: [u16; 2] = [FORMAT_VERSION, PROTECTIONS_VERSION];
