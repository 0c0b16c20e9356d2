//! The write buffer: which unit each block of the host goes to, when units are written out, what a flush waits for.
//!
//! A block gets its place on flash when it enters the buffer, so the buffer is no more than the units that have places
//! and are not programmed yet. One unit at a time is filled.

mod table_pages;

use std::collections::VecDeque;

use super::config::{Config, Drain};
use super::defect::{self, Defect};
use super::dies::Dies;
use super::epochs::Epochs;
use super::host::{HostInterface, Request};
use super::jobs::{Job, PARITY_READ};
use super::mapping::NONE;
use super::placement::{OpenUnit, Placement};
use super::raid5::{Due, Raid5};
use super::redundancy::Redundancy;
use super::stats::Stats;
use crate::{BLOCK_BYTES, Kind, Ns, Outcome};

/// The unit that is being filled.
#[derive(Clone, Copy, Debug)]
struct Filling {
    open: OpenUnit,
    /// The write that waits for its program, or [`NONE`].
    request: u32,
    epoch: u32,
}

/// What the buffer of a drive with RAID-5 stripes has more.
#[derive(Clone, Debug)]
struct Raid5Buffer {
    stripes: Raid5,
    /// The unit that is being filled, for each die.
    fillings: Vec<Option<Filling>>,
    /// Stripes whose parity waits for room on its die.
    without_room: VecDeque<u32>,
    /// Parities written, and blocks read for them.
    parities: u64,
    blocks_read: u64,
}

impl Raid5Buffer {
    fn new(config: &Config) -> Option<Box<Raid5Buffer>> {
        let Redundancy::Raid5(striping) = config.redundancy else {
            return None;
        };
        Some(Box::new(Raid5Buffer {
            stripes: Raid5::new(config, striping),
            fillings: vec![None; config.all_dies() as usize],
            without_room: VecDeque::new(),
            parities: 0,
            blocks_read: 0,
        }))
    }
}

/// Writes that wait for room, the data that is not on flash yet, and the flushes that wait for it.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    drain: Drain,
    power_loss_protected: bool,
    /// Writes that have arrived and wait for room, in order.
    admission: VecDeque<u32>,
    filling: Option<Filling>,
    raid5: Option<Box<Raid5Buffer>>,
    /// Granules in the buffer, and its capacity.
    granules: u32,
    granules_max: u32,
    /// Granules in the buffer from which a batch starts, on a drive that writes in batches.
    batch_granules: u32,
    /// P_wait, on a drive that writes the parity of incomplete stripes.
    parity_wait_ns: Option<Ns>,
    /// When the parity of the incomplete stripe is written; [`Ns::MAX`] if no data waits for it.
    parity_due: Ns,
    /// Everything is written out in no time now.
    at_once: bool,
    epochs: Epochs,
    stats: Stats,
}

impl Buffer {
    pub(super) fn new(config: &Config) -> Buffer {
        let per_block = BLOCK_BYTES / config.granule_bytes();
        let granules_max = config.buffer_blocks * per_block;
        let batch_granules = match config.drain {
            Drain::Batch { blocks } => granules_max.min(blocks * per_block),
            Drain::Through | Drain::Steady => 0,
        };
        Buffer {
            drain: config.drain,
            power_loss_protected: config.power_loss_protected,
            admission: VecDeque::new(),
            filling: None,
            raid5: Raid5Buffer::new(config),
            granules: 0,
            granules_max,
            batch_granules,
            parity_wait_ns: config.parity_wait_ns(),
            parity_due: Ns::MAX,
            at_once: false,
            epochs: Epochs::new(),
            stats: Stats::default(),
        }
    }

    /// Counts of host writes, of padding, and of RAID-5 parities.
    pub(super) fn stats(&self) -> Stats {
        let raid5 = self.raid5.as_ref();
        Stats {
            parity_granules: raid5.map_or(0, |raid5| raid5.parities),
            parity_reads: raid5.map_or(0, |raid5| raid5.blocks_read),
            ..self.stats
        }
    }

    pub(super) fn reset_stats(&mut self) {
        self.stats = Stats::default();
        if let Some(raid5) = &mut self.raid5 {
            (raid5.parities, raid5.blocks_read) = (0, 0);
        }
    }

