//! Which regions of a shard may differ from what they should be, and where.
//!
//! A region is *dirty* while writes to it may not be durable, and a while longer: after a crash its copies, or its data and
//! parity, may disagree. It is *stale* on a member that missed a write to it. Both marks are on the members, in the last state
//! group of the log, before a write makes them true; the members may have more marks than needed, never fewer. It is
//! *unsynced* until its first resync, unless the members were zeros at first: blocks that were never written need not match
//! their parity or copies. Without redundancy there is nothing to match, and no region is unsynced. A region of an elastic
//! array is *untidy* while stripes of it change their form: units that a stripe does not use may hold something that takes
//! physical space. That mark is kept as the others are.

use std::ops::Range;

use sinew_core::mutation::{self, Mutation};
use sinew_format::codec::{DecodeError, Reader, Writer};

use crate::bitmap::given_up::GivenUp;

/// In a state, the blocks that were given up have the place of a member with this number, which no member has. Versions that do
/// not know them refuse the state: they would read zeros there.
const GIVEN_UP: u8 = u8::MAX;

/// A set of regions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Vec<u64>,
    count: usize,
}

impl Bits {
    fn new(count: usize) -> Bits {
        Bits { words: vec![0; count.div_ceil(64)], count }
    }

    fn full(count: usize) -> Bits {
        let mut bits = Bits::new(count);
        (0..count).for_each(|i| bits.set(i));
        bits
    }

    /// Whether the region is in the set.
    pub(crate) fn get(&self, i: usize) -> bool {
        self.words[i / 64] >> (i % 64) & 1 == 1
    }

    fn set(&mut self, i: usize) {
        self.words[i / 64] |= 1 << (i % 64);
    }

    fn clear(&mut self, i: usize) {
        self.words[i / 64] &= !(1 << (i % 64));
    }

    fn extend(&mut self, count: usize) {
        self.words.resize(count.div_ceil(64), 0);
        self.count = count;
    }

    fn add(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(mine, theirs)| *mine |= theirs);
    }

    fn take(&mut self) -> Bits {
        std::mem::replace(self, Bits::new(self.count))
    }

    /// The regions of the set, in order.
    pub(crate) fn ones(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.count).filter(|&i| self.get(i))
    }

    /// Whether the set has any region.
    pub(crate) fn any(&self) -> bool {
        self.words.iter().any(|&word| word != 0)
    }

    /// Regions in the set.
    pub(crate) fn len(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    fn write(&self, w: &mut Writer) {
        self.words.iter().for_each(|&word| w.u64(word));
    }

    fn read(r: &mut Reader<'_>, count: usize) -> Result<Bits, DecodeError> {
        let words = (0..count.div_ceil(64)).map(|_| r.u64()).collect::<Result<Vec<_>, _>>()?;
        let bits = Bits { words, count };
        let beyond =
            bits.words.last().is_some_and(|&last| !count.is_multiple_of(64) && last >> (count % 64) != 0);
        if beyond { Err(DecodeError::Invalid("regions of a state")) } else { Ok(bits) }
    }
}

/// The progress of long work that a state group carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LongWork {
    /// The next stripe of the scrub under way.
    pub(crate) scrub: Option<u64>,
    /// Everything below this key has moved in the growth to `moving_to` members; that is 0 when no growth is under way.
    pub(crate) moved: u64,
    pub(crate) moving_to: u8,
}

/// The marks of all regions of a shard.
pub(crate) struct Regions {
    dirty: Bits,
    /// For each member, the regions in which it is stale.
    stale: Vec<Bits>,
    unsynced: Bits,
    /// Regions that were dirty when the last opening ended in a crash, and are not resynced yet: in memory only.
    in_doubt: Bits,
    /// Regions of an elastic array in which units that their stripes do not use may hold something.
    untidy: Bits,
    /// Of these, those that the members know.
    untidy_marked: Bits,
    given_up: GivenUp,
    /// Regions whose marks are on the members, for the members' present states: they may be written.
    marked: Bits,
    /// Written since the last flush began; and written before, so that the flush under way covers them.
    written: Bits,
    flushing: Bits,
    /// Written since the last call of `clear_idle`.
    recent: Bits,
    /// Writes under way in each region.
    users: Vec<u32>,
    /// Counts changes; those in a state that was encoded, and in one that was written.
    changes: u64,
    encoded: u64,
    written_changes: u64,
}

