//! Writing groups of a journal to f + 1 members without waiting for slow ones.
//!
//! A group goes to members that respond. Where they are late all the same, it goes to others as well, and counts as written
//! as soon as enough members have it: spreading writes over the members that respond is the idea of FusionRAID (FAST '21,
//! section 4.3); any position of a journal will do, so no data is moved for it. A member gets no further group while it
//! still writes one that counts without it, so a write that ends late cannot overwrite a newer one.
//!
//! A member that is full gets no group either. It is no failed member: a group waits for space rather than to count with
//! fewer copies.
//!
//! A group with much data may be striped instead (`striped`).

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use crate::marks::Mark;
use crate::members::Members;
use sinew_core::coverage::MarkName;
use sinew_core::ids::MemberId;
use sinew_core::io::{Gather, Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Signal, next_of, poll_next};
use sinew_core::volume::VolumeError;

/// A journal whose groups have f + 1 copies.
pub trait ReplicatedRing<I: Io>: Sized + 'static {
    /// The coverage marks of this kind of pool.
    const MARKS: RingMarks;

    /// The members that the shard writes to.
    fn members(&self) -> &Members<I>;
    /// The writes that came too late to count.
    fn late_copies(&self) -> &LateCopies;
    /// The signal that a late write has ended, or a member has changed.
    fn room(&self) -> &Signal;
    /// The copies that a group needs.
    fn copies(&self) -> usize;
    /// The sets of members that may hold the group with number `turn`, the preferred one first, and in each the preferred
    /// members first. All copies of a group go to one set, as long as any set has enough members.
    fn replica_sets(&self, turn: u64) -> Vec<Vec<MemberId>>;
    /// Every member that has a ring.
    fn ring_members(&self) -> Vec<MemberId>;
    /// The offset of a position of the ring in a member's part of its device, in bytes.
    fn offset(&self, member: MemberId, position: u32) -> u64;
}

/// Coverage marks of writing groups in one kind of pool.
pub struct RingMarks {
    /// A group went to other members than it would have, because those are in a spike.
    pub around: MarkName,
    /// A group was late and went to further members.
    pub hedged: MarkName,
    /// Too few members respond for that, or the hedge budget did not allow it.
    pub too_dear: MarkName,
    /// A group waited for members that still write an earlier one.
    pub held_up: MarkName,
    /// A member failed while a group was written to it.
    pub member_lost: MarkName,
    /// A group could be written to no member.
    pub refused: MarkName,
}

/// A group that is ready to be written.
pub struct RingGroup {
    /// Chooses the members: consecutive groups may begin with different ones.
    pub turn: u64,
    /// Its first block in the ring.
    pub position: u32,
    /// Its blocks.
    pub data: Gather,
}

/// Members that still write a group which counts without them.
#[derive(Default)]
pub struct LateCopies(RefCell<Vec<MemberId>>);

impl LateCopies {
    /// Whether the member still writes such a group.
    pub fn contains(&self, member: MemberId) -> bool {
        self.0.borrow().contains(&member)
    }

    /// The number of such writes.
    pub fn count(&self) -> usize {
        self.0.borrow().len()
    }
}

/// The write of a group.
pub(super) struct GroupWrite<F> {
    /// The copies that it needs.
    copies: usize,
    pub(super) written: Vec<MemberId>,
    failed: Vec<MemberId>,
    /// Members without space for it.
    full: Vec<MemberId>,
    pub(super) writing: Vec<(MemberId, Pin<Box<F>>)>,
    /// Members of `writing` that are late, so that others get the group as well.
    late: Vec<MemberId>,
}

impl<F> GroupWrite<F> {
    /// A write that has not begun.
    pub(super) fn of(copies: usize) -> GroupWrite<F> {
        GroupWrite {
            copies,
            written: Vec::new(),
            failed: Vec::new(),
            full: Vec::new(),
            writing: Vec::new(),
            late: Vec::new(),
        }
    }

    /// The write to a member has ended.
    pub(super) fn note(&mut self, member: MemberId, result: Result<(), IoError>) {
        self.late.retain(|&late| late != member);
        match result {
            Ok(()) => self.written.push(member),
            Err(IoError::NoSpace) => self.full.push(member),
            Err(_) => self.failed.push(member),
        }
    }

    /// Whether the member has the group, or is expected to have it in time.
    fn counts(&self, member: MemberId) -> bool {
        let is_in_time = self.writing.iter().any(|w| w.0 == member) && !self.late.contains(&member);
        is_in_time || self.written.contains(&member)
    }

