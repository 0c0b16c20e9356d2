//! One shard's share of an array: its stripes and blocks, and where they lie on the members.

use std::cell::Cell;

use sinew_layout::Home;
use sinew_layout::elastic::copy_home;
use sinew_layout::rows::{Cell as RowCell, Rows};
use sinew_layout::spread::Share;
use sinew_layout::striping::Growth;

use crate::model::mapped_geometry::SUPERBLOCK_AREA_BYTES;
use crate::model::sharding::dealt;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::MemberId;
use sinew_core::mutation::{self, Mutation};

use crate::form_page::FORMS_PER_PAGE;
use crate::model::array_geometry::ArrayGeometry;
use crate::model::array_growth::{Manner, Places};
use crate::model::form::Form;

/// One shard's part of an array: its stripes and its blocks, each numbered from 0 without gaps.
///
/// A *unit* is a chunk of a stripe: data columns, then parity, then the copies that the data columns have in the mirrored
/// form, copy by copy. Where stripes are a chunk and its copies there is one column and no parity. A *slot* is a block's place in
/// the data columns of its stripe: column * chunk blocks + offset in the chunk.
#[derive(Debug)]
pub struct ShardLayout {
    /// The geometry of the whole array.
    pub geometry: ArrayGeometry,
    /// The number of the shard.
    pub index: usize,
    /// k: data columns of the widest stripes.
    pub k: usize,
    /// m: parity columns of every stripe; 0 where stripes are a chunk and its copies.
    pub m: usize,
    /// w: units of the widest stripes.
    pub w: usize,
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
    /// Stripes of the shard.
    pub stripes: u64,
    groups: u64,
    extent_stripes: u64,
    region_stripes: u64,
    data_offset: u64,
    /// Without parity: locations of chunks that differ from those of a new array.
    places: Option<Places>,
    /// With parity: rows that differ from those of a new array.
    rows: Option<Rows>,
    /// Progress of the growth under way: everything with a key below has moved, or changed.
    moved: Cell<u64>,
}

/// Consecutive slots of one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The stripe, as the shard numbers it.
    pub stripe: u64,
    /// The first slot.
    pub slot: u32,
    /// Number of slots, one block each.
    pub blocks: u32,
}

impl ShardLayout {
    /// The part of shard `index` of an array with this geometry.
    pub fn new(geometry: ArrayGeometry, index: usize) -> ShardLayout {
        let extent_stripes = geometry.extent_stripes();
        let stripes = dealt(geometry.stripes(), extent_stripes, index, geometry.shards);
        let share = Share { run: extent_stripes, index: index as u64, shards: geometry.shards as u64 };
        let (striped, parity) =
            geometry.grown.map_or((None, None), |grown| match geometry.has_grown_rows() {
                true => (None, Some(grown.rows(&geometry.layout, share, stripes))),
                false => (Some(grown.places(geometry.layout.member_chunks() as u32)), None),
            });
        ShardLayout {
            k: geometry.data_columns(),
            m: geometry.parity_columns(),
            w: geometry.width(),
            chunk_blocks: geometry.chunk_blocks(),
            stripes,
            groups: geometry.groups() as u64,
            extent_stripes,
            region_stripes: geometry.region_stripes,
            data_offset: geometry.data_offset(),
            places: striped,
            rows: parity,
            moved: Cell::default(),
            geometry,
            index,
        }
    }

    /// Whether the array cannot grow.
    pub fn is_fixed(&self) -> bool {
        self.geometry.md.is_some()
    }

    /// Whether a stripe is a chunk and its copies.
    pub fn is_mirror(&self) -> bool {
        self.m == 0
    }

    /// Units of a stripe that may be lost.
    pub fn tolerates(&self) -> usize {
        self.w - self.k
    }

    /// Whether stripes change their form.
    pub fn is_elastic(&self) -> bool {
        self.geometry.elastic.is_some()
    }

