//! Which regions of a shard may differ from what they should be, and where.
//!
//! A region is *dirty* while what was written to it may not be on its members for good, and a while longer: after a crash its
//! copies, or its data and parity, may disagree. It is *stale* on a member that lacks something written to it. Both are
//! on the members, in the last state group of the log, before anything is written that makes them true; there may be more
//! marks on the members than needed, never fewer. It is *uneven* until its first resync, unless the members were zeros at first: what
//! was never written need not match its parity or copies.

use sinew_format::codec::{DecodeError, Reader, Writer};

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

    pub(crate) fn ones(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.count).filter(|&i| self.get(i))
    }

    pub(crate) fn any(&self) -> bool {
        self.words.iter().any(|&word| word != 0)
    }

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

/// How far long work is, in a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LongWork {
    /// The next stripe of the scrub under way.
    pub(crate) scrub: Option<u64>,
    /// Everything below this key has moved in the growth to so many members; 0 members when none is under way.
    pub(crate) moved: u64,
    pub(crate) moving_to: u8,
}

/// What a shard knows of its regions.
pub(crate) struct Regions {
    dirty: Bits,
    /// Of each member, the regions it lags behind in.
    stale: Vec<Bits>,
    uneven: Bits,
    /// Regions whose marks are on the members for the present states of members: they may be written.
    marked: Bits,
    /// Written since the last flush began, and those that the flush under way covers.
    written: Bits,
    flushing: Bits,
    /// Written since the last cleaning.
    recent: Bits,
    /// Writes under way in each region.
    users: Vec<u32>,
    /// Counts changes; those in a state that was encoded, and in one that was written.
    changes: u64,
    encoded: u64,
    written_changes: u64,
}

