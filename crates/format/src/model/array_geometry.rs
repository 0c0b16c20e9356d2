//! The shape of an array, and where a shard's share of it lies.
//!
//! A member is `[superblocks | shard 0's log | shard 1's log | … | data]`. The data area is md's layout for the level,
//! from its first chunk to its last, whatever the number of shards: shards own runs of whole rows in turn. In an elastic
//! array the form pages of all shards lie before the data area, and the areas of the further slots behind it.

use sinew_layout::{Geometry as Layout, GeometryError as LayoutError, Level, MEMBERS_MAX};

use crate::model::mapped_geometry::SUPERBLOCK_AREA_BYTES;
use crate::model::sharding::dealt;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::Uuid;

use crate::form_page::{FORM_PAGE_VERSIONS, FORMS_PER_PAGE};
use crate::model::array_growth::{GrowError, GrowMethod, Grown};
use crate::model::form::{EXPECT_RANGE, Elastic};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Largest chunk; md's default is 512 KiB.
pub const CHUNK_BYTES_MAX: u32 = 1 << 20;
/// Blocks of a shard's log that holds only the write-intent bitmap.
const LOG_BLOCKS_LEAST: u32 = 64;
/// The fewest blocks of a log that is also the journal.
pub const JOURNAL_BLOCKS_LEAST: u32 = 512;
/// Shards own runs of rows of about this many blocks (1 MiB).
const EXTENT_BLOCKS_LEAST: u64 = 256;
/// Regions of a shard at most: the bitmaps have one bit for each, for each member with stale chunks.
pub const REGIONS_MAX: u64 = 4096;
/// Stripes of a region at least.
const REGION_STRIPES_LEAST: u64 = 8;
/// An array grows to at most this multiple of its first size: regions keep their size, so their number grows.
const GROWTH_MAX: u64 = 8;

/// The request for an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is written to the members.
    ReadOnly,
    /// md's superblocks are kept up to date.
    ReadWrite,
}

/// Why there is no array with the requested geometry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// The layout is impossible.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Not a usable chunk.
    #[error("a chunk has a multiple of 4096 bytes and at most 1 MiB, not {0} bytes")]
    Chunk(u32),
    /// Not a usable number of shards.
    #[error("an array has 1 to 64 shards, not {0}")]
    Shards(usize),
    /// A member has no room for the headers and a chunk.
    #[error("the smallest member has {have} bytes, too few for this array; it needs at least {need}")]
    TooSmall {
        /// Its size.
        have: u64,
        /// The smallest usable size.
        need: u64,
    },
    /// Not an elastic array.
    #[error("{0} cannot be elastic; levels 5 and 6 can, with a journal")]
    NotElastic(String),
    /// Not a usable ratio.
    #[error("the expected ratio of compression is 1 to 16, in thousandths 1000 to 16000, not {0}")]
    Expect(u32),
    /// Copies of elastic stripes take the space of members evenly, and so does parity there.
    #[error("an elastic array cannot have parity weights; leave out one of the two")]
    WeightedElastic,
    /// More shards than runs of rows.
    #[error("the array is too small for {0} shards; give fewer")]
    TooManyShards(usize),
    /// Only spares, or too many members.
    #[error(
        "{members} members with {spares} spares; an array has at most {MEMBERS_MAX} members, spares included, and not only spares"
    )]
    Spares {
        /// Members given.
        members: usize,
        /// Spares among them.
        spares: usize,
    },
}

/// Whether an array of md's may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArraySpec {
    /// The level, with its copies, groups and rotation.
    pub level: Level,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// Close the write hole with a journal. Only levels with parity have one.
    pub journal: bool,
    /// Number of spares, which are the last of the members.
    pub spares: usize,
    /// All members are known to be zeros, so that the array needs no first resync.
    pub zeroed: bool,
    /// Stripes change between parity and mirrors.
    pub elastic: Option<Elastic>,
}

