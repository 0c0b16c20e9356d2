//! The geometry of a mapped pool: protection, stripe width, and the division of a member.
//!
//! A member is `[superblocks | shard 0 | shard 1 | …]`; a shard's slice is `[journal ring | page slots | chunks]`.
//! Sizes are chosen here once, when a member joins the pool, and recorded in the configuration.

use std::ops::Range;

use crate::model::stripe_form::{StripeClass, StripeForm};
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::{ShardBlock, SlotNo, StripeId};
use sinew_layout::named;
use sinew_layout::names::Named;

/// Blocks in a chunk: 64 KiB, the stripe unit of FusionRAID (FAST'21, section 4.4).
pub const CHUNK_BLOCKS: u32 = 16;
/// Bytes in a chunk.
pub const CHUNK_BYTES: u64 = CHUNK_BLOCKS as u64 * BLOCK_BYTES as u64;
/// Bytes in a page of a durable table.
pub const PAGE_BYTES: usize = 16 * 1024;
/// Blocks of a volume that one page of the block map maps.
pub const PAGE_INDICES: u32 = 4032;
/// Numbers of slots are smaller than this: the block map uses the upper half of a word's range for other entries.
pub const VALUE_LIMIT: u32 = 1 << 31;
/// Bytes of a page before its content.
pub const PAGE_HEADER_BYTES: usize = 256;
/// Bytes kept for the superblocks at the start of a member.
pub const SUPERBLOCK_AREA_BYTES: u64 = 1 << 20;
/// Volume blocks are dealt over the shards in extents of this many blocks (1 MiB).
pub const EXTENT_BLOCKS: u64 = 256;
/// The fewest and the most members of a pool. Only a mirror of two copies can have two.
pub const MEMBERS: std::ops::RangeInclusive<usize> = 2..=255;
/// The widest stripe, k + m.
pub const STRIPE_WIDTH_MAX: usize = 32;
/// Volumes may add up to this many times the raw capacity.
pub const OVERCOMMIT: u64 = 2;

/// The map page that a block is in.
pub fn map_page(block: ShardBlock) -> u32 {
    block.0 / PAGE_INDICES
}

/// The part of a volume that a block of it in a shard is in, and where in the part. A part has a map page.
pub fn split_local(local: u64) -> (u32, u32) {
    ((local / u64::from(PAGE_INDICES)) as u32, (local % u64::from(PAGE_INDICES)) as u32)
}

/// The protection of a pool against lost members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// Every block on two or three members, always.
    Mirror {
        /// 2 or 3.
        copies: u8,
    },
    /// One parity chunk per stripe; two copies while a stripe is mirrored.
    #[default]
    Parity1,
    /// Two parity chunks per stripe; three copies while a stripe is mirrored.
    Parity2,
}

impl Protection {
    /// Members that may be lost at the same time.
    pub fn failures(self) -> usize {
        match self {
            Protection::Mirror { copies } => copies as usize - 1,
            Protection::Parity1 => 1,
            Protection::Parity2 => 2,
        }
    }

    /// Parity chunks per stripe.
    pub fn parity_columns(self) -> usize {
        match self {
            Protection::Mirror { .. } => 0,
            Protection::Parity1 => 1,
            Protection::Parity2 => 2,
        }
    }
}

named! {
    Protection, "protection":
    Protection::Mirror { copies: 2 } => "mirror", "Two copies: one member may fail";
    Protection::Mirror { copies: 3 } => "mirror3", "Three copies: two members may fail";
    Protection::Parity1 => "parity1", "One parity chunk per stripe: one member may fail";
    Protection::Parity2 => "parity2", "Two parity chunks per stripe: two members may fail";
}