impl Regions {
    /// Of an array of `members` members on which nothing was written, `even` if they are all zeros.
    pub(crate) fn new(count: usize, members: usize, even: bool) -> Regions {
        let none = Bits::new(count);
        Regions {
            dirty: none.clone(),
            stale: vec![none.clone(); members],
            uneven: if even { none.clone() } else { Bits::full(count) },
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

    /// As the members have it, with the long work under way. Regions that came with a growth since are uneven.
    pub(crate) fn decode(
        bytes: &[u8],
        count: usize,
        members: usize,
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
        regions.uneven = Bits::read(&mut r, known)?;
        for _ in 0..r.u16()? {
            let member = usize::from(r.u8()?);
            let stale = Bits::read(&mut r, known)?;
            *regions.stale.get_mut(member).ok_or(DecodeError::Invalid("member of a state"))? = stale;
        }
        regions.extend(count, members);
        Ok((regions, LongWork { scrub: (scrub != u64::MAX).then_some(scrub), moved, moving_to }))
    }

    /// There are more regions, whose stripes lie where others did; the last one so far may have got more of them, too.
    pub(crate) fn extend(&mut self, count: usize, members: usize) {
        let known = self.users.len();
        self.stale.resize(members, Bits::new(known));
        if count > known {
            let known_sets = [&mut self.dirty, &mut self.uneven, &mut self.marked];
            let passing_sets = [&mut self.written, &mut self.flushing, &mut self.recent];
            known_sets
                .into_iter()
                .chain(passing_sets)
                .chain(&mut self.stale)
                .for_each(|bits| bits.extend(count));
            self.users.resize(count, 0);
            (known.saturating_sub(1)..count).for_each(|region| self.uneven.set(region));
        }
        self.changes += 1;
    }

    /// Regions that were not written since the last cleaning, or if it is `all` at all of late, and are durable, are not dirty
    /// any more.
    pub(crate) fn clean(&mut self, all: bool) {
        let recent = self.recent.take();
        let is_busy = |region| {
            let unflushed = self.written.get(region) || self.flushing.get(region);
            self.users[region] > 0 || unflushed || (!all && recent.get(region))
        };
        let resting: Vec<usize> = self.dirty.ones().filter(|&region| !is_busy(region)).collect();
        for &region in &resting {
            self.dirty.clear(region);
            self.marked.clear(region);
        }
        self.changes += u64::from(!resting.is_empty());
    }

    /// Whether nothing was written since the last cleaning, and something before it that no flush has covered.
    pub(crate) fn rests_unflushed(&self) -> bool {
        self.written.any() && !self.recent.any()
    }

    /// What goes to the members.
    pub(crate) fn encode(&mut self, work: LongWork) -> Vec<u8> {
        self.encoded = self.changes;
        let mut w = Writer::default();
        w.u64(work.scrub.unwrap_or(u64::MAX));
        w.u64(work.moved);
        w.u8(work.moving_to);
        w.u32(self.users.len() as u32);
        self.dirty.write(&mut w);
        self.uneven.write(&mut w);
        let lagging: Vec<usize> = (0..self.stale.len()).filter(|&m| self.stale[m].any()).collect();
        w.u16(lagging.len() as u16);
        for member in lagging {
            w.u8(member as u8);
            self.stale[member].write(&mut w);
        }
        w.0
    }

    /// Whether there are changes that no state encoded so far has.
    pub(crate) fn changed(&self) -> bool {
        self.changes != self.encoded
    }

    /// Changes that the last state encoded has.
    pub(crate) fn encoded(&self) -> u64 {
        self.encoded
    }

    /// A state with so many changes is on the members.
    pub(crate) fn set_written(&mut self, changes: u64) {
        self.written_changes = self.written_changes.max(changes);
    }

    /// Whether there are changes that no state on the members has.
    pub(crate) fn is_ahead(&self) -> bool {
        self.changes > self.written_changes
    }

    /// Something that goes to the members with the next state has changed.
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
        // A flush that began meanwhile took it for covered; it is not.
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

    /// A member has another state: what is marked for the old ones is not for the new ones.
    pub(crate) fn unmark(&mut self) {
        self.marked = Bits::new(self.users.len());
    }

    /// A member went out: it may lack everything that was not flushed.
    pub(crate) fn lose(&mut self, member: usize) {
        let dirty = self.dirty.clone();
        self.stale[member].add(&dirty);
        self.changes += 1;
    }

    /// Nothing on the member counts.
    pub(crate) fn lose_all(&mut self, member: usize) {
        self.stale[member] = Bits::full(self.users.len());
        self.changes += 1;
    }

    /// The region is up to date on the member.
    pub(crate) fn renew(&mut self, member: usize, region: usize) {
        self.stale[member].clear(region);
        self.changes += 1;
    }

    pub(crate) fn is_stale(&self, member: usize, region: usize) -> bool {
        self.stale[member].get(region)
    }

    pub(crate) fn stale(&self, member: usize) -> &Bits {
        &self.stale[member]
    }

    pub(crate) fn dirty(&self) -> &Bits {
        &self.dirty
    }

    pub(crate) fn uneven(&self) -> &Bits {
        &self.uneven
    }

    /// The region has had its first resync.
    pub(crate) fn set_even(&mut self, region: usize) {
        self.uneven.clear(region);
        self.changes += 1;
    }

    /// A flush begins.
    pub(crate) fn begin_flush(&mut self) {
        let written = self.written.take();
        self.flushing.add(&written);
    }

    /// It has made durable what was written before it began.
    pub(crate) fn end_flush(&mut self) {
        self.flushing = Bits::new(self.users.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_rests_once_its_writes_are_flushed() {
        let mut regions = Regions::new(100, 3, true);
        regions.begin(70);
        regions.mark(70, [2].into_iter());
        regions.begin_flush();
        regions.end(70);
        regions.end_flush();
        regions.clean(true);
        assert!(regions.dirty().get(70), "written after the flush began");
        assert!(regions.rests_unflushed());
        regions.begin_flush();
        regions.end_flush();
        regions.begin(80);
        regions.mark(80, std::iter::empty());
        regions.end(80);
        assert!(!regions.rests_unflushed(), "nothing is flushed for this while there are writes");
        regions.clean(false);
        assert!(!regions.dirty().get(70) && regions.dirty().get(80));
        regions.begin_flush();
        regions.end_flush();
        regions.clean(false);
        let work = LongWork { scrub: Some(5), moved: 9, moving_to: 3 };
        let bytes = regions.encode(work);
        assert!(!regions.dirty().any() && regions.is_stale(2, 70));
        let (again, found) = Regions::decode(&bytes, 100, 3).unwrap();
        assert_eq!((found, again.stale(2).len(), again.stale(1).len()), (work, 1, 0));
        let (grown, _) = Regions::decode(&bytes, 130, 4).unwrap();
        assert!(grown.is_stale(2, 70) && grown.uneven().ones().eq(99..130));
        assert!(Regions::decode(&bytes, 99, 3).is_err());
        assert!(Regions::decode(&bytes, 100, 2).is_err());
        assert!(Regions::decode(&bytes[..bytes.len() - 1], 100, 3).is_err());
    }

    #[test]
    fn a_lost_member_lacks_what_was_not_flushed() {
        let mut regions = Regions::new(10, 2, true);
        regions.begin(3);
        regions.mark(3, std::iter::empty());
        regions.end(3);
        regions.lose(1);
        assert!(regions.is_stale(1, 3) && !regions.is_stale(1, 4) && regions.changed());
        regions.renew(1, 3);
        assert!(!regions.stale(1).any());
    }
}
