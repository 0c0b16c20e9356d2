//! Free chunks and free page slots on every member, and the choice of homes for a new stripe.
//!
//! What is released is not free at once: a chunk waits until the record that released it is durable and every request
//! that may still read it has ended; a page slot waits until the page that replaced it is durable. So a crash never finds
//! that something it falls back to was overwritten.

mod discards;
mod pages;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::store::free_set::FreeSet;
use crate::store::page_slots::PageSlots;
use sinew_core::ids::{ChunkAddr, Lsn, MemberId, StripeId};
use sinew_format::model::config::{MemberState, WEIGHT_FULL};
use sinew_format::model::mapped_capacity::{capacity_blocks, member_reserve, reserve_chunks};
use sinew_format::model::mapped_geometry::{MappedGeometry, MemberLayout};
use sinew_format::model::stripe_form::StripeForm;
use sinew_layout::declustered::{self, Lookahead, Placement};

struct MemberChunks {
    chunks: FreeSet,
    chunks_all: u32,
    page_slots: PageSlots,
    /// As many of its chunks stay free as long as there is room elsewhere.
    spared: u32,
    /// New chunks may be placed on it.
    usable: bool,
    /// It takes part, or will again.
    expected: bool,
}

impl MemberChunks {
    fn free(layout: MemberLayout, states_reach: bool) -> MemberChunks {
        MemberChunks {
            chunks: FreeSet::all(layout.chunks),
            chunks_all: layout.chunks,
            page_slots: PageSlots::new(layout.page_slots, states_reach),
            spared: 0,
            usable: false,
            expected: false,
        }
    }

    /// Room in proportion to the weight: members with equal ones are filled alike.
    fn relative_room(&self, room: u64) -> u64 {
        room * u64::from(self.chunks_all) / u64::from(self.chunks_all - self.spared).max(1)
    }

    /// Free chunks beyond those that are spared; below zero where some of these are in use.
    fn room(&self) -> i64 {
        i64::from(self.chunks.count()) - i64::from(self.spared)
    }

    fn is_empty(&self) -> bool {
        self.chunks.count() == self.chunks_all && self.page_slots.taken() == 0
    }
}

/// What a stripe is for; the reserve is kept from users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// New data of a client.
    User,
    /// What may as well be left out: it takes as little as a client may, and does not wait.
    Leisure,
    /// Compaction and merging, which give back more than they take.
    Internal,
}

/// The room in which a stripe is looked for.
struct Room<'a> {
    purpose: Purpose,
    /// Of these members only; of all if there is none.
    responsive: Option<&'a dyn Fn(MemberId) -> bool>,
    /// Without the chunks that are spared.
    sparing: bool,
}

/// Homes for a new stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StripeChunks {
    pub(crate) columns: usize,
    pub(crate) homes: Vec<Option<ChunkAddr>>,
}

/// Chunks of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemberSize {
    /// All of them.
    pub(crate) chunks: u64,
    /// Those that are used only while there is no room elsewhere.
    pub(crate) spared: u64,
}

/// What a request or a crash may still need.
enum Item {
    Chunk(ChunkAddr),
    Stripe(StripeId),
}

struct Released {
    lsn: Lsn,
    epoch: u64,
    item: Item,
}

/// What `ChunkAllocator::reclaim` freed.
#[derive(Default)]
pub(crate) struct Freed {
    /// Chunks and stripe numbers.
    pub(crate) count: usize,
    /// Stripe numbers that may be used again.
    pub(crate) stripes: Vec<StripeId>,
    /// More could be used again if no request read it any more.
    pub(super) is_read: bool,
}

/// Free space of one shard.
pub(crate) struct ChunkAllocator {
    geometry: MappedGeometry,
    members: Vec<MemberChunks>,
    /// Members state how far their pages reach.
    states_reach: bool,
    placement: Placement,
    /// Of the placement.
    seed: u64,
    upcoming: Lookahead,
    releasing: VecDeque<Released>,
    order: Vec<u8>,
    capacity_blocks: u64,
}

impl ChunkAllocator {
    /// An allocator without members, of which this number is expected.
    pub(crate) fn new(
        geometry: MappedGeometry,
        members: usize,
        states_reach: bool,
        seed: u64,
    ) -> ChunkAllocator {
        let placement = Placement::new(members, seed);
        ChunkAllocator {
            geometry,
            members: Vec::with_capacity(members),
            states_reach,
            placement,
            seed,
            upcoming: Lookahead::default(),
            releasing: VecDeque::new(),
            order: Vec::new(),
            capacity_blocks: 0,
        }
    }

