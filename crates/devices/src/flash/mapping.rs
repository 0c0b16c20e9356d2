//! Where each block is, which space can be reclaimed, and wear. There is no time in here: the dies decide when
//! something happens, aging makes it happen at once.
//!
//! Flash is a sequence of *granules* (4 KiB, or less on a compressing drive), numbered so that units and erase blocks are
//! ranges. Space is opened and reclaimed by *rows* of a *plot*: a plot is a die, and a row one of its erase blocks, unless
//! the drive works with rows of all dies ([`super::rows`]); then the whole drive is one plot. A block is mapped to its first
//! granule, and that granule to the block: 4 bytes each, the only state per block. A granule that holds nothing live is
//! [`NONE`], so an overwrite needs no more than these two.

use std::ops::Range;

use super::config::Config;
use super::defect::{self, Defect};
use super::geometry::{Extent, Geometry};
use super::moves::Moves;
use super::observe::{FlashEvent, Observer};
use super::rows::{MoverUnit, Opened, RowSpace};
use super::slc_region::SlcRegion;
use super::space::Space;
use super::stripes::{Side, Stripes};
use crate::BLOCK_BYTES;

/// Not mapped; nothing live.
pub(super) const NONE: u32 = u32::MAX;
/// Owner of a granule that continues the block in the granule before it.
const CONTINUED: u32 = u32::MAX - 1;

#[derive(Clone, Debug)]
pub(super) struct Mapping {
    /// Address to first granule: blocks of the host, then what a redundancy stores beside them.
    map: Vec<u32>,
    host_blocks: u32,
    /// Number of addresses of the host's blocks and of the mapping table; the other ones hold parities and old copies, whose placement
    /// is not observed here.
    data_addresses: u32,
    /// Granule to block.
    owner: Vec<u32>,
    /// Row to units that are still in the buffer.
    buffered_units: Vec<u32>,
    /// A bit for each unit that is still in the buffer.
    in_buffer: Vec<u64>,
    space: Space,
    /// Units that cleaning has filled and that are not being programmed yet, for each die that is a plot.
    filled_units: Vec<Vec<u32>>,
    /// Where units go on a drive that works with rows of all dies.
    rows: Option<Box<RowSpace>>,
    /// The SLC cache, if there is one.
    slc: Option<Box<SlcRegion>>,
    observer: Observer,
    /// Compressed bytes of each block; empty on a drive that does not compress.
    lengths: Vec<u16>,
    geometry: Geometry,
    /// Whether what cleaning moves is on flash before its source is erased, so that parities keep their terms.
    moves_at_once: bool,
    /// What cleaning has moved, until its source is erased, on a drive with parity.
    moves: Option<Moves>,
    /// Blocks that cleaning has moved, on a drive whose mapping table is on flash.
    moved_blocks: Option<Vec<u32>>,
    /// Granules left empty by cleaning, since fragments of a compressed block stay together or a parity is due.
    padded: u64,
}

impl Mapping {
    pub(super) fn new(config: &Config, seed: u64) -> Mapping {
        let geometry = Geometry::new(config);
        let (rows, units) = (geometry.rows() as usize, geometry.units() as usize);
        let granules = units * geometry.unit_granules as usize;
        Mapping {
            map: vec![NONE; config.addresses() as usize],
            host_blocks: config.blocks,
            data_addresses: config.data_addresses(),
            owner: vec![NONE; granules],
            buffered_units: vec![0; rows],
            in_buffer: vec![0; units / 64 + 1],
            space: Space::new(config, geometry.plots, geometry.row_granules, seed),
            filled_units: vec![Vec::new(); geometry.plots as usize],
            rows: config.works_with_rows().then(|| Box::new(RowSpace::new(config))),
            slc: config.slc_cache.map(|slc| {
                let units = geometry.row_units / config.pages * config.cached_pages();
                Box::new(SlcRegion::new(slc, geometry.plots, config.erase_blocks, units))
            }),
            observer: Observer::default(),
            lengths: vec![
                BLOCK_BYTES as u16;
                if config.compression.is_some() { config.blocks as usize } else { 0 }
            ],
            geometry,
            moves_at_once: config.raid5_layout().is_some(),
            moves: config.redundancy.striping().map(|_| Moves::default()),
            moved_blocks: config.mapping_cache.map(|_| Vec::new()),
            padded: 0,
        }
    }