/// Why there is no pool with the requested geometry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// Too few or too many members.
    #[error("a pool has 3 to {most} members, or 2 with --protection mirror; {0} given", most = MEMBERS.end())]
    Members(usize),
    /// The stripe does not fit the members or the format.
    #[error("a stripe of {data}+{parity} needs {needed} to {max} chunks on distinct members; the pool has {members}", max = STRIPE_WIDTH_MAX)]
    Width {
        /// Data columns asked for.
        data: usize,
        /// Parity columns of the protection.
        parity: usize,
        /// Distinct members such a stripe needs.
        needed: usize,
        /// Members given.
        members: usize,
    },
    /// Not a protection that exists.
    #[error("a mirror has 2 or 3 copies, not {0}")]
    Copies(u8),
    /// Not a usable number of shards.
    #[error("a pool has 1 to 64 shards, not {0}")]
    Shards(usize),
    /// A member has no room for the pool's own structures and some chunks.
    #[error("{have} bytes are too few for a member of this pool; it needs at least {need}")]
    MemberTooSmall {
        /// Size of the member.
        have: u64,
        /// Smallest usable size.
        need: u64,
    },
    /// A shard cannot number everything that its share of the members holds.
    #[error("the members are too large for {shards} shards; give the pool at least {need}")]
    TooFewShards {
        /// Shards asked for.
        shards: usize,
        /// Shards needed.
        need: u64,
    },
}

/// The geometry that all shards of a pool share. Checked when it is made; all arithmetic on stripes starts here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedGeometry {
    /// Protection of every volume.
    pub protection: Protection,
    /// k: data columns of a full stripe.
    pub data_columns: usize,
    /// Shards of the pool.
    pub shards: usize,
    /// Whether a CRC32C of every block is kept and checked when it is read.
    pub checksums: bool,
    /// Blocks in each shard's journal ring on each member.
    pub journal_blocks: u32,
}

impl MappedGeometry {
    /// Checks the geometry for a pool of `members` members. `data_columns` 0 becomes the default: as wide as the members
    /// allow, with one spare if there are more than four, and at most 8+m.
    ///
    /// # Errors
    /// [`GeometryError`] if such a pool is impossible with this number of members.
    pub fn checked_for(self, members: usize) -> Result<MappedGeometry, GeometryError> {
        let MappedGeometry { protection, data_columns, shards, .. } = self;
        let is_pair = matches!(protection, Protection::Mirror { copies: 2 });
        if !MEMBERS.contains(&members) || members == 2 && !is_pair {
            return Err(GeometryError::Members(members));
        }
        if let Protection::Mirror { copies } = protection
            && !(2..=3).contains(&copies)
        {
            return Err(GeometryError::Copies(copies));
        }
        if !(1..=64).contains(&shards) {
            return Err(GeometryError::Shards(shards));
        }
        let parity = protection.parity_columns();
        let data_columns = match (data_columns, protection) {
            // Alone, one of two members takes stripes of one column only.
            (0, Protection::Mirror { .. }) if members == 2 => 1,
            (0, Protection::Mirror { .. }) => 4.min(members),
            (0, _) => (members - usize::from(members > 4)).saturating_sub(parity).clamp(1, 8),
            (k, _) => k,
        };
        let geometry = MappedGeometry { data_columns, ..self };
        let needed = (data_columns + parity).max(geometry.copies());
        if data_columns == 0 || needed > members || data_columns + parity > STRIPE_WIDTH_MAX {
            return Err(GeometryError::Width { data: data_columns, parity, needed, members });
        }
        Ok(geometry)
    }

    /// Journal blocks suited to members of `member_bytes`: a 64th of a shard's slice, within 256 KiB and 64 MiB. The
    /// longer the journal, the more changes share the writing of a table page.
    pub fn journal_blocks_for(member_bytes: u64, shards: usize) -> u32 {
        (member_bytes / shards as u64 / 64 / BLOCK_BYTES as u64).clamp(64, 16 * 1024) as u32
    }

    /// f: members that may be lost at the same time.
    pub fn failures(&self) -> usize {
        self.protection.failures()
    }

