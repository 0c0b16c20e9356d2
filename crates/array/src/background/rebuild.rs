//! Rebuild: reconstructing the regions in which a member is stale; and the first resync of an array whose members were not
//! zeros when it was made.
//!
//! The bitmap, which is on the members, says what is left to do, so both go on by themselves after a restart.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::MemberId;
use sinew_core::io::{Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Kick, join_all};

use crate::bitmap::Bitmap;
use crate::journal::Journal;
use crate::state::{RETRY_NS, ShardState};
use crate::stripe::Stripes;
use crate::stripe::part::UnitRun;

/// Stripes rebuilt at the same time.
const STRIPES_AT_ONCE: usize = 8;
/// Regions between records of the progress.
const REGIONS_PER_RECORD: usize = 16;
/// The longest pause before regions with unreadable units are tried again.
const UNREADABLE_RETRY_NS: u64 = 10_000_000_000;

/// Rebuilds stale regions of members, and resyncs regions for the first time.
pub(crate) struct Rebuild<I> {
    state: Rc<ShardState<I>>,
    bitmap: Rc<Bitmap<I>>,
    journal: Rc<Journal<I>>,
    stripes: Rc<Stripes<I>>,
    wake: Kick,
    /// Members and regions that could not be rebuilt because other units of their stripes could not be read.
    unreadable: RefCell<BTreeSet<(MemberId, usize)>>,
}

/// What became of a region, or of a unit of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Done,
    /// Other units of the stripe cannot be read.
    Unreadable,
    /// It failed for now for another reason.
    Later,
}

impl<I: Io> Rebuild<I> {
    /// The job, not yet running.
    pub(crate) fn new(
        state: &Rc<ShardState<I>>,
        bitmap: &Rc<Bitmap<I>>,
        journal: &Rc<Journal<I>>,
        stripes: &Rc<Stripes<I>>,
    ) -> Rebuild<I> {
        Rebuild {
            state: Rc::clone(state),
            bitmap: Rc::clone(bitmap),
            journal: Rc::clone(journal),
            stripes: Rc::clone(stripes),
            wake: Kick::default(),
            unreadable: RefCell::default(),
        }
    }

    /// Has the job look for work.
    pub(crate) fn wake(&self) {
        self.wake.kick();
    }

    /// Regions of active members that wait because other units of their stripes cannot be read.
    pub(crate) fn regions_stuck(&self) -> u64 {
        let regions = self.bitmap.regions();
        let waits = |&(member, region): &(MemberId, usize)| {
            self.state.members().is_active(member) && regions.is_stale(usize::from(member.0), region)
        };
        self.unreadable.borrow_mut().retain(waits);
        self.unreadable.borrow().len() as u64
    }

    /// Rebuilds and resyncs whenever there is something to do, for ever.
    pub(crate) async fn run(self: Rc<Self>) {
        self.wake.kick();
        loop {
            self.wake.kicked().await;
            let mut done = 0;
            // Where the search for work begins: regions that cannot be rebuilt now are passed over until all others are.
            let (mut stale_from, mut unsynced_from) = (0, 0);
            let mut pause = Pause::default();
            while !self.state.has_failed() {
                let stale = self.next_stale(stale_from);
                let unsynced =
                    self.bitmap.regions().unsynced().ones().find(|&region| region >= unsynced_from);
                let outcome = match (stale, unsynced) {
                    (Some((member, region)), _) => {
                        let outcome = self.rebuild_region(member, region).await;
                        self.note_outcome(member, region, outcome);
                        stale_from = if outcome == Outcome::Done { stale_from } else { region + 1 };
                        outcome
                    }
                    (None, Some(region)) => {
                        let is_done = self.first_resync(region).await;
                        unsynced_from = if is_done { unsynced_from } else { region + 1 };
                        if is_done { Outcome::Done } else { Outcome::Later }
                    }
                    (None, None) if (stale_from, unsynced_from) == (0, 0) => break,
                    (None, None) => {
                        (stale_from, unsynced_from) = (0, 0);
                        pause.end_pass();
                        continue;
                    }
                };
                pause.note(outcome);
                if outcome != Outcome::Done {
                    self.state.mark(Mark::ArrayRebuildRetried);
                    self.sleep(&mut pause).await;
                } else {
                    done += 1;
                    if done % REGIONS_PER_RECORD == 0 {
                        let _ = self.journal.flush().await;
                    }
                }
            }
            if done > 0 {
                let _ = self.journal.flush().await;
            }
        }
    }

