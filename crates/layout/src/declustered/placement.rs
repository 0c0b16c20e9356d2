//! Placement: the members to which the columns of a new stripe go.
//!
//! Two steps, both pure. [`Placement::order`] gives every stripe number a permutation of the members, the *order*, such
//! that load spreads evenly: every member is equally often in every column, and, where the number of members is a prime
//! power, every two members share stripes equally often, so that the rebuild of one member reads evenly from all others.
//! [`choose`] takes the members of one stripe from its order, in proportion to the room they have left, so that members
//! of uneven size fill evenly and no room is stranded.
//!
//! Where a stripe was placed is recorded in the stripe table. Nothing is computed back from these functions, so they
//! may change, and a pool may change its number of members, without moving any data.

use crate::declustered::galois_field::Field;

/// The templates of a pool with a given number of members.
#[derive(Debug)]
pub struct Placement {
    members: u8,
    templates: Templates,
}

#[derive(Debug)]
enum Templates {
    /// RAID+ (Zhang et al., FAST '18), as FusionRAID (FAST '21, section 4.1) uses it: column i of template (x, y) is the
    /// element (x, y) of the i-th mutually orthogonal latin square, `i * x + y` over GF(q). Row x = 0, where all columns
    /// would be the same member, is dropped. x and y of stripe 0 come from the seed.
    Squares { field: Field, first: (u64, u64) },
    /// There are not enough orthogonal squares: a pseudo-random permutation for each group of n stripes, rotated by one
    /// member from stripe to stripe.
    Shuffled { seed: u64 },
}

impl Placement {
    /// The templates for `members` members. The seed makes pools and shards differ from each other.
    ///
    /// # Panics
    /// When there are fewer than 2 or more than 255 members.
    pub fn new(members: usize, seed: u64) -> Placement {
        assert!((2..=255).contains(&members), "{members} members, there are 2 to 255");
        let n = members as u64;
        let templates = match Field::of_order(members) {
            Some(field) => Templates::Squares { field, first: (mix(seed) % (n - 1), mix(!seed) % n) },
            None => Templates::Shuffled { seed },
        };
        Placement { members: members as u8, templates }
    }

    /// The number of members.
    pub fn members(&self) -> usize {
        usize::from(self.members)
    }

    /// The number of consecutive stripes, starting anywhere, in which the promised balance is exact. In every n stripes
    /// from a multiple of n on, every member is once in every column, too.
    pub fn period(&self) -> u64 {
        let n = u64::from(self.members);
        match self.templates {
            Templates::Squares { .. } => n * (n - 1),
            Templates::Shuffled { .. } => n,
        }
    }

