//! Credit: the physical space that a shard may still use, by the last figures of its members.
//!
//! The control asks thin members for their free space and deals it to the shards. From then on every block that a shard writes
//! counts as one that takes new space, as if it overwrote nothing and could not be compressed, until the next figures. A
//! client's write is admitted only while its blocks, those admitted before and not yet in their places, and a reserve fit the
//! credit. The reserve is what the journal, discards and the first step of a demotion may need: making room takes room.

use std::cell::{Cell, RefCell};

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::MemberId;

/// Physical space for two configurations of usual size on a member, in bytes.
pub const SUPERBLOCK_BYTES: u64 = 32 << 10;

/// Free space of a domain that a shard may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allotment {
    /// The members that share it.
    pub members: Vec<MemberId>,
    /// Bytes.
    pub free: u64,
    /// Bytes that the members take of the domain.
    pub used: u64,
    /// Bytes that are free in the domain, for all shards.
    pub free_in_all: u64,
}

impl Allotment {
    /// The part of the space that is in use, in thousandths. Space that is not in use and not free is that of another tenant.
    pub fn used_permille(&self) -> u32 {
        let total = u128::from(self.used) + u128::from(self.free_in_all);
        (u128::from(self.used) * 1000 / total.max(1)) as u32
    }

    /// The space that falls to each member.
    pub fn member_bytes(&self) -> u64 {
        self.used.saturating_add(self.free_in_all) / (self.members.len() as u64).max(1)
    }

    /// Bytes that each member may take until this percentage of the space is in use; below 0 if it has too many.
    pub fn room_to(&self, percent: u8) -> i64 {
        let total = i128::from(self.used) + i128::from(self.free_in_all);
        let room = total * i128::from(percent) / 100 - i128::from(self.used);
        (room / (self.members.len() as i128).max(1)) as i64
    }
}

/// What has to fit the credit for a write to be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceNeed {
    /// Blocks that are admitted and not in their places, besides those of requests under way.
    pub pending_blocks: u64,
    /// Members that a block is written to, parity and copies included.
    pub writes_of_block: u64,
    /// Bytes that each member must keep free.
    pub reserve: u64,
}

/// Bytes of writes to a member.
#[derive(Clone, Copy, Default)]
struct Written {
    begun: u64,
    ended: u64,
    /// `ended` when the control began to ask for the figures in use, or that it is asking for.
    ended_then: u64,
    ended_marked: u64,
}

/// The credit of a shard.
#[derive(Default)]
pub struct SpaceCredit {
    written: RefCell<Vec<Written>>,
    allotments: RefCell<Vec<Allotment>>,
    /// Blocks of clients' requests under way.
    claimed: Cell<u64>,
    /// A write was refused, and no figures since then had room for one; the time of the last figures.
    starved_at: Cell<Option<u64>>,
}

/// Blocks of a request under way; dropping it ends the claim.
pub struct SpaceClaim<'a> {
    claimed: &'a Cell<u64>,
    blocks: u64,
}

impl Drop for SpaceClaim<'_> {
    fn drop(&mut self) {
        self.claimed.set(self.claimed.get() - self.blocks);
    }
}

impl SpaceCredit {
    fn with<T>(&self, member: MemberId, change: impl FnOnce(&mut Written) -> T) -> T {
        let mut written = self.written.borrow_mut();
        let index = usize::from(member.0);
        let count = written.len().max(index + 1);
        written.resize(count, Written::default());
        change(&mut written[index])
    }

    /// A write to the member begins.
    pub(crate) fn begin_write(&self, member: MemberId, bytes: u64) {
        self.with(member, |written| written.begun += bytes);
    }

    /// A write to the member has ended; figures asked for from now on contain it.
    pub(crate) fn end_write(&self, member: MemberId, bytes: u64) {
        self.with(member, |written| written.ended += bytes);
    }

