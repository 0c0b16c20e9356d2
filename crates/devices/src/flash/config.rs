//! What a drive is made of.

use super::features::{MappingCache, SlcCache, WearLevelling};
use super::raid5_layout::Layout;
use super::redundancy::{Redundancy, Striping};
use crate::{BLOCK_BYTES, Ns};

/// Everything that makes one drive differ from another.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Buses that move pages between controller and dies, one page at a time.
    pub channels: u32,
    /// Chips on a channel.
    pub chips: u32,
    /// Dies in a chip; each senses, programs or erases on its own.
    pub dies: u32,
    /// Planes of a die, which program and erase together.
    pub planes: u32,
    /// Bytes of a page of one plane: a multiple of 4 KiB.
    pub page_bytes: u32,
    /// Pages of an erase block of one plane.
    pub pages: u32,
    /// Erase blocks of a plane.
    pub erase_blocks: u32,
    /// Blocks of 4 KiB that the drive offers.
    pub blocks: u32,
    /// From cells to the die's register.
    pub sense_ns: Ns,
    /// From the die's register to cells.
    pub program_ns: Ns,
    /// One erase.
    pub erase_ns: Ns,
    /// Whether reads of the host interrupt programs and erases.
    pub suspend: Suspend,
    /// Time of 4 KiB on a channel.
    pub channel_block_ns: Ns,
    /// The way to the host.
    pub link: Link,
    /// Commands the drive takes at once; the host holds back the others.
    pub queue_depth: u32,
    /// Blocks of 4 KiB that the write buffer holds.
    pub buffer_blocks: u32,
    /// When a write is acknowledged and when the buffer is written out.
    pub drain: Drain,
    /// Whether a flush has nothing to do, because the buffer survives a power failure.
    pub power_loss_protected: bool,
    /// Which erase block is cleaned.
    pub policy: Policy,
    /// When cleaning runs.
    pub cleaning: Cleaning,
    /// Transparent compression, if any.
    pub compression: Option<Compression>,
    /// Static wear levelling, if any.
    pub wear_levelling: Option<WearLevelling>,
    /// How much of the mapping table is in memory; all of it if nothing is given.
    pub mapping_cache: Option<MappingCache>,
    /// Erase blocks that are programmed with one bit per cell, if any.
    pub slc_cache: Option<SlcCache>,
    /// Redundancy inside the drive.
    pub redundancy: Redundancy,
    /// Whether erase blocks of all dies with the same number are opened, cleaned and erased as one row. Elastic stripes
    /// always work so.
    pub rows: bool,
}

/// How long it takes to suspend what a die does, for those operations that can be suspended. Each goes on for at least
/// as long before it is suspended again, so that reads delay it without end only if they never leave the die idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspend {
    /// A program.
    pub program_ns: Option<Ns>,
    /// An erase.
    pub erase_ns: Option<Ns>,
}

impl Suspend {
    /// A die finishes what it has begun.
    pub const NONE: Suspend = Suspend { program_ns: None, erase_ns: None };
}

/// The host interface and the controller behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Time of the controller for each command; one command at a time.
    pub command_ns: Ns,
    /// Added to each command, without keeping others waiting.
    pub latency_ns: Ns,
    /// Time of 4 KiB on the link.
    pub block_ns: Ns,
    /// Whether both directions work at once (PCIe) or share the link (SATA).
    pub duplex: bool,
}

/// When a write is acknowledged and when the buffer is written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// There is no write-back buffer: a write is acknowledged when it has been programmed.
    Through,
    /// Acknowledged once buffered; written out as soon as there is a whole unit.
    Steady,
    /// Acknowledged once buffered; when this number of blocks is buffered, everything stops until they are written out.
    Batch {
        /// Blocks of 4 KiB in a batch.
        blocks: u32,
    },
}

/// Which erase block of a die is cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The one with the least live data.
    Greedy,
    /// The one with the least live data of a number drawn at random.
    Choices(u32),
    /// The one that was filled longest ago.
    Fifo,
}