    pub(super) fn blocks(&self) -> u32 {
        self.host_blocks
    }

    #[inline]
    pub(super) fn unit_granules(&self) -> u32 {
        self.geometry.unit_granules
    }

    /// How granules are numbered.
    #[inline]
    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Which rows are free, and how much in each is live.
    pub(super) fn space(&self) -> &Space {
        &self.space
    }

    /// Tells an observer what has happened.
    #[inline]
    pub(super) fn tell(&mut self, event: impl FnOnce() -> FlashEvent) {
        self.observer.tell(event);
    }

    /// Keeps what happens to the content of flash, if that is wanted.
    pub(super) fn observer_mut(&mut self) -> &mut Observer {
        &mut self.observer
    }

    /// Whether there is space to write a block into `count` granules. Without compression there always is.
    #[inline]
    pub(super) fn has_space(&self, lba: u32, count: u32) -> bool {
        if self.lengths.is_empty() {
            return true;
        }
        let old = self.locate(lba).map_or(0, |extent| extent.count);
        self.space.live() + u64::from(count) <= self.space.live_max() + u64::from(old)
    }

    /// Granules that the next write of a block takes.
    #[inline]
    pub(super) fn granules_needed(&self, lba: u32) -> u32 {
        if self.lengths.is_empty() {
            1
        } else {
            u32::from(self.lengths[lba as usize]).div_ceil(self.geometry.granule_bytes)
        }
    }