    /// m: parity columns.
    pub fn parity_columns(&self) -> usize {
        self.protection.parity_columns()
    }

    /// Parity columns of a stripe of this form, reserved ones included.
    pub fn parity_columns_of(&self, form: StripeForm) -> usize {
        if form == StripeForm::Pinned { 0 } else { self.parity_columns() }
    }

    /// The class of stripes of a volume with this protection; `None` when the pool does not offer it.
    pub fn class_of(&self, protection: Protection) -> Option<StripeClass> {
        let is_mirror = matches!(protection, Protection::Mirror { .. });
        match protection == self.protection {
            true => Some(StripeClass::Pool),
            false => (is_mirror && protection.failures() == self.failures()).then_some(StripeClass::Pinned),
        }
    }

    /// Protections that the pool's volumes can have, its own first.
    pub fn protections(&self) -> impl Iterator<Item = Protection> + use<> {
        let g = *self;
        let all = Protection::NAMES.iter().map(|name| name.value);
        let others = all.filter(move |&other| g.class_of(other) == Some(StripeClass::Pinned));
        std::iter::once(g.protection).chain(others)
    }

    /// The form in which whole stripes of a class are written.
    pub fn form_of(&self, class: StripeClass) -> StripeForm {
        match (class, self.parity_columns()) {
            (StripeClass::Pinned, _) => StripeForm::Pinned,
            (StripeClass::Pool, 0) => StripeForm::Mirrored,
            (StripeClass::Pool, _) => StripeForm::Parity,
        }
    }

    /// Copies of a block in a mirrored stripe, and of every piece of metadata: f + 1.
    pub fn copies(&self) -> usize {
        self.failures() + 1
    }

    /// The fewest members of a pool with this geometry.
    pub fn members_least(&self) -> usize {
        let is_pair = matches!(self.protection, Protection::Mirror { copies: 2 });
        (self.data_columns + self.parity_columns()).max(self.copies()).max(if is_pair { 2 } else { 3 })
    }

    /// Chunks a stripe can have: k data, m parity, f mirrors of each data column, in this order.
    pub fn homes_per_stripe(&self) -> usize {
        self.data_columns + self.parity_columns() + self.data_columns * self.failures()
    }

    /// Index, among a stripe's homes, of parity column `p`.
    pub fn parity_index(&self, p: usize) -> usize {
        self.data_columns + p
    }

    /// Whether this is the index of a parity column.
    pub fn is_parity(&self, index: usize) -> bool {
        (self.parity_index(0)..self.mirror_index(0, 0)).contains(&index)
    }

    /// Index, among a stripe's homes, of mirror `copy` (from 0) of data column `column`.
    pub fn mirror_index(&self, copy: usize, column: usize) -> usize {
        self.data_columns + self.parity_columns() + copy * self.data_columns + column
    }

    /// Indices, among a stripe's homes, of all copies of data column `column`: the column itself, then its mirrors.
    pub fn copies_of(&self, column: usize) -> impl Iterator<Item = usize> + use<> {
        let g = *self;
        std::iter::once(column).chain((0..g.failures()).map(move |copy| g.mirror_index(copy, column)))
    }

    /// Indices of the homes that a stripe of `columns` data columns should have. A mirrored one has its parity columns reserved,
    /// unless it is pinned.
    pub fn required(&self, columns: usize, form: StripeForm) -> impl Iterator<Item = usize> + use<> {
        let g = *self;
        let copies = if form.has_mirrors() { g.failures() } else { 0 };
        (0..columns)
            .chain((0..g.parity_columns_of(form)).map(move |p| g.parity_index(p)))
            .chain((0..copies).flat_map(move |copy| (0..columns).map(move |c| g.mirror_index(copy, c))))
    }