    /// The form of all stripes of an array that is not elastic.
    pub fn fixed_form(&self) -> Form {
        if self.is_mirror() { Form::Mirrored } else { Form::Parity }
    }

    /// The column whose data a unit of a stripe holds; `None` for parity.
    pub fn column_of(&self, stripe: u64, unit: usize) -> Option<usize> {
        let k = self.columns(stripe);
        match unit.checked_sub(k + self.m) {
            Some(copy) => Some(copy % k),
            None => Some(unit).filter(|&unit| unit < k),
        }
    }

    /// The units that hold the data of a column of a stripe in the mirrored form.
    pub fn column_units(&self, stripe: u64, column: usize) -> impl Iterator<Item = usize> + use<> {
        let (k, m) = (self.columns(stripe), self.m);
        std::iter::once(column).chain((0..self.tolerates()).map(move |copy| k + m + copy * k + column))
    }

    /// The units that a stripe of this form has.
    pub fn units(&self, stripe: u64, form: Form) -> Vec<usize> {
        match form {
            Form::Empty => Vec::new(),
            Form::Parity => (0..self.width(stripe)).collect(),
            Form::Mirrored => {
                (0..self.columns(stripe)).flat_map(|column| self.column_units(stripe, column)).collect()
            }
        }
    }

    /// The places of an elastic stripe, in all slots and on all members, that this form of it does not use. They include those
    /// that the stripe has used before a growth, and places that no stripe uses.
    pub fn unused_places(&self, stripe: u64, form: Form) -> Vec<Home> {
        let used: Vec<Home> =
            self.units(stripe, form).into_iter().map(|unit| self.unit_home(stripe, unit)).collect();
        let (area, row) = (self.geometry.layout.member_chunks(), self.whole(stripe));
        let members = 0..self.geometry.layout.members();
        let places = members.flat_map(|member| {
            (0..self.geometry.slots()).map(move |slot| Home { member, chunk: slot * area + row })
        });
        places.filter(|place| !used.contains(place)).collect()
    }

    /// Chunks of an elastic stripe of the widest that a form uses.
    pub fn chunks_used(&self, form: Form) -> u64 {
        let chunks = match form {
            Form::Empty => 0,
            Form::Parity => self.w,
            Form::Mirrored => self.k * (1 + self.m),
        };
        chunks as u64
    }

    /// Form pages of the shard that have stripes.
    pub fn form_pages(&self) -> u32 {
        let pages = self.stripes.div_ceil(FORMS_PER_PAGE) as u32;
        if self.is_elastic() { pages } else { 0 }
    }

    /// The offset of a version of a form page on each member.
    pub fn form_page_offset(&self, page: u32, version: u64) -> u64 {
        self.geometry.form_page_offset(self.index, page, version)
    }

    /// Data columns of a stripe.
    pub fn columns(&self, stripe: u64) -> usize {
        self.rows.as_ref().map_or(self.k, |rows| rows.columns(stripe, self.moved.get()) as usize)
    }