    /// Brings the entry of a block into the processor's caches, for some events later; nothing waits for the value.
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
        let unit_end = (at / self.geometry.unit_granules + 1) * self.geometry.unit_granules;
        let rest = &self.owner[at as usize + 1..unit_end as usize];
        1 + rest.iter().take_while(|&&owner| owner == CONTINUED).count() as u32
    }

    /// The die of a unit.
    #[inline]
    pub(super) fn die_of(&self, unit: u32) -> u32 {
        self.geometry.die_of(unit)
    }

    /// Whether a unit is still in the buffer.
    #[inline]
    pub(super) fn is_buffered(&self, unit: u32) -> bool {
        self.in_buffer[unit as usize / 64] >> (unit % 64) & 1 == 1
    }

    /// A unit is on flash.
    #[inline]
    pub(super) fn programmed(&mut self, unit: u32) {
        self.in_buffer[unit as usize / 64] &= !(1 << (unit % 64));
        let row = self.geometry.row_of_unit(unit);
        self.buffered_units[row] -= 1;
        if let Some(stripes) = self.stripes_mut() {
            stripes.programmed(unit);
        }
        self.observer.tell(|| FlashEvent::Programmed { unit });
    }

    /// Where a granule is, then where else it still is because cleaning has not erased its source yet.
    pub(super) fn copies(&self, at: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(at), |&at| self.moves.as_ref()?.source_of(at))
    }

    #[inline]
    fn buffer(&mut self, unit: u32) {
        self.in_buffer[unit as usize / 64] |= 1 << (unit % 64);
        let row = self.geometry.row_of_unit(unit);
        self.buffered_units[row] += 1;
    }

    /// Whether the host's data can go to a die now; on a drive that works with rows, to any.
    #[inline(always)]
    pub(super) fn can_open(&self, die: u32) -> bool {
        let Some(rows) = &self.rows else {
            let has_room = self.space.plots[die as usize].host.next < self.geometry.row_granules
                || self.slc.as_ref().is_some_and(|slc| slc.has_room(die));
            return self.space.can_open(die as usize, has_room, self.geometry.unit_granules);
        };
        let has_room = rows.has_room(Side::Host)
            || rows.has_room_for_a_new_stripe(Side::Host)
            || self.slc.as_ref().is_some_and(|slc| slc.has_free_row());
        self.space.can_open(0, has_room, self.geometry.unit_granules)
    }

    /// The next unit of a die for the host's data; [`Mapping::can_open`] has said yes.
    #[inline]
    pub(super) fn open_unit(&mut self, die: u32) -> u32 {
        let mut front = self.space.plots[die as usize].host;
        if front.next == self.geometry.row_granules {
            front = self.space.open_row(die as usize);
        }
        let at = front.row * self.geometry.row_granules + front.next;
        front.next += self.geometry.unit_granules;
        self.space.plots[die as usize].host = front;
        let unit = self.geometry.unit_of(at);
        self.buffer(unit);
        unit
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
        let row = self.geometry.row_of(at);
        self.space.add_live(row, count);
        if lba < self.data_addresses {
            self.observer.tell(|| FlashEvent::Placed { lba, at, count });
        }
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
        let row = self.geometry.row_of(at);
        self.space.remove_live(row, count);
    }

    #[inline]
    pub(super) fn is_cleaning(&self, die: u32) -> bool {
        self.space.is_cleaning(self.geometry.plot_of(die))
    }

    /// Starts cleaning the plot of a die that has not as many free rows as it should.
    pub(super) fn start_cleaning(&mut self, die: u32) {
        self.space.start_cleaning(self.geometry.plot_of(die));
    }

    /// Picks a row of the plot of a die to clean, as the range of its units. Ends the cleaning when none is worth it.
    pub(super) fn choose_victim(&mut self, die: u32) -> Option<Range<u32>> {
        let row = self.space.choose_victim(self.geometry.plot_of(die))?;
        Some(self.geometry.units_of(row))
    }

    /// Live granules in a unit.
    #[inline]
    pub(super) fn live_in(&self, unit: u32) -> u32 {
        let at = (unit * self.geometry.unit_granules) as usize;
        self.owner[at..at + self.geometry.unit_granules as usize]
            .iter()
            .filter(|&&owner| owner != NONE)
            .count() as u32
    }

    /// Moves what is live in a unit to where its plot gathers such data; returns the granules moved.
    pub(super) fn move_unit(&mut self, die: u32, unit: u32) -> u32 {
        if let Some(moved) = &mut self.moved_blocks {
            // Their entries in the mapping table are on flash.
            let (at, blocks) = ((unit * self.geometry.unit_granules) as usize, self.host_blocks);
            let owners = &self.owner[at..at + self.geometry.unit_granules as usize];
            moved.extend(owners.iter().filter(|&&owner| owner < blocks));
        }
        let mut moved = 0;
        let mut at = unit * self.geometry.unit_granules;
        let end = at + self.geometry.unit_granules;
        let in_rows = self.rows.is_some();
        while at < end {
            let lba = self.owner[at as usize];
            let mut count = 1;
            if lba != NONE {
                count = self.granules_at(at);
                let to = if in_rows { self.row_room(count) } else { self.mover_room(die, count) };
                self.relocate(lba, at, to, count);
                if let Some(moves) = &mut self.moves {
                    moves.add(at, to, count);
                }
                self.observer.tell(|| FlashEvent::Moved { from: at, to, count });
                if in_rows {
                    self.seal_full_mover_unit();
                }
                moved += count;
            }
            at += count;
        }
        let victim = self.geometry.row_of_unit(unit);
        self.space.moved_away(victim, moved);
        moved
    }

    /// Like [`Mapping::place`] for a block that is known to be at `from`. It only stores where the caches may miss, and
    /// leaves the count of the victim to the caller; a plot's count does not change.
    #[inline]
    fn relocate(&mut self, lba: u32, from: u32, to: u32, count: u32) {
        self.map[lba as usize] = to;
        for next in 0..count {
            self.owner[(from + next) as usize] = NONE;
            self.owner[(to + next) as usize] = if next == 0 { lba } else { CONTINUED };
        }
        let row = self.geometry.row_of(to);
        self.space.moved_to(row, count);
    }

    /// Room for moved data.
    fn mover_room(&mut self, die: u32, count: u32) -> u32 {
        let mut front = self.space.plots[die as usize].mover;
        let mut unit = self.geometry.unit_of(front.next);
        let used = front.next - unit * self.geometry.unit_granules;
        let row_units = self.geometry.row_units;
        if used > 0 && self.geometry.unit_granules - used < count {
            self.padded += u64::from(self.geometry.unit_granules - used);
            self.filled_units[die as usize].push(front.row * row_units + unit);
            unit += 1;
            front.next = unit * self.geometry.unit_granules;
        }
        // A unit is begun.
        if front.next == unit * self.geometry.unit_granules {
            if front.next == self.geometry.row_granules {
                front = self.space.open_row(die as usize);
                unit = 0;
            }
            self.buffer(front.row * row_units + unit);
        }
        let at = front.row * self.geometry.row_granules + front.next;
        front.next += count;
        self.space.plots[die as usize].mover = front;
        if front.next == (unit + 1) * self.geometry.unit_granules {
            self.filled_units[die as usize].push(front.row * row_units + unit);
        }
        at
    }

    /// Takes the unit that cleaning has begun to fill, padded, where what was moved has to be on flash before its source is
    /// erased.
    pub(super) fn take_started_unit(&mut self, die: u32) -> Option<u32> {
        let mut front = self.space.plots[die as usize].mover;
        let used = front.next % self.geometry.unit_granules;
        if !self.moves_at_once || used == 0 {
            return None;
        }
        let unit = (front.row * self.geometry.row_granules + front.next) / self.geometry.unit_granules;
        self.padded += u64::from(self.geometry.unit_granules - used);
        front.next += self.geometry.unit_granules - used;
        self.space.plots[die as usize].mover = front;
        Some(unit)
    }

    /// Takes a unit that cleaning has filled.
    #[inline]
    pub(super) fn take_filled_unit(&mut self, die: u32) -> Option<u32> {
        match &mut self.rows {
            None => self.filled_units[die as usize].pop(),
            Some(rows) => rows.take_filled(die),
        }
    }

    /// A unit that cleaning has filled is on flash.
    #[inline]
    pub(super) fn moved_unit_programmed(&mut self, unit: u32) {
        self.programmed(unit);
        if let Some(rows) = &mut self.rows {
            rows.moving -= 1;
        }
    }

    /// Whether the row of a unit has units that are not yet on flash.
    pub(super) fn has_buffered_units(&self, unit: u32) -> bool {
        self.buffered_units[self.geometry.row_of_unit(unit)] > 0
    }

    /// Erases the row of a unit; nothing in it is live. Ends the cleaning of its plot when enough is free.
    pub(super) fn erase(&mut self, unit: u32) {
        let row = self.geometry.row_of_unit(unit);
        match &mut self.slc {
            Some(slc) if slc.has(row as u32) => {
                slc.erased(row as u32);
                self.space.erased_elsewhere(row);
            }
            _ => self.space.erased(row),
        }
        if let Some(moves) = &mut self.moves {
            moves.erased(&self.geometry.granules_of(row as u32));
        }
        if let Some(stripes) = self.stripes_mut() {
            stripes.erased(row as u32);
        }
        let units = self.geometry.units_of(row as u32);
        self.observer.tell(|| FlashEvent::Erased { units });
    }
}