/// The geometry of an array. Checked when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayGeometry {
    /// Level, members in the layout, chunk size and chunks of each member. Members about to be grown onto count.
    pub layout: Layout,
    /// Its growth; `None` when its layout is that of a new array.
    pub grown: Option<Grown>,
    /// Stripes of a region, the same for every shard and for good.
    pub region_stripes: u64,
    /// Shards of the array.
    pub shards: usize,
    /// Whether writes go through a journal.
    pub journal: bool,
    /// Blocks of each shard's log on each member; 0 in an array of md.
    pub log_blocks: u32,
    /// Random identity that marks the groups of the logs. The logs contain data of clients, which must not be able to forge a
    /// group.
    pub log: Uuid,
    /// The members were zeros when the array was made; or md says that parity and copies are right.
    pub zeroed: bool,
    /// The array is md's: its members hold md's superblocks, and no structure of Sinew.
    pub md: Option<Access>,
    /// Its stripes change between parity and mirrors.
    pub elastic: Option<Elastic>,
}

/// Whether arrays of a level grow by the methods for parity or by the others; `None` when they do not grow.
fn grows_with_parity(level: Level) -> Option<bool> {
    match level {
        _ if level.weights().is_some() => None,
        Level::Raid5(_) | Level::Raid6(_) => Some(true),
        Level::Raid0 | Level::Raid10 { .. } => Some(false),
        _ => None,
    }
}

/// The numbers of an array in a configuration on a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredArray {
    pub(crate) members: usize,
    pub(crate) member_chunks: u64,
    pub(crate) shards: usize,
    pub(crate) log_blocks: u32,
    pub(crate) region_stripes: u64,
    pub(crate) grown: Option<Grown>,
}

impl ArrayGeometry {
    /// The geometry of an array of `members` members, spares not counted, the smallest of which has `smallest` bytes. Without
    /// `log_blocks`, the size of the logs follows from that of the members.
    ///
    /// # Errors
    /// When there is no such array.
    pub fn new(
        spec: &ArraySpec,
        members: usize,
        smallest: u64,
        shards: usize,
        log_blocks: Option<u32>,
    ) -> Result<ArrayGeometry, ArrayError> {
        if spec.chunk_bytes == 0
            || !spec.chunk_bytes.is_multiple_of(BLOCK_BYTES as u32)
            || spec.chunk_bytes > CHUNK_BYTES_MAX
        {
            return Err(ArrayError::Chunk(spec.chunk_bytes));
        }
        if !(1..=64).contains(&shards) {
            return Err(ArrayError::Shards(shards));
        }
        let chunk = u64::from(spec.chunk_bytes);
        // Reports an impossible level before impossible sizes.
        let probe = Layout::new(spec.level, members as u32, spec.chunk_bytes, chunk)?;
        let journal = spec.journal && probe.parities() > 0;
        if let Some(elastic) = spec.elastic {
            check_elastic(spec.level, journal, elastic)?;
        }
        let least = if journal {
            JOURNAL_BLOCKS_LEAST.max(16 * probe.parities() * spec.chunk_bytes / BLOCK_BYTES as u32)
        } else {
            LOG_BLOCKS_LEAST
        };
        let suited = (smallest / shards as u64 / 64 / BLOCK).clamp(u64::from(least), 16 * 1024) as u32;
        let log_blocks = match (log_blocks, journal) {
            (Some(blocks), _) => blocks.max(least),
            (None, true) => suited,
            (None, false) => least,
        };
        let slots = spec.elastic.map_or(1, |_| 1 + u64::from(probe.parities()));
        let elastic = spec.elastic.map(|elastic| Elastic {
            form_pages: match elastic.form_pages {
                0 => form_pages(smallest / slots / chunk, shards),
                pages => pages,
            },
            ..elastic
        });
        let data = data_offset(shards, log_blocks, elastic);
        let most = elastic.and_then(|elastic| elastic.slot_bytes()).unwrap_or(u64::MAX);
        let area = (smallest.saturating_sub(data) / slots).min(most);
        if area < chunk {
            return Err(ArrayError::TooSmall { have: smallest, need: data + slots * chunk });
        }
        let layout = Layout::new(spec.level, members as u32, spec.chunk_bytes, area)?;
        let whole = ArrayGeometry::whole(layout, shards, journal, log_blocks, spec.zeroed, None);
        let geometry = ArrayGeometry { elastic, ..whole };
        if geometry.stripes() < geometry.extent_stripes() * (shards as u64 - 1) + 1 {
            return Err(ArrayError::TooManyShards(shards));
        }
        Ok(geometry)
    }

