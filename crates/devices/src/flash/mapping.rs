//! Where each block is, which space can be reclaimed, and wear. There is no time in here: the dies decide when
//! something happens, aging makes it happen at once.
//!
//! Flash is a row of *granules* (4 KiB, or less on a compressing drive), numbered so that units, erase blocks and dies
//! are ranges. A block is mapped to its first granule, and that granule to the block: 4 bytes each, the only state per
//! block. A granule that holds nothing live is [`NONE`], so an overwrite needs no more than these two.

use std::collections::VecDeque;
use std::ops::Range;

use super::config::{Config, Policy, RESERVED};
use super::victim::{self, Bounds, NO_VICTIM};
use crate::{BLOCK_BYTES, Rng};

/// Not mapped; nothing live.
pub(super) const NONE: u32 = u32::MAX;
/// Owner of a granule that continues the block in the granule before it.
const CONTINUED: u32 = u32::MAX - 1;

/// The granules of a block, one after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The first granule.
    pub(super) at: u32,
    /// The number of granules.
    pub(super) count: u32,
}

/// Work of [`Mapping::clean_at_once`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cleaned {
    pub(super) moved_granules: u64,
    pub(super) erases: u64,
}

/// The erase block that is being filled: its number (or [`NONE`]) and the next granule in it.
#[derive(Clone, Copy, Debug)]
struct Front {
    block: u32,
    next: u32,
}

/// The erase blocks of one die.
#[derive(Clone, Debug)]
struct Plot {
    free: VecDeque<u32>,
    /// Where the host's data goes, a unit at a time.
    host: Front,
    /// Where cleaning moves live data.
    mover: Front,
    /// Units that cleaning has filled and nobody has programmed yet.
    filled_units: Vec<u32>,
    live: u32,
    bounds: Bounds,
    cleaning: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Mapping {
    /// Block to first granule.
    map: Vec<u32>,
    /// Granule to block.
    owner: Vec<u32>,
    /// Erase block to live granules.
    live: Vec<u16>,
    /// Erase block to units that are still in the buffer.
    buffered_units: Vec<u16>,
    erases: Vec<u32>,
    /// Erase block to the number of blocks opened before it.
    filled: Vec<u32>,
    opened: u32,
    /// A bit for each unit that is still in the buffer.
    in_buffer: Vec<u64>,
    plots: Vec<Plot>,
    /// Compressed bytes of each block; empty on a drive that does not compress.
    lengths: Vec<u16>,
    policy: Policy,
    rng: Rng,
    low: usize,
    high: usize,
    mover_blocks: usize,
    die_blocks: u32,
    block_granules: u32,
    unit_granules: u32,
    granule_bytes: u32,
    /// Live granules that a die may hold at most.
    die_live_max: u32,
    /// Granules left empty by cleaning, since fragments of a compressed block stay together.
    padded: u64,
}

impl Mapping {
    pub(super) fn new(config: &Config, seed: u64) -> Mapping {
        let granule_bytes = config.granule_bytes();
        let per_block = BLOCK_BYTES / granule_bytes;
        let unit_granules = config.unit_blocks() * per_block;
        let block_granules = config.pages * unit_granules;
        let (dies, die_blocks) = (config.all_dies(), config.erase_blocks);
        let blocks = (dies * die_blocks) as usize;
        let granules = blocks * block_granules as usize;
        let closed = Front { block: NONE, next: block_granules };
        let plot = |die: u32| Plot {
            free: (die * die_blocks..(die + 1) * die_blocks).collect(),
            host: closed,
            mover: closed,
            filled_units: Vec::new(),
            live: 0,
            bounds: Bounds::new(die_blocks as usize),
            cleaning: false,
        };
        // A compressed block never straddles two units, so up to per_block - 1 granules of each may stay empty.
        let usable = u64::from(unit_granules - (per_block - 1));
        let die_live_max =
            u64::from((die_blocks - RESERVED - config.mover_blocks() + 1) * config.pages) * usable;
        Mapping {
            map: vec![NONE; config.blocks as usize],
            owner: vec![NONE; granules],
            live: vec![NO_VICTIM; blocks],
            buffered_units: vec![0; blocks],
            erases: vec![0; blocks],
            filled: vec![0; blocks],
            opened: 0,
            in_buffer: vec![0; granules / unit_granules as usize / 64 + 1],
            plots: (0..dies).map(plot).collect(),
            lengths: vec![
                BLOCK_BYTES as u16;
                if config.compression.is_some() { config.blocks as usize } else { 0 }
            ],
            policy: config.policy,
            rng: Rng::new(seed),
            low: config.cleaning.low as usize,
            high: config.cleaning.high as usize,
            mover_blocks: config.mover_blocks() as usize,
            die_blocks,
            block_granules,
            unit_granules,
            granule_bytes,
            die_live_max: die_live_max as u32,
            padded: 0,
        }
    }