/// Rows of all dies, and the stripes in them.
impl Mapping {
    fn rows_mut(&mut self) -> &mut RowSpace {
        self.rows.as_mut().expect("the drive works with rows")
    }

    #[inline]
    fn stripes_mut(&mut self) -> Option<&mut Stripes> {
        self.rows.as_mut()?.stripes.as_mut()
    }

    /// The open rows and the stripes, on a drive that works with rows.
    pub(super) fn rows(&self) -> Option<&RowSpace> {
        self.rows.as_deref()
    }

    fn open_unit_of(&mut self, side: Side, take: impl FnOnce(&mut RowSpace) -> u32) -> Opened {
        let mut parity = None;
        if !self.rows_mut().has_room(side) {
            parity = self.end_stripe(side);
            if !self.rows_mut().has_room(side) {
                match side {
                    Side::Host => self.open_host_row(),
                    Side::Mover => {
                        let front = self.space.open_row(0);
                        self.space.plots[0].mover = front;
                        self.rows_mut().open_row(side, front.row);
                    }
                }
            }
        }
        let unit = take(self.rows_mut());
        self.buffer(unit);
        Opened { unit, parity }
    }

    /// Opens a row for the host's data, on a drive that works with rows: one of the SLC cache while that has any.
    fn open_host_row(&mut self) {
        let mut cached = None;
        if let Some(slc) = &mut self.slc {
            slc.leave_row();
            cached = slc.open_row();
        }
        let rows = self.rows.as_mut().expect("the drive works with rows");
        match cached {
            None => {
                let front = self.space.open_row(0);
                self.space.plots[0].host = front;
                rows.open_row(Side::Host, front.row);
            }
            Some(row) => {
                self.space.leave_host_row(0);
                self.space.open_elsewhere(row as usize);
                rows.open_cached_row(row);
            }
        }
    }