    /// The geometry of an array of md, with up to `shards` shards. `even` says that parity and copies are right.
    ///
    /// # Errors
    /// [`ArrayError::Chunk`] when Sinew cannot use its chunk size.
    pub fn of_md(
        layout: Layout,
        shards: usize,
        even: bool,
        access: Access,
    ) -> Result<ArrayGeometry, ArrayError> {
        let chunk = layout.chunk_bytes();
        if !chunk.is_multiple_of(BLOCK_BYTES as u32) || chunk > CHUNK_BYTES_MAX {
            return Err(ArrayError::Chunk(chunk));
        }
        let whole = ArrayGeometry::whole(layout, 1, false, 0, even, Some(access));
        let extents = whole.stripes().div_ceil(whole.extent_stripes());
        let shards = shards.clamp(1, extents.min(64) as usize);
        Ok(ArrayGeometry::whole(layout, shards, false, 0, even, Some(access)))
    }

    fn whole(
        layout: Layout,
        shards: usize,
        journal: bool,
        log_blocks: u32,
        zeroed: bool,
        md: Option<Access>,
    ) -> ArrayGeometry {
        let mut geometry = ArrayGeometry {
            layout,
            grown: None,
            region_stripes: 0,
            shards,
            journal,
            log_blocks,
            log: [0; 16],
            zeroed,
            md,
            elastic: None,
        };
        let most = dealt(geometry.stripes(), geometry.extent_stripes(), 0, shards);
        geometry.region_stripes = most.div_ceil(REGIONS_MAX).max(REGION_STRIPES_LEAST);
        geometry
    }

    /// The default method of growth: the one by which the array has grown, or the one that moves the least.
    pub fn usual_method(&self) -> GrowMethod {
        let usual = if self.layout.parities() > 0 { GrowMethod::Spread } else { GrowMethod::FastScale };
        self.grown.and_then(|grown| grown.kind().method()).unwrap_or(usual)
    }

    /// The same array with an addition of members under way.
    ///
    /// # Errors
    /// [`GrowError`] when the array cannot grow by this method, or by this number of members.
    pub fn grow(&self, method: GrowMethod, added: usize) -> Result<ArrayGeometry, GrowError> {
        if let Some(weights) = self.layout.level().weights() {
            return Err(GrowError::Weighted(weights));
        }
        let own = grows_with_parity(self.layout.level()).filter(|_| self.md.is_none());
        let has_parity = own.ok_or_else(|| GrowError::Level(self.name()))?;
        if method.is_for_parity() != has_parity {
            return Err(GrowError::Unsuited { level: self.name(), method: method.name() });
        }
        let (copies, have) = (self.layout.copies(), self.members());
        if !have.is_multiple_of(copies as usize) || !added.is_multiple_of(copies as usize) {
            return Err(GrowError::Sets { copies, have, added });
        }
        let rows = u32::try_from(self.layout.member_chunks()).unwrap_or(u32::MAX);
        let before = self.grown.unwrap_or(Grown::of(have as u32 / copies));
        let grown = before.begin(method, added as u32 / copies)?;
        grown.check(rows)?;
        let layout = self.layout.with_members((have + added) as u32)?;
        let next = ArrayGeometry { layout, grown: Some(grown), ..*self };
        if method == GrowMethod::Restripe {
            if self.shards > 1 {
                return Err(GrowError::Shards(self.shards));
            }
            let (need, have) = (next.width() as u64 * u64::from(self.chunk_blocks()), self.image_blocks());
            if need > have {
                return Err(GrowError::Log { need, have });
            }
        }
        let most = dealt(next.after_growth().stripes(), self.extent_stripes(), 0, self.shards);
        if most.div_ceil(self.region_stripes) > GROWTH_MAX * REGIONS_MAX {
            return Err(GrowError::TooLarge(GROWTH_MAX));
        }
        Ok(next)
    }

    /// Blocks of each shard's log that data of clients may take. To destage all of it takes at most m times as many blocks for
    /// parity, so that this always fits, and leaves some for the images of rounds that a crash cut short.
    pub fn client_blocks(&self) -> u64 {
        u64::from(self.log_blocks) / (2 + u64::from(self.layout.parities()))
    }

