//! RAID-5 over logical pages: which stripe, die and parity each block has, which stripes wait for their parity, and what
//! has to be kept until it is written. There is no time in here but what callers give.
//!
//! A block and the blocks of its stripe are on different dies, if the stripe has no more elements than there are dies,
//! since each address belongs to a die, whose cleaning moves blocks within the die.
//!
//! The parity on flash covers old copies until the new parity is on flash. So the first overwrite or discard of a block
//! after a parity keeps the old copy live, under an address of its own (a *slot*), until the new parity and the data that
//! it covers are on flash. Without that, cleaning could erase a term of the only parity on flash. A block overwritten
//! twice in that time keeps the first copy only, since no parity covers the second.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::config::Config;
use super::defect::{self, Defect};
use super::mapping::{Mapping, NONE};
use super::observe::FlashEvent;
use super::raid5_layout::Layout;
use super::redundancy::{ParityReads, Striping};
use crate::Ns;

/// A block that has changed since the last parity.
#[derive(Clone, Copy, Debug)]
struct Change {
    lba: u32,
    /// Where the copy is that the last parity covers, or [`NONE`].
    slot: u32,
}

/// Changes of a stripe since its last parity.
#[derive(Clone, Debug)]
struct Window {
    changes: Vec<Change>,
    /// Where the last parity goes when the next one is placed.
    parity_slot: u32,
    last_change: Ns,
}

/// A parity that is being written.
#[derive(Clone, Debug)]
struct Update {
    window: Window,
    reads_left: u32,
    /// Units with the new data, and that of the parity, which are not on flash yet.
    units_left: u32,
    placed: bool,
    /// The parity is not to wait for its unit to be filled.
    urgent: bool,
}

/// A stripe whose parity on flash is not up to date.
#[derive(Clone, Debug, Default)]
struct Pending {
    open: Option<Window>,
    update: Option<Update>,
    /// The parity of the open window is due, and waits for that of the window before.
    due: bool,
}

/// What is due once P_wait has ended.
pub(super) enum Due {
    /// The parity of a stripe is to be written.
    Window(u32),
    /// A parity that is being written is to get to flash.
    Update,
}

/// What an update of a parity needs first.
pub(super) struct Begun {
    /// Units to be read for it.
    pub(super) reads: Vec<u32>,
    /// Units of the buffer with the new data.
    pub(super) buffered: Vec<u32>,
    /// Blocks that are read.
    pub(super) blocks_read: u32,
}

/// All stripes whose parity is not up to date.
#[derive(Clone, Debug)]
pub(super) struct Raid5 {
    layout: Layout,
    reads: ParityReads,
    wait_ns: Option<Ns>,
    pending: BTreeMap<u32, Pending>,
    /// Stripes in the order in which their P_wait ends.
    clock: VecDeque<(Ns, u32)>,
    free_slots: Vec<u32>,
    /// Units of the host's data and of parities that are not on flash yet.
    buffered: BTreeSet<u32>,
    /// Units that updates wait for.
    awaited: BTreeMap<u32, Vec<u32>>,
}