    /// Whether the member can be asked to take the group.
    fn is_new(&self, member: MemberId) -> bool {
        let is_asked = self.writing.iter().any(|w| w.0 == member);
        let is_refused = self.failed.contains(&member) || self.full.contains(&member);
        !is_asked && !self.written.contains(&member) && !is_refused
    }
}

/// The members of one set that could take a group.
struct Choice {
    /// Further copies that the group needs.
    needed: usize,
    responding: Vec<MemberId>,
    /// Members in a spike.
    spiking: Vec<MemberId>,
    /// Members that still write an earlier group.
    late: usize,
    /// Whether one of the first members is passed over.
    passes_over: bool,
}

impl Choice {
    fn of<I: Io, R: ReplicatedRing<I>, F>(ring: &R, set: &[MemberId], write: &GroupWrite<F>) -> Choice {
        let members = ring.members();
        let needed = write.copies.saturating_sub(set.iter().filter(|&&m| write.counts(m)).count());
        let new = || set.iter().copied().filter(|&m| members.takes_new(m) && write.is_new(m));
        let is_late = |m: &MemberId| ring.late_copies().contains(*m);
        let (mut responding, spiking): (Vec<_>, Vec<_>) =
            new().filter(|m| !is_late(m)).partition(|&m| members.responds(m));
        let passes_over = spiking.iter().any(|m| new().take(needed).any(|first| first == *m));
        responding.sort_by_key(|&m| members.in_flight(m));
        Choice { needed, responding, spiking, late: new().filter(is_late).count(), passes_over }
    }

    /// Whether enough members respond.
    fn responds(&self) -> bool {
        self.responding.len() >= self.needed
    }

    /// Whether there are enough members, those included that do not respond.
    fn is_possible(&self) -> bool {
        self.responding.len() + self.spiking.len() + self.late >= self.needed
    }

    /// The members to write to; `None` when late ones have to be waited for.
    fn into_members(mut self) -> Option<Vec<MemberId>> {
        self.responding.append(&mut self.spiking);
        self.responding.truncate(self.needed);
        (self.responding.len() == self.needed || self.late == 0).then_some(self.responding)
    }
}

/// Writes a group to as many members as it needs, or to all that are left; a member that fails is replaced by another. Where
/// one is late another gets the group, too, and the group counts as written as soon as enough members have it.
///
/// # Errors
/// [`VolumeError::Failed`] when no member could be written to.
pub async fn write_group<I: Io, R: ReplicatedRing<I>>(
    ring: &Rc<R>,
    group: RingGroup,
) -> Result<(), VolumeError> {
    let RingGroup { turn, position, data } = group;
    let (members, sets) = (ring.members(), ring.replica_sets(turn));
    let mut write = GroupWrite::of(if mutation::on(Mutation::OneJournalCopy) { 1 } else { ring.copies() });
    let mut awaits_space = None;
    members.latency.earn();
    loop {
        write.written.retain(|&m| members.takes_new(m));
        for member in ring.room().wait(|| choose(&**ring, &sets, &write)).await {
            let copy = write_copy(Rc::clone(ring), member, position, Rc::clone(&data));
            write.writing.push((member, Box::pin(copy)));
        }
        if write.writing.is_empty() && !write.full.is_empty() && !is_complete(&sets, &write) {
            members.io.mark(Mark::RingAwaitsSpace);
            awaits_space.get_or_insert_with(|| members.full.begin_wait());
            members.wait_for_space().await;
            write.full.clear();
            continue;
        }
        if write.writing.is_empty() && write.written.is_empty() {
            members.io.mark(R::MARKS.refused);
            return Err(VolumeError::Failed);
        }
        if write.writing.is_empty() || is_complete(&sets, &write) {
            break;
        }
        match next_ended(&**ring, &sets, &mut write).await {
            Some((member, result)) => write.note(member, result),
            None if mutation::on(Mutation::CountLateJournal) => write.copies -= 1,
            None => write.late = write.writing.iter().map(|w| w.0).collect(),
        }
    }
    leave_late(ring, write.writing);
    Ok(())
}

/// The members that still write the group get no other one until they have.
pub(super) fn leave_late<I: Io, R: ReplicatedRing<I>, F: Future<Output = Result<(), IoError>> + 'static>(
    ring: &Rc<R>,
    writing: Vec<(MemberId, Pin<Box<F>>)>,
) {
    if !writing.is_empty() {
        ring.late_copies().0.borrow_mut().extend(writing.iter().map(|w| w.0));
        ring.members().io.spawn(await_late_copies(Rc::clone(ring), writing));
    }
}