    /// Blocks of the log that images of rows may take which a growth changes in place.
    pub fn image_blocks(&self) -> u64 {
        self.client_blocks() * 3 / 4
    }

    /// Whether it has rows, each of which is a stripe, that are not those of a new array.
    pub fn has_grown_rows(&self) -> bool {
        self.grown.is_some() && self.layout.parities() > 0
    }

    /// The same array once it has grown.
    pub fn after_growth(&self) -> ArrayGeometry {
        ArrayGeometry { grown: self.grown.and_then(Grown::finish), ..*self }
    }

    /// Whether nothing may be written to the members.
    pub fn is_read_only(&self) -> bool {
        self.md == Some(Access::ReadOnly)
    }

    /// The geometry of a configuration found on a member; `None` when it is impossible.
    pub(crate) fn restore(spec: &ArraySpec, stored: StoredArray) -> Option<ArrayGeometry> {
        let StoredArray { members, member_chunks, shards, log_blocks, region_stripes, grown } = stored;
        let slots = spec.elastic.map_or(1, |_| 1 + u64::from(parities_of(spec.level)));
        let area = member_chunks.checked_mul(u64::from(spec.chunk_bytes))?.checked_mul(slots)?;
        let data = data_offset(shards, log_blocks, spec.elastic);
        let smallest = data.checked_add(area).filter(|&b| b < 1 << 56)?;
        let geometry = ArrayGeometry::new(spec, members, smallest, shards, Some(log_blocks)).ok()?;
        let same = geometry.log_blocks == log_blocks
            && geometry.layout.member_chunks() == member_chunks
            && geometry.journal == spec.journal;
        let geometry = ArrayGeometry { grown, region_stripes, ..geometry };
        let regions = geometry.stripes().checked_div(region_stripes)?;
        let disks = geometry.members() as u32 / geometry.layout.copies();
        let fits = |grown: Grown| {
            let levels = grows_with_parity(spec.level) == Some(grown.is_for_parity());
            let least = 2 * geometry.layout.parities();
            let one_shard = grown.method() != Some(GrowMethod::Restripe) || shards == 1;
            (levels && one_shard && grown.base() >= least)
                && grown.disks().last().is_some_and(|&last| u32::from(last) == disks)
                && grown.check(u32::try_from(member_chunks).unwrap_or(u32::MAX)).is_ok()
        };
        (same && regions <= GROWTH_MAX * REGIONS_MAX * shards as u64 && grown.is_none_or(fits))
            .then_some(geometry)
    }

    /// The request from which it was made, without its spares.
    pub fn spec(&self) -> ArraySpec {
        let (level, chunk_bytes) = (self.layout.level(), self.layout.chunk_bytes());
        let (zeroed, elastic) = (self.zeroed, self.elastic);
        ArraySpec { level, chunk_bytes, journal: self.journal, spares: 0, zeroed, elastic }
    }

    /// Level and rotation as text.
    pub fn name(&self) -> String {
        self.layout.level().to_string()
    }

    /// Members in the layout.
    pub fn members(&self) -> usize {
        self.layout.members() as usize
    }

    /// k: data columns of a stripe; 1 where stripes are a chunk and its copies.
    pub fn data_columns(&self) -> usize {
        match self.layout.parities() {
            0 => 1,
            m => self.members() / self.groups() - m as usize,
        }
    }

    /// m: parity columns of a stripe.
    pub fn parity_columns(&self) -> usize {
        self.layout.parities() as usize
    }

    /// Groups of members; each stripe lies in one of them, in turn.
    pub fn groups(&self) -> usize {
        match self.layout.level() {
            Level::Raid50 { groups, .. } | Level::Raid60 { groups, .. } => groups as usize,
            _ => 1,
        }
    }

    /// Chunks of a stripe, each on a member of its own: data and parity, or a chunk's copies.
    pub fn width(&self) -> usize {
        match self.layout.parities() {
            0 => self.layout.copies() as usize,
            m => self.data_columns() + m as usize,
        }
    }

    /// Blocks of a chunk.
    pub fn chunk_blocks(&self) -> u32 {
        self.layout.chunk_bytes() / BLOCK_BYTES as u32
    }