    pub(super) fn blocks(&self) -> u32 {
        self.map.len() as u32
    }

    pub(super) fn unit_granules(&self) -> u32 {
        self.unit_granules
    }

    pub(super) fn granule_bytes(&self) -> u32 {
        self.granule_bytes
    }

    /// Erases of each erase block.
    pub(super) fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// Granules that live data may take.
    pub(super) fn live_max(&self) -> u64 {
        u64::from(self.die_live_max) * self.plots.len() as u64
    }

    /// Granules that live data takes.
    pub(super) fn live(&self) -> u64 {
        self.plots.iter().map(|plot| u64::from(plot.live)).sum()
    }

    /// Granules left empty by cleaning since the last reset.
    pub(super) fn padded(&self) -> u64 {
        self.padded
    }

    pub(super) fn reset_padded(&mut self) {
        self.padded = 0;
    }

    /// Whether there is space to write a block into `count` granules. Without compression there always is.
    #[inline]
    pub(super) fn has_space(&self, lba: u32, count: u32) -> bool {
        if self.lengths.is_empty() {
            return true;
        }
        let old = self.locate(lba).map_or(0, |extent| extent.count);
        self.live() + u64::from(count) <= self.live_max() + u64::from(old)
    }

    pub(super) fn announce_length(&mut self, lba: u32, bytes: u16) {
        self.lengths[lba as usize] = bytes.clamp(1, BLOCK_BYTES as u16);
    }

    /// Compressed bytes of a block; 0 if there is none.
    pub(super) fn length(&self, lba: u32) -> u16 {
        if self.map[lba as usize] == NONE { 0 } else { self.lengths[lba as usize] }
    }

    /// Granules that the next write of a block takes.
    #[inline]
    pub(super) fn granules_needed(&self, lba: u32) -> u32 {
        if self.lengths.is_empty() {
            1
        } else {
            u32::from(self.lengths[lba as usize]).div_ceil(self.granule_bytes)
        }
    }

    /// Brings the entry of a block into the processor's caches. The value goes nowhere, so nothing waits for it; a
    /// request that is looked up some events later finds it there.
    #[inline]
    pub(super) fn touch(&self, lba: u32) {
        std::hint::black_box(self.map[lba as usize]);
    }

    /// The granules of a block.
    #[inline]
    pub(super) fn locate(&self, lba: u32) -> Option<Extent> {
        let at = self.map[lba as usize];
        (at != NONE).then(|| Extent { at, count: self.granules_at(at) })
    }

    #[inline]
    fn granules_at(&self, at: u32) -> u32 {
        if self.lengths.is_empty() {
            return 1;
        }
        let unit_end = (at / self.unit_granules + 1) * self.unit_granules;
        let rest = &self.owner[at as usize + 1..unit_end as usize];
        1 + rest.iter().take_while(|&&owner| owner == CONTINUED).count() as u32
    }

    /// The die of a unit.
    pub(super) fn die_of(&self, unit: u32) -> u32 {
        unit / (self.block_granules / self.unit_granules) / self.die_blocks
    }

    fn block_of(&self, at: u32) -> usize {
        (at / self.block_granules) as usize
    }

    /// Whether a unit is still in the buffer.
    #[inline]
    pub(super) fn is_buffered(&self, unit: u32) -> bool {
        self.in_buffer[unit as usize / 64] >> (unit % 64) & 1 == 1
    }

    /// A unit is on flash.
    pub(super) fn programmed(&mut self, unit: u32) {
        self.in_buffer[unit as usize / 64] &= !(1 << (unit % 64));
        let block = self.block_of(unit * self.unit_granules);
        self.buffered_units[block] -= 1;
    }

    fn buffer(&mut self, unit: u32) {
        self.in_buffer[unit as usize / 64] |= 1 << (unit % 64);
        let block = self.block_of(unit * self.unit_granules);
        self.buffered_units[block] += 1;
    }

    /// Whether the host's data can go to a die now.
    pub(super) fn can_open(&self, die: u32) -> bool {
        let plot = &self.plots[die as usize];
        let has_room = plot.host.next < self.block_granules || plot.free.len() > self.mover_blocks;
        // A unit more, so that a drive filled to the brim can still be overwritten.
        has_room && plot.live < self.die_live_max + self.unit_granules
    }

