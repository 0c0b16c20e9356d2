//! Every byte that Sinew writes to a member besides volume data, defined here and nowhere else.
//!
//! All integers are little-endian. Every structure carries a magic number, the format version, the pool's identity and a
//! CRC32C, and decoding checks all of them: what these functions accept was written by this pool. See
//! docs/on-disk-format.md.

pub mod codec;
pub mod group;
pub mod journal;
pub mod page;
mod shape;
pub mod superblock;

/// The version of everything on the members. A member with another version is refused.
pub const FORMAT_VERSION: u16 = 2;
/// A pool's or member's identity.
pub type Uuid = [u8; 16];

/// Renders an identity for people.
pub fn uuid_text(uuid: &Uuid) -> String {
    let hex: String = uuid.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