    /// Units of a stripe.
    pub fn width(&self, stripe: u64) -> usize {
        if self.rows.is_some() { self.columns(stripe) + self.m } else { self.w }
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> u64 {
        u64::from(self.geometry.layout.chunk_bytes())
    }

    /// Blocks of data: before the growth under way, if there is one.
    pub fn blocks(&self) -> u64 {
        let chunks = self.rows.as_ref().map_or(self.stripes * self.k as u64, Rows::chunks);
        chunks * u64::from(self.chunk_blocks)
    }

    /// The rows of an array with parity that is growing.
    pub fn changing(&self) -> Option<&Rows> {
        self.rows.as_ref().filter(|rows| rows.grows())
    }

    /// Whether all stripes have the same width, and their layout repeats.
    pub fn is_regular(&self) -> bool {
        self.rows.is_none()
    }

    /// Slots of a stripe at most.
    pub fn stripe_slots(&self) -> u32 {
        self.k as u32 * self.chunk_blocks
    }

    /// Regions of the shard.
    pub fn regions(&self) -> usize {
        self.stripes.div_ceil(self.region_stripes) as usize
    }

    /// The region of a stripe.
    pub fn region(&self, stripe: u64) -> usize {
        (stripe / self.region_stripes) as usize
    }

    /// The stripes of a region.
    pub fn region_stripes(&self, region: usize) -> std::ops::Range<u64> {
        let first = region as u64 * self.region_stripes;
        first..(first + self.region_stripes).min(self.stripes)
    }

    /// The runs of consecutive blocks of the shard, in order of the blocks. No run crosses a chunk.
    pub fn runs(&self, local: u64, count: u64) -> impl Iterator<Item = Run> {
        let slice = self;
        let (mut at, end) = (local, local + count);
        std::iter::from_fn(move || {
            let left = end.checked_sub(at).filter(|&left| left > 0)?;
            let (chunk, offset) = (at / u64::from(slice.chunk_blocks), at % u64::from(slice.chunk_blocks));
            let blocks = left.min(u64::from(slice.chunk_blocks) - offset) as u32;
            at += u64::from(blocks);
            if let Some(rows) = &slice.rows {
                let RowCell { row, column } = rows.cell(chunk, slice.moved.get());
                return Some(Run { stripe: row, slot: column * slice.chunk_blocks + offset as u32, blocks });
            }
            // Whole rows follow one another in a shard as in the array, so its chunks are dealt likewise.
            let (inner, group) = (chunk / slice.groups, chunk % slice.groups);
            let (row, position) = (inner / slice.k as u64, (inner % slice.k as u64) as u32);
            let stripe = row * slice.groups + group;
            let column = slice.geometry.layout.column_in(slice.whole(stripe), position);
            Some(Run { stripe, slot: column * slice.chunk_blocks + offset as u32, blocks })
        })
    }

    /// The block of the shard in a slot of a stripe: the reverse of [`ShardLayout::runs`]. `None` where the slot holds none.
    pub fn local(&self, stripe: u64, slot: u32) -> Option<u64> {
        let (column, offset) = (slot / self.chunk_blocks, slot % self.chunk_blocks);
        let chunk = match &self.rows {
            Some(rows) => rows.chunk(RowCell { row: stripe, column }, self.moved.get())?,
            None => {
                let (row, group, k) = (stripe / self.groups, stripe % self.groups, self.k as u32);
                let position = self.geometry.layout.position_in(self.whole(stripe), column);
                (row * u64::from(k) + u64::from(position)) * self.groups + group
            }
        };
        Some(chunk * u64::from(self.chunk_blocks) + u64::from(offset))
    }

    /// The number of a stripe in the whole array; with parity, of a row of the members, where rows have grown.
    pub fn whole(&self, stripe: u64) -> u64 {
        let (extent, within) = (stripe / self.extent_stripes, stripe % self.extent_stripes);
        (extent * self.geometry.shards as u64 + self.index as u64) * self.extent_stripes + within
    }

    /// A unit's member and the first byte of its chunk there.
    pub fn home(&self, stripe: u64, unit: usize) -> (MemberId, u64) {
        self.place_of(self.unit_home(stripe, unit))
    }

    /// The member of a chunk, and its first byte there.
    pub fn place_of(&self, home: Home) -> (MemberId, u64) {
        (MemberId(home.member as u8), self.chunk_offset(home))
    }

    /// A unit's member and the number of its chunk there.
    pub fn unit_home(&self, stripe: u64, unit: usize) -> Home {
        let whole = self.whole(stripe);
        let width = self.width(stripe);
        if let Some(copy) = unit.checked_sub(width).filter(|_| self.is_elastic()) {
            let k = self.columns(stripe);
            let column = self.unit_home(stripe, copy % k);
            let area = self.geometry.layout.member_chunks();
            let slot = 1 + (copy / k) as u32;
            if mutation::on(Mutation::CopiesTogether) {
                return Home { chunk: column.chunk + u64::from(slot) * area, ..column };
            }
            return copy_home(column, slot, width as u32, area);
        }
        if let Some(rows) = &self.rows {
            let moved = self.moved.get();
            let member = match unit.checked_sub(rows.columns(stripe, moved) as usize) {
                None => rows.member(RowCell { row: stripe, column: unit as u32 }, moved),
                Some(parity) => rows.parity(stripe, parity, moved),
            };
            return Home { member, chunk: whole };
        }
        let layout = &self.geometry.layout;
        let home = if let Some(places) = &self.places {
            Some(self.member_home(places.home(whole, self.moved.get()), unit))
        } else if self.is_mirror() {
            layout.homes(whole).nth(unit)
        } else if unit < self.k {
            Some(layout.column_home(whole, unit as u32))
        } else {
            layout.parity(whole).nth(unit - self.k)
        };
        home.expect("a unit of a stripe")
    }

    /// The location of copy `unit` of a chunk on a disk, which is a set of members.
    pub fn member_home(&self, disk: Home, unit: usize) -> Home {
        Home { member: disk.member * self.geometry.layout.copies() + unit as u32, ..disk }
    }

    /// The first byte of a chunk on its member.
    pub fn chunk_offset(&self, home: Home) -> u64 {
        self.data_offset + home.chunk * self.chunk_bytes()
    }

    /// The parameters of the growth under way, without parity.
    pub fn manner(&self) -> Option<Manner> {
        self.geometry.grown?.method()?.manner()
    }

    /// The growth under way, without parity.
    pub fn growth(&self) -> Option<&Growth> {
        match &self.places {
            Some(Places::Growing(growth)) => Some(growth),
            _ => None,
        }
    }

    /// About how many chunks the growth under way still has to move.
    pub fn growth_left(&self) -> Option<u64> {
        if let Some(rows) = self.changing() {
            return Some(rows.left(self.moved()));
        }
        let left = self.growth()?.left(self.moved());
        Some(left.div_ceil(self.geometry.shards as u64))
    }

    /// The key below which everything has moved in the growth under way.
    pub fn moved(&self) -> u64 {
        self.moved.get()
    }

    /// Notes that everything below this key has moved.
    pub fn set_moved(&self, key: u64) {
        self.moved.set(key);
    }

    /// The key of a stripe's chunk in the growth under way.
    pub fn key(&self, stripe: u64) -> Option<u64> {
        Some(self.growth()?.key(self.whole(stripe)))
    }

    /// The number, in this shard, of a stripe of an array without parity; `None` when it belongs to another shard.
    pub fn own(&self, chunk: u64) -> Option<u64> {
        let (extent, within) = (chunk / self.extent_stripes, chunk % self.extent_stripes);
        let shards = self.geometry.shards as u64;
        (extent % shards == self.index as u64).then_some(extent / shards * self.extent_stripes + within)
    }

    /// The member that holds a unit.
    pub fn member(&self, stripe: u64, unit: usize) -> MemberId {
        self.home(stripe, unit).0
    }

    /// The members of the array, spares excluded.
    pub fn member_ids(&self) -> impl Iterator<Item = MemberId> + use<> {
        (0..self.geometry.members()).map(|m| MemberId(m as u8))
    }

    /// The members of a stripe's units, in the order of the units.
    pub fn stripe_members(&self, stripe: u64) -> impl Iterator<Item = MemberId> {
        (0..self.width(stripe)).map(move |unit| self.member(stripe, unit))
    }

    /// The offset of a position of the log on a member.
    pub fn log_offset(&self, position: u32) -> u64 {
        let before = self.index as u64 * u64::from(self.geometry.log_blocks) + u64::from(position);
        SUPERBLOCK_AREA_BYTES + before * BLOCK_BYTES as u64
    }
}

/// What follows from where the chunks lie.
impl ArrayGeometry {
    /// The key at which the growth under way ends, the same in all shards. With parity every shard has keys of its own, and
    /// reports 1 when it has ended.
    pub fn growth_end(&self) -> Option<u64> {
        self.grown?.method()?;
        if self.has_grown_rows() {
            return Some(1);
        }
        ShardLayout::new(ArrayGeometry { shards: 1, ..*self }, 0).growth().map(Growth::end)
    }

