//! A drive as its host sees it: it takes requests apart, and passes commands to its parts and their results back.

use std::collections::{BTreeMap, VecDeque};

use super::aging::Aging;
use super::buffer::Buffer;
use super::config::Config;
use super::defect::{self, Defect};
use super::dies::Dies;
use super::host::{HostEvent, HostInterface};
use super::jobs::{Finished, Job, PARITY_READ, TABLE_READ};
use super::loss::{self, Content, Failure, Losses};
use super::mapping::NONE;
use super::mapping_cache::{Lookup, TableCache};
use super::observe::FlashEvent;
use super::placement::Placement;
use super::stats::Stats;
use crate::command::check;
use crate::{Command, Completion, Device, Kind, Ns, Outcome, Rng};

/// Space of a compressing drive, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What compressed data may take.
    pub total: u64,
    /// What compressed data takes.
    pub used: u64,
}

/// A flash SSD.
#[derive(Clone, Debug)]
pub struct Ssd {
    config: Config,
    host: HostInterface,
    buffer: Buffer,
    placement: Placement,
    dies: Dies,
    /// What of the mapping table is in memory, on a drive that keeps it on flash.
    table: Option<Box<TableCache>>,
    /// Requests that arrived while the drive stood still.
    stalled: VecDeque<u32>,
    /// The die that has failed.
    lost_die: Option<u32>,
    /// Draws the blocks that aging writes.
    rng: Rng,
    /// Counts of reads and of aging.
    stats: Stats,
    now: Ns,
    /// When something happens next, or [`Ns::MAX`]: what [`Ssd::find_next`] gives after each call of the host.
    next_at: Ns,
}

impl Ssd {
    /// A new drive, all of it unwritten. Panics when the configuration makes no sense.
    pub fn new(config: Config, seed: u64) -> Ssd {
        config.check();
        Ssd {
            host: HostInterface::new(&config),
            buffer: Buffer::new(&config),
            placement: Placement::new(config.all_dies()),
            dies: Dies::new(&config, seed),
            table: config.mapping_cache.map(|cache| Box::new(TableCache::new(cache, config.blocks))),
            stalled: VecDeque::new(),
            lost_die: None,
            rng: Rng::new(seed ^ 1),
            stats: Stats::default(),
            now: 0,
            next_at: Ns::MAX,
            config,
        }
    }

    /// The parameters of the drive.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The time to which the drive was last moved.
    pub fn now(&self) -> Ns {
        self.now
    }

    /// Counts of what the drive has done.
    pub fn stats(&self) -> Stats {
        self.stats_at(self.now)
    }

    /// Counts of what the drive has done until `now`, if it was moved to all events before.
    pub fn stats_at(&self, now: Ns) -> Stats {
        self.stats + self.buffer.stats() + self.dies.stats_at(now)
    }

    /// The same with granules counted as the blocks of 4 KiB that they fill.
    pub fn stats_in_blocks_at(&self, now: Ns) -> Stats {
        let per_block = u64::from(crate::BLOCK_BYTES / self.dies.mapping().geometry().granule_bytes);
        self.stats_at(now).in_blocks(per_block)
    }

    /// Starts counting anew; wear stays.
    pub fn reset_stats(&mut self) {
        self.stats = Stats::default();
        self.buffer.reset_stats();
        self.dies.reset_stats(self.now);
    }

    /// Erases of each erase block, die after die; those of all planes count once, and so do those of a row.
    pub fn erase_counts(&self) -> &[u32] {
        self.dies.mapping().space().erases()
    }

    /// For each erase block (or row), the part of it that is live; `None` for one that is erased.
    pub fn live_shares(&self) -> impl Iterator<Item = Option<f64>> {
        let mapping = self.dies.mapping();
        let granules = f64::from(mapping.geometry().row_granules);
        mapping.space().live_of_rows().map(move |live| live.map(|live| f64::from(live) / granules))
    }

    /// Whether a block holds data.
    pub fn is_written(&self, lba: u32) -> bool {
        self.dies.mapping().locate(lba).is_some()
    }