impl Regions {
    /// The regions of an array of `members` members without any write; `in_sync` if the members are all zeros.
    pub(crate) fn new(count: usize, members: usize, in_sync: bool) -> Regions {
        let none = Bits::new(count);
        Regions {
            dirty: none.clone(),
            stale: vec![none.clone(); members],
            unsynced: if in_sync { none.clone() } else { Bits::full(count) },
            in_doubt: none.clone(),
            untidy: none.clone(),
            untidy_marked: none.clone(),
            given_up: GivenUp::default(),
            marked: none.clone(),
            written: none.clone(),
            flushing: none.clone(),
            recent: none,
            users: vec![0; count],
            changes: 0,
            encoded: 0,
            written_changes: 0,
        }
    }

    /// Decodes a state group, with the progress of long work. Regions that a growth has added since are unsynced, unless the
    /// array has no redundancy.
    ///
    /// # Errors
    /// When the bytes are no state of this many regions and members.
    pub(crate) fn decode(
        bytes: &[u8],
        count: usize,
        members: usize,
        has_redundancy: bool,
    ) -> Result<(Regions, LongWork), DecodeError> {
        let mut r = Reader(bytes);
        let (scrub, moved) = (r.u64()?, r.u64()?);
        let moving_to = r.u8()?;
        let known = r.u32()? as usize;
        if known > count {
            return Err(DecodeError::Invalid("regions of a state"));
        }
        let mut regions = Regions::new(known, members, true);
        regions.dirty = Bits::read(&mut r, known)?;
        regions.unsynced = Bits::read(&mut r, known)?;
        for _ in 0..r.u16()? {
            let member = usize::from(r.u8()?);
            if member == usize::from(GIVEN_UP) {
                regions.given_up = GivenUp::read(&mut r)?;
                continue;
            }
            let stale = Bits::read(&mut r, known)?;
            *regions.stale.get_mut(member).ok_or(DecodeError::Invalid("member of a state"))? = stale;
        }
        // Arrays that are not elastic have no such set.
        if !r.0.is_empty() {
            regions.untidy = Bits::read(&mut r, known)?;
            regions.untidy_marked = regions.untidy.clone();
        }
        regions.extend(count, members, has_redundancy);
        if !has_redundancy {
            // Former versions marked the regions of a growth in arrays of any level.
            regions.unsynced = Bits::new(count);
        }
        Ok((regions, LongWork { scrub: (scrub != u64::MAX).then_some(scrub), moved, moving_to }))
    }

    /// A growth has added regions, in places that held other content; it may also have added stripes to the former last region.
    /// Their redundancy, if the array has any, does not match that content.
    pub(crate) fn extend(&mut self, count: usize, members: usize, has_redundancy: bool) {
        let known = self.users.len();
        self.stale.resize(members, Bits::new(known));
        if count > known {
            let known_sets = [&mut self.dirty, &mut self.unsynced, &mut self.in_doubt, &mut self.marked];
            let untidy_sets = [&mut self.untidy, &mut self.untidy_marked];
            let passing_sets = [&mut self.written, &mut self.flushing, &mut self.recent];
            known_sets
                .into_iter()
                .chain(untidy_sets)
                .chain(passing_sets)
                .chain(&mut self.stale)
                .for_each(|bits| bits.extend(count));
            self.users.resize(count, 0);
            if has_redundancy {
                (known.saturating_sub(1)..count).for_each(|region| self.unsynced.set(region));
            }
        }
        // A new member may be out already, and marks tell nothing of it.
        if !mutation::on(Mutation::KeepMarks) {
            self.unmark();
        }
        self.changes += 1;
    }

    /// Clears the dirty marks of regions that are durable and not in use; unless `all`, only of those that were not written
    /// since the last call.
    pub(crate) fn clear_idle(&mut self, all: bool) {
        let recent = self.recent.take();
        let is_busy = |region| {
            let unflushed = self.written.get(region) || self.flushing.get(region);
            self.users[region] > 0 || unflushed || (!all && recent.get(region))
        };
        let idle: Vec<usize> = self.dirty.ones().filter(|&region| !is_busy(region)).collect();
        for &region in &idle {
            self.dirty.clear(region);
            self.marked.clear(region);
        }
        self.changes += u64::from(!idle.is_empty());
    }

    /// Whether nothing was written since the last call of `clear_idle`, but writes before it are covered by no flush.
    pub(crate) fn is_idle_unflushed(&self) -> bool {
        self.written.any() && !self.recent.any()
    }