/// When a die cleans: from when it has fewer than `low` free erase blocks until it has `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleaning {
    /// Cleaning starts below; at least 2.
    pub low: u32,
    /// Cleaning ends here; more than `low`.
    pub high: u32,
    /// All dies clean together while the host is kept waiting, instead of each die in turn with the host's writes.
    pub exclusive: bool,
    /// The drive erases one block at a time, whatever the number of its dies.
    pub single_erase: bool,
}

/// A drive that stores each block in as many granules as it compresses to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Space is given out in these: a divisor of 4 KiB.
    pub granule_bytes: u32,
    /// Whether the host may ask for the space left.
    pub space_query: bool,
    /// Whether the host may ask for the length of a block.
    pub length_query: bool,
}

/// Erase blocks of a die that never hold live data: two being filled, one to move live data into, and one so that some
/// victim always has something to reclaim.
pub(super) const RESERVED: u32 = 4;

/// Units of a row that elastic stripes may waste beyond full stripes: a stripe that ends with its row, a unit left over
/// there, and one parity more at the end of the cleaning of a row.
const UNITS_LOST: u32 = 4;

impl Config {
    /// The same drive with this number of blocks of 4 KiB and this share of spare space (0.07: 7 % of the blocks and the parity
    /// of their full stripes). The number of erase blocks follows, and is at least the minimum for cleaning.
    pub fn sized(mut self, blocks: u32, spare: f64) -> Config {
        let per_plane_block =
            u64::from(self.all_dies() * self.planes) * u64::from(self.pages * self.page_bytes);
        self.blocks = blocks;
        let flash_per_data = self.redundancy.flash_per_data();
        let bytes = f64::from(blocks) * f64::from(BLOCK_BYTES) * flash_per_data;
        let table = f64::from(self.table_pages()) * f64::from(BLOCK_BYTES) * flash_per_data;
        let kept = ((bytes + table) / per_plane_block as f64).ceil() as u32;
        let least = kept + self.idle_blocks(kept);
        self.erase_blocks = ((bytes * (1.0 + spare) / per_plane_block as f64).round() as u32).max(least);
        self.erase_blocks += self.slc_cache.map_or(0, |slc| slc.erase_blocks);
        self
    }

    /// The same drive, which compresses. What cleaning moves then leaves gaps, so it may take one erase block more, and cleaning
    /// starts and ends with one more that is free.
    pub fn compressing(self, compression: Compression) -> Config {
        let Cleaning { low, high, .. } = self.cleaning;
        let cleaning = Cleaning { low: low + 1, high: high + 1, ..self.cleaning };
        Config { compression: Some(compression), cleaning, ..self }
    }

    /// Blocks of 4 KiB of flash that this many bytes of compressed blocks fill on a drive that compresses. A block lies within one
    /// unit, so up to a granule less than a block of each unit stays empty.
    pub fn blocks_for_compressed(&self, bytes: u64) -> u64 {
        let per_block = u64::from(BLOCK_BYTES / self.granule_bytes());
        let unit = u64::from(self.unit_blocks()) * per_block;
        let granules = bytes.div_ceil(u64::from(self.granule_bytes()));
        (granules * unit).div_ceil(unit - (per_block - 1)).div_ceil(per_block)
    }

    /// Dies of the whole drive.
    pub fn all_dies(&self) -> u32 {
        self.channels * self.chips * self.dies
    }

    /// Physical blocks over those that the offered ones and the parity of full stripes take.
    pub fn alpha(&self) -> f64 {
        let main = self.physical_blocks() as f64 * f64::from(self.main_erase_blocks());
        let main = main / f64::from(self.erase_blocks);
        main / (f64::from(self.blocks) * self.redundancy.flash_per_data())
    }

    /// Physical over offered blocks where cleaning chooses: without the erase blocks that are free or being filled, and
    /// without the data in those. This is what the closed forms of [`crate::theory`] mean.
    pub fn usable_alpha(&self) -> f64 {
        // A die that cleans in its smallest steps has `low` blocks free on average and two open ones, each half full.
        let erase_blocks = f64::from(self.main_erase_blocks());
        let closed = erase_blocks - f64::from(self.cleaning.low) - 2.0;
        closed / (erase_blocks / self.alpha() - 1.0)
    }

