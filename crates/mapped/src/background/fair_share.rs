//! The fair share of each member of what is stored: in proportion to its size, of data and of parity alike. A member with a weight
//! counts with that part of its size, until nothing else is left.
//!
//! Pure arithmetic over counts of chunks. Data and parity are counted apart, since a member that holds more than its
//! share of either is read, or written, more than the others.

use crate::store::chunk_allocator::MemberSize;
use sinew_core::ids::MemberId;
use sinew_format::model::mapped_geometry::MappedGeometry;

/// What a chunk is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A data column or a mirror of one.
    Data,
    /// A parity column.
    Parity,
}

impl Role {
    /// The role of the chunk with this index in a stripe.
    pub(crate) fn of(geometry: &MappedGeometry, index: usize) -> Role {
        if geometry.is_parity(index) { Role::Parity } else { Role::Data }
    }
}

const ROLES: [Role; 2] = [Role::Data, Role::Parity];

/// Members that differ from their share by no more than this many chunks, or this part of the share, are left as they are.
const SLACK_CHUNKS: u64 = 4;
const SLACK_PART: u64 = 32;

/// Chunks in use on each member, by role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Of each member; none of those that take nothing new.
    sizes: Vec<MemberSize>,
    /// Of all members.
    size: MemberSize,
    used: [Vec<u64>; 2],
    all: [u64; 2],
}

impl Shares {
    /// Nothing in use on members with these numbers of chunks.
    pub(crate) fn new(sizes: Vec<MemberSize>) -> Shares {
        let none = vec![0; sizes.len()];
        let size = MemberSize {
            chunks: sizes.iter().map(|size| size.chunks).sum(),
            spared: sizes.iter().map(|size| size.spared).sum(),
        };
        Shares { used: [none.clone(), none], all: [0; 2], size, sizes }
    }

    /// Counts a chunk in use; not on members that take nothing new.
    pub(crate) fn count(&mut self, role: Role, member: MemberId) {
        let index = usize::from(member.0);
        if self.sizes.get(index).is_some_and(|size| size.chunks > 0) {
            self.used[role as usize][index] += 1;
            self.all[role as usize] += 1;
        }
    }

    /// A chunk has moved.
    pub(super) fn moved(&mut self, role: Role, from: MemberId, to: MemberId) {
        self.used[role as usize][usize::from(from.0)] -= 1;
        self.used[role as usize][usize::from(to.0)] += 1;
    }

    /// Whole chunks that a member has above its share, or, negative, below.
    fn above(&self, role: Role, index: usize) -> i64 {
        let (used, all) = (self.used[role as usize][index], self.all[role as usize]);
        let (part, of) = self.part(index);
        ((i128::from(used) * of - i128::from(all) * part) / of) as i64
    }

    /// The part that a member should have of everything: its share of the chunks that are not spared and, of what does not fit in
    /// there, its share of those.
    fn part(&self, index: usize) -> (i128, i128) {
        let first = |size: MemberSize| i128::from(size.chunks - size.spared);
        let (mine, all) = (self.sizes[index], self.size);
        let used = i128::from(self.all.iter().sum::<u64>());
        let beyond = used - first(all);
        if beyond <= 0 || all.spared == 0 {
            return (first(mine), first(all).max(1));
        }
        let spared = i128::from(all.spared);
        (first(mine) * spared + beyond * i128::from(mine.spared), used * spared)
    }

    /// Whether some member differs from its share by more than is left as it is.
    pub(crate) fn are_uneven(&self) -> bool {
        ROLES.iter().any(|&role| (0..self.sizes.len()).any(|index| self.is_off(role, index)))
    }

    fn is_off(&self, role: Role, index: usize) -> bool {
        let (above, used) = (self.above(role, index), self.used[role as usize][index]);
        let share = used.saturating_add_signed(-above);
        above.unsigned_abs() > SLACK_CHUNKS.max(share / SLACK_PART)
    }

    /// Chunks that have to move until every member has its share.
    pub(crate) fn left(&self) -> u64 {
        let above = |role| (0..self.sizes.len()).map(move |index| self.above(role, index).max(0) as u64);
        ROLES.iter().map(|&role| above(role).sum::<u64>()).sum()
    }