    /// The member has refused a write: its domain has no credit until there are new figures.
    pub(crate) fn note_refusal(&self, member: MemberId) {
        for allotment in self.allotments.borrow_mut().iter_mut() {
            if allotment.members.contains(&member) {
                allotment.free = 0;
            }
        }
    }

    /// The member has gone, or has become another device: nothing is known of its space.
    pub(crate) fn forget(&self, member: MemberId) {
        let mut allotments = self.allotments.borrow_mut();
        allotments.iter_mut().for_each(|allotment| allotment.members.retain(|&m| m != member));
        allotments.retain(|allotment| !allotment.members.is_empty());
    }

    /// The control begins to ask for figures: they contain every write that has ended.
    pub fn mark(&self) {
        self.written.borrow_mut().iter_mut().for_each(|written| written.ended_marked = written.ended);
    }

    /// New figures, asked for since the last call of [`SpaceCredit::mark`].
    pub fn deal(&self, allotments: Vec<Allotment>) {
        self.written.borrow_mut().iter_mut().for_each(|written| written.ended_then = written.ended_marked);
        self.allotments.replace(allotments);
    }

    /// The space of each domain that may end before the addresses of its members do, by the last figures.
    pub fn domains(&self) -> Vec<Allotment> {
        self.allotments.borrow().clone()
    }

    /// Whether the space of any member may end before its addresses do.
    pub fn is_limited(&self) -> bool {
        !self.allotments.borrow().is_empty()
    }