    /// Erase blocks of a plane without those of an SLC cache.
    pub(super) fn main_erase_blocks(&self) -> u32 {
        self.erase_blocks.saturating_sub(self.slc_cache.map_or(0, |slc| slc.erase_blocks))
    }

    /// Pages of an erase block of the SLC cache; all, if there is none.
    pub(super) fn cached_pages(&self) -> u32 {
        self.slc_cache.map_or(self.pages, |slc| self.pages / slc.bits)
    }

    /// Blocks of 4 KiB of flash, spare space included.
    pub fn physical_blocks(&self) -> u64 {
        let planes = u64::from(self.all_dies() * self.planes);
        planes
            * u64::from(self.erase_blocks)
            * u64::from(self.pages)
            * u64::from(self.page_bytes / BLOCK_BYTES)
    }

    /// Blocks of 4 KiB that are programmed together.
    pub fn unit_blocks(&self) -> u32 {
        self.planes * self.page_bytes / BLOCK_BYTES
    }

    pub(super) fn granule_bytes(&self) -> u32 {
        self.compression.map_or(BLOCK_BYTES, |compression| compression.granule_bytes)
    }

    /// Free rows that only cleaning may open: one victim fills up to one more, or two where fragments of compressed
    /// blocks or ends of stripes leave gaps.
    pub(super) fn mover_rows(&self) -> u32 {
        1 + u32::from(self.compression.is_some() || self.elastic().is_some())
    }

    /// Rows of a plot that wear levelling fills.
    pub(super) fn cold_rows(&self) -> u32 {
        u32::from(self.wear_levelling.is_some())
    }

    /// Free rows that the host leaves to the folding of an SLC cache, which fills one and gives none back.
    pub(super) fn fold_rows(&self) -> u32 {
        u32::from(self.slc_cache.is_some())
    }

    /// The elastic stripes, if there are any.
    fn elastic(&self) -> Option<Striping> {
        match self.redundancy {
            Redundancy::Elastic(striping) => Some(striping),
            Redundancy::EccOnly | Redundancy::Raid5(_) => None,
        }
    }

    /// Whether erase blocks of all dies form rows.
    pub(super) fn works_with_rows(&self) -> bool {
        self.rows || self.elastic().is_some()
    }

    /// P_wait, if the parity of an incomplete elastic stripe is written after it.
    pub(super) fn parity_wait_ns(&self) -> Option<Ns> {
        self.elastic().filter(|striping| !striping.protected_buffer).map(|striping| striping.wait_ns)
    }

    /// Of units of elastic stripes, those that can hold data.
    pub(super) fn data_of(&self, units: u64) -> u64 {
        self.elastic()
            .map_or(units, |striping| units * u64::from(striping.units - 1) / u64::from(striping.units))
    }

    /// Blocks of data in a row from which cleaning it gains nothing.
    pub(super) fn worth_cleaning(&self) -> u32 {
        let dies = if self.works_with_rows() { self.all_dies() } else { 1 };
        let lost = if self.elastic().is_some() { UNITS_LOST } else { 0 };
        let units = (dies * self.pages).saturating_sub(lost);
        self.data_of(u64::from(units)) as u32 * self.unit_blocks() - self.blocks_padded()
    }

    /// Blocks of its last unit that the cleaning of an erase block may leave empty, since what was moved has to be on flash
    /// before the erase.
    fn blocks_padded(&self) -> u32 {
        if matches!(self.redundancy, Redundancy::Raid5(_)) { self.unit_blocks() - 1 } else { 0 }
    }

    /// Addresses of the mapping: those of the host, and what a redundancy stores beside them.
    pub(super) fn addresses(&self) -> u32 {
        let Some(layout) = self.raid5_layout() else {
            return self.data_addresses();
        };
        let live = self.data_addresses() + layout.stripes();
        live + self.kept_copies(live)
    }

    /// Addresses of the host's blocks and of the pages of a mapping table on flash, which stripes cover like those.
    pub(super) fn data_addresses(&self) -> u32 {
        self.blocks + self.table_pages()
    }