    /// Closes the open stripe of a side before it is full; returns the parity that has to be written for that.
    fn end_stripe(&mut self, side: Side) -> Option<u32> {
        let parity = self.rows_mut().is_uncovered(side).then(|| self.form_parity(side));
        let rows = self.rows.as_mut()?;
        rows.close_stripe(side, &mut self.observer);
        rows.counts.row_end += u64::from(parity.is_some() && side == Side::Host);
        parity
    }

    fn form_parity(&mut self, side: Side) -> u32 {
        let rows = self.rows.as_mut().expect("the drive works with rows");
        let unit = rows.form_parity(side, &mut self.observer);
        rows.counts.cleaning += u64::from(side == Side::Mover);
        self.buffer(unit);
        unit
    }

    /// A unit of a side has its content; returns the parity if its stripe is full by that.
    fn join(&mut self, side: Side, unit: u32) -> Option<u32> {
        if !self.rows.as_mut()?.join(side, unit, &mut self.observer) {
            return None;
        }
        let parity = self.form_parity(side);
        self.rows.as_mut()?.close_stripe(side, &mut self.observer);
        Some(parity)
    }

    /// A unit of the host has its content; returns the parity of its stripe if that is full.
    #[inline]
    pub(super) fn seal_unit(&mut self, unit: u32) -> Option<u32> {
        self.rows.as_ref()?;
        let parity = self.join(Side::Host, unit)?;
        self.rows_mut().counts.full += 1;
        Some(parity)
    }

    /// Whether the host's data is in a stripe whose parity does not cover it.
    pub(super) fn is_uncovered(&self) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.is_uncovered(Side::Host))
    }

    /// Forms the parity of the open stripe of the host's data, if it has uncovered data. The stripe stays open.
    pub(super) fn cover(&mut self) -> Option<u32> {
        let parity = self.is_uncovered().then(|| self.form_parity(Side::Host))?;
        self.rows_mut().counts.partial += 1;
        Some(parity)
    }

    /// Room for moved data, in the open row of cleaning.
    fn row_room(&mut self, count: u32) -> u32 {
        let mut mover = match self.rows_mut().mover.take() {
            Some(mover) if mover.used + count <= self.geometry.unit_granules => mover,
            full => {
                if let Some(full) = full {
                    self.seal_mover_unit(full);
                }
                let opened = self.open_unit_of(Side::Mover, RowSpace::take_for_moved);
                if let Some(parity) = opened.parity {
                    self.rows_mut().add_filled(parity);
                }
                MoverUnit { unit: opened.unit, used: 0 }
            }
        };
        let at = mover.unit * self.geometry.unit_granules + mover.used;
        mover.used += count;
        self.rows_mut().mover = Some(mover);
        at
    }

    /// Has the unit that cleaning fills programmed if it is full.
    fn seal_full_mover_unit(&mut self) {
        let unit_granules = self.geometry.unit_granules;
        let full = self.rows_mut().mover.take_if(|mover| mover.used == unit_granules);
        if let Some(full) = full {
            self.seal_mover_unit(full);
        }
    }

    fn seal_mover_unit(&mut self, mover: MoverUnit) {
        self.padded += u64::from(self.geometry.unit_granules - mover.used);
        self.rows_mut().add_filled(mover.unit);
        if let Some(parity) = self.join(Side::Mover, mover.unit) {
            self.rows_mut().add_filled(parity);
        }
    }

    /// All live data of a victim has been moved. With stripes, what was moved is programmed with a parity over it.
    pub(super) fn finish_moving(&mut self) {
        if self.stripes_mut().is_none() || defect::has(Defect::EraseBeforeParity) {
            return;
        }
        if let Some(mover) = self.rows_mut().mover.take() {
            self.seal_mover_unit(mover);
        }
        if !self.rows_mut().protected && self.rows_mut().is_uncovered(Side::Mover) {
            let parity = self.form_parity(Side::Mover);
            self.rows_mut().add_filled(parity);
        }
    }

    /// A die that has got a unit of cleaning to program since the last call.
    pub(super) fn take_woken(&mut self) -> Option<u32> {
        self.rows.as_mut()?.take_woken()
    }
}

mod counts;
mod lengths;
mod moved_blocks;
mod rename;
mod slc;
mod stop;
#[cfg(test)]
mod verify;