    /// Whether one of two chunks of a stripe, by their indices, is needed to recover the other, so that no member may hold
    /// both.
    pub fn protect(&self, one: usize, other: usize) -> bool {
        let first_mirror = self.mirror_index(0, 0);
        let column = |i: usize| match i {
            i if i < self.data_columns => Some(i),
            i if i < first_mirror => None,
            i => Some((i - first_mirror) % self.data_columns),
        };
        (one < first_mirror && other < first_mirror)
            || column(one).is_some_and(|found| Some(found) == column(other))
    }

    /// Blocks in the data columns of a full stripe.
    pub fn slots_per_stripe(&self) -> u32 {
        self.data_columns as u32 * CHUNK_BLOCKS
    }

    /// The slot of block `offset` of a column.
    pub fn slot(&self, stripe: StripeId, column: usize, offset: u32) -> SlotNo {
        SlotNo(stripe.0 * self.slots_per_stripe() + column as u32 * CHUNK_BLOCKS + offset)
    }

    /// The stripe, column and offset of a slot.
    pub fn place(&self, slot: SlotNo) -> (StripeId, usize, u32) {
        let within = slot.0 % self.slots_per_stripe();
        let stripe = StripeId(slot.0 / self.slots_per_stripe());
        (stripe, (within / CHUNK_BLOCKS) as usize, within % CHUNK_BLOCKS)
    }

    /// Bytes of one stripe in a page of the stripe table.
    pub fn stripe_record_bytes(&self) -> usize {
        self.stripe_head_bytes() + self.slots_per_stripe() as usize * 8
    }

    /// Of the bytes of a stripe record, those before the owners and checksums of the slots.
    pub fn stripe_head_bytes(&self) -> usize {
        20 + self.homes_per_stripe() * 5
    }

    /// Stripes in a page of the stripe table.
    pub fn stripes_per_page(&self) -> usize {
        (PAGE_BYTES - PAGE_HEADER_BYTES) / self.stripe_record_bytes()
    }

    /// The page of the stripe table that a stripe is in.
    pub fn stripe_page(&self, stripe: StripeId) -> u32 {
        stripe.0 / self.stripes_per_page() as u32
    }

    /// Limit of the stripes of a shard with `chunks` chunks: one and a half times the number of full stripes, so that there is
    /// room for short ones; beyond that, compaction must merge them. Never more than there are numbers for slots.
    pub fn stripes_max(&self, chunks: u64) -> u64 {
        self.stripes_wanted(chunks).min(u64::from(VALUE_LIMIT / self.slots_per_stripe()))
    }

    fn stripes_wanted(&self, chunks: u64) -> u64 {
        let full = match self.protection {
            Protection::Mirror { .. } => self.data_columns * self.copies(),
            _ => self.data_columns + self.parity_columns(),
        };
        (chunks / full as u64) * 3 / 2 + 8
    }

    /// Checks that a shard has numbers for the slots of this many chunks.
    ///
    /// # Errors
    /// [`GeometryError::TooFewShards`] when a pool of these members needs more shards.
    pub fn check_chunks(&self, chunks: u64) -> Result<(), GeometryError> {
        let slots = self.stripes_wanted(chunks) * u64::from(self.slots_per_stripe());
        let times = slots.div_ceil(u64::from(VALUE_LIMIT));
        if times <= 1 {
            return Ok(());
        }
        Err(GeometryError::TooFewShards { shards: self.shards, need: times * self.shards as u64 })
    }

    /// Limit of the map pages of a shard with `chunks` chunks. Never more than there are numbers for blocks.
    pub fn map_pages_max(&self, chunks: u64) -> u64 {
        let wanted = (chunks * u64::from(CHUNK_BLOCKS) * OVERCOMMIT).div_ceil(u64::from(PAGE_INDICES)) + 16;
        wanted.min(u64::from(VALUE_LIMIT / PAGE_INDICES))
    }

    /// Map pages that a shard with `chunks` chunks needs for its part of the largest possible volume.
    pub fn volume_parts_max(&self, chunks: u64) -> u64 {
        (chunks * u64::from(CHUNK_BLOCKS) * OVERCOMMIT + EXTENT_BLOCKS).div_ceil(u64::from(PAGE_INDICES))
    }