    /// Blocks of data in a stripe.
    pub fn stripe_blocks(&self) -> u64 {
        self.data_columns() as u64 * u64::from(self.chunk_blocks())
    }

    /// Stripes of all shards.
    pub fn stripes(&self) -> u64 {
        match &self.grown {
            // A growth with parity keeps the number of rows.
            _ if self.layout.parities() > 0 => self.layout.stripes(),
            None => self.layout.stripes(),
            Some(grown) => grown.chunks(self.layout.member_chunks() as u32),
        }
    }

    /// Blocks of data in a row that the array was made with.
    fn first_row_blocks(&self) -> u64 {
        let grown = self.grown.filter(|_| self.layout.parities() > 0);
        let columns = grown
            .map_or(self.data_columns() as u64, |grown| u64::from(grown.base() - self.layout.parities()));
        columns * u64::from(self.chunk_blocks())
    }

    /// Stripes of an extent: whole rows of all groups.
    pub fn extent_stripes(&self) -> u64 {
        let row = self.groups() as u64;
        EXTENT_BLOCKS_LEAST.div_ceil(row * self.first_row_blocks()) * row
    }

    /// Blocks of an extent.
    pub fn extent_blocks(&self) -> u64 {
        self.extent_stripes() * self.first_row_blocks()
    }

    /// Bytes in use of a member, from its first byte.
    pub fn end_bytes(&self) -> u64 {
        let chunks = self.slots() * self.layout.member_chunks();
        self.data_offset() + chunks * u64::from(self.layout.chunk_bytes())
    }

    /// Where the data area begins on each member, from its origin.
    pub fn data_offset(&self) -> u64 {
        if self.md.is_some() { 0 } else { data_offset(self.shards, self.log_blocks, self.elastic) }
    }

    /// Areas of chunks on each member: one more for each copy that an elastic stripe may have.
    pub fn slots(&self) -> u64 {
        self.elastic.map_or(1, |_| 1 + u64::from(self.layout.parities()))
    }

    /// The offset of a version of a shard's form page on each member.
    pub fn form_page_offset(&self, shard: usize, page: u32, version: u64) -> u64 {
        let pages = self.elastic.map_or(0, |elastic| u64::from(elastic.form_pages));
        let before = (shard as u64 * pages + u64::from(page)) * FORM_PAGE_VERSIONS;
        logs_end(self.shards, self.log_blocks) + (before + version % FORM_PAGE_VERSIONS) * BLOCK
    }
}

/// Parity columns of a level that can be elastic.
fn parities_of(level: Level) -> u32 {
    if matches!(level, Level::Raid6(_)) { 2 } else { 1 }
}

fn check_elastic(level: Level, journal: bool, elastic: Elastic) -> Result<(), ArrayError> {
    if !matches!(level, Level::Raid5(_) | Level::Raid6(_)) || !journal {
        return Err(ArrayError::NotElastic(level.to_string()));
    }
    if level.weights().is_some() {
        return Err(ArrayError::WeightedElastic);
    }
    match EXPECT_RANGE.contains(&elastic.expect_milli) {
        true => Ok(()),
        false => Err(ArrayError::Expect(elastic.expect_milli)),
    }
}

/// Form pages of each shard for this number of rows in all, at most.
fn form_pages(rows: u64, shards: usize) -> u32 {
    // Shards own runs of rows, so one may have a run more than another.
    let most = rows / shards as u64 + EXTENT_BLOCKS_LEAST;
    most.div_ceil(FORMS_PER_PAGE) as u32
}

/// Where the logs of all shards end.
fn logs_end(shards: usize, log_blocks: u32) -> u64 {
    SUPERBLOCK_AREA_BYTES + shards as u64 * u64::from(log_blocks) * BLOCK
}

fn data_offset(shards: usize, log_blocks: u32, elastic: Option<Elastic>) -> u64 {
    let pages = elastic.map_or(0, |elastic| u64::from(elastic.form_pages));
    let forms = shards as u64 * pages * FORM_PAGE_VERSIONS * BLOCK;
    (logs_end(shards, log_blocks) + forms).next_multiple_of(SUPERBLOCK_AREA_BYTES)
}