    /// Bytes that can be stored.
    pub fn data_bytes(&self) -> u64 {
        if self.has_grown_rows() {
            return self.dealt_blocks() * BLOCK_BYTES as u64;
        }
        self.stripes() * self.data_columns() as u64 * u64::from(self.layout.chunk_bytes())
    }

    /// Blocks of the volume of an array whose rows have grown. Blocks are dealt over the shards as they were when the array
    /// was made, so that no block ever changes its shard. The excess of some shards over others, at most about an extent, is
    /// not used.
    fn dealt_blocks(&self) -> u64 {
        let (extent, shards) = (self.extent_blocks(), self.shards as u64);
        let ends = (0..shards).map(|shard| {
            let blocks = ShardLayout::new(*self, shard as usize).blocks();
            (blocks / extent * shards + shard) * extent + blocks % extent
        });
        ends.min().expect("an array has a shard")
    }

    /// The locations of all copies of a chunk of a level without parity; in an array that is growing, those before the growth.
    pub fn homes(&self, chunk: u64) -> impl Iterator<Item = Home> {
        let slice = ShardLayout::new(ArrayGeometry { shards: 1, ..*self }, 0);
        let homes: Vec<Home> = (0..slice.w).map(|unit| slice.unit_home(chunk, unit)).collect();
        homes.into_iter()
    }