    /// The RAID-5 stripes of the drive. If it has any, discards wait for room too.
    pub(super) fn raid5(&self) -> Option<&Raid5> {
        self.raid5.as_ref().map(|raid5| &raid5.stripes)
    }

    /// Adds a write that has arrived to those that wait for room.
    #[inline]
    pub(super) fn enqueue(&mut self, id: u32) {
        self.admission.push_back(id);
    }

    /// Gives waiting writes a place, in order, while there is room.
    #[inline]
    pub(super) fn admit(
        &mut self,
        now: Ns,
        host: &mut HostInterface,
        placement: &mut Placement,
        dies: &mut Dies,
    ) {
        if self.raid5.is_some() {
            self.place_waiting_parities(now, host, dies);
        }
        while let Some(&id) = self.admission.front() {
            let Request { command, placed, .. } = *host.request(id);
            for placed in placed..command.blocks {
                if dies.is_stopped() {
                    return;
                }
                let lba = command.lba + placed;
                if self.raid5.is_some() {
                    if !self.change(now, id, command.kind, lba, host, dies) {
                        return;
                    }
                    host.request_mut(id).placed += 1;
                    continue;
                }
                let count = dies.mapping().granules_needed(lba);
                if !dies.mapping().has_space(lba, count) {
                    host.request_mut(id).outcome = Outcome::NoSpace;
                } else if self.granules + count > self.granules_max {
                    self.make_room(now, dies);
                    return;
                } else if let Some(filling) = self.take_filling(now, id, count, host, placement, dies) {
                    self.add_block(now, filling, lba, count, dies);
                } else {
                    return;
                }
                host.request_mut(id).placed += 1;
            }
            self.admission.pop_front();
            if command.kind == Kind::Discard {
                host.acknowledge(now, id);
                continue;
            }
            self.stats.written_blocks += u64::from(command.blocks);
            let through = self.drain == Drain::Through;
            if through {
                self.seal_filling(now, dies);
            }
            // A write through to flash has nothing to wait for if there was no space for any of its blocks.
            if !through || host.request(id).pending == 0 {
                host.acknowledge(now, id);
            }
        }
    }

    /// Takes the unit being filled, which has `count` free granules then. `None` while no die has a unit for that.
    fn take_filling(
        &mut self,
        now: Ns,
        id: u32,
        count: u32,
        host: &mut HostInterface,
        placement: &mut Placement,
        dies: &mut Dies,
    ) -> Option<Filling> {
        match self.filling.take() {
            Some(filling) if filling.open.free() >= count => return Some(filling),
            Some(full) => self.seal(now, full, dies),
            None => {}
        }
        let open = placement.place_unit(now, dies)?;
        let request = if self.drain == Drain::Through { id } else { NONE };
        Some(self.start_filling(open, request, host))
    }

    fn start_filling(&mut self, open: OpenUnit, request: u32, host: &mut HostInterface) -> Filling {
        if request != NONE {
            host.request_mut(request).pending += 1;
        }
        Filling { open, request, epoch: self.epochs.open_unit() }
    }

    /// Puts a block into a unit that has room, and keeps the unit for the next block or seals it.
    fn add_block(&mut self, now: Ns, mut filling: Filling, lba: u32, count: u32, dies: &mut Dies) {
        dies.mapping_mut().place(lba, filling.open.take(count), count);
        self.granules += count;
        self.stats.written_granules += u64::from(count);
        if let Some(wait_ns) = self.parity_wait_ns
            && !(defect::has(Defect::WaitFromFirst) && self.parity_due != Ns::MAX)
        {
            // Parity is written if no data comes for longer than P_wait.
            self.parity_due = now + wait_ns + 1;
        }
        if filling.open.free() == 0 {
            self.seal(now, filling, dies);
        } else {
            self.filling = Some(filling);
        }
    }

    /// When the parity of an incomplete stripe is to be written; [`Ns::MAX`] if no data waits for it.
    #[inline]
    pub(super) fn parity_due(&self) -> Ns {
        self.raid5.as_ref().map_or(self.parity_due, |raid5| raid5.stripes.next_due())
    }

