//! Destaging: bringing blocks from the journal to their stripes, in rounds, the oldest groups first, together with the other
//! dirty blocks of the same stripes.
//!
//! A round reads and computes, appends the after-images, flushes, and only then changes stripes in place. The flush also makes
//! durable what the round before wrote in place, so a round costs one flush. The tail of the log follows.
//!
//! While the log is crowded, the next round reads and computes while one writes, so that members do not idle and clients do not wait
//! for both. Two rounds have no stripe in common, and each pins the groups that its after-images are made of.
//!
//! Blocks whose parity cannot be computed, because others of their offsets are lost, hold nothing else up. While the lost ones may
//! come back with members that are out, they stay in the log until it fills; then the lost ones are given up (`stripe/give_up`),
//! and the next round takes both.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{both, join_all};
use sinew_core::volume::VolumeError;
use sinew_format::group_striping::PARITY_MAX;
use sinew_format::log_group::GroupRecord;
use sinew_format::model::form::Form;

use crate::bitmap::Bitmap;
use crate::journal::Journal;
use crate::journal::dirty_blocks::DirtyBlock;
use crate::journal::pinned_groups::GatheredGroups;
use crate::state::ShardState;
use crate::stripe::Stripes;
use crate::stripe::locks::StripeLock;
use crate::stripe::update::{PreparedStripe, Unprepared, runs_of};

/// Lost blocks of a stripe for which a round appends zeros at most.
const FILLERS_MAX: u64 = 64;
/// Stripes of a round at most.
const STRIPES_MAX: usize = 128;

/// How often is looked whether a growth has changed the rows that the tail waits for.
const CHANGING_NS: u64 = 1_000_000;

/// The blocks of a round: stripe, slot and the group of the content taken.
#[derive(Default)]
struct Taken(Vec<(u64, u32, u64)>);

impl Taken {
    fn note(&mut self, stripe: u64, blocks: &[(u32, DirtyBlock)]) {
        self.0.extend(blocks.iter().map(|(slot, block)| (stripe, *slot, block.seq)));
    }

    /// Without the blocks of stripes that cannot be written.
    fn without(mut self, stripes: &[Unwritable]) -> Taken {
        self.0.retain(|(stripe, ..)| stripes.iter().all(|unwritable| unwritable.stripe != *stripe));
        self
    }

    /// The groups that blocks are of.
    fn groups(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(_, _, group)| *group)
    }
}

/// New content of stripes by slot.
type Contents = Vec<(u64, Vec<(u32, Buf)>)>;

/// A round that has read and computed, and written nothing yet. Its stripes are locked.
struct Round<'a> {
    locks: BTreeMap<u64, StripeLock<'a>>,
    /// The last group of the log, and the version of the members, when the content was taken.
    upto: u64,
    version: u64,
    prepared: Vec<PreparedStripe>,
    taken: Taken,
    /// Stripes to be written for the first time.
    empty: Contents,
    taken_of_empty: Taken,
}

/// A round, and the groups that its after-images are made of.
type Gathered<'a> = (Round<'a>, GatheredGroups<'a>);

impl Round<'_> {
    /// Blocks that its after-images will take in the log.
    fn image_blocks(&self) -> u64 {
        self.prepared.iter().map(|p| (p.offsets.len() * p.parity.len()) as u64).sum()
    }
}

/// A stripe for whose blocks no parity can be computed.
struct Unwritable {
    stripe: u64,
    slots: Vec<u32>,
}

/// Brings blocks from the journal to their stripes.
pub(crate) struct Destager<I> {
    state: Rc<ShardState<I>>,
    bitmap: Rc<Bitmap<I>>,
    journal: Rc<Journal<I>>,
    stripes: Rc<Stripes<I>>,
    /// Stripes that wait for members that are out, and the version of the members when that was found.
    waiting: RefCell<BTreeMap<u64, u64>>,
}