    /// The next unit of a die for the host's data; [`Mapping::can_open`] has said yes.
    pub(super) fn open_unit(&mut self, die: u32) -> u32 {
        let mut front = self.plots[die as usize].host;
        if front.next == self.block_granules {
            front = self.open_block(die);
        }
        let at = front.block * self.block_granules + front.next;
        front.next += self.unit_granules;
        self.plots[die as usize].host = front;
        let unit = at / self.unit_granules;
        self.buffer(unit);
        unit
    }

    fn open_block(&mut self, die: u32) -> Front {
        let plot = &mut self.plots[die as usize];
        let block = plot.free.pop_front().expect("cleaning keeps free blocks for itself");
        plot.cleaning |= plot.free.len() < self.low;
        // One of the two fronts leaves its block, which may be cleaned from now on.
        for left in [plot.host.block, plot.mover.block].into_iter().filter(|&left| left != NONE) {
            plot.bounds.lower((left - die * self.die_blocks) as usize, self.live[left as usize]);
        }
        self.live[block as usize] = 0;
        self.filled[block as usize] = self.opened;
        self.opened += 1;
        Front { block, next: 0 }
    }

    /// Puts a block into `count` granules from `at`.
    #[inline]
    pub(super) fn place(&mut self, lba: u32, at: u32, count: u32) {
        self.forget(lba);
        self.map[lba as usize] = at;
        self.owner[at as usize] = lba;
        for next in 1..count {
            self.owner[(at + next) as usize] = CONTINUED;
        }
        let block = self.block_of(at);
        self.live[block] += count as u16;
        self.plots[block / self.die_blocks as usize].live += count;
    }

    /// A block has no content any more.
    #[inline]
    pub(super) fn forget(&mut self, lba: u32) {
        let Some(Extent { at, count }) = self.locate(lba) else {
            return;
        };
        self.map[lba as usize] = NONE;
        for granule in at..at + count {
            self.owner[granule as usize] = NONE;
        }
        let block = self.block_of(at);
        self.live[block] -= count as u16;
        let die = block / self.die_blocks as usize;
        let plot = &mut self.plots[die];
        plot.live -= count;
        plot.bounds.lower(block - die * self.die_blocks as usize, self.live[block]);
    }

    pub(super) fn is_cleaning(&self, die: u32) -> bool {
        self.plots[die as usize].cleaning
    }

    /// Starts cleaning a die that has not as many free erase blocks as it should.
    pub(super) fn start_cleaning(&mut self, die: u32) {
        let plot = &mut self.plots[die as usize];
        plot.cleaning |= plot.free.len() < self.high;
    }

    /// Picks an erase block to clean, as the range of its units. Ends the cleaning when none is worth it.
    pub(super) fn choose_victim(&mut self, die: u32) -> Option<Range<u32>> {
        let plot = &mut self.plots[die as usize];
        let first = die * self.die_blocks;
        let range = first as usize..(first + self.die_blocks) as usize;
        let live = &mut self.live[range.clone()];
        let open = [plot.host.block, plot.mover.block]
            .map(|block| (block != NONE).then(|| (block - first) as usize));
        let counts = open.map(|block| block.map(|block| std::mem::replace(&mut live[block], NO_VICTIM)));
        let full = self.block_granules as u16;
        let victim =
            victim::choose(self.policy, live, &mut plot.bounds, &self.filled[range], full, &mut self.rng);
        for (block, count) in open.into_iter().zip(counts) {
            if let (Some(block), Some(count)) = (block, count) {
                live[block] = count;
                plot.bounds.lower(block, count);
            }
        }
        plot.cleaning = victim.is_some();
        let units = self.block_granules / self.unit_granules;
        victim.map(|block| (first + block as u32) * units..(first + block as u32 + 1) * units)
    }

    /// Live granules in a unit.
    pub(super) fn live_in(&self, unit: u32) -> u32 {
        let at = (unit * self.unit_granules) as usize;
        self.owner[at..at + self.unit_granules as usize].iter().filter(|&&owner| owner != NONE).count() as u32
    }

    /// Moves what is live in a unit to where its die gathers such data; returns the granules moved.
    pub(super) fn move_unit(&mut self, die: u32, unit: u32) -> u32 {
        let mut moved = 0;
        let mut at = unit * self.unit_granules;
        let end = at + self.unit_granules;
        while at < end {
            let lba = self.owner[at as usize];
            let mut count = 1;
            if lba != NONE {
                count = self.granules_at(at);
                let to = self.mover_room(die, count);
                self.relocate(lba, at, to, count);
                moved += count;
            }
            at += count;
        }
        let victim = self.block_of(unit * self.unit_granules);
        self.live[victim] -= moved as u16;
        moved
    }