    /// P_wait has passed without data: writes the parity of the incomplete stripe, and the data that it covers before.
    pub(super) fn write_parity(&mut self, now: Ns, host: &mut HostInterface, dies: &mut Dies) {
        if let Some(raid5) = &mut self.raid5 {
            match raid5.stripes.take_due() {
                Some(Due::Window(stripe)) => self.update_parity(now, stripe, true, host, dies),
                Some(Due::Update) => self.seal_filling(now, dies),
                None => {}
            }
        } else {
            self.seal_filling(now, dies);
            self.parity_due = Ns::MAX;
            let parity = dies.mapping_mut().cover();
            dies.hold_parity(parity);
        }
        self.start_held(now, dies);
    }

    fn start_held(&self, now: Ns, dies: &mut Dies) {
        if self.at_once {
            return;
        }
        if let Drain::Batch { .. } = self.drain {
            dies.start_batch(now);
        } else {
            dies.start_held(now);
        }
    }

    /// Makes sure that a full buffer empties.
    fn make_room(&mut self, now: Ns, dies: &mut Dies) {
        if let Drain::Batch { .. } = self.drain {
            self.seal_filling(now, dies);
            dies.start_batch(now);
        } else if self.filled() == self.granules {
            // No program is under way that would make room, and what is free in these units is too small.
            self.seal_filling(now, dies);
        }
    }

    /// Granules in the units being filled.
    fn filled(&self) -> u32 {
        let of_dies = self.raid5.iter().flat_map(|raid5| &raid5.fillings);
        of_dies.chain([&self.filling]).flatten().map(|filling| filling.open.filled()).sum()
    }

    /// Seals the units being filled.
    fn seal_filling(&mut self, now: Ns, dies: &mut Dies) {
        if let Some(filling) = self.filling.take() {
            self.seal(now, filling, dies);
        }
        for die in 0..self.raid5.as_ref().map_or(0, |raid5| raid5.fillings.len()) {
            self.seal_filling_of(now, die as u32, dies);
        }
    }

    /// Seals the unit being filled on a die of a drive with RAID-5 stripes.
    fn seal_filling_of(&mut self, now: Ns, die: u32, dies: &mut Dies) {
        if let Some(filling) = self.raid5.as_mut().and_then(|raid5| raid5.fillings[die as usize].take()) {
            self.seal(now, filling, dies);
        }
    }

    /// Has a unit programmed, whether it is full or not.
    fn seal(&mut self, now: Ns, filling: Filling, dies: &mut Dies) {
        dies.hold_program(self.close(filling));
        let parity = dies.mapping_mut().seal_unit(filling.open.unit);
        dies.hold_parity(parity);
        // A batch may keep back a full stripe of which a part is on flash.
        let starts_now = !matches!(self.drain, Drain::Batch { .. }) || defect::has(Defect::KeepInBatch);
        if self.parity_due != Ns::MAX && starts_now && !dies.mapping().is_uncovered() {
            self.parity_due = Ns::MAX;
        }
        match self.drain {
            _ if self.at_once => {}
            Drain::Batch { .. } if self.granules >= self.batch_granules => dies.start_batch(now),
            Drain::Batch { .. } => {}
            Drain::Through | Drain::Steady => dies.start_held(now),
        }
    }

    fn close(&mut self, filling: Filling) -> Job {
        let Filling { open, request, epoch } = filling;
        self.stats.padded_granules += u64::from(open.free());
        Job { unit: open.unit, granules: open.filled(), request, epoch }
    }

    /// A unit of the host's data is on flash.
    #[inline]
    pub(super) fn unit_programmed(
        &mut self,
        now: Ns,
        program: Job,
        host: &mut HostInterface,
        dies: &mut Dies,
    ) {
        if program.granules == 0 {
            // Parity: no request and no flush waits for it.
            return;
        }
        self.granules -= program.granules;
        if program.request != NONE {
            let request = host.request_mut(program.request);
            request.pending -= 1;
            if request.pending == 0 && request.placed == request.command.blocks {
                host.acknowledge(now, program.request);
            }
        }
        self.epochs.programmed(program.epoch);
        self.finish_flushes(now, host);
        let Some(raid5) = &mut self.raid5 else { return };
        let due = raid5.stripes.programmed(program.unit, dies.mapping_mut());
        for &stripe in &due {
            self.update_parity(now, stripe, true, host, dies);
        }
        if !due.is_empty() {
            self.start_held(now, dies);
        }
    }