    /// Pauses before the next try. What wakes the job, such as a write of a lost block, ends a long pause, and so does closing.
    async fn sleep(&self, pause: &mut Pause) {
        let until = self.state.io().now() + pause.ns;
        loop {
            self.state.io().sleep(RETRY_NS).await;
            if self.wake.take() {
                // The loop looks for work in any case.
                *pause = Pause::default();
                return;
            }
            if self.state.io().now() >= until || self.state.is_closing() {
                return;
            }
        }
    }

    fn note_outcome(&self, member: MemberId, region: usize, outcome: Outcome) {
        let mut unreadable = self.unreadable.borrow_mut();
        match outcome {
            Outcome::Unreadable => drop(unreadable.insert((member, region))),
            _ => drop(unreadable.remove(&(member, region))),
        }
    }

    /// An active member and a region from `from` on in which it is stale.
    fn next_stale(&self, from: usize) -> Option<(MemberId, usize)> {
        let regions = self.bitmap.regions();
        let layout = self.state.layout();
        layout
            .member_ids()
            .filter(|&m| self.state.members().is_active(m))
            .find_map(|m| Some((m, regions.stale(usize::from(m.0)).ones().find(|&region| region >= from)?)))
    }

    /// Brings a member up to date in a region. The member counts as stale until the log needs no
    /// group from before its return: replay must not take what the member lacks for what was never appended
    /// (`recovery/replay`).
    async fn rebuild_region(&self, member: MemberId, region: usize) -> Outcome {
        if self.journal.wait_for_state_room().await.is_err() {
            return Outcome::Later;
        }
        let version = self.state.members().version();
        let stripes: Vec<u64> = self.state.layout().region_stripes(region).collect();
        for stripes in stripes.chunks(STRIPES_AT_ONCE) {
            let units = stripes.len() as u64 * (1 + self.state.layout().tolerates() as u64);
            let blocks = units * u64::from(self.state.layout().chunk_blocks);
            let need = || self.state.space_need(blocks + self.journal.dirty().len());
            if !self.state.members().has_credit(need).await {
                self.state.mark(Mark::ArrayRebuildAwaitsSpace);
                return Outcome::Later;
            }
            let work = stripes.iter().map(|&stripe| self.rebuild_units(stripe, member));
            let worst = join_all(work).await.into_iter().max().unwrap_or(Outcome::Done);
            if worst != Outcome::Done {
                return worst;
            }
        }
        // After a crash chunks are in their former places that have moved since the last record, and those were left out.
        let recorded = self.journal.record_moves().await.is_ok()
            && self.journal.wait_for_tail_past_changes().await
            && self.journal.flush().await.is_ok();
        if !recorded || self.state.members().lost_since(member, version) {
            self.state.mark(Mark::ArrayRebuildVoid);
            return Outcome::Later;
        }
        self.state.mark(Mark::ArrayRebuilt);
        self.bitmap.set_up_to_date(usize::from(member.0), region);
        if self.state.layout().is_elastic() {
            // The member may hold units that stripes stopped to use while it was out.
            self.bitmap.mark_untidy_with_next_flush(&[region]);
            self.stripes.tidy_later(&self.state.layout().region_stripes(region).collect::<Vec<_>>());
        }
        Outcome::Done
    }

    /// Rebuilds the units of a stripe that the member has: a mirrored stripe of an elastic array has several there.
    async fn rebuild_units(&self, stripe: u64, member: MemberId) -> Outcome {
        let units_of_member = || {
            let layout = self.state.layout();
            let mut units = layout.units(stripe, self.stripes.form(stripe));
            units.retain(|&unit| layout.member(stripe, unit) == member);
            if mutation::on(Mutation::RebuildOneUnit) {
                units.truncate(1);
            }
            units
        };
        if units_of_member().is_empty() {
            // A growth that holds the stripe may be about to give the member a unit that it could not write, because the member
            // was out.
            let _lock = self.stripes.lock_exclusive(stripe).await;
            if units_of_member().is_empty() {
                return Outcome::Done;
            }
        }
        let bytes = self.state.layout().chunk_bytes();
        self.state.throttle().pay(self.state.io(), bytes * units_of_member().len() as u64).await;
        self.state.yield_stripe_to_clients(stripe).await;
        let _lock = self.stripes.lock_exclusive(stripe).await;
        // They may have moved, or the form may have changed, meanwhile.
        for unit in units_of_member() {
            let outcome = self.rebuild_unit(stripe, unit).await;
            if outcome != Outcome::Done {
                return outcome;
            }
        }
        Outcome::Done
    }