impl Raid5 {
    pub(super) fn new(config: &Config, striping: Striping) -> Raid5 {
        let layout = config.raid5_layout().expect("the drive has RAID-5 stripes");
        let slots = config.data_addresses() + layout.stripes()..config.addresses();
        Raid5 {
            layout,
            reads: striping.reads,
            wait_ns: (!striping.protected_buffer).then_some(striping.wait_ns),
            pending: BTreeMap::new(),
            clock: VecDeque::new(),
            free_slots: slots.rev().collect(),
            buffered: BTreeSet::new(),
            awaited: BTreeMap::new(),
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether there is room to keep the old copies of one more block.
    pub(super) fn has_slots(&self) -> bool {
        self.free_slots.len() >= 2
    }

    /// A stripe whose parity can be written, to make room for old copies.
    pub(super) fn oldest(&self) -> Option<u32> {
        let open = |pending: &Pending| pending.open.is_some() && pending.update.is_none();
        let oldest = self
            .clock
            .iter()
            .find(|&&(at, stripe)| self.is_due_at(at, stripe) && open(&self.pending[&stripe]));
        let any = || self.pending.iter().find(|(_, pending)| open(pending)).map(|(&stripe, _)| stripe);
        oldest.map(|&(_, stripe)| stripe).or_else(any)
    }

    /// A block is about to change: its old copy is kept if the parity on flash covers it. [`Raid5::has_slots`] has said
    /// yes. Returns whether all blocks of its stripe have changed.
    pub(super) fn change(&mut self, now: Ns, lba: u32, mapping: &mut Mapping) -> bool {
        let stripe = self.layout.stripe(lba);
        let pending = self.pending.entry(stripe).or_default();
        let free_slots = &mut self.free_slots;
        let window = pending.open.get_or_insert_with(|| Window {
            changes: Vec::new(),
            parity_slot: free_slots.pop().expect("the caller has asked"),
            last_change: now,
        });
        if !defect::has(Defect::WaitFromFirst) {
            window.last_change = now;
        }
        let forgotten = defect::has(Defect::ForgetOverwrite) && pending.update.is_some();
        if !forgotten && !window.changes.iter().any(|change| change.lba == lba) {
            let mut slot = NONE;
            if mapping.locate(lba).is_some() && !defect::has(Defect::DropOldCopies) {
                slot = free_slots.pop().expect("the caller has asked");
                mapping.rename(lba, slot);
            }
            window.changes.push(Change { lba, slot });
        }
        let full = window.changes.len() == self.layout.stripe_blocks(stripe).count();
        if let Some(wait_ns) = self.wait_ns {
            // Parity is written if no data comes for longer than P_wait.
            self.clock.push_back((now + wait_ns + 1, stripe));
            self.drop_stale();
        }
        full
    }

    fn is_due_at(&self, at: Ns, stripe: u32) -> bool {
        self.pending.get(&stripe).is_some_and(|pending| {
            let waits = |update: &&Update| !update.urgent && !defect::has(Defect::WaitForFullUnit);
            let update = pending.update.as_ref().filter(waits);
            self.is_over(at, pending.open.as_ref().filter(|_| !pending.due))
                || self.is_over(at, update.map(|update| &update.window))
        })
    }

    /// Whether the P_wait of a window ends at this time.
    fn is_over(&self, at: Ns, window: Option<&Window>) -> bool {
        self.wait_ns.zip(window).is_some_and(|(wait_ns, window)| window.last_change + wait_ns + 1 == at)
    }

    fn drop_stale(&mut self) {
        while let Some(&(at, stripe)) = self.clock.front()
            && !self.is_due_at(at, stripe)
        {
            self.clock.pop_front();
        }
    }

    /// When the next P_wait ends; [`Ns::MAX`] if no stripe waits.
    #[inline]
    pub(super) fn next_due(&self) -> Ns {
        self.clock.front().map_or(Ns::MAX, |&(at, _)| at)
    }

    /// No parity is due any more.
    pub(super) fn stop(&mut self) {
        self.clock.clear();
    }

    /// The stripe whose P_wait has ended, as [`Raid5::next_due`] has said. Its parity that is being written, if there is one,
    /// does not wait any longer until units are full.
    pub(super) fn take_due(&mut self) -> Option<Due> {
        let (at, stripe) = self.clock.pop_front()?;
        let pending = self.pending.get_mut(&stripe)?;
        if let Some(update) = &mut pending.update {
            update.urgent = true;
        }
        let is_open = self.is_over(at, self.pending[&stripe].open.as_ref());
        self.drop_stale();
        Some(if is_open { Due::Window(stripe) } else { Due::Update })
    }

    /// A unit has been opened.
    pub(super) fn unit_opened(&mut self, unit: u32) {
        self.buffered.insert(unit);
    }

    /// Begins to write the parity of a stripe. `None` if there is nothing to write, or if the parity of the window before
    /// is still being written; then this one follows it.
    pub(super) fn begin(&mut self, stripe: u32, urgent: bool, mapping: &mut Mapping) -> Option<Begun> {
        let pending = self.pending.get_mut(&stripe)?;
        if pending.update.is_some() {
            pending.due = true;
            self.drop_stale();
            return None;
        }
        let window = pending.open.take()?;
        pending.due = false;
        let parity = self.layout.parity_address(stripe);
        let changed = window.changes.len() as u32;
        let blocks: Vec<u32> = self.layout.stripe_blocks(stripe).collect();
        let (blocks_read, modify) = self.reads.choose(changed, blocks.len() as u32);
        let is_changed = |lba: &u32| window.changes.iter().any(|change| change.lba == *lba);
        let read: Vec<u32> = if modify {
            let old = window.changes.iter().map(|change| change.slot).filter(|&slot| slot != NONE);
            old.chain([parity]).collect()
        } else {
            blocks.into_iter().filter(|lba| !is_changed(lba)).collect()
        };
        let place = |address: &u32| mapping.locate(*address).map(|extent| extent.at);
        let read: Vec<u32> = read.iter().filter_map(place).collect();
        let new: Vec<u32> = window.changes.iter().filter_map(|change| place(&change.lba)).collect();
        let unit_of = |at: &u32| at / mapping.unit_granules();
        let mut reads: Vec<u32> = read.iter().map(unit_of).collect();
        reads.retain(|&unit| !mapping.is_buffered(unit));
        let mut buffered: Vec<u32> =
            new.iter().map(unit_of).filter(|unit| self.buffered.contains(unit)).collect();
        buffered.sort_unstable();
        buffered.dedup();
        for &unit in &buffered {
            self.awaited.entry(unit).or_default().push(stripe);
        }
        mapping.tell(|| FlashEvent::ParityComputed {
            address: parity,
            terms: read.iter().chain(&new).copied().collect(),
        });
        let (reads_left, units_left) = (reads.len() as u32, buffered.len() as u32);
        pending.update = Some(Update { window, reads_left, units_left, placed: false, urgent });
        self.drop_stale();
        Some(Begun { reads, buffered, blocks_read })
    }

    fn update(&mut self, stripe: u32) -> &mut Update {
        self.pending
            .get_mut(&stripe)
            .and_then(|pending| pending.update.as_mut())
            .expect("its parity is being written")
    }

    /// A unit has been read for the parity of a stripe; returns whether it was the last.
    pub(super) fn read_done(&mut self, stripe: u32) -> bool {
        let update = self.update(stripe);
        update.reads_left -= 1;
        update.reads_left == 0
    }

    /// The parity of a stripe gets a granule. Returns whether its unit is not to wait until it is filled.
    pub(super) fn place(&mut self, stripe: u32, at: u32, mapping: &mut Mapping) -> bool {
        let address = self.layout.parity_address(stripe);
        let update = self.update(stripe);
        if mapping.locate(address).is_some() {
            mapping.rename(address, update.window.parity_slot);
        }
        update.placed = true;
        if defect::has(Defect::FreeOldCopiesEarly) {
            update
                .window
                .changes
                .iter()
                .filter(|change| change.slot != NONE)
                .for_each(|change| mapping.forget(change.slot));
        }
        update.units_left += 1;
        let urgent = update.urgent;
        mapping.place(address, at, 1);
        mapping.tell(|| FlashEvent::ParityPlaced { address, at });
        self.awaited.entry(at / mapping.unit_granules()).or_default().push(stripe);
        urgent
    }

    /// A unit is on flash. Old copies that only superseded parities cover are given up. Returns the stripes whose next
    /// parity is due by that.
    pub(super) fn programmed(&mut self, unit: u32, mapping: &mut Mapping) -> Vec<u32> {
        self.buffered.remove(&unit);
        let mut due = Vec::new();
        for stripe in self.awaited.remove(&unit).unwrap_or_default() {
            let update = self.update(stripe);
            update.units_left -= 1;
            if update.units_left > 0 || !update.placed {
                continue;
            }
            let pending = self.pending.get_mut(&stripe).expect("it is pending");
            let Update { window, .. } = pending.update.take().expect("its parity was being written");
            for slot in window.changes.iter().map(|change| change.slot).chain([window.parity_slot]) {
                if slot != NONE {
                    mapping.forget(slot);
                    self.free_slots.push(slot);
                }
            }
            let full = |window: &Window| window.changes.len() == self.layout.stripe_blocks(stripe).count();
            if pending.due || pending.open.as_ref().is_some_and(full) {
                due.push(stripe);
            } else if pending.open.is_none() {
                self.pending.remove(&stripe);
            }
        }
        due
    }

    /// Whether the parity on flash does not cover the newest copy of a block.
    pub(super) fn is_uncovered(&self, lba: u32) -> bool {
        let changed = |window: &Window| window.changes.iter().any(|change| change.lba == lba);
        self.pending.get(&self.layout.stripe(lba)).is_some_and(|pending| {
            pending.open.as_ref().is_some_and(changed)
                || pending.update.as_ref().is_some_and(|update| changed(&update.window))
        })
    }

    /// The addresses of all terms of the parity on flash of the stripe of a block, the parity included: those of old copies
    /// where the parity on flash covers them.
    pub(super) fn covered(&self, lba: u32) -> Vec<u32> {
        let stripe = self.layout.stripe(lba);
        let pending = self.pending.get(&stripe);
        let update = pending.and_then(|pending| pending.update.as_ref());
        let windows =
            [update.map(|update| &update.window), pending.and_then(|pending| pending.open.as_ref())];
        let copy = |lba: u32| {
            let changes = windows.into_iter().flatten().flat_map(|window| &window.changes);
            changes.into_iter().find(|change| change.lba == lba).map_or(lba, |change| change.slot)
        };
        let parity = match update {
            Some(Update { placed: true, window, .. }) => window.parity_slot,
            _ => self.layout.parity_address(stripe),
        };
        let data = self.layout.stripe_blocks(stripe).map(copy).filter(|&address| address != NONE);
        data.chain([parity]).collect()
    }
}