impl<I: Io> Destager<I> {
    /// The job, not yet running.
    pub(crate) fn new(
        state: &Rc<ShardState<I>>,
        bitmap: &Rc<Bitmap<I>>,
        journal: &Rc<Journal<I>>,
        stripes: &Rc<Stripes<I>>,
    ) -> Destager<I> {
        Destager {
            state: Rc::clone(state),
            bitmap: Rc::clone(bitmap),
            journal: Rc::clone(journal),
            stripes: Rc::clone(stripes),
            waiting: RefCell::default(),
        }
    }

    /// Keeps room in the log, for ever.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.journal.wait_for_destage_request().await;
            let mut next = None;
            while next.is_some() || self.wants_destage() || self.journal.wants_tail() {
                // A failed array is left alone: the log would ask for destaging again with every refusal.
                let failed = Err(VolumeError::Failed);
                let done =
                    if self.state.has_failed() { failed } else { self.destage_or_advance(&mut next).await };
                match done {
                    Ok(()) => self.journal.note_destage_success(),
                    Err(error) => {
                        self.state.mark(Mark::ArrayDrainStuck);
                        self.journal.note_destage_failure(error);
                        self.retry_with_space(error);
                        break;
                    }
                }
            }
            drop(next);
            self.journal.end_destaging();
        }
    }

    /// First writes of stripes and form pages that a member has no space for wait for it here; other content waits in memory.
    fn retry_with_space(self: &Rc<Self>, error: VolumeError) {
        if self.state.layout().is_elastic() && error == VolumeError::NoSpace {
            let destager = Rc::clone(self);
            self.state.io().spawn(async move {
                destager.state.members().wait_for_space().await;
                destager.journal.note_destage_success();
                destager.journal.wake_destager();
            });
        }
    }

    fn wants_destage(&self) -> bool {
        self.journal.wants_destage(|| self.stripes.has_dirty_behind_barrier())
    }

    /// `next` is the round to carry out, if it has read already, and then the one after it.
    async fn destage_or_advance<'a>(&'a self, next: &mut Option<Gathered<'a>>) -> Result<(), VolumeError> {
        if next.is_some() || self.wants_destage() {
            let gathered = match next.take() {
                Some(gathered) => Some(gathered),
                None => self.gather().await?,
            };
            // Without one, the members or the content have changed meanwhile.
            let Some((round, groups)) = gathered else { return Ok(()) };
            if self.is_void(&round) {
                return Ok(());
            }
            self.journal.pinned().begin_destaging(groups);
            let busy = round.locks.keys().copied().collect();
            let beside = self.gather_beside(busy, round.image_blocks());
            let (done, following) = both(self.carry_out(round), beside).await;
            *next = following;
            done
        } else if self.journal.is_tail_changing() {
            // Each try to move the tail would only take room, until there is none left.
            self.state.io().sleep(CHANGING_NS).await;
            Ok(())
        } else if self.stripes.is_all_placed() {
            self.journal.advance_tail().await
        } else {
            // The tail cannot pass groups whose content is not in its place.
            Err(VolumeError::NoSpace)
        }
    }

    /// Chooses what a round brings to its place, reads and computes; `None` if that came to nothing, but another try may not.
    async fn gather(&self) -> Result<Option<Gathered<'_>>, VolumeError> {
        // Less where there is little room: a round that a crash cuts short leaves its images in the log.
        let layout = self.state.layout();
        let offsets_max = self.offsets_max(0);
        let chosen = match self.stripes.has_dirty_behind_barrier() {
            true => self.stripes.choose_behind_barrier(layout.chunk_blocks, offsets_max),
            false => self.journal.choose_to_destage(
                layout.chunk_blocks,
                offsets_max,
                STRIPES_MAX,
                &BTreeSet::new(),
            ),
        };
        let may_wait = self.may_wait();
        let (round, groups, unwritable) = self.read(chosen, may_wait).await;
        if self.is_void(&round) {
            return Ok(None);
        }
        let has_changed = self.give_up_lost(&unwritable, may_wait).await?;
        if !unwritable.is_empty() {
            // Another round may do what this one could not.
            let is_other_now = may_wait != self.may_wait() || self.state.members().version() != round.version;
            if is_other_now || !may_wait && has_changed {
                return Ok(None);
            }
            if !may_wait {
                // After-images of other stripes would take all of a log whose tail cannot move.
                return Err(VolumeError::Failed);
            }
        }
        match round.empty.is_empty() && round.prepared.is_empty() {
            true if has_changed => Ok(None),
            true if !unwritable.is_empty() => Err(VolumeError::Failed),
            _ => Ok(Some((round, groups))),
        }
    }

    /// Gathers the next round beside one that has these stripes and blocks of `images`, while the log is crowded. What cannot be
    /// written is left to a round that is gathered while none is under way.
    async fn gather_beside(&self, busy: BTreeSet<u64>, images: u64) -> Option<Gathered<'_>> {
        let offsets_max = self.offsets_max(images);
        let has_room = offsets_max >= self.journal.log().group_blocks() as usize;
        if !has_room || !self.journal.log().is_crowded() || self.stripes.has_dirty_behind_barrier() {
            return None;
        }
        let chunk_blocks = self.state.layout().chunk_blocks;
        let chosen = self.journal.choose_to_destage(chunk_blocks, offsets_max, STRIPES_MAX, &busy);
        if chosen.is_empty() {
            return None;
        }
        self.state.mark(Mark::ArrayDrainOverlapped);
        let (round, groups, unwritable) = self.read(chosen, self.may_wait()).await;
        unwritable.is_empty().then_some((round, groups))
    }

    /// Whether members came or went since the round took its content.
    fn is_void(&self, round: &Round<'_>) -> bool {
        let is_void = self.state.members().version() != round.version;
        if is_void {
            self.state.mark(Mark::ArrayDrainVoid);
        }
        is_void
    }

    /// Offsets of stripes that a round may write, if `images` blocks go to the log before its own.
    fn offsets_max(&self, images: u64) -> usize {
        let layout = self.state.layout();
        let free = u64::from(layout.geometry.log_blocks) - self.journal.log().used();
        free.saturating_sub(images) as usize / 4 / layout.m.max(1)
    }

    /// Locks stripes, takes the present content of slots, and computes the parity; returns also the stripes for which that fails.
    async fn read(
        &self,
        chosen: BTreeMap<u64, Vec<u32>>,
        may_wait: bool,
    ) -> (Round<'_>, GatheredGroups<'_>, Vec<Unwritable>) {
        let mut locks = BTreeMap::new();
        for &stripe in chosen.keys() {
            locks.insert(stripe, self.stripes.lock_exclusive(stripe).await);
        }
        let (upto, version) = (self.journal.log().last(), self.state.members().version());
        let (mut taken, mut taken_of_empty) = (Taken::default(), Taken::default());
        let (mut work, mut empty) = (Vec::with_capacity(chosen.len()), Vec::new());
        for (stripe, slots) in chosen {
            let blocks = self.journal.content_to_destage(stripe, &slots);
            let (stripes, taken) = match self.stripes.form(stripe) {
                Form::Empty => (&mut empty, &mut taken_of_empty),
                _ => (&mut work, &mut taken),
            };
            taken.note(stripe, &blocks);
            stripes.push((stripe, blocks.into_iter().map(|(slot, block)| (slot, block.data)).collect()));
        }
        // The after-images are made of these, whatever newer content comes meanwhile.
        let groups = self.journal.pinned().gather(taken.groups());
        let (prepared, unwritable) = self.prepare(work, version, may_wait).await;
        let taken = taken.without(&unwritable);
        let round = Round { locks, upto, version, prepared, taken, empty, taken_of_empty };
        (round, groups, unwritable)
    }

    /// Writes a round, and moves the tail of a crowded log past it.
    async fn carry_out(&self, round: Round<'_>) -> Result<(), VolumeError> {
        let done = self.write(round).await;
        // Without space as well: what the round did bring to its place takes no room in the log then. Where the tail would
        // stay, each try would only take more room.
        let may_help = done != Err(VolumeError::Failed) && !self.journal.is_tail_dirty();
        if may_help && self.journal.log().is_crowded() && self.stripes.is_all_placed() {
            self.journal.advance_tail().await?;
        }
        done
    }

    async fn write(&self, round: Round<'_>) -> Result<(), VolumeError> {
        let Round { locks: _locks, upto, version, prepared, taken, empty, taken_of_empty } = round;
        self.update_stripes(&prepared, &taken, upto, version).await?;
        // Now, since the empty stripes may have to wait for space: another round would log the same after-images again.
        self.forget_destaged(&taken);
        if self.write_empty(empty).await? {
            self.forget_destaged(&taken_of_empty);
        }
        Ok(())
    }

    /// Prepares stripes; returns also those for which no parity can be computed.
    async fn prepare(
        &self,
        work: Contents,
        version: u64,
        may_wait: bool,
    ) -> (Vec<PreparedStripe>, Vec<Unwritable>) {
        let prepared = join_all(work.into_iter().map(|(stripe, blocks)| async move {
            // What was unreadable then is not read again, since members with many errors are taken out.
            let waits = may_wait && self.waiting.borrow().get(&stripe) == Some(&version);
            let prepared =
                if waits { Err(Unprepared(blocks)) } else { self.stripes.prepare(stripe, blocks).await };
            prepared.map_err(|Unprepared(blocks)| Unwritable {
                stripe,
                slots: blocks.into_iter().map(|(slot, _)| slot).collect(),
            })
        }))
        .await;
        let (mut all, mut unwritable) = (Vec::new(), Vec::new());
        for one in prepared {
            match one {
                Ok(prepared) => all.push(prepared),
                Err(stripe) => unwritable.push(stripe),
            }
        }
        (all, unwritable)
    }

    /// Whether blocks may stay in the log for members that are out.
    fn may_wait(&self) -> bool {
        !self.journal.log().is_filling()
    }

    /// Has the log hold zeros for the lost blocks of stripes that cannot be written for them; false if nothing has changed. The
    /// caller holds the stripes' locks.
    async fn give_up_lost(&self, unwritable: &[Unwritable], may_wait: bool) -> Result<bool, VolumeError> {
        let version = self.state.members().version();
        let mut has_changed = false;
        self.waiting.borrow_mut().retain(|_, known| *known == version);
        for Unwritable { stripe, slots } in unwritable {
            if may_wait && self.waiting.borrow().contains_key(stripe) {
                continue;
            }
            let room = self.journal.log().room_for_fillers().min(FILLERS_MAX) as usize;
            if room == 0 {
                continue;
            }
            let given_up = match self.stripes.give_up(*stripe, slots, may_wait, room).await {
                Ok(given_up) => given_up,
                Err(error) if self.state.has_failed() => return Err(error),
                Err(_) => {
                    if self.state.members().version() == version {
                        self.waiting.borrow_mut().insert(*stripe, version);
                    }
                    continue;
                }
            };
            self.waiting.borrow_mut().remove(stripe);
            // If none had to be given up, what was unreadable reads well now.
            has_changed = true;
            self.journal.append_fillers(*stripe, &given_up).await?;
        }
        Ok(has_changed)
    }

    /// Changes stripes in place.
    async fn update_stripes(
        &self,
        prepared: &[PreparedStripe],
        taken: &Taken,
        upto: u64,
        version: u64,
    ) -> Result<(), VolumeError> {
        if prepared.is_empty() {
            return Ok(());
        }
        let uses: Vec<_> = prepared.iter().map(|p| self.bitmap.use_region_of(p.stripe)).collect();
        let regions: Vec<usize> = prepared.iter().map(|p| self.state.layout().region(p.stripe)).collect();
        self.bitmap.mark_with_next_flush(&regions);
        // Copies need no after-image: what a crash leaves of them is written once more from the journal, which must have it
        // durably.
        let with_parity = |p: &&PreparedStripe| self.stripes.form(p.stripe) == Form::Parity;
        let with_parity: Vec<&PreparedStripe> = prepared.iter().filter(with_parity).collect();
        let is_durable = mutation::on(Mutation::CopiesBeforeJournal)
            || self.journal.log().is_flushed(taken.groups().max().unwrap_or(0));
        if !with_parity.is_empty() || !is_durable {
            if !mutation::on(Mutation::SkipAfterImage) {
                self.append_images(&with_parity, upto).await?;
            }
            self.journal.flush().await?;
            if self.state.members().version() == version {
                self.bitmap.set_marked(&regions);
            }
        }
        self.journal.settle_forms().await?;
        // From here on replay would change the stripes, so the round is carried out, with the members that are left.
        self.stripes.mark_regions(&regions).await?;
        let written = join_all(prepared.iter().map(|p| self.stripes.write_in_place(p))).await;
        drop(uses);
        written.into_iter().try_for_each(|placed| placed.map(drop))
    }

    /// Writes empty stripes for the first time, in the form that such stripes get now; false if that came to nothing.
    async fn write_empty(&self, stripes: Contents) -> Result<bool, VolumeError> {
        if stripes.is_empty() {
            return Ok(true);
        }
        self.stripes.write_first_of(&stripes, self.stripes.first_form()).await
    }

    /// The round's blocks are in their places. They are no longer read from the journal, whose groups stay until the next flush.
    fn forget_destaged(&self, taken: &Taken) {
        for &(stripe, slot, seq) in &taken.0 {
            self.journal.forget_destaged(stripe, slot, seq);
        }
        self.state.counters().blocks_drained.add(taken.0.len() as u64);
        self.journal.pinned().end_destaging();
    }

    async fn append_images(&self, prepared: &[&PreparedStripe], upto: u64) -> Result<(), VolumeError> {
        let images: Vec<(GroupRecord, Vec<Buf>)> =
            prepared.iter().flat_map(|p| self.images(p, upto)).collect();
        if images.is_empty() {
            return Ok(());
        }
        self.journal.append_images(images).await
    }

    /// A stripe's after-image, in parts that fit groups. A stripe whose parity cannot be written has one as well: it makes void
    /// what older after-images say of that parity, which comes back by rebuild.
    fn images(&self, prepared: &PreparedStripe, upto: u64) -> Vec<(GroupRecord, Vec<Buf>)> {
        let mut written: Vec<(usize, &Buf)> =
            prepared.parity.iter().enumerate().filter_map(|(p, buf)| Some((p, buf.as_ref()?))).collect();
        if mutation::on(Mutation::LoseImageParity) {
            written.clear();
        }
        let layout = self.state.layout();
        let mut parity = [None; PARITY_MAX];
        for (p, _) in &written {
            parity[*p] = Some(layout.member(prepared.stripe, layout.columns(prepared.stripe) + *p).0);
        }
        let per_part = (self.journal.log().group_blocks() as usize / written.len().max(1)).max(1);
        let mut offsets: Vec<u32> =
            prepared.blocks.iter().map(|(slot, _)| slot % layout.chunk_blocks).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let parts = offsets.chunks(per_part).enumerate().map(|(i, offsets)| {
            let slots = prepared.blocks.iter().map(|(slot, _)| *slot);
            let slots = slots.filter(|slot| offsets.binary_search(&(slot % layout.chunk_blocks)).is_ok());
            let from = i * per_part * BLOCK_BYTES;
            let data = written.iter().map(|(_, buf)| buf.slice(from, offsets.len() * BLOCK_BYTES));
            let record = GroupRecord::Drain {
                stripe: prepared.stripe,
                upto,
                slots: runs_of(slots),
                offsets: runs_of(offsets.iter().copied()),
                parity,
            };
            (record, data.collect())
        });
        parts.collect()
    }
}