    /// Adds the next member, everything on it free.
    pub(crate) fn push_member(&mut self, layout: MemberLayout, state: MemberState, weight: u8) {
        self.members.push(MemberChunks::free(layout, self.states_reach));
        self.set_state(MemberId(self.members.len() as u8 - 1), state, weight);
    }

    /// A member has a new state or weight, or is new; its number is then the next, or that of one that nothing is left on.
    pub(crate) fn set_member(
        &mut self,
        member: MemberId,
        layout: MemberLayout,
        state: MemberState,
        weight: u8,
    ) {
        let index = usize::from(member.0);
        if index == self.members.len() {
            self.placement = Placement::new(index + 1, self.seed);
            return self.push_member(layout, state, weight);
        }
        let entry = &mut self.members[index];
        if (entry.chunks_all, entry.page_slots.end()) != (layout.chunks, layout.page_slots) {
            assert!(entry.is_empty(), "a member in use is cut up in one way");
            *entry = MemberChunks::free(layout, self.states_reach);
        }
        self.set_state(member, state, weight);
    }

    /// The member's state decides whether new chunks may be placed on it, its weight how many at first.
    fn set_state(&mut self, member: MemberId, state: MemberState, weight: u8) {
        let entry = &mut self.members[usize::from(member.0)];
        let unweighted = u64::from(entry.chunks_all) * u64::from(WEIGHT_FULL - weight);
        entry.spared = (unweighted / u64::from(WEIGHT_FULL)) as u32;
        entry.usable = state == MemberState::Active;
        if !entry.usable {
            entry.page_slots.forget_reach();
        }
        entry.expected =
            !matches!(state, MemberState::Evacuating | MemberState::Leaving | MemberState::Removed);
        self.capacity_blocks = self.count_capacity();
    }

    /// Whether nothing is on a member, or about to be.
    pub(crate) fn is_empty(&self, member: MemberId) -> bool {
        self.members[usize::from(member.0)].is_empty()
    }

    /// Whether the usable members without `member` have room for `blocks` blocks of clients, and, with f more of them lost,
    /// for the table pages.
    pub(crate) fn fits_without(&self, member: MemberId, blocks: u64, pages: impl Fn(u64) -> u64) -> bool {
        let rest = || {
            let usable = self.members.iter().enumerate().filter(|(_, m)| m.usable);
            usable.filter(|(i, _)| *i != usize::from(member.0)).map(|(_, m)| m)
        };
        let chunks: Vec<u64> = rest().map(|m| u64::from(m.chunks_all)).collect();
        let mut slots: Vec<u64> = rest().map(|m| u64::from(m.page_slots.count())).collect();
        slots.sort_unstable();
        slots.truncate(slots.len().saturating_sub(self.geometry.failures()));
        let copies = self.geometry.copies().min(slots.len()).max(1);
        capacity_blocks(&self.geometry, &chunks) >= blocks
            && declustered::stripes_placeable(&slots, copies) >= pages(chunks.iter().sum())
    }

    /// Marks a chunk found in use at recovery. False when another stripe has it: damage.
    #[must_use]
    pub(crate) fn claim(&mut self, home: ChunkAddr) -> bool {
        self.members.get_mut(usize::from(home.member.0)).is_some_and(|m| m.chunks.remove(home.chunk))
    }

    fn active(&self) -> usize {
        self.members.iter().filter(|m| m.usable).count()
    }

    /// Free chunks on usable members.
    pub(crate) fn free_chunks(&self) -> u64 {
        self.members.iter().filter(|m| m.usable).map(|m| u64::from(m.chunks.count())).sum()
    }

    /// Free chunks on usable members, without those that are spared.
    pub(crate) fn free_chunks_unspared(&self) -> u64 {
        self.members.iter().filter(|m| m.usable).map(|m| m.room().max(0) as u64).sum()
    }

    /// All chunks on usable members.
    pub(crate) fn all_chunks(&self) -> u64 {
        self.members.iter().filter(|m| m.usable).map(|m| u64::from(m.chunks_all)).sum()
    }

    /// Chunks of a member that are not free.
    pub(crate) fn chunks_taken(&self, member: MemberId) -> u32 {
        let member = &self.members[usize::from(member.0)];
        member.chunks_all - member.chunks.count()
    }

    /// Chunks of a member that are free and that its device knows to be free.
    pub(crate) fn chunks_unused(&self, member: MemberId) -> u64 {
        let chunks = &self.members[usize::from(member.0)].chunks;
        u64::from(chunks.count() - chunks.undiscarded())
    }