/// Whether enough members have the group.
fn is_complete<F>(sets: &[Vec<MemberId>], write: &GroupWrite<F>) -> bool {
    sets.iter().any(|set| set.iter().filter(|m| write.written.contains(m)).count() >= write.copies)
}

/// Further members to write a group to: those that respond, with the least to do first and in turn where they are alike, then
/// the others. Members that still write an earlier group are none; `None` where only such are left.
fn choose<I: Io, R: ReplicatedRing<I>, F>(
    ring: &R,
    sets: &[Vec<MemberId>],
    write: &GroupWrite<F>,
) -> Option<Vec<MemberId>> {
    let io = &ring.members().io;
    let mut choices: Vec<Choice> = sets.iter().map(|set| Choice::of(ring, set, write)).collect();
    if choices.iter().any(|choice| choice.needed == 0) {
        return Some(Vec::new());
    }
    if let Some(found) = choices.iter().position(Choice::responds) {
        if found > 0 || choices[found].passes_over {
            io.mark(R::MARKS.around);
        }
        return choices.swap_remove(found).into_members();
    }
    let chosen = match choices.iter().position(Choice::is_possible) {
        Some(found) => choices.swap_remove(found),
        None => Choice::of(ring, &ring.ring_members(), write),
    };
    let chosen = chosen.into_members();
    if chosen.is_none() {
        io.mark(R::MARKS.held_up);
    }
    chosen
}

/// Writes a group to one member.
pub(super) async fn write_copy<I: Io, R: ReplicatedRing<I>>(
    ring: Rc<R>,
    member: MemberId,
    position: u32,
    data: Gather,
) -> Result<(), IoError> {
    let members = ring.members();
    let result = members.write_at(member, ring.offset(member, position), data).await;
    if let Err(error) = result
        && error != IoError::NoSpace
    {
        members.io.mark(R::MARKS.member_lost);
        members.report_failure(member, error).await;
    }
    result
}

/// The next member whose write has ended, and the result; `None` when all are late and others shall get the
/// group.
pub(super) async fn next_ended<I: Io, R: ReplicatedRing<I>, F: Future<Output = Result<(), IoError>>>(
    ring: &R,
    sets: &[Vec<MemberId>],
    write: &mut GroupWrite<F>,
) -> Option<(MemberId, Result<(), IoError>)> {
    let members = ring.members();
    let late_ns = write.writing.iter().map(|w| members.latency.late_ns(w.0)).max().unwrap_or(0);
    let may_be_late = members.may_hedge() && write.late.is_empty();
    let again = || members.deadlines.at(members.io.now_coarse().saturating_add(late_ns));
    let mut alarm = may_be_late.then(again);
    poll_fn(|cx| {
        if let Poll::Ready(ended) = poll_next(cx, &mut write.writing) {
            return Poll::Ready(ended);
        }
        while let Some(set) = &mut alarm
            && set.poll(cx, members.io.now_coarse())
        {
            if may_hedge(ring, sets, &write.writing) {
                return Poll::Ready(None);
            }
            // What cannot be done now may be possible after as long again.
            alarm = Some(again());
        }
        Poll::Pending
    })
    .await
}

/// Whether a group may go to further members, since these are late: others respond, and enough of them for the groups to
/// come, which must not go to members that still write this one.
fn may_hedge<I: Io, R: ReplicatedRing<I>, F>(
    ring: &R,
    sets: &[Vec<MemberId>],
    late: &[(MemberId, F)],
) -> bool {
    let members = ring.members();
    let is_free = |&&m: &&MemberId| {
        let is_late = ring.late_copies().contains(m) || late.iter().any(|l| l.0 == m);
        members.takes_new(m) && members.responds(m) && !is_late
    };
    let has_free = |set: &Vec<MemberId>| set.iter().filter(is_free).count() >= ring.copies();
    if !sets.iter().any(has_free) || !members.latency.spend(late.len()) {
        members.io.mark(R::MARKS.too_dear);
        return false;
    }
    members.io.mark(R::MARKS.hedged);
    late.iter().for_each(|l| members.latency.note(l.0, |tracked| tracked.hedges += 1));
    true
}

/// Waits for writes that came too late to count. Until then nothing else is written to these members' rings.
async fn await_late_copies<I: Io, R: ReplicatedRing<I>, F: Future<Output = Result<(), IoError>>>(
    ring: Rc<R>,
    mut writing: Vec<(MemberId, Pin<Box<F>>)>,
) {
    while let Some((member, _)) = next_of(&mut writing).await {
        let mut late = ring.late_copies().0.borrow_mut();
        let index = late.iter().position(|&m| m == member).expect("it is listed");
        late.swap_remove(index);
        drop(late);
        ring.room().notify();
    }
}