    /// Pages of the mapping table that are on flash; their addresses follow those of the host.
    pub(super) fn table_pages(&self) -> u32 {
        self.mapping_cache.map_or(0, |cache| cache.table_pages(self.blocks))
    }

    /// The addresses of RAID-5 stripes, if there are any.
    pub(super) fn raid5_layout(&self) -> Option<Layout> {
        let Redundancy::Raid5(striping) = self.redundancy else {
            return None;
        };
        Some(Layout::new(self.data_addresses(), self.unit_blocks(), striping.units, self.all_dies()))
    }

    /// Old copies that a RAID-5 keeps at most: half of what a die has beyond its share of `live` blocks, since all may be
    /// on one die.
    fn kept_copies(&self, live: u32) -> u32 {
        let usable = (self.main_erase_blocks() + 1)
            .saturating_sub(RESERVED + self.cold_rows() + self.mover_rows() + self.fold_rows());
        (usable * self.pages * self.unit_blocks()).saturating_sub(live.div_ceil(self.all_dies())) / 2
    }

    /// Erase blocks of a die that must be more than its share of the data fills: cleaning wants some free, two are being
    /// filled, and dies do not share data out quite evenly.
    fn idle_blocks(&self, kept: u32) -> u32 {
        // Even if all rows are equally full, cleaning one has to gain more than the ends of stripes waste.
        let unevenness =
            self.elastic().map_or(0, |_| kept * (UNITS_LOST + 2) / (self.all_dies() * self.pages) + 1);
        let padded = (kept * self.blocks_padded()).div_ceil(self.pages * self.unit_blocks());
        let unevenness = unevenness + padded;
        self.cleaning_high().max(RESERVED) + 3 + unevenness + self.cold_rows()
    }

    /// Free rows below which cleaning starts.
    pub(super) fn cleaning_low(&self) -> u32 {
        self.cleaning.low + self.fold_rows() + u32::from(self.elastic().is_some())
    }

    /// Free rows at which cleaning ends.
    pub(super) fn cleaning_high(&self) -> u32 {
        self.cleaning.high + self.fold_rows() + u32::from(self.elastic().is_some())
    }

    /// Panics with what is wrong.
    pub(super) fn check(&self) {
        let parts = self.all_dies() + self.channels + u32::from(self.slc_cache.is_some());
        assert!(
            self.all_dies() > 0 && (parts as usize) <= crate::calendar::PARTS_MAX,
            "{parts} dies and channels"
        );
        assert!(
            self.page_bytes > 0 && self.page_bytes.is_multiple_of(BLOCK_BYTES),
            "pages hold whole blocks"
        );
        let erases_alone = !self.cleaning.single_erase || self.suspend.erase_ns.is_none();
        assert!(erases_alone, "erases that take turns are not suspended");
        let granule = self.granule_bytes();
        assert!(granule > 0 && BLOCK_BYTES.is_multiple_of(granule), "a block is a whole number of granules");
        let granules = self.physical_blocks() * u64::from(BLOCK_BYTES / granule);
        assert!(granules < u64::from(u32::MAX - 1), "{granules} granules do not fit 32 bits");
        let block_granules = self.pages * self.unit_blocks() * (BLOCK_BYTES / granule);
        assert!(block_granules < u32::from(u16::MAX), "{block_granules} granules in an erase block");
        let kept_rows = self.mover_rows() + self.fold_rows();
        assert!(self.cleaning_low() > kept_rows, "cleaning starts before the host may open no more");
        assert!(self.cleaning.high > self.cleaning.low, "cleaning ends above where it starts");
        assert!(self.queue_depth > 0 && self.buffer_blocks >= self.unit_blocks(), "queue and buffer");
        let stored = f64::from(self.data_addresses());
        let live = if self.compression.is_some() { 0.0 } else { stored };
        let live = (live * self.redundancy.flash_per_data()).ceil() as u64;
        let per_row = u64::from(self.all_dies() * self.pages * self.unit_blocks());
        let kept = live.div_ceil(per_row) as u32;
        let room = u64::from(self.main_erase_blocks().saturating_sub(self.idle_blocks(kept))) * per_row;
        assert!(live <= room, "{live} blocks do not leave room for cleaning in {room}");
        if let Err(why) = self.check_redundancy().and_then(|()| self.check_features()) {
            panic!("{why}");
        }
    }