    /// Announces the compressed lengths in bytes of the blocks from `lba`, for their next write. A block without an
    /// announcement does not compress. Panics on a drive that does not compress.
    pub fn announce_lengths(&mut self, lba: u32, bytes: &[u16]) {
        for (block, &length) in (lba..).zip(bytes) {
            self.dies.mapping_mut().announce_length(block, length);
        }
    }

    /// Space for compressed data, if the drive compresses and tells.
    pub fn space(&self) -> Option<Space> {
        self.config.compression.filter(|compression| compression.space_query)?;
        let mapping = self.dies.mapping();
        let bytes = u64::from(mapping.geometry().granule_bytes);
        Some(Space { total: mapping.space().live_max() * bytes, used: mapping.space().live() * bytes })
    }

    /// Compressed length of a block in bytes, 0 if it holds nothing, if the drive compresses and tells.
    pub fn length_of(&self, lba: u32) -> Option<u16> {
        self.config.compression.filter(|compression| compression.length_query)?;
        Some(self.dies.mapping().length(lba))
    }

    /// Ages the drive at once: all of it is written in order, then `overwrites` times its size at random, so that every
    /// write leaves something to clean (FusionRAID, FAST '21, sections 2.1 and 5.1). Counts start anew, but for wear.
    /// Panics while requests are under way.
    pub fn age(&mut self, overwrites: f64) {
        let blocks = self.blocks();
        let mut aging = self.start_aging();
        aging.fill();
        aging.overwrite((f64::from(blocks) * overwrites) as u64, blocks);
        aging.finish();
        self.dies.mapping_mut().take_moved_blocks();
        self.reset_stats();
    }

    /// Discards all of the drive at once, as may be done when it is taken into use: its history is its wear alone. Panics while
    /// requests are under way, and on a drive with RAID-5 stripes.
    pub fn trim_at_once(&mut self) {
        self.start_aging().trim();
    }

    /// Writes `count` random blocks among the first `span`, at once. Panics while requests are under way.
    pub fn overwrite_at_once(&mut self, count: u64, span: u32) {
        let mut aging = self.start_aging();
        aging.overwrite(count, span);
        let stats = aging.finish();
        self.dies.mapping_mut().take_moved_blocks();
        self.stats = self.stats + stats;
    }

    /// Keeps every change of what flash holds from now on, for [`Ssd::take_flash_events`].
    pub fn observe_flash(&mut self) {
        self.dies.mapping_mut().observer_mut().start();
    }

    /// The changes of what flash holds since the last call.
    pub fn take_flash_events(&mut self) -> Vec<FlashEvent> {
        self.dies.mapping_mut().observer_mut().take()
    }

    /// The die of a unit. A unit is as many granules as [`Ssd::unit_granules`] says, from that multiple of its number.
    pub fn die_of(&self, unit: u32) -> u32 {
        self.dies.mapping().die_of(unit)
    }

    /// Granules of a unit.
    pub fn unit_granules(&self) -> u32 {
        self.dies.mapping().unit_granules()
    }

    /// Where the content of a block would be found if something failed now, with power or after a power failure.
    pub fn content_after(&self, lba: u32, failure: Option<Failure>, powered: bool) -> Content {
        loss::content(&self.config, self.dies.mapping(), self.buffer.raid5(), lba, failure, powered)
    }

    /// A die fails at `now`: what it holds is gone. The drive is read-only from then on. Writes, discards, and flushes of
    /// data that is only in volatile memory end with [`Outcome::ReadOnly`]. Blocks of the die are read from the rest of
    /// their stripes, which takes the time of these reads, or end with [`Outcome::Unreadable`]. Returns what is left.
    /// Panics when a die has failed before.
    pub fn lose_die(&mut self, now: Ns, die: u32) -> Losses {
        assert!(self.lost_die.is_none(), "a die has failed before");
        assert!(die < self.config.all_dies() && now >= self.now && self.next_at >= now, "die {die} at {now}");
        (self.now, self.lost_die) = (now, Some(die));
        self.stalled.clear();
        // Where each block is stays in memory from now on, since nothing changes any more.
        self.table = None;
        self.buffer.stop();
        self.dies.stop(now);
        // What was read for these requests has no receiver any more, so reads begin anew.
        for id in self.host.inside() {
            self.serve_after_loss(id, die);
        }
        self.next_at = self.find_next();
        self.losses_after(Failure::Die(die), true)
    }