    /// Chunks and stripe numbers released but not yet free.
    pub(crate) fn releasing(&self) -> usize {
        self.releasing.len()
    }

    /// Chunks kept back for compaction: two open mirrored stripes and four parity stripes.
    pub(crate) fn reserve_chunks(&self) -> u64 {
        reserve_chunks(&self.geometry)
    }

    fn member_reserve(&self) -> u64 {
        member_reserve(&self.geometry, self.active())
    }

    /// Whether each usable member has as many free chunks as are reserved on it.
    pub(crate) fn keeps_member_reserves(&self) -> bool {
        let reserve = self.member_reserve();
        self.members.iter().filter(|m| m.usable).all(|m| u64::from(m.chunks.count()) >= reserve)
    }

    /// Blocks clients may store. A tenth is left unstored so that compaction always finds something to gain.
    pub(crate) fn capacity_blocks(&self) -> u64 {
        self.capacity_blocks
    }

    /// What is stored while a member is out must also fit once it is back, with all its redundancy.
    fn count_capacity(&self) -> u64 {
        let of = |counts: fn(&MemberChunks) -> bool| {
            let chunks: Vec<u64> =
                self.members.iter().filter(|m| counts(m)).map(|m| u64::from(m.chunks_all)).collect();
            capacity_blocks(&self.geometry, &chunks)
        };
        of(|m| m.usable).min(of(|m| m.expected))
    }

    /// Homes for a stripe with up to `columns` data columns; fewer when there are not enough members with room. `None`
    /// when not even one column can have its redundancy, or only by touching a reserve that is not the caller's.
    ///
    /// With fewer members left than copies are due, the missing copies get no home; rebuilding gives them one.
    ///
    /// Members that are not `responsive` are left out as long as the others can do without them and no room is stranded. Of
    /// the next stripes of the placement it is the one whose most burdened member has the least to do, and its mirrors go to
    /// the least burdened. Chunks that are spared are taken only where nothing else is left.
    pub(crate) fn allocate_stripe(
        &mut self,
        columns: usize,
        form: StripeForm,
        purpose: Purpose,
        responsive: impl Fn(MemberId) -> bool,
        burden: impl Fn(MemberId) -> u32,
    ) -> Option<StripeChunks> {
        // A client rather waits for room than gets a narrow stripe, which takes more room for less.
        let least = if purpose == Purpose::Internal { 1 } else { columns };
        let calm = |m| responsive(m);
        (least..=columns).rev().find_map(|columns| {
            let around = self
                .is_any_slow(&calm)
                .then(|| self.allocate_by_weight(columns, form, purpose, Some(&calm), &burden));
            around.flatten().or_else(|| self.allocate_by_weight(columns, form, purpose, None, &burden))
        })
    }

    /// As `allocate_stripe`, for a client, on responsive members only.
    pub(crate) fn allocate_responsive(
        &mut self,
        columns: usize,
        form: StripeForm,
        responsive: impl Fn(MemberId) -> bool,
        burden: impl Fn(MemberId) -> u32,
    ) -> Option<StripeChunks> {
        self.allocate_by_weight(columns, form, Purpose::User, Some(&responsive), &burden)
    }

    fn is_any_slow(&self, responsive: &impl Fn(MemberId) -> bool) -> bool {
        let usable = self.members.iter().enumerate().filter(|(_, member)| member.usable);
        usable.into_iter().any(|(i, _)| !responsive(MemberId(i as u8)))
    }

    /// Without the chunks that are spared, if there is room for the whole stripe, otherwise with them.
    fn allocate_by_weight(
        &mut self,
        columns: usize,
        form: StripeForm,
        purpose: Purpose,
        responsive: Option<&dyn Fn(MemberId) -> bool>,
        burden: &dyn Fn(MemberId) -> u32,
    ) -> Option<StripeChunks> {
        let is_any_spared = self.members.iter().any(|member| member.usable && member.spared > 0);
        [true, false].into_iter().filter(|&sparing| is_any_spared || !sparing).find_map(|sparing| {
            let room = Room { purpose, responsive, sparing };
            self.allocate_columns(columns, form, room, burden)
        })
    }