    /// Claims blocks for a request of a client.
    pub(crate) fn claim(&self, blocks: u64) -> SpaceClaim<'_> {
        self.claimed.set(self.claimed.get() + blocks);
        SpaceClaim { claimed: &self.claimed, blocks }
    }

    /// Whether what is needed, with all claims, exceeds the credit of a domain.
    pub fn is_short(&self, need: SpaceNeed) -> bool {
        self.is_short_for(0, need)
    }

    /// Whether what is needed, with all claims and these blocks, exceeds the credit of a domain.
    pub fn is_short_for(&self, blocks: u64, need: SpaceNeed) -> bool {
        self.is_short_without_claims(self.claimed.get() + blocks, need)
    }

    /// Whether what is needed, with these blocks and no claim, exceeds the credit of a domain.
    pub(crate) fn is_short_without_claims(&self, blocks: u64, need: SpaceNeed) -> bool {
        self.allotments.borrow().iter().any(|allotment| self.room_of(allotment, blocks, need) < 0)
    }

    /// Bytes that each member may take until what is needed, with all claims, exceeds the credit of a domain; below 0 if it does.
    pub fn room_beside(&self, need: SpaceNeed) -> i64 {
        let room = |allotment: &Allotment| {
            self.room_of(allotment, self.claimed.get(), need) / (allotment.members.len() as i64).max(1)
        };
        self.allotments.borrow().iter().map(room).min().unwrap_or(i64::MAX)
    }

    /// Bytes of a domain that are left beside what is needed and these blocks.
    fn room_of(&self, allotment: &Allotment, blocks: u64, need: SpaceNeed) -> i64 {
        let written = self.written.borrow();
        let since = |member: &MemberId| {
            written.get(usize::from(member.0)).map_or(0, |written| written.begun - written.ended_then)
        };
        let members = allotment.members.len() as u64;
        let reserve = need.reserve * members;
        let bytes = (need.pending_blocks + blocks) * need.writes_of_block.min(members) * BLOCK_BYTES as u64;
        let since: u64 = allotment.members.iter().map(since).sum();
        i64::try_from(allotment.free).unwrap_or(i64::MAX).saturating_sub_unsigned(bytes + reserve + since)
    }

    /// The time of the figures for which the last write was refused.
    pub(crate) fn starved_at(&self) -> Option<u64> {
        self.starved_at.get()
    }

    /// Notes when figures without room for a write were asked for; `None` once there is room.
    pub(crate) fn set_starved_at(&self, at: Option<u64>) {
        self.starved_at.set(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = BLOCK_BYTES as u64;
    const ONE: SpaceNeed = SpaceNeed { pending_blocks: 1, writes_of_block: 2, reserve: 0 };

    fn allotment(members: Vec<MemberId>, free: u64) -> Allotment {
        Allotment { members, free, used: 0, free_in_all: free }
    }

    fn credit(members: &[u8], free_blocks: u64) -> SpaceCredit {
        let credit = SpaceCredit::default();
        credit.mark();
        let members = members.iter().map(|&member| MemberId(member)).collect();
        credit.deal(vec![allotment(members, free_blocks * BLOCK)]);
        credit
    }

    #[test]
    fn room_is_counted_for_each_member_of_a_domain() {
        let shared =
            Allotment { used: 900, free_in_all: 100, ..allotment(vec![MemberId(0), MemberId(1)], 50) };
        assert_eq!(shared.used_permille(), 900);
        assert_eq!((shared.room_to(95), shared.room_to(80)), (25, -50));
        assert_eq!(allotment(vec![MemberId(0)], 0).used_permille(), 0, "there is no space at all");
    }

    #[test]
    fn every_write_counts_until_figures_contain_it() {
        let credit = credit(&[0], 3);
        credit.begin_write(MemberId(0), BLOCK);
        credit.end_write(MemberId(0), BLOCK);
        credit.begin_write(MemberId(0), BLOCK);
        credit.begin_write(MemberId(1), 9 * BLOCK);
        assert!(!credit.is_short(ONE), "one of three blocks is left");
        credit.begin_write(MemberId(0), BLOCK);
        assert!(credit.is_short(ONE));
        credit.mark();
        // The figures need not contain what ends from here on.
        credit.end_write(MemberId(0), BLOCK);
        credit.deal(vec![allotment(vec![MemberId(0)], 2 * BLOCK)]);
        assert!(credit.is_short(ONE), "two writes had not ended when the figures were asked for");
        credit.mark();
        credit.deal(vec![allotment(vec![MemberId(0)], 2 * BLOCK)]);
        assert!(!credit.is_short(ONE), "one still has not");
    }

    #[test]
    fn members_that_share_space_share_the_need() {
        let shared = credit(&[0, 1, 2], 10);
        let need = |pending_blocks, reserve| SpaceNeed { pending_blocks, writes_of_block: 2, reserve };
        assert!(!shared.is_short(need(5, 0)) && shared.is_short(need(6, 0)));
        assert!(!shared.is_short(need(2, 2 * BLOCK)) && shared.is_short(need(3, 2 * BLOCK)));
        assert_eq!(shared.room_beside(need(2, BLOCK)), BLOCK as i64);
        assert_eq!(shared.room_beside(need(8, 0)), -2 * BLOCK as i64);
        let own = credit(&[0], 10);
        assert!(!own.is_short(need(10, 0)), "a member has one of the two writes of a block");
        let claim = own.claim(1);
        assert!(own.is_short(need(10, 0)));
        assert!(!own.is_short_without_claims(0, need(10, 0)));
        assert!(!own.is_short_for(1, need(8, 0)) && own.is_short_for(1, need(9, 0)));
        drop(claim);
        assert!(!own.is_short(need(10, 0)));
    }

    #[test]
    fn a_refusal_ends_the_credit_and_a_new_device_has_none_to_end() {
        let credit = credit(&[0], 10);
        credit.note_refusal(MemberId(1));
        assert!(!credit.is_short(ONE));
        credit.note_refusal(MemberId(0));
        assert!(credit.is_short(ONE));
        credit.forget(MemberId(0));
        assert!(!credit.is_limited());
        assert_eq!(credit.room_beside(ONE), i64::MAX);
        credit.deal(vec![allotment(vec![MemberId(0)], u64::MAX)]);
        assert!(credit.room_beside(ONE) > i64::MAX / 2);
    }
}
