//! Addresses that must not mix.

/// A member by its index in the pool's configuration, 0 to 254. Never reused for another place in the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u8);

/// A volume of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

/// A stripe of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripeId(pub u32);

/// The place of one block in the data columns of a shard's stripes: `stripe * k * 16 + column * 16 + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotNo(pub u32);

/// A block of any volume as one shard numbers it: `map page * 4032 + index in the page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardBlock(pub u32);

/// The sequence number of a journal block; counts up by one and never repeats in a shard's life.
pub type Lsn = u64;

/// Where a chunk lives: a member, and the chunk's number within the shard's slice of that member. Packed, since the tables of a pool
/// have one for every chunk.
#[repr(C, packed)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkAddr {
    /// The member.
    pub member: MemberId,
    /// The chunk within the shard's slice of it.
    pub chunk: u32,
}

/// A pool's or member's identity.
pub type Uuid = [u8; 16];

/// Renders an identity for people.
pub fn uuid_text(uuid: &Uuid) -> String {
    let hex: String = uuid.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