    fn allocate_columns(
        &mut self,
        columns: usize,
        form: StripeForm,
        Room { purpose, responsive, sparing }: Room<'_>,
        burden: &dyn Fn(MemberId) -> u32,
    ) -> Option<StripeChunks> {
        let g = self.geometry;
        let (copies, m) = (g.copies(), g.parity_columns_of(form));
        let absent = copies.saturating_sub(self.active());
        // With no member left there is nothing to allocate.
        let least = (copies - absent).max(1);
        let kept = if purpose == Purpose::Internal { 0 } else { self.member_reserve() };
        let room = |s: &MemberChunks, kept: u64| {
            if s.usable { u64::from(s.chunks.count()).saturating_sub(kept) } else { 0 }
        };
        let mut free: Vec<u64> = self.members.iter().map(|s| room(s, kept)).collect();
        let is_limited = sparing || responsive.is_some();
        if is_limited {
            let demanded_from = declustered::demanded_from(&free, (columns + m).max(least));
            for (i, (s, free)) in self.members.iter().zip(&mut free).enumerate() {
                let all = *free;
                if sparing {
                    *free = room(s, kept.max(u64::from(s.spared)));
                }
                if responsive.is_some_and(|responsive| !responsive(MemberId(i as u8))) {
                    *free = 0;
                }
                // A member that has to be in every stripe, or room would be stranded, cannot be spared or left out.
                if *free < all && all >= demanded_from {
                    return None;
                }
            }
        }
        let with_room = free.iter().filter(|&&c| c > 0).count();
        if with_room < if is_limited { (columns + m).max(least) } else { least } {
            return None;
        }
        let columns = if m == 0 {
            columns.min(with_room)
        } else {
            columns.min((with_room + absent).saturating_sub(m)).max(1)
        };
        let wanted = (columns + m).min(with_room);
        let has_room = |m: u8| free[usize::from(m)] > 0;
        let stripe_no =
            self.upcoming.choose(&self.placement, wanted, has_room, |m| burden(MemberId(m)), &mut self.order);
        let mut chosen = Vec::with_capacity(wanted);
        if !declustered::choose(&self.order, |i| free[usize::from(i)], stripe_no, wanted, &mut chosen) {
            return None;
        }
        let mut members: Vec<Option<MemberId>> = vec![None; g.homes_per_stripe()];
        for (i, &member) in chosen.iter().enumerate() {
            let index = if i < columns { i } else { g.parity_index(i - columns) };
            members[index] = Some(MemberId(member));
            free[usize::from(member)] -= 1;
        }
        if form.has_mirrors() {
            for column in 0..columns {
                self.choose_mirrors(column, &mut members, &mut free, absent, burden)?;
            }
        }
        let need = members.iter().flatten().count() as u64;
        if purpose != Purpose::Internal && self.free_chunks() < need + self.reserve_chunks() {
            return None;
        }
        self.upcoming.take(stripe_no);
        let homes = members
            .iter()
            .map(|member| member.map(|m| self.take_chunk(m).expect("counted as free")))
            .collect();
        Some(StripeChunks { columns, homes })
    }

    /// Mirrors of one column: members that hold no other copy of it. First those with so much room that it would be
    /// stranded, then those outside the stripe, the least burdened, and with most room for their weights.
    fn choose_mirrors(
        &self,
        column: usize,
        members: &mut [Option<MemberId>],
        free: &mut [u64],
        absent: usize,
        burden: &dyn Fn(MemberId) -> u32,
    ) -> Option<()> {
        let g = &self.geometry;
        let demanded_from = declustered::demanded_from(free, (g.copies() - absent).max(1));
        for copy in 0..g.failures() {
            let taken = |i: u8| {
                members[column] == Some(MemberId(i))
                    || (0..copy).any(|c| members[g.mirror_index(c, column)] == Some(MemberId(i)))
            };
            let in_stripe = |i: u8| members[..g.mirror_index(0, 0)].contains(&Some(MemberId(i)));
            let uses = |i: u8| members.iter().flatten().filter(|m| m.0 == i).count();
            let rank = |&i: &u8| {
                let room = free[usize::from(i)];
                let relative = self.members[usize::from(i)].relative_room(room);
                (room < demanded_from, uses(i), in_stripe(i), burden(MemberId(i)), Reverse(relative / 8))
            };
            let best = self
                .order
                .iter()
                .copied()
                .filter(|&i| free[usize::from(i)] > 0 && !taken(i))
                .min_by_key(rank);
            match best {
                Some(member) => {
                    members[g.mirror_index(copy, column)] = Some(MemberId(member));
                    free[usize::from(member)] -= 1;
                }
                None if copy + absent >= g.failures() => {}
                None => return None,
            }
        }
        Some(())
    }

    fn take_chunk(&mut self, member: MemberId) -> Option<ChunkAddr> {
        self.members[usize::from(member.0)].chunks.take().map(|chunk| ChunkAddr { member, chunk })
    }

