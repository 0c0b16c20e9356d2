//! Writes that take no time: they bring a drive into the state that a long history would leave it in.

use super::config::Config;
use super::mapping::Mapping;
use super::observe::FlashEvent;
use super::placement::{OpenUnit, Placement};
use super::raid5_layout::Layout;
use super::stats::Stats;
use crate::Rng;

/// One run of writes at once, on a drive without requests and with an empty buffer.
pub(super) struct Aging<'a> {
    mapping: &'a mut Mapping,
    placement: &'a mut Placement,
    rng: &'a mut Rng,
    filling: Option<OpenUnit>,
    raid5: Option<Layout>,
    /// Number of addresses of the host's blocks and of a mapping table on flash.
    data_addresses: u32,
    /// The unit that is being filled, for each die, on a drive with RAID-5 stripes.
    fillings: Vec<Option<OpenUnit>>,
    stats: Stats,
}

impl<'a> Aging<'a> {
    pub(super) fn new(
        config: &Config,
        mapping: &'a mut Mapping,
        placement: &'a mut Placement,
        rng: &'a mut Rng,
    ) -> Aging<'a> {
        mapping.pass_cache_by(true);
        let raid5 = config.raid5_layout();
        let fillings = vec![None; config.all_dies() as usize];
        Aging {
            mapping,
            placement,
            rng,
            filling: None,
            raid5,
            data_addresses: config.data_addresses(),
            fillings,
            stats: Stats::default(),
        }
    }

    /// Writes every block once, in order, and the pages of a mapping table on flash.
    pub(super) fn fill(&mut self) {
        for address in 0..self.data_addresses {
            self.write(address);
            // Full stripes get one parity.
            if let Some(stripe) = self.raid5.and_then(|layout| layout.completed_by(address)) {
                self.write_parity(stripe);
            }
        }
    }

    /// Writes `count` random blocks among the first `span`.
    pub(super) fn overwrite(&mut self, count: u64, span: u32) {
        // Places are drawn some steps ahead, so that the caches have them in time.
        let mut ahead: [u32; 8] = std::array::from_fn(|_| self.draw(span));
        for step in 0..count as usize {
            let next = self.draw(span);
            let lba = std::mem::replace(&mut ahead[step % 8], next);
            self.write(lba);
            if let Some(layout) = self.raid5 {
                self.write_parity(layout.stripe(lba));
            }
        }
    }

    /// Forgets the content of every block. Panics on a drive with RAID-5 stripes, whose parities would have to be written.
    pub(super) fn trim(self) {
        assert!(self.raid5.is_none(), "a discard of a block of a RAID-5 stripe writes parity");
        (0..self.mapping.blocks()).for_each(|lba| self.mapping.forget(lba));
        self.mapping.pass_cache_by(false);
    }

    fn write_parity(&mut self, stripe: u32) {
        let Some(layout) = self.raid5 else { return };
        let address = layout.parity_address(stripe);
        let blocks = layout.stripe_blocks(stripe);
        let terms = blocks.filter_map(|lba| self.mapping.locate(lba)).map(|extent| extent.at).collect();
        self.mapping.tell(|| FlashEvent::ParityComputed { address, terms });
        self.write_to_die(address, layout.die_of(address));
        self.stats.parity_granules += 1;
    }

    /// Writes a block of a RAID-5 stripe, or its parity, to the die that is determined by its address.
    fn write_to_die(&mut self, address: u32, die: u32) {
        let mut filling = match self.fillings[die as usize].take() {
            Some(filling) => filling,
            None => {
                self.clean(die);
                OpenUnit::new(self.mapping.open_unit(die), self.mapping)
            }
        };
        let at = filling.take(1);
        self.mapping.place(address, at, 1);
        if address >= self.data_addresses {
            self.mapping.tell(|| FlashEvent::ParityPlaced { address, at });
        }
        if filling.free() == 0 {
            self.mapping.programmed(filling.unit);
        } else {
            self.fillings[die as usize] = Some(filling);
        }
    }

    /// Programs the last unit and the parity of the last stripe; returns the counts of the run.
    pub(super) fn finish(mut self) -> Stats {
        if let Some(filling) = self.filling.take() {
            self.program(filling);
        }
        for filling in std::mem::take(&mut self.fillings).into_iter().flatten() {
            self.program(filling);
        }
        let parity = self.mapping.cover();
        self.program_parity(parity);
        self.mapping.pass_cache_by(false);
        self.stats
    }

    fn draw(&mut self, span: u32) -> u32 {
        let lba = self.rng.below(span);
        self.mapping.touch(lba);
        lba
    }

    fn write(&mut self, lba: u32) {
        if let Some(layout) = self.raid5 {
            self.write_to_die(lba, layout.die_of(lba));
            self.stats.written_blocks += 1;
            self.stats.written_granules += 1;
            return;
        }
        let count = self.mapping.granules_needed(lba);
        if !self.mapping.has_space(lba, count) {
            return;
        }
        let mut filling = match self.filling.take() {
            Some(filling) if filling.free() >= count => filling,
            full => {
                if let Some(full) = full {
                    self.program(full);
                }
                let die = self.die_with_room();
                self.open_unit(die)
            }
        };
        self.mapping.place(lba, filling.take(count), count);
        self.stats.written_blocks += 1;
        self.stats.written_granules += u64::from(count);
        self.filling = Some(filling);
    }

    fn open_unit(&mut self, die: u32) -> OpenUnit {
        if self.mapping.rows().is_none() {
            return OpenUnit::new(self.mapping.open_unit(die), self.mapping);
        }
        let opened = self.mapping.open_row_unit(|_| 0);
        self.program_parity(opened.parity);
        OpenUnit::new(opened.unit, self.mapping)
    }

    fn program(&mut self, filling: OpenUnit) {
        self.stats.padded_granules += u64::from(filling.free());
        let parity = self.mapping.seal_unit(filling.unit);
        self.mapping.programmed(filling.unit);
        self.program_parity(parity);
    }

    fn program_parity(&mut self, parity: Option<u32>) {
        if let Some(parity) = parity {
            self.mapping.programmed(parity);
        }
    }

    /// The next die in rotation that has room once it is cleaned.
    fn die_with_room(&mut self) -> u32 {
        loop {
            let die = self.placement.next_in_rotation();
            self.clean(die);
            if self.mapping.can_open(die) {
                return die;
            }
        }
    }

    /// Cleans the plot of a die until it has enough free.
    fn clean(&mut self, die: u32) {
        while self.mapping.is_cleaning(die) {
            let Some(units) = self.mapping.choose_victim(die) else {
                break;
            };
            let first = units.start;
            for unit in units {
                self.stats.moved_granules += u64::from(self.mapping.move_unit(die, unit));
                self.program_moved(die);
            }
            if self.mapping.rows().is_some() {
                self.mapping.finish_moving();
                self.program_moved(die);
            } else if let Some(started) = self.mapping.take_started_unit(die) {
                self.mapping.moved_unit_programmed(started);
            }
            self.mapping.erase(first);
            self.stats.erases += u64::from(self.mapping.geometry().plot_dies);
        }
    }

    fn program_moved(&mut self, die: u32) {
        let rows = self.mapping.rows().is_some();
        let mut next = if rows { self.mapping.take_woken() } else { Some(die) };
        while let Some(die) = next {
            while let Some(filled) = self.mapping.take_filled_unit(die) {
                self.mapping.moved_unit_programmed(filled);
            }
            next = self.mapping.take_woken();
        }
    }
}