    /// The die that has failed, if one has.
    pub fn lost_die(&self) -> Option<u32> {
        self.lost_die
    }

    /// What a failure would leave of all blocks, with power or after a power failure. A die of a drive whose stripes have
    /// more elements than it has dies takes blocks with it.
    pub fn losses_after(&self, failure: Failure, powered: bool) -> Losses {
        let mut losses = Losses::default();
        for lba in 0..self.blocks() {
            match self.content_after(lba, Some(failure), powered) {
                Content::Combined { .. } => losses.rebuilt += 1,
                Content::Lost => losses.lost.push(lba),
                Content::Unwritten | Content::Stored { .. } | Content::Memory | Content::Volatile => {}
            }
        }
        losses
    }

    fn start_aging(&mut self) -> Aging<'_> {
        assert!(
            self.next_event().is_none() && self.lost_die.is_none(),
            "requests are under way, or a die is lost"
        );
        self.buffer.empty_at_once(self.now, &mut self.host, &mut self.dies);
        self.next_at = self.find_next();
        Aging::new(&self.config, self.dies.mapping_mut(), &mut self.placement, &mut self.rng)
    }

    #[cfg(test)]
    pub(super) fn mapping(&self) -> &super::mapping::Mapping {
        self.dies.mapping()
    }
}

/// The way of a request through the drive.
impl Ssd {
    /// A command is on its way in; its entry of the mapping is brought into the processor's caches meanwhile.
    fn accepted(&mut self, command: Command) {
        if command.kind != Kind::Flush {
            self.dies.mapping().touch(command.lba);
        }
    }

    fn arrived(&mut self, id: u32) {
        self.host.request_mut(id).inside = true;
        if let Some(die) = self.lost_die {
            self.serve_after_loss(id, die);
            return;
        }
        if self.dies.is_stopped() {
            self.stalled.push_back(id);
            return;
        }
        if self.table.is_none() || self.is_mapped(id) {
            self.serve(id);
        }
    }

    fn serve(&mut self, id: u32) {
        let command = self.host.request(id).command;
        match command.kind {
            Kind::Read => self.start_read(id, command),
            Kind::Write => {
                self.buffer.enqueue(id);
                self.admit();
            }
            // What a block of a RAID-5 stripe held is a term of a parity.
            Kind::Discard if self.buffer.raid5().is_some() => {
                self.buffer.enqueue(id);
                self.admit();
            }
            Kind::Discard => {
                for lba in command.lba..command.lba + command.blocks {
                    self.dies.mapping_mut().forget(lba);
                }
                self.host.acknowledge(self.now, id);
            }
            Kind::Flush => self.buffer.start_flush(self.now, id, &mut self.host, &mut self.dies),
        }
    }

    fn start_read(&mut self, id: u32, command: Command) {
        let (mut unit, mut granules, mut pending) = (NONE, 0, 0);
        for lba in command.lba..command.lba + command.blocks {
            let Some(extent) = self.dies.mapping().locate(lba) else {
                continue;
            };
            let next = self.dies.mapping().geometry().unit_of(extent.at);
            if next != unit {
                pending += self.sense(unit, granules, id);
                (unit, granules) = (next, 0);
            }
            granules += extent.count;
        }
        pending += self.sense(unit, granules, id);
        self.host.request_mut(id).pending = pending;
        if pending == 0 {
            self.host.send_data(self.now, id);
        }
    }

    /// Serves a request of a drive that has lost a die.
    #[cold]
    fn serve_after_loss(&mut self, id: u32, die: u32) {
        let command = self.host.request(id).command;
        if command.kind == Kind::Read {
            self.start_degraded_read(id, command, die);
            return;
        }
        if command.kind != Kind::Flush || self.buffer.is_volatile() {
            self.host.request_mut(id).outcome = Outcome::ReadOnly;
        }
        self.host.acknowledge(self.now, id);
    }

