//! The geometry of a pool of either kind, and the questions that both kinds answer.
//!
//! The rest of Sinew asks through [`KindGeometry`] and does not look which kind it has. A third kind of pool is one more
//! implementation and one more variant.

use crate::model::array_geometry::ArrayGeometry;
use crate::model::mapped_geometry::{CHUNK_BYTES, EXTENT_BLOCKS, MappedGeometry, MemberLayout, OVERCOMMIT};
use crate::model::member_state::MemberState;

/// What every kind of pool knows about itself.
pub trait KindGeometry {
    /// Shards of the pool.
    fn shards(&self) -> usize;
    /// Members that may be lost at the same time, whichever they are.
    fn failures(&self) -> usize;
    /// Whether a checksum of every block is kept, and verified by every read.
    fn checksums(&self) -> bool;
    /// Volumes are dealt over the shards in extents of this many blocks.
    fn extent_blocks(&self) -> u64;
    /// The protection in a few words.
    fn name(&self) -> String;
    /// Bytes in use of a member with this layout, from its first byte.
    fn member_end_bytes(&self, layout: &MemberLayout) -> u64;
    /// Whether a pool that has lost exactly these members still has all its data.
    fn survives(&self, lost: &[bool]) -> bool;
    /// Bytes that all volumes together may have on members with this many chunks in each shard.
    fn volume_bytes(&self, chunks: u64) -> u64;
    /// Number of members with a place in a layout that is computed; the members after them are spares. `None` where chunks
    /// may lie on any member.
    fn members_placed(&self) -> Option<usize>;
    /// Completes the layout of a member of `bytes` bytes that a superblock describes by its page slots and chunks. `None`
    /// when such a member is impossible in this pool.
    fn member_layout(
        &self,
        bytes: u64,
        page_slots: u32,
        chunks: u32,
        state: MemberState,
    ) -> Option<MemberLayout>;
}

impl KindGeometry for MappedGeometry {
    fn shards(&self) -> usize {
        self.shards
    }

    fn failures(&self) -> usize {
        self.failures()
    }

    fn checksums(&self) -> bool {
        self.checksums
    }

    fn extent_blocks(&self) -> u64 {
        EXTENT_BLOCKS
    }

    fn name(&self) -> String {
        self.protection.to_string()
    }

    fn member_end_bytes(&self, layout: &MemberLayout) -> u64 {
        layout.end_bytes(self.shards)
    }

    fn survives(&self, lost: &[bool]) -> bool {
        lost.iter().filter(|&&l| l).count() <= self.failures()
    }

    fn volume_bytes(&self, chunks: u64) -> u64 {
        chunks * self.shards as u64 * CHUNK_BYTES * OVERCOMMIT
    }

    fn members_placed(&self) -> Option<usize> {
        None
    }

    fn member_layout(
        &self,
        bytes: u64,
        page_slots: u32,
        chunks: u32,
        state: MemberState,
    ) -> Option<MemberLayout> {
        let layout = MemberLayout { journal_blocks: self.journal_blocks, page_slots, chunks, origin: 0 };
        let fits = layout.end_bytes(self.shards) <= bytes && page_slots > 0 && chunks > 0;
        (fits && state != MemberState::Spare).then_some(layout)
    }
}

impl KindGeometry for ArrayGeometry {
    fn shards(&self) -> usize {
        self.shards
    }

    fn failures(&self) -> usize {
        self.layout.tolerates() as usize
    }

    fn checksums(&self) -> bool {
        false
    }

    fn extent_blocks(&self) -> u64 {
        self.extent_blocks()
    }

    fn name(&self) -> String {
        self.name()
    }

    fn member_end_bytes(&self, _layout: &MemberLayout) -> u64 {
        self.end_bytes()
    }

    fn survives(&self, lost: &[bool]) -> bool {
        self.survives(lost)
    }

    fn volume_bytes(&self, _chunks: u64) -> u64 {
        self.data_bytes()
    }

    fn members_placed(&self) -> Option<usize> {
        Some(self.members())
    }

    fn member_layout(
        &self,
        bytes: u64,
        _page_slots: u32,
        _chunks: u32,
        state: MemberState,
    ) -> Option<MemberLayout> {
        let mapped_only = matches!(state, MemberState::Evacuating | MemberState::Leaving);
        (self.end_bytes() <= bytes && !mapped_only).then(MemberLayout::default)
    }
}

/// The geometry of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolGeometry {
    /// Volumes mapped block by block onto stripes that lie anywhere.
    Mapped(MappedGeometry),
    /// One volume at computed places, as in md's arrays.
    Array(ArrayGeometry),
}

impl PoolGeometry {
    /// The geometry of a mapped pool; `None` for other kinds.
    pub fn mapped(&self) -> Option<&MappedGeometry> {
        match self {
            PoolGeometry::Mapped(geometry) => Some(geometry),
            PoolGeometry::Array(_) => None,
        }
    }

    /// The geometry of an array; `None` for other kinds.
    pub fn array(&self) -> Option<&ArrayGeometry> {
        match self {
            PoolGeometry::Mapped(_) => None,
            PoolGeometry::Array(geometry) => Some(geometry),
        }
    }

    /// Whether it is that of an elastic array.
    pub fn is_elastic(&self) -> bool {
        self.array().is_some_and(|array| array.elastic.is_some())
    }
}

impl std::ops::Deref for PoolGeometry {
    type Target = dyn KindGeometry;

    fn deref(&self) -> &(dyn KindGeometry + 'static) {
        match self {
            PoolGeometry::Mapped(geometry) => geometry,
            PoolGeometry::Array(geometry) => geometry,
        }
    }
}