    async fn rebuild_unit(&self, stripe: u64, unit: usize) -> Outcome {
        let whole = UnitRun { unit, offset: 0, blocks: self.state.layout().chunk_blocks };
        let Ok(mut content) = self.stripes.reconstruct(stripe, whole, &[unit]).await else {
            self.state.mark(Mark::ArrayRebuildUnreadable);
            return Outcome::Unreadable;
        };
        let (at, mut offset) = self.stripes.place(stripe, unit, 0);
        if mutation::on(Mutation::RebuildShort) && whole.blocks > 1 {
            content = content.slice(BLOCK_BYTES, content.len() - BLOCK_BYTES);
            offset += BLOCK_BYTES as u64;
        }
        match self.stripes.write_place(at, offset, Rc::new([content])).await {
            Err(IoError::NoSpace) => {
                self.state.mark(Mark::ArrayRebuildNoSpace);
                Outcome::Later
            }
            Ok(()) => {
                self.state.counters().chunks_rebuilt.add(1);
                self.stripes.note_read_well(stripe);
                Outcome::Done
            }
            Err(error) => {
                self.state.mark(Mark::ArrayRebuildMemberLost);
                self.state.members().report_failure(at, error).await;
                Outcome::Later
            }
        }
    }

    /// The first resync of a region.
    async fn first_resync(&self, region: usize) -> bool {
        if self.journal.wait_for_state_room().await.is_err() {
            return false;
        }
        let (stripes, version) = (self.state.layout().stripes, self.state.members().version());
        // Members that are out miss these writes.
        let region_use = self.bitmap.use_region(region);
        let marked = if self.state.has_log() { self.stripes.mark_regions(&[region]).await } else { Ok(()) };
        let resynced = marked.is_ok() && self.stripes.resync_region(region).await;
        drop(region_use);
        // The array may have got more stripes meanwhile, some of them in this region.
        let same = self.state.layout().stripes == stripes && self.state.members().version() == version;
        // What has no space is not durable anywhere.
        let is_placed = self.stripes.is_all_placed();
        // As after a rebuild.
        let recorded = self.journal.record_moves().await.is_ok() && self.journal.flush().await.is_ok();
        let done = resynced && is_placed && recorded && same;
        if done {
            self.state.mark(Mark::ArrayEvened);
            self.bitmap.set_synced(region);
        }
        done
    }
}

/// The pause before regions that could not be rebuilt are tried again. It grows while nothing but unreadable units is in the
/// way, since these stay so until they are written.
struct Pause {
    ns: u64,
    /// Whether something else happened in the present pass over the regions.
    is_mixed: bool,
}

impl Default for Pause {
    fn default() -> Pause {
        Pause { ns: RETRY_NS, is_mixed: false }
    }
}

impl Pause {
    fn note(&mut self, outcome: Outcome) {
        if outcome != Outcome::Unreadable {
            *self = Pause { ns: RETRY_NS, is_mixed: true };
        }
    }

    fn end_pass(&mut self) {
        let ns = if self.is_mixed { RETRY_NS } else { (self.ns * 2).min(UNREADABLE_RETRY_NS) };
        *self = Pause { ns, is_mixed: false };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_while_units_stay_unreadable() {
        let mut pause = Pause::default();
        for expected in [2, 4, 8, 16, 32] {
            pause.note(Outcome::Unreadable);
            pause.end_pass();
            assert_eq!(pause.ns, expected * RETRY_NS);
        }
        (0..20).for_each(|_| pause.end_pass());
        assert_eq!(pause.ns, UNREADABLE_RETRY_NS);
        for outcome in [Outcome::Later, Outcome::Done] {
            pause.note(outcome);
            pause.note(Outcome::Unreadable);
            pause.end_pass();
            assert_eq!(pause.ns, RETRY_NS);
        }
    }
}