    /// Reads what is left, and the rest of the stripes of what is not: each unit once for all blocks that need it.
    #[cold]
    fn start_degraded_read(&mut self, id: u32, command: Command, die: u32) {
        let mut wanted: BTreeMap<u32, u32> = BTreeMap::new();
        for lba in command.lba..command.lba + command.blocks {
            let mut want = |at, count| {
                *wanted.entry(self.dies.mapping().geometry().unit_of(at)).or_default() += count;
            };
            match self.content_after(lba, Some(Failure::Die(die)), true) {
                Content::Stored { at, count } => want(at, count),
                Content::Combined { terms, .. } => {
                    terms.into_iter().flatten().for_each(|term| want(term, 1));
                    self.stats.combined_blocks += 1;
                }
                Content::Unwritten | Content::Memory => {}
                Content::Volatile | Content::Lost => {
                    if !defect::has(Defect::HideLoss) {
                        self.host.request_mut(id).outcome = Outcome::Unreadable;
                    }
                    self.stats.unreadable_blocks += 1;
                }
            }
        }
        let pending = wanted.into_iter().map(|(unit, granules)| self.sense(unit, granules, id)).sum();
        self.host.request_mut(id).pending = pending;
        if pending == 0 {
            self.host.send_data(self.now, id);
        }
    }

    /// Reads granules of a unit for a request, unless they are in the buffer; returns the number of jobs.
    fn sense(&mut self, unit: u32, granules: u32, request: u32) -> u32 {
        if unit == NONE || self.dies.mapping().is_buffered(unit) {
            return 0;
        }
        self.stats.host_senses += 1;
        self.dies.read(self.now, Job { unit, granules, request, epoch: 0 });
        1
    }

    /// The one place where the drive learns that a command to its dies has ended.
    fn finished(&mut self, finished: Finished) {
        match finished {
            Finished::Read { request } if request >= TABLE_READ => {
                if request & PARITY_READ == 0 {
                    return self.table_page_read(request & !TABLE_READ);
                }
                let stripe = request & !PARITY_READ;
                self.buffer.parity_read_done(self.now, stripe, &mut self.host, &mut self.dies);
            }
            Finished::Read { request: id } => {
                let request = self.host.request_mut(id);
                request.pending -= 1;
                if request.pending == 0 {
                    self.host.send_data(self.now, id);
                }
            }
            Finished::Program { job } => {
                let program = self.dies.take_program(job);
                self.buffer.unit_programmed(self.now, program, &mut self.host, &mut self.dies)
            }
        }
    }

    fn admit(&mut self) {
        if self.table.is_some() {
            self.keep_table();
        }
        self.buffer.admit(self.now, &mut self.host, &mut self.placement, &mut self.dies);
    }

    /// Serves what waits for room, and what arrived while the drive stood still, if it moves again.
    fn retry(&mut self) {
        if !self.dies.try_resume(self.now) {
            return;
        }
        self.admit();
        while !self.dies.is_stopped()
            && let Some(id) = self.stalled.pop_front()
        {
            self.arrived(id);
        }
    }

    fn complete(&mut self, id: u32, completions: &mut Vec<Completion>) {
        let (completion, next) = self.host.complete(self.now, id);
        completions.push(completion);
        if let Some(command) = next {
            self.accepted(command);
        }
    }

    /// When the host interface, a die, a channel or a parity is due next.
    #[inline]
    fn find_next(&self) -> Ns {
        self.host.next_event().min(self.dies.next_event()).min(self.buffer.parity_due())
    }
}

/// The mapping table of a drive that keeps it on flash: requests wait until the entries that they need are in memory.
impl Ssd {
    /// Whether all entries that a request needs are in memory. Otherwise it waits for pages of the table.
    fn is_mapped(&mut self, id: u32) -> bool {
        let Some(mut table) = self.table.take() else { return true };
        let Command { kind, lba, blocks, .. } = self.host.request(id).command;
        let mut waits = 0;
        if kind != Kind::Flush && blocks > 0 {
            let (first, last) = (table.page_of(lba), table.page_of(lba + blocks - 1));
            for page in first..=last {
                if !self.look_up(&mut table, page, kind != Kind::Read) {
                    table.wait(page, id);
                    waits += 1;
                }
            }
        }
        self.host.request_mut(id).pending = waits;
        self.table = Some(table);
        waits == 0
    }