    /// One chunk on a member that is not in `avoid`, the emptiest first: a new home for a chunk of an existing stripe. What
    /// compaction needs is left alone.
    pub(crate) fn take_chunk_avoiding(&mut self, avoid: &[MemberId]) -> Option<ChunkAddr> {
        self.take_emptiest(avoid, self.member_reserve())
    }

    /// As `take_chunk_avoiding`, on this member.
    pub(crate) fn take_chunk_on(&mut self, member: MemberId) -> Option<ChunkAddr> {
        if self.has_room(member) { self.take_chunk(member) } else { None }
    }

    /// Whether a chunk can be had of a member without what compaction needs.
    pub(crate) fn has_room(&self, member: MemberId) -> bool {
        let entry = &self.members[usize::from(member.0)];
        entry.usable && u64::from(entry.chunks.count()) > self.member_reserve()
    }

    /// Chunks of each member, and of these the spared ones; none of members that take nothing new.
    pub(crate) fn usable_chunks(&self) -> Vec<MemberSize> {
        let size =
            |m: &MemberChunks| MemberSize { chunks: u64::from(m.chunks_all), spared: u64::from(m.spared) };
        self.members.iter().map(|m| if m.usable { size(m) } else { MemberSize::default() }).collect()
    }

    /// As `take_chunk_avoiding`, for a chunk that can stay on member `from`: on a member so much emptier that they are less uneven
    /// afterwards.
    pub(crate) fn take_chunk_for_move(&mut self, from: MemberId, avoid: &[MemberId]) -> Option<ChunkAddr> {
        self.take_emptiest(avoid, self.member_reserve().max(self.less_uneven_above(from)))
    }

    /// The usable members, those with the fewest free chunks first.
    pub(crate) fn usable_by_room(&self) -> Vec<MemberId> {
        let mut usable: Vec<usize> = (0..self.members.len()).filter(|&i| self.members[i].usable).collect();
        usable.sort_by_key(|&i| self.members[i].chunks.count());
        usable.into_iter().map(|i| MemberId(i as u8)).collect()
    }

    /// Whether another usable member is so much emptier that a move there makes them less uneven.
    pub(crate) fn is_fuller_than_others(&self, member: MemberId) -> bool {
        let above = self.less_uneven_above(member);
        self.members.iter().any(|m| m.usable && u64::from(m.chunks.count()) > above)
    }

    /// Members with more free chunks than this and `member` are less uneven after a move from `member` to them.
    fn less_uneven_above(&self, member: MemberId) -> u64 {
        u64::from(self.members[usize::from(member.0)].chunks.count()) + 1
    }

    fn take_emptiest(&mut self, avoid: &[MemberId], more_than: u64) -> Option<ChunkAddr> {
        let eligible = |(i, m): &(usize, &MemberChunks)| {
            let room = u64::from(m.chunks.count()) > more_than;
            m.usable && room && !avoid.contains(&MemberId(*i as u8))
        };
        let (index, _) = self.members.iter().enumerate().filter(eligible).max_by_key(|(_, m)| m.room())?;
        self.take_chunk(MemberId(index as u8))
    }

    /// Gives chunks back that were allocated but never recorded: nothing refers to them and nothing ever did.
    pub(crate) fn give_back(&mut self, homes: impl IntoIterator<Item = ChunkAddr>) {
        for home in homes {
            self.members[usize::from(home.member.0)].chunks.insert(home.chunk);
        }
    }

    /// Chunks and stripe numbers released by journal block `lsn` while requests of `epoch` and before were reading.
    pub(crate) fn release(&mut self, lsn: Lsn, epoch: u64, homes: Vec<ChunkAddr>, stripes: Vec<StripeId>) {
        let items = homes.into_iter().map(Item::Chunk).chain(stripes.into_iter().map(Item::Stripe));
        self.releasing.extend(items.map(|item| Released { lsn, epoch, item }));
    }

    /// Frees what was released by durable records and is not read any more.
    pub(crate) fn free_released(&mut self, flushed: Lsn, oldest_epoch: u64) -> Freed {
        let mut freed = Freed::default();
        while let Some(released) = self.releasing.pop_front_if(|r| r.lsn <= flushed && r.epoch < oldest_epoch)
        {
            match released.item {
                Item::Chunk(home) => self.members[usize::from(home.member.0)].chunks.insert(home.chunk),
                Item::Stripe(stripe) => freed.stripes.push(stripe),
            }
            freed.count += 1;
        }
        freed.is_read = self.releasing.front().is_some_and(|r| r.lsn <= flushed);
        freed
    }
}