    /// Like [`Mapping::place`] for a block that is known to be at `from`. It only stores where the caches may miss, and
    /// leaves the count of the victim to the caller; a die's count does not change.
    #[inline]
    fn relocate(&mut self, lba: u32, from: u32, to: u32, count: u32) {
        self.map[lba as usize] = to;
        for next in 0..count {
            self.owner[(from + next) as usize] = NONE;
            self.owner[(to + next) as usize] = if next == 0 { lba } else { CONTINUED };
        }
        let block = self.block_of(to);
        self.live[block] += count as u16;
    }

    /// Room for moved data.
    fn mover_room(&mut self, die: u32, count: u32) -> u32 {
        let mut front = self.plots[die as usize].mover;
        let mut used = front.next % self.unit_granules;
        if used > 0 && self.unit_granules - used < count {
            let gap = self.unit_granules - used;
            self.padded += u64::from(gap);
            self.finish_mover_unit(die, front);
            (front.next, used) = (front.next + gap, 0);
        }
        if used == 0 {
            if front.next == self.block_granules {
                front = self.open_block(die);
            }
            self.buffer((front.block * self.block_granules + front.next) / self.unit_granules);
        }
        let at = front.block * self.block_granules + front.next;
        front.next += count;
        self.plots[die as usize].mover = front;
        if front.next.is_multiple_of(self.unit_granules) {
            self.finish_mover_unit(die, Front { block: front.block, next: front.next - 1 });
        }
        at
    }

    /// The unit that holds granule `inside.next` is ready to be programmed.
    fn finish_mover_unit(&mut self, die: u32, inside: Front) {
        let unit = (inside.block * self.block_granules + inside.next) / self.unit_granules;
        self.plots[die as usize].filled_units.push(unit);
    }

    /// Takes a unit that cleaning has filled.
    pub(super) fn take_filled_unit(&mut self, die: u32) -> Option<u32> {
        self.plots[die as usize].filled_units.pop()
    }

    /// Whether the erase block of a unit has units that are not yet on flash.
    pub(super) fn has_buffered_units(&self, unit: u32) -> bool {
        self.buffered_units[self.block_of(unit * self.unit_granules)] > 0
    }

    /// Erases the erase block of a unit; nothing in it is live. Ends the die's cleaning when enough is free.
    pub(super) fn erase(&mut self, unit: u32) {
        let block = self.block_of(unit * self.unit_granules);
        debug_assert_eq!(self.live[block], 0);
        self.live[block] = NO_VICTIM;
        self.erases[block] += 1;
        let plot = &mut self.plots[block / self.die_blocks as usize];
        plot.free.push_back(block as u32);
        if plot.free.len() >= self.high {
            plot.cleaning = false;
        }
    }

    /// Cleans a die until it has enough free, in no time.
    pub(super) fn clean_at_once(&mut self, die: u32) -> Cleaned {
        let mut cleaned = Cleaned::default();
        while self.is_cleaning(die) {
            let Some(units) = self.choose_victim(die) else {
                break;
            };
            let first = units.start;
            for unit in units {
                cleaned.moved_granules += u64::from(self.move_unit(die, unit));
                while let Some(filled) = self.take_filled_unit(die) {
                    self.programmed(filled);
                }
            }
            self.erase(first);
            cleaned.erases += 1;
        }
        cleaned
    }
}

#[cfg(test)]
impl Mapping {
    /// Panics unless every table agrees with the others.
    pub(super) fn verify(&self) {
        let mut live = vec![0u32; self.live.len()];
        for lba in 0..self.map.len() as u32 {
            if let Some(Extent { at, count }) = self.locate(lba) {
                assert_eq!(self.owner[at as usize], lba);
                live[self.block_of(at)] += count;
            }
        }
        let owned = self.owner.iter().filter(|&&owner| owner != NONE).count() as u32;
        assert_eq!(owned, live.iter().sum::<u32>());
        for (block, &count) in live.iter().enumerate() {
            let known = self.live[block];
            assert_eq!(count, if known == NO_VICTIM { 0 } else { u32::from(known) }, "block {block}");
        }
        for (die, plot) in self.plots.iter().enumerate() {
            let first = die * self.die_blocks as usize;
            assert_eq!(plot.live, live[first..first + self.die_blocks as usize].iter().sum::<u32>());
            assert!(plot.free.iter().all(|&block| self.live[block as usize] == NO_VICTIM));
        }
    }
}