    /// Whether no data is lost when these members are.
    pub fn survives(&self, lost: &[bool]) -> bool {
        let tolerates = self.layout.tolerates() as usize;
        if self.has_grown_rows() {
            return lost[..self.members()].iter().filter(|&&lost| lost).count() <= tolerates;
        }
        if self.grown.is_some() {
            // Stripes lie on sets of members, whatever the addressing.
            let sets = lost[..self.members()].chunks(self.layout.copies() as usize);
            return sets.into_iter().all(|set| set.iter().filter(|&&lost| lost).count() <= tolerates);
        }
        let stripes = self.stripes().min(self.layout.turn());
        let slice = ShardLayout::new(ArrayGeometry { shards: 1, ..*self }, 0);
        (0..stripes).all(|stripe| {
            let units = (0..self.width()).filter(|&unit| lost[usize::from(slice.member(stripe, unit).0)]);
            units.count() <= tolerates
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::array_geometry::{ArrayError, ArraySpec};
    use crate::model::array_growth::{GrowError, GrowMethod};
    use crate::model::form::Elastic;
    use sinew_layout::{Level, ParityWeights, Rotation};
    use std::collections::BTreeMap;

    fn weighted(weights: &[u8]) -> Rotation {
        Rotation::Weighted(ParityWeights::new(weights).unwrap())
    }

    fn levels() -> Vec<(Level, usize)> {
        let rotation = Rotation::LeftSymmetric;
        vec![
            (Level::Raid0, 3),
            (Level::Raid1, 2),
            (Level::Raid10 { copies: 2 }, 5),
            (Level::Raid5(Rotation::RightAsymmetric), 4),
            (Level::Raid6(rotation), 5),
            (Level::Raid6(Rotation::RightAsymmetric), 5),
            (Level::Raid5(weighted(&[4, 2, 1, 1])), 4),
            (Level::Raid6(weighted(&[5, 3, 1, 1, 0])), 5),
            (Level::Raid50 { groups: 2, rotation }, 6),
            (Level::Raid60 { groups: 2, rotation }, 8),
        ]
    }

    #[test]
    fn shards_share_every_place_and_agree_with_the_layout() {
        for (level, members) in levels() {
            for shards in [1usize, 3] {
                let spec = ArraySpec {
                    level,
                    chunk_bytes: 8192,
                    journal: true,
                    spares: 0,
                    zeroed: false,
                    elastic: None,
                };
                let g = ArrayGeometry::new(&spec, members, 12 << 20, shards, None).unwrap();
                let mut seen = BTreeMap::new();
                for chunk in 0..g.layout.data_chunks() {
                    let block = chunk * 2;
                    let shard = (block / g.extent_blocks() % shards as u64) as usize;
                    let local = dealt(block, g.extent_blocks(), shard, shards);
                    let slice = ShardLayout::new(g, shard);
                    let run = slice.runs(local, 2).next().unwrap();
                    assert!(run.stripe < slice.stripes && run.blocks == 2);
                    let reverse = slice.local(run.stripe, run.slot + 1);
                    assert_eq!(reverse, Some(local + 1));
                    let unit = (run.slot / 2) as usize;
                    let (member, offset) = slice.home(run.stripe, unit);
                    let home = g.layout.home(chunk);
                    assert_eq!(u32::from(member.0), home.member);
                    assert_eq!(offset, g.data_offset() + home.chunk * 8192);
                    assert!(seen.insert((member, offset), chunk).is_none());
                }
                let all: u64 = (0..shards).map(|s| ShardLayout::new(g, s).stripes).sum();
                assert_eq!(all, g.stripes());
            }
        }
    }

    #[test]
    fn what_an_array_survives() {
        let survives = |level, members: usize, lost: &[usize]| {
            let spec = ArraySpec {
                level,
                chunk_bytes: 65536,
                journal: true,
                spares: 0,
                zeroed: false,
                elastic: None,
            };
            let g = ArrayGeometry::new(&spec, members, 64 << 20, 1, None).unwrap();
            let lost: Vec<bool> = (0..members).map(|m| lost.contains(&m)).collect();
            g.survives(&lost)
        };
        let rotation = Rotation::LeftSymmetric;
        assert!(!survives(Level::Raid0, 2, &[0]));
        assert!(survives(Level::Raid1, 3, &[0, 2]));
        assert!(survives(Level::Raid10 { copies: 2 }, 4, &[0, 2]));
        assert!(!survives(Level::Raid10 { copies: 2 }, 4, &[0, 1]));
        assert!(!survives(Level::Raid10 { copies: 2 }, 5, &[0, 4]));
        assert!(survives(Level::Raid6(rotation), 5, &[1, 3]));
        assert!(survives(Level::Raid50 { groups: 2, rotation }, 6, &[0, 5]));
        assert!(!survives(Level::Raid50 { groups: 2, rotation }, 6, &[0, 1]));
    }

    #[test]
    fn impossible_arrays_are_refused() {
        let spec = |level, chunk_bytes| ArraySpec {
            level,
            chunk_bytes,
            journal: true,
            spares: 0,
            zeroed: false,
            elastic: None,
        };
        let five = Level::Raid5(Rotation::LeftSymmetric);
        let new = |spec: &ArraySpec, shards| ArrayGeometry::new(spec, 3, 16 << 20, shards, None);
        assert!(matches!(new(&spec(five, 1000), 1), Err(ArrayError::Chunk(1000))));
        assert!(matches!(new(&spec(five, 65536), 65), Err(ArrayError::Shards(65))));
        assert!(matches!(new(&spec(Level::Raid10 { copies: 4 }, 65536), 1), Err(ArrayError::Layout(_))));
        let skewed = Level::Raid5(weighted(&[4, 1, 1]));
        let elastic = ArraySpec { elastic: Some(Elastic::BY_ADDRESSES), ..spec(skewed, 65536) };
        assert_eq!(new(&elastic, 1), Err(ArrayError::WeightedElastic));
        let grown = new(&spec(skewed, 65536), 1).unwrap().grow(GrowMethod::Spread, 1);
        assert!(matches!(grown, Err(GrowError::Weighted(_))));
        let small = ArrayGeometry::new(&spec(five, 65536), 3, 1 << 20, 1, None);
        assert!(matches!(small, Err(ArrayError::TooSmall { .. })));
    }
}