    /// Replaces `out` by a permutation of the members: the order of preference for the columns of stripe `stripe_no`.
    pub fn order(&self, stripe_no: u64, out: &mut Vec<u8>) {
        let n = u64::from(self.members);
        out.clear();
        match &self.templates {
            Templates::Squares { field, first } => {
                let x = 1 + (stripe_no / n % (n - 1) + first.0) % (n - 1);
                let y = (stripe_no % n + first.1) % n;
                let sums = field.sums(y as u8);
                out.extend(field.products(x as u8).iter().map(|&product| sums[usize::from(product)]));
            }
            Templates::Shuffled { seed } => {
                let mut random = mix(*seed ^ mix(stripe_no / n));
                out.extend(0..self.members);
                for last in (1..self.members()).rev() {
                    random = random.wrapping_add(GOLDEN);
                    out.swap(last, below(mix(random), last as u64 + 1) as usize);
                }
                out.rotate_left((stripe_no % n) as usize);
            }
        }
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(GOLDEN);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Scales a uniform number to `0..limit`.
fn below(random: u64, limit: u64) -> u64 {
    ((u128::from(random) * u128::from(limit)) >> 64) as u64
}

/// The number of stripes of `count` chunks on distinct members that can be placed when member i has `free[i]` chunks:
/// the largest S with `sum(min(free[i], S)) >= S * count`.
///
/// # Panics
/// When `count` is 0.
pub fn stripes_placeable(free: &[u64], count: usize) -> u64 {
    let count = count as u64;
    let (mut possible, mut limit) = (0, free.iter().sum::<u64>() / count);
    while possible < limit {
        let stripes = limit - (limit - possible) / 2;
        if free.iter().map(|&free| free.min(stripes)).sum::<u64>() >= stripes * count {
            possible = stripes;
        } else {
            limit = stripes - 1;
        }
    }
    possible
}

/// The number of free chunks from which on a member has to be in every stripe of `count` chunks, because room would be
/// stranded otherwise: the S of [`stripes_placeable`].
pub fn demanded_from(free: &[u64], count: usize) -> u64 {
    Others::of(free, count).limit
}

/// Replaces `out` by `count` members of `order`, in that order. Returns false, with `out` empty, when fewer members have a
/// free chunk.
///
/// `free` returns the number of free chunks of a member. `draw` is the source of chance: any number that differs from
/// stripe to stripe, such as the stripe's.
///
/// No room is stranded: if S stripes of `count` chunks could be placed before ([`stripes_placeable`]), S - 1 can be
/// placed after. For that, a member with at least S free chunks has to be in every stripe. Among the others, taking each
/// with probability `free / S` makes them full at the same time. That probability is split in two. As far as the counts
/// are equal, the stripe takes the first members of the order, which keeps the balance of the templates, exactly so in a
/// pool of equal members. For the rest, systematic sampling (Madow, 1949) lays what each member has more than the
/// others on a line and takes those under equidistant points.
pub fn choose(order: &[u8], free: impl Fn(u8) -> u64, draw: u64, count: usize, out: &mut Vec<u8>) -> bool {
    out.clear();
    // Free chunks of the members, by position in the order; members without room never count.
    let mut rooms = [0; 256];
    let rooms = &mut rooms[..order.len()];
    for (room, &member) in rooms.iter_mut().zip(order) {
        *room = free(member);
    }
    let others = Others::of(rooms, count);
    if others.members + others.always < count {
        return false;
    }
    let mut always = others.always.min(count);
    let wanted = count - always;
    let common = others.common(wanted as u64);
    let served = common * others.members as u64;
    // An unfinished group of templates makes a difference of up to `count`, which is gone when the group is finished.
    let even = others.most.saturating_sub(others.least) <= count as u64;
    let by_template = even || others.members == wanted || below(mix(draw), others.room.max(1)) < served;
    // The line holds the room beyond the common part, each member's `wanted` times, so that the points are `beyond` apart.
    let beyond = others.room - served;
    let mut point = below(mix(!draw), beyond.max(1));
    let mut line = 0;
    for (&room, &member) in rooms.iter().zip(order).filter(|(room, _)| **room > 0) {
        if room >= others.limit {
            if always > 0 {
                always -= 1;
                out.push(member);
            }
        } else if by_template {
            if out.len() + always < count {
                out.push(member);
            }
        } else if wanted > 0 {
            line += (room - common) * wanted as u64;
            if point < line {
                point += beyond;
                out.push(member);
            }
        }
    }
    debug_assert_eq!(out.len(), count);
    true
}

/// The members that need not be in every stripe, and the number of those that must be.
struct Others {
    /// Number of members that must be in every stripe.
    always: usize,
    /// The number of free chunks from which on a member must be in every stripe: S.
    limit: u64,
    /// Number of members with room that need not be in every stripe.
    members: usize,
    /// Free chunks of those `members` together.
    room: u64,
    /// Free chunks of the one with the least.
    least: u64,
    /// Free chunks of the one with the most.
    most: u64,
}

impl Others {
    /// Takes out the members with at least S free chunks, which makes S smaller, until there are no more of them. Ends at the
    /// S of [`stripes_placeable`], usually in the first or second round.
    fn of(rooms: &[u64], count: usize) -> Others {
        let mut limit = u64::MAX;
        loop {
            let mut others = Others { always: 0, limit, members: 0, room: 0, least: u64::MAX, most: 0 };
            for &room in rooms.iter().filter(|&&room| room > 0) {
                if room >= limit {
                    others.always += 1;
                } else {
                    others.members += 1;
                    others.room += room;
                    others.least = others.least.min(room);
                    others.most = others.most.max(room);
                }
            }
            if others.always >= count {
                return others;
            }
            // S is at least 1: where not even one stripe can be placed, every member with room counts.
            let demanded = (others.room / (count - others.always) as u64).max(1);
            if demanded >= limit {
                return others;
            }
            limit = demanded;
        }
    }

    /// The part of every member's room that is served by taking the first `wanted` members of the order: at most the least
    /// member's room, and small enough that the remaining part never takes a member twice for one stripe.
    fn common(&self, wanted: u64) -> u64 {
        match (self.members as u64).checked_sub(wanted) {
            Some(spare @ 1..) if wanted > 0 => self.least.min((self.room - self.most * wanted) / spare),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