    /// Divides a member of `bytes` bytes, in a pool of `members` members.
    ///
    /// Each member gets page slots in proportion to its chunks, such that the members left after f losses can hold f + 1 copies
    /// of every page, with a quarter to spare.
    ///
    /// # Errors
    /// [`GeometryError::MemberTooSmall`] when fewer than eight chunks per shard would be left.
    pub fn member_layout(&self, bytes: u64, members: usize) -> Result<MemberLayout, GeometryError> {
        let n = members as u64;
        let survivors = n - self.failures() as u64;
        // Pages for 2^20 chunks, to keep the arithmetic whole.
        let unit = 1u64 << 20;
        let stripe_pages = self.stripes_max(unit).div_ceil(self.stripes_per_page() as u64);
        let pages = stripe_pages + self.map_pages_max(unit);
        let slots_per_unit = pages * self.copies() as u64 * n * 5 / (survivors * 4);
        // At any size, room for the first pages of each table and of a few volumes, and for a copy that is being written.
        let slots_least = (24 * self.copies() as u64 * n).div_ceil(survivors * n) + 8;
        let fixed = |shards: u64| {
            SUPERBLOCK_AREA_BYTES
                + shards
                    * (u64::from(self.journal_blocks) * BLOCK_BYTES as u64 + slots_least * PAGE_BYTES as u64)
        };
        let shards = self.shards as u64;
        let per_unit = unit * CHUNK_BYTES + slots_per_unit * PAGE_BYTES as u64;
        let usable = bytes.saturating_sub(fixed(shards)) / shards;
        let chunks = (u128::from(usable) * u128::from(unit) / u128::from(per_unit)) as u64;
        if chunks < 8 {
            return Err(GeometryError::MemberTooSmall {
                have: bytes,
                need: fixed(shards) + shards * 9 * CHUNK_BYTES,
            });
        }
        let page_slots = slots_least + chunks * slots_per_unit / unit;
        Ok(MemberLayout {
            journal_blocks: self.journal_blocks,
            page_slots: page_slots.min(u64::from(u32::MAX)) as u32,
            chunks: chunks.min(u64::from(u32::MAX)) as u32,
            origin: 0,
        })
    }
}

/// The division of each shard's slice of one member; the same for all shards of that member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberLayout {
    /// Blocks in the journal ring.
    pub journal_blocks: u32,
    /// Slots for table pages.
    pub page_slots: u32,
    /// Chunks.
    pub chunks: u32,
    /// The offset of the member's part of its device: 0 except for members of md's arrays.
    pub origin: u64,
}

impl MemberLayout {
    /// Bytes of one shard's slice.
    pub fn slice_bytes(&self) -> u64 {
        u64::from(self.journal_blocks) * BLOCK_BYTES as u64
            + u64::from(self.page_slots) * PAGE_BYTES as u64
            + u64::from(self.chunks) * CHUNK_BYTES
    }

    /// Bytes in use of a member: the superblocks and all shards.
    pub fn end_bytes(&self, shards: usize) -> u64 {
        self.slice(shards)
    }

    /// The ranges of a member that hold metadata: superblocks, journals and pages.
    pub fn metadata(&self, shards: usize) -> impl Iterator<Item = Range<u64>> {
        let of_shard =
            move |shard| self.slice(shard)..self.slice(shard + 1) - u64::from(self.chunks) * CHUNK_BYTES;
        std::iter::once(0..SUPERBLOCK_AREA_BYTES).chain((0..shards).map(of_shard))
    }

    /// The offset of a journal position on the member.
    pub fn journal_offset(&self, shard: usize, position: u32) -> u64 {
        debug_assert!(position < self.journal_blocks);
        self.slice(shard) + u64::from(position) * BLOCK_BYTES as u64
    }