    /// Whether the parts that the drive has go together.
    ///
    /// # Errors
    /// What is wrong, and what to change.
    pub fn check_features(&self) -> Result<(), String> {
        if self.wear_levelling.is_some_and(|levelling| levelling.spread == 0) {
            return Err("wear levelling needs a spread of at least 1 erase".to_owned());
        }
        if self.wear_levelling.is_some() && self.works_with_rows() {
            return Err(
                "wear levelling goes with drives whose dies clean on their own, not with rows or eSAP"
                    .to_owned(),
            );
        }
        if let Some(slc) = self.slc_cache {
            if slc.bits < 2 || slc.erase_blocks < 2 || self.pages < slc.bits {
                return Err(
                    "an SLC cache has at least 2 erase blocks of each die, and at most 1 / 2 of their pages"
                        .to_owned(),
                );
            }
            if self.compression.is_some() || self.cleaning.exclusive {
                return Err(
                    "an SLC cache goes with drives that do not compress and do not stop to clean".to_owned()
                );
            }
            let row_units = self.all_dies() * self.cached_pages();
            if self.redundancy.striping().is_some_and(|striping| striping.units > row_units / 2) {
                let most = row_units / 2;
                return Err(format!("a stripe has 2 to {most} elements in the SLC cache of this drive"));
            }
        }
        let granule = self.granule_bytes();
        if granule == 0 || !BLOCK_BYTES.is_multiple_of(granule) {
            return Err(format!("a granule of {granule} bytes does not divide a block of 4 KiB"));
        }
        let granules = u64::from(self.pages * self.unit_blocks()) * u64::from(BLOCK_BYTES / granule);
        if granules >= u64::from(u16::MAX) {
            return Err(format!(
                "an erase block has {granules} granules; make granules larger, or pages fewer"
            ));
        }
        let Some(cache) = self.mapping_cache else { return Ok(()) };
        if cache.pages < MappingCache::PAGES_MIN {
            let least = MappingCache::PAGES_MIN;
            return Err(format!("a mapping cache has at least {least} pages, not {}", cache.pages));
        }
        if cache.entries == 0 || cache.entries > MappingCache::ENTRIES {
            let most = MappingCache::ENTRIES;
            return Err(format!(
                "a page of the mapping table has 1 to {most} entries, not {}",
                cache.entries
            ));
        }
        if self.compression.is_some() {
            return Err(
                "a drive that compresses has its whole mapping table in memory: leave out the mapping cache"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Whether the drive can have its redundancy.
    ///
    /// # Errors
    /// What is wrong, and what to change.
    pub fn check_redundancy(&self) -> Result<(), String> {
        let Some(striping) = self.redundancy.striping() else {
            return Ok(());
        };
        let row_units = self.all_dies() * self.pages;
        if striping.units < 2 || striping.units > row_units / 2 {
            let most = row_units / 2;
            return Err(format!("a stripe has 2 to {most} elements on this drive, not {}", striping.units));
        }
        if self.all_dies() < 2 {
            return Err("redundancy needs a drive with several dies".to_owned());
        }
        if !matches!(self.redundancy, Redundancy::Raid5(_)) {
            return Ok(());
        }
        if self.rows {
            return Err(
                "RAID-5 blocks stay on their dies, so such a drive has no rows: leave out `rows`".to_owned()
            );
        }
        if self.compression.is_some() {
            return Err("RAID-5 stripes have blocks of one size: choose eSAP, or no compression".to_owned());
        }
        if striping.units > self.all_dies() && self.unit_blocks() > 1 {
            return Err(format!(
                "RAID-5 blocks of a die share pages on this drive, so a stripe has at most {} elements",
                self.all_dies()
            ));
        }
        let live = (f64::from(self.data_addresses()) * self.redundancy.flash_per_data()).ceil() as u32;
        if self.kept_copies(live) < 4 {
            return Err("there is no space for old copies of RAID-5 blocks: give the drive more spare space"
                .to_owned());
        }
        Ok(())
    }
}