    /// Whether a chunk on this member should move, if another can take it.
    pub(super) fn gives(&self, role: Role, member: MemberId) -> bool {
        let index = usize::from(member.0);
        // None of those that came since the count.
        self.sizes.get(index).is_some_and(|size| size.chunks > 0) && self.above(role, index) > 0
    }

    /// Members with less than their share, that with least first.
    pub(super) fn takers(&self, role: Role) -> Vec<MemberId> {
        let mut below: Vec<(i64, usize)> = (0..self.sizes.len())
            .map(|index| (self.above(role, index), index))
            .filter(|&(above, _)| above < 0)
            .collect();
        below.sort_unstable();
        below.into_iter().map(|(_, index)| MemberId(index as u8)).collect()
    }

    /// Pairs of members of which one should give to the other and both differ from their shares by more than is left as it
    /// is.
    pub(super) fn uneven_pairs(&self, role: Role) -> Vec<(MemberId, MemberId)> {
        let off = |index: &usize| self.is_off(role, *index);
        let (above, below): (Vec<usize>, Vec<usize>) =
            (0..self.sizes.len()).filter(off).partition(|&index| self.above(role, index) > 0);
        let pairs = above.iter().flat_map(|&from| below.iter().map(move |&to| (from, to)));
        pairs.map(|(from, to)| (MemberId(from as u8), MemberId(to as u8))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member none of whose chunks are spared.
    fn whole(chunks: u64) -> MemberSize {
        MemberSize { chunks, spared: 0 }
    }

    #[test]
    fn spared_chunks_are_used_last() {
        let sizes = [0, 0, 400, 800].map(|spared| MemberSize { chunks: 1000, spared });
        for (stored, expected) in
            [(1400, [500, 500, 300, 100]), (2800, [1000, 1000, 600, 200]), (3400, [1000, 1000, 800, 600])]
        {
            let mut shares = Shares::new(sizes.to_vec());
            (0..stored).for_each(|i| shares.count(Role::Data, MemberId((i % 4) as u8)));
            settle(&mut shares);
            assert_eq!(shares.used[Role::Data as usize], expected);
        }
    }

    /// Moves what gives to the first that takes until nothing gives or takes any more; how many moves that took.
    fn settle(shares: &mut Shares) -> u64 {
        let mut moves = 0;
        for role in ROLES {
            let members: Vec<MemberId> = (0..shares.sizes.len()).map(|i| MemberId(i as u8)).collect();
            while let Some(&from) = members.iter().find(|&&m| shares.gives(role, m))
                && let Some(&to) = shares.takers(role).first()
            {
                shares.moved(role, from, to);
                moves += 1;
            }
        }
        moves
    }

    #[test]
    fn new_members_get_their_fair_share_and_nothing_else_moves() {
        for (old, new) in [
            (vec![1000; 4], vec![1000; 1]),
            (vec![1000; 6], vec![1000; 2]),
            (vec![400, 800, 800, 1200], vec![1600]),
        ] {
            let sizes: Vec<u64> = old.iter().chain(&new).copied().collect();
            let mut shares = Shares::new(sizes.iter().map(|&chunks| whole(chunks)).collect());
            for (i, size) in old.iter().enumerate() {
                (0..size / 2).for_each(|_| shares.count(Role::Data, MemberId(i as u8)));
                (0..size / 8).for_each(|_| shares.count(Role::Parity, MemberId(i as u8)));
            }
            assert!(shares.are_uneven());
            let all: u64 = old.iter().map(|size| size / 2 + size / 8).sum();
            let fair = all * new.iter().sum::<u64>() / sizes.iter().sum::<u64>();
            let expected = shares.left();
            let moves = settle(&mut shares);
            assert!(moves <= fair && moves + 4 >= fair && moves == expected.min(moves), "{moves} of {fair}");
            assert!(!shares.are_uneven() && shares.left() <= 4);
        }
    }

    #[test]
    fn members_that_take_nothing_new_do_not_count() {
        let mut shares = Shares::new([100, 0, 100].map(whole).to_vec());
        (0..50).for_each(|_| shares.count(Role::Data, MemberId(1)));
        assert!(!shares.are_uneven() && shares.left() == 0);
        assert!(!shares.gives(Role::Data, MemberId(1)) && shares.takers(Role::Data).is_empty());
    }
}
