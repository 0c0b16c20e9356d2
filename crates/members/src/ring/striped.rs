//! Writing striped groups of a journal: their data is dealt over the members of a set, with parity, as in the journal of Elastic
//! RAID (section 4). So a large group costs (k + m) / k times its data instead of m + 1 times.
//!
//! A striped group counts when every member has its unit. Where one fails, is full, or is late while others respond, the group is
//! written once more as copies, which are whole by themselves.

use std::rc::Rc;

use sinew_core::ids::MemberId;
use sinew_core::io::{Gather, Io};
use sinew_core::mutation::{self, Mutation};

use crate::marks::Mark;
use crate::ring::writer::{GroupWrite, ReplicatedRing, leave_late, next_ended, write_copy};

/// What a member gets of a striped group.
pub struct RingUnit {
    /// The member.
    pub member: MemberId,
    /// Its first block in the ring.
    pub position: u32,
    /// Its blocks.
    pub data: Gather,
}

/// The set of members that is to get a striped group now: the first one of more than `copies` members all of which respond and
/// take writes.
pub fn striping_set<I: Io, R: ReplicatedRing<I>>(ring: &R, turn: u64) -> Option<Vec<MemberId>> {
    let members = ring.members();
    let takes = |&m: &MemberId| {
        members.takes_new(m) && members.responds(m) && members.has_space(m) && !ring.late_copies().contains(m)
    };
    let fits = |set: &Vec<MemberId>| set.len() > ring.copies() && set.iter().all(takes);
    ring.replica_sets(turn).into_iter().find(fits)
}

/// Writes the units of a striped group, all at once. Returns whether all members have theirs: if one has not, or is late and
/// the group may go to others instead, it is to be written as copies.
pub async fn write_units<I: Io, R: ReplicatedRing<I>>(ring: &Rc<R>, turn: u64, units: Vec<RingUnit>) -> bool {
    let (members, sets) = (ring.members(), ring.replica_sets(turn));
    let count = units.len();
    let mut write = GroupWrite::of(count);
    write.writing = units
        .into_iter()
        .map(|RingUnit { member, position, data }| {
            (member, Box::pin(write_copy(Rc::clone(ring), member, position, data)))
        })
        .collect();
    members.latency.earn();
    while !write.writing.is_empty() {
        match next_ended(&**ring, &sets, &mut write).await {
            Some((member, result)) => write.note(member, result),
            None => {
                members.io.mark(Mark::RingUnitLate);
                leave_late(ring, write.writing);
                return mutation::on(Mutation::CountLateUnit);
            }
        }
    }
    write.written.retain(|&m| members.takes_new(m));
    let is_whole = write.written.len() == count;
    if !is_whole {
        members.io.mark(Mark::RingUnitLost);
    }
    is_whole
}