    /// A flush has arrived.
    pub(super) fn start_flush(&mut self, now: Ns, id: u32, host: &mut HostInterface, dies: &mut Dies) {
        if self.power_loss_protected {
            host.acknowledge(now, id);
            return;
        }
        self.seal_filling(now, dies);
        if let Drain::Batch { .. } = self.drain {
            dies.start_batch(now);
        }
        self.epochs.flush(id);
        self.finish_flushes(now, host);
    }

    fn finish_flushes(&mut self, now: Ns, host: &mut HostInterface) {
        while let Some(flush) = self.epochs.take_flush() {
            host.acknowledge(now, flush);
        }
    }

    /// Gives up everything that waits, since the drive writes nothing any more; what is in the buffer stays there.
    pub(super) fn stop(&mut self) {
        self.admission.clear();
        self.epochs = Epochs::new();
        self.parity_due = Ns::MAX;
        if let Some(raid5) = &mut self.raid5 {
            raid5.stripes.stop();
            raid5.without_room.clear();
        }
    }

    /// Whether a power failure would lose data.
    pub(super) fn is_volatile(&self) -> bool {
        self.granules > 0 && !self.power_loss_protected
    }

    /// Puts everything in the buffer on flash in no time, with its parity. The drive must be idle.
    pub(super) fn empty_at_once(&mut self, now: Ns, host: &mut HostInterface, dies: &mut Dies) {
        self.at_once = true;
        self.seal_at_once(dies);
        self.parity_due = Ns::MAX;
        let parity = dies.mapping_mut().cover();
        dies.hold_parity(parity);
        loop {
            while let Some(program) = dies.program_held_at_once() {
                self.unit_programmed(now, program, host, dies);
            }
            // A protected buffer may hold parities of incomplete stripes for ever.
            let pending = self.raid5.as_ref().and_then(|raid5| raid5.stripes.oldest());
            let Some(stripe) = pending else { break };
            self.update_parity(now, stripe, true, host, dies);
            self.seal_at_once(dies);
        }
        self.at_once = false;
    }

    fn seal_at_once(&mut self, dies: &mut Dies) {
        let of_dies = self.raid5.iter_mut().flat_map(|raid5| &mut raid5.fillings);
        let open: Vec<Filling> = of_dies.chain([&mut self.filling]).filter_map(Option::take).collect();
        for filling in open {
            dies.hold_program(self.close(filling));
            let parity = dies.mapping_mut().seal_unit(filling.open.unit);
            dies.hold_parity(parity);
        }
    }
}

/// A drive with RAID-5 stripes.
impl Buffer {
    fn raid5_mut(&mut self) -> &mut Raid5Buffer {
        self.raid5.as_mut().expect("the drive has RAID-5 stripes")
    }

    /// Writes or discards a block of a request; returns `false` if that has to wait.
    fn change(
        &mut self,
        now: Ns,
        id: u32,
        kind: Kind,
        lba: u32,
        host: &mut HostInterface,
        dies: &mut Dies,
    ) -> bool {
        let raid5 = self.raid5_mut();
        let (layout, has_slots) = (*raid5.stripes.layout(), raid5.stripes.has_slots());
        if !has_slots {
            // Parities that are written give room for old copies.
            match raid5.stripes.oldest() {
                Some(oldest) => self.update_parity(now, oldest, true, host, dies),
                None => self.seal_filling(now, dies),
            }
            self.start_held(now, dies);
            return false;
        }
        if kind == Kind::Discard {
            if dies.mapping().locate(lba).is_some() {
                self.note_change(now, lba, host, dies);
                dies.mapping_mut().forget(lba);
            }
            return true;
        }
        if self.granules + 1 > self.granules_max {
            self.make_room(now, dies);
            return false;
        }
        let request = if self.drain == Drain::Through { id } else { NONE };
        let Some(mut filling) = self.take_filling_of(now, layout.die_of(lba), request, host, dies) else {
            return false;
        };
        let full = self.raid5_mut().stripes.change(now, lba, dies.mapping_mut());
        dies.mapping_mut().place(lba, filling.open.take(1), 1);
        self.granules += 1;
        self.stats.written_granules += 1;
        self.keep_or_seal(now, layout.die_of(lba), filling, dies);
        if full {
            self.update_parity(now, layout.stripe(lba), false, host, dies);
        }
        true
    }