    /// The offset of a page slot on the member.
    pub fn page_offset(&self, shard: usize, slot: u32) -> u64 {
        debug_assert!(slot < self.page_slots);
        self.slice(shard)
            + u64::from(self.journal_blocks) * BLOCK_BYTES as u64
            + u64::from(slot) * PAGE_BYTES as u64
    }

    /// The offset of a block of a chunk on the member.
    pub fn chunk_offset(&self, shard: usize, chunk: u32, block: u32) -> u64 {
        debug_assert!(chunk < self.chunks && block < CHUNK_BLOCKS);
        self.slice(shard)
            + u64::from(self.journal_blocks) * BLOCK_BYTES as u64
            + u64::from(self.page_slots) * PAGE_BYTES as u64
            + u64::from(chunk) * CHUNK_BYTES
            + u64::from(block) * BLOCK_BYTES as u64
    }

    fn slice(&self, shard: usize) -> u64 {
        SUPERBLOCK_AREA_BYTES + shard as u64 * self.slice_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(data_columns: usize) -> MappedGeometry {
        let protection = Protection::Parity1;
        MappedGeometry { protection, data_columns, shards: 1, checksums: true, journal_blocks: 64 }
    }

    #[test]
    fn layouts_fit_their_members() {
        for members in [3usize, 4, 5, 8, 29, 255] {
            for protection in [
                Protection::Mirror { copies: 2 },
                Protection::Mirror { copies: 3 },
                Protection::Parity1,
                Protection::Parity2,
            ] {
                for shards in [1usize, 2, 7] {
                    for bytes in [12u64 << 20, 64 << 20, 1 << 30, 1 << 40] {
                        let geometry = MappedGeometry { protection, shards, ..sample(0) };
                        let Ok(g) = geometry.checked_for(members) else {
                            continue;
                        };
                        let Ok(layout) = g.member_layout(bytes, members) else { continue };
                        assert!(SUPERBLOCK_AREA_BYTES + shards as u64 * layout.slice_bytes() <= bytes);
                        let chunks = u64::from(layout.chunks) * members as u64;
                        let pages = g.stripes_max(chunks).div_ceil(g.stripes_per_page() as u64)
                            + g.map_pages_max(chunks);
                        let survivors = (members - g.failures()) as u64;
                        assert!(
                            u64::from(layout.page_slots) * survivors >= pages * g.copies() as u64,
                            "{g:?} {layout:?} {pages}"
                        );
                        assert!(
                            bytes < 1 << 30
                                || chunks * CHUNK_BYTES * shards as u64 * 100 >= bytes * members as u64 * 90
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_shard_has_numbers_for_all_its_slots() {
        for shards in [1usize, 2, 16] {
            let g = MappedGeometry { shards, ..sample(6) }.checked_for(8).unwrap();
            for tib in 1..200u64 {
                let chunks = (tib << 40) / CHUNK_BYTES / shards as u64;
                let slots = g.stripes_max(chunks) * u64::from(g.slots_per_stripe());
                assert!(slots <= u64::from(VALUE_LIMIT));
                assert!(g.map_pages_max(chunks) * u64::from(PAGE_INDICES) <= u64::from(VALUE_LIMIT));
                match g.check_chunks(chunks) {
                    Ok(()) => assert!(g.stripes_max(chunks) >= chunks / 7 * 3 / 2),
                    Err(GeometryError::TooFewShards { need, .. }) => {
                        assert!(g.check_chunks(chunks * shards as u64 / need).is_ok());
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }

    #[test]
    fn slots_and_places_agree() {
        let g = sample(6).checked_for(8).unwrap();
        let slot = g.slot(StripeId(3), 5, 15);
        assert_eq!(g.place(slot), (StripeId(3), 5, 15));
        assert_eq!(g.place(SlotNo(slot.0 + 1)), (StripeId(4), 0, 0));
    }
}