    /// Encodes a state group.
    pub(crate) fn encode(&mut self, work: LongWork) -> Vec<u8> {
        self.encoded = self.changes;
        let mut w = Writer::default();
        w.u64(work.scrub.unwrap_or(u64::MAX));
        w.u64(work.moved);
        w.u8(work.moving_to);
        w.u32(self.users.len() as u32);
        self.dirty.write(&mut w);
        self.unsynced.write(&mut w);
        let lagging: Vec<usize> = (0..self.stale.len()).filter(|&m| self.stale[m].any()).collect();
        w.u16(lagging.len() as u16 + u16::from(!self.given_up.is_empty()));
        for member in lagging {
            w.u8(member as u8);
            self.stale[member].write(&mut w);
        }
        if !self.given_up.is_empty() {
            w.u8(GIVEN_UP);
            self.given_up.write(&mut w);
        }
        if self.untidy.any() {
            self.untidy.write(&mut w);
        }
        w.0
    }

    /// Whether there are changes that no encoded state has.
    pub(crate) fn changed(&self) -> bool {
        self.changes != self.encoded
    }

    /// Changes that the last state encoded has.
    pub(crate) fn encoded(&self) -> u64 {
        self.encoded
    }

    /// A state with this many changes is on the members.
    pub(crate) fn set_written(&mut self, changes: u64) {
        self.written_changes = self.written_changes.max(changes);
    }

    /// Whether there are changes that no state on the members has.
    pub(crate) fn has_unwritten_changes(&self) -> bool {
        self.changes > self.written_changes
    }

    /// Something else that a state group carries has changed.
    pub(crate) fn touch(&mut self) {
        self.changes += 1;
    }

    /// A write to the region begins; it counts as written until `end`, and for the flushes that began before that.
    pub(crate) fn begin(&mut self, region: usize) {
        self.users[region] += 1;
        self.written.set(region);
        self.recent.set(region);
    }

    /// The write has ended.
    pub(crate) fn end(&mut self, region: usize) {
        self.users[region] -= 1;
        // A flush that began meanwhile took the region for covered; it is not.
        self.written.set(region);
        self.recent.set(region);
    }

    /// Regions with a write under way.
    pub(crate) fn in_use(&self) -> usize {
        self.users.iter().filter(|&&users| users > 0).count()
    }

    /// Whether the region's marks are on the members.
    pub(crate) fn is_marked(&self, region: usize) -> bool {
        self.marked.get(region)
    }

    /// Marks the region as dirty, and as stale on the members that are out.
    pub(crate) fn mark(&mut self, region: usize, out: impl Iterator<Item = usize>) {
        self.dirty.set(region);
        for member in out {
            self.stale[member].set(region);
        }
        self.changes += 1;
    }

    /// The region's marks are on the members.
    pub(crate) fn set_marked(&mut self, region: usize) {
        self.marked.set(region);
    }

    /// A member's state has changed: marks made for the former members do not count for the present ones.
    pub(crate) fn unmark(&mut self) {
        self.marked = Bits::new(self.users.len());
    }

    /// A member went out: it may lack everything that was not flushed.
    pub(crate) fn note_lost(&mut self, member: usize) {
        let dirty = self.dirty.clone();
        self.stale[member].add(&dirty);
        self.changes += 1;
    }

    /// Nothing on the member is up to date.
    pub(crate) fn set_all_stale(&mut self, member: usize) {
        self.stale[member] = Bits::full(self.users.len());
        self.changes += 1;
    }

    /// The region is up to date on the member.
    pub(crate) fn set_up_to_date(&mut self, member: usize, region: usize) {
        self.stale[member].clear(region);
        self.changes += 1;
    }

    /// Whether the member is stale in the region.
    pub(crate) fn is_stale(&self, member: usize, region: usize) -> bool {
        self.stale[member].get(region)
    }

    /// The regions in which the member is stale.
    pub(crate) fn stale(&self, member: usize) -> &Bits {
        &self.stale[member]
    }

    /// The blocks that were given up.
    pub(crate) fn given_up(&self) -> &GivenUp {
        &self.given_up
    }

    /// Gives up blocks; false if there are too many.
    pub(crate) fn give_up(&mut self, blocks: &[u64]) -> bool {
        let has_room = self.given_up.add(blocks);
        self.changes += u64::from(has_room);
        has_room
    }

    /// Blocks have content again, in case they were given up.
    pub(crate) fn restore(&mut self, blocks: Range<u64>) {
        if self.given_up.remove(blocks) {
            self.changes += 1;
        }
    }

    /// Marks regions as untidy.
    pub(crate) fn set_untidy(&mut self, region: usize) {
        if !self.untidy.get(region) {
            self.untidy.set(region);
            self.changes += 1;
        }
    }

    /// The members know that the region is untidy.
    pub(crate) fn set_untidy_marked(&mut self, region: usize) {
        self.untidy_marked.set(region);
    }

    /// Whether the members know that the region is untidy.
    pub(crate) fn is_untidy_marked(&self, region: usize) -> bool {
        self.untidy_marked.get(region)
    }