    /// Uses an entry of a page; returns whether the page is in memory. Otherwise it is being read from now on.
    fn look_up(&mut self, table: &mut TableCache, page: u32, changes: bool) -> bool {
        match table.look_up(page, changes) {
            Lookup::Hit => return true,
            Lookup::Wait => return false,
            Lookup::Miss => {}
        }
        let mapping = self.dies.mapping();
        let extent = mapping.locate(mapping.blocks() + page);
        let unit = extent.map_or(NONE, |extent| mapping.geometry().unit_of(extent.at));
        if unit == NONE || mapping.is_buffered(unit) {
            // It was never programmed, or is in the buffer.
            table.read(page);
            return true;
        }
        self.stats.mapping_reads += 1;
        self.dies.read(self.now, Job { unit, granules: 1, request: TABLE_READ | page, epoch: 0 });
        false
    }

    /// A page of the table has been read: requests that wait for nothing else are served.
    #[cold]
    fn table_page_read(&mut self, page: u32) {
        let waiting = self.table.as_mut().map(|table| table.read(page)).unwrap_or_default();
        for id in waiting {
            let request = self.host.request_mut(id);
            request.pending -= 1;
            if request.pending > 0 {
                continue;
            }
            if self.dies.is_stopped() {
                self.stalled.push_back(id);
            } else {
                self.serve(id);
            }
        }
        self.write_table_pages();
    }

    /// Enters what cleaning has moved into the table, and has pages programmed that left the memory.
    fn keep_table(&mut self) {
        let moved = self.dies.mapping_mut().take_moved_blocks();
        let Some(mut table) = self.table.take() else { return };
        for lba in moved {
            let page = table.page_of(lba);
            self.look_up(&mut table, page, true);
        }
        self.table = Some(table);
        self.write_table_pages();
    }

    /// Has pages programmed that left the memory, as far as there is room.
    fn write_table_pages(&mut self) {
        let Some(mut table) = self.table.take() else { return };
        while let Some(page) = table.next_leaving() {
            let address = self.blocks_of_host() + page;
            let (host, placement, dies) = (&mut self.host, &mut self.placement, &mut self.dies);
            if !self.buffer.write_table_page(self.now, address, host, placement, dies) {
                break;
            }
            table.left();
        }
        self.table = Some(table);
    }

    fn blocks_of_host(&self) -> u32 {
        self.dies.mapping().blocks()
    }
}

impl Device for Ssd {
    fn blocks(&self) -> u32 {
        self.dies.mapping().blocks()
    }

    fn submit(&mut self, now: Ns, command: Command) {
        check(&command, self.blocks());
        debug_assert!(now >= self.now && self.next_at >= now, "advance to the time of submission first");
        self.now = now;
        if self.host.submit(now, command) {
            self.accepted(command);
            self.next_at = self.find_next();
        }
    }

    fn next_event(&self) -> Option<Ns> {
        debug_assert_eq!(self.next_at, self.find_next());
        (self.next_at != Ns::MAX).then_some(self.next_at)
    }

    fn advance(&mut self, now: Ns, completions: &mut Vec<Completion>) {
        while self.next_at <= now {
            let at = self.next_at;
            self.now = at;
            if self.dies.next_event() == at {
                if let Some(ended) = self.dies.take_event(at) {
                    self.finished(ended);
                }
            } else if self.buffer.parity_due() == at {
                self.buffer.write_parity(at, &mut self.host, &mut self.dies);
            } else {
                match self.host.take_event(at) {
                    Some(HostEvent::Completed(id)) => self.complete(id, completions),
                    Some(HostEvent::Arrived(id)) => self.arrived(id),
                    None => {}
                }
            }
            while self.dies.take_retry() {
                self.retry();
            }
            if self.table.is_some() {
                self.keep_table();
            }
            self.next_at = self.find_next();
        }
        self.now = self.now.max(now);
    }
}