    fn note_change(&mut self, now: Ns, lba: u32, host: &mut HostInterface, dies: &mut Dies) {
        let stripes = &mut self.raid5_mut().stripes;
        let stripe = stripes.layout().stripe(lba);
        if stripes.change(now, lba, dies.mapping_mut()) {
            self.update_parity(now, stripe, false, host, dies);
        }
    }

    /// Takes the unit being filled on a die. `None` while the die has no unit for that.
    fn take_filling_of(
        &mut self,
        now: Ns,
        die: u32,
        request: u32,
        host: &mut HostInterface,
        dies: &mut Dies,
    ) -> Option<Filling> {
        if let Some(filling) = self.raid5_mut().fillings[die as usize].take() {
            return Some(filling);
        }
        if !dies.mapping().can_open(die) {
            return None;
        }
        let unit = if self.at_once { dies.open_unit_at_once(die) } else { dies.open_unit(now, die) };
        self.raid5_mut().stripes.unit_opened(unit);
        Some(self.start_filling(OpenUnit::new(unit, dies.mapping()), request, host))
    }

    fn keep_or_seal(&mut self, now: Ns, die: u32, filling: Filling, dies: &mut Dies) {
        if filling.open.free() == 0 {
            self.seal(now, filling, dies);
        } else {
            self.raid5_mut().fillings[die as usize] = Some(filling);
        }
    }

    /// Begins to write the parity of a stripe. One that is urgent does not wait until units are full.
    fn update_parity(
        &mut self,
        now: Ns,
        stripe: u32,
        urgent: bool,
        host: &mut HostInterface,
        dies: &mut Dies,
    ) {
        let raid5 = self.raid5_mut();
        let Some(begun) = raid5.stripes.begin(stripe, urgent, dies.mapping_mut()) else {
            if urgent {
                // The parity of the window before may wait for these.
                self.seal_filling(now, dies);
            }
            return;
        };
        raid5.blocks_read += u64::from(begun.blocks_read);
        if urgent {
            for unit in begun.buffered {
                let die = dies.mapping().die_of(unit);
                let filled = &self.raid5_mut().fillings[die as usize];
                if filled.is_some_and(|filling| filling.open.unit == unit) {
                    self.seal_filling_of(now, die, dies);
                }
            }
        }
        if begun.reads.is_empty() || self.at_once {
            self.place_parity(now, stripe, host, dies);
            return;
        }
        for unit in begun.reads {
            dies.read(now, Job { unit, granules: 1, request: PARITY_READ | stripe, epoch: 0 });
        }
    }

    /// A unit has been read for the parity of a stripe.
    pub(super) fn parity_read_done(
        &mut self,
        now: Ns,
        stripe: u32,
        host: &mut HostInterface,
        dies: &mut Dies,
    ) {
        if self.raid5_mut().stripes.read_done(stripe) {
            self.place_parity(now, stripe, host, dies);
            self.start_held(now, dies);
        }
    }

    fn place_parity(&mut self, now: Ns, stripe: u32, host: &mut HostInterface, dies: &mut Dies) {
        let layout = *self.raid5_mut().stripes.layout();
        let die = layout.die_of(layout.parity_address(stripe));
        let Some(mut filling) = self.take_filling_of(now, die, NONE, host, dies) else {
            self.raid5_mut().without_room.push_back(stripe);
            return;
        };
        let at = filling.open.take(1);
        let urgent = self.raid5_mut().stripes.place(stripe, at, dies.mapping_mut());
        self.granules += 1;
        self.raid5_mut().parities += 1;
        self.keep_or_seal(now, die, filling, dies);
        if urgent || self.drain == Drain::Through {
            self.seal_filling_of(now, die, dies);
        }
    }

    /// Places the parities that wait for room, as far as there is some.
    fn place_waiting_parities(&mut self, now: Ns, host: &mut HostInterface, dies: &mut Dies) {
        let waiting =
            self.raid5.as_mut().map(|raid5| std::mem::take(&mut raid5.without_room)).unwrap_or_default();
        if waiting.is_empty() {
            return;
        }
        for stripe in waiting {
            self.place_parity(now, stripe, host, dies);
        }
        self.start_held(now, dies);
    }
}