    /// The region is tidy again.
    pub(crate) fn set_tidy(&mut self, region: usize) {
        if self.untidy.get(region) {
            self.untidy.clear(region);
            self.untidy_marked.clear(region);
            self.changes += 1;
        }
    }

    /// The untidy regions.
    pub(crate) fn untidy(&self) -> &Bits {
        &self.untidy
    }

    /// The dirty regions.
    pub(crate) fn dirty(&self) -> &Bits {
        &self.dirty
    }

    /// The regions that await their first resync.
    pub(crate) fn unsynced(&self) -> &Bits {
        &self.unsynced
    }

    /// Whether copies, or data and parity, agree in the region but for writes under way.
    pub(crate) fn is_in_sync(&self, region: usize) -> bool {
        let is_in_doubt = self.in_doubt.get(region) && !mutation::on(Mutation::TrustDirty);
        !self.unsynced.get(region) && !is_in_doubt
    }

    /// The regions that were dirty at a crash, and are not resynced yet.
    pub(crate) fn in_doubt(&self) -> &Bits {
        &self.in_doubt
    }

    /// A crash has interrupted writes in the dirty regions.
    pub(crate) fn doubt_dirty(&mut self) {
        self.in_doubt = self.dirty.clone();
    }

    /// The region is resynced after a crash.
    pub(crate) fn end_doubt(&mut self, region: usize) {
        self.in_doubt.clear(region);
    }

    /// The region has had its first resync.
    pub(crate) fn set_synced(&mut self, region: usize) {
        self.unsynced.clear(region);
        self.changes += 1;
    }

    /// A flush begins.
    pub(crate) fn begin_flush(&mut self) {
        let written = self.written.take();
        self.flushing.add(&written);
    }

    /// The flush has made durable every write from before it began.
    pub(crate) fn end_flush(&mut self) {
        self.flushing = Bits::new(self.users.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_clean_once_its_writes_are_flushed() {
        let mut regions = Regions::new(100, 3, true);
        regions.begin(70);
        regions.mark(70, [2].into_iter());
        regions.begin_flush();
        regions.end(70);
        regions.end_flush();
        regions.clear_idle(true);
        assert!(regions.dirty().get(70), "written after the flush began");
        assert!(regions.is_idle_unflushed());
        regions.begin_flush();
        regions.end_flush();
        regions.begin(80);
        regions.mark(80, std::iter::empty());
        regions.end(80);
        assert!(!regions.is_idle_unflushed(), "nothing is flushed for this while there are writes");
        regions.clear_idle(false);
        assert!(!regions.dirty().get(70) && regions.dirty().get(80));
        regions.begin_flush();
        regions.end_flush();
        regions.clear_idle(false);
        let work = LongWork { scrub: Some(5), moved: 9, moving_to: 3 };
        assert!(regions.give_up(&[40, 41]) && regions.changed());
        let bytes = regions.encode(work);
        assert!(!regions.dirty().any() && regions.is_stale(2, 70));
        let (again, found) = Regions::decode(&bytes, 100, 3, true).unwrap();
        assert_eq!((found, again.stale(2).len(), again.stale(1).len()), (work, 1, 0));
        assert!(again.given_up().any(41..42) && !again.given_up().any(42..99));
        let (grown, _) = Regions::decode(&bytes, 130, 4, true).unwrap();
        assert!(grown.is_stale(2, 70) && grown.unsynced().ones().eq(99..130));
        assert!(Regions::decode(&bytes, 99, 3, true).is_err());
        assert!(Regions::decode(&bytes, 100, 2, true).is_err());
        assert!(Regions::decode(&bytes[..bytes.len() - 1], 100, 3, true).is_err());
    }

    #[test]
    fn without_redundancy_no_region_awaits_a_resync() {
        let mut regions = Regions::new(10, 4, true);
        regions.extend(15, 5, false);
        assert!(!regions.unsynced().any());
        // As a former version left it.
        regions.extend(20, 6, true);
        assert!(regions.unsynced().ones().eq(14..20));
        let bytes = regions.encode(LongWork::default());
        let (again, _) = Regions::decode(&bytes, 25, 7, false).unwrap();
        assert!(!again.unsynced().any());
    }

    #[test]
    fn a_lost_member_lacks_what_was_not_flushed() {
        let mut regions = Regions::new(10, 2, true);
        regions.begin(3);
        regions.mark(3, std::iter::empty());
        regions.end(3);
        regions.note_lost(1);
        assert!(regions.is_stale(1, 3) && !regions.is_stale(1, 4) && regions.changed());
        regions.set_up_to_date(1, 3);
        assert!(!regions.stale(1).any());
    }
}
