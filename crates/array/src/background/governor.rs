//! The governor of an elastic array: decides when stripes change their form (Elastic RAID, 2022, section 3.2). Pure: it is given
//! what is seen, and answers with an order.
//!
//! - Stripes get parity while a member uses more than the upper limit of its physical space, or clients wait for space.
//! - Stripes become mirrored while all members use less than the lower limit and the use is steady. Growth by the governor's own
//!   promotions does not end that, but other growth does.
//! - Clients' writes are refused once the room beside the reserve ends, so the limits are taken down to where that room would last for
//!   two more samples, if it ends before them.
//! - Mirrored stripes that are cold are exchanged for hot ones with parity while too few requests find a mirrored stripe. The
//!   paper's condition holds for ever under a uniform load, and an exchange gains nothing there. So an exchange has to raise the
//!   share of hits by more than chance does; after one that does not, the governor waits, twice as long each time.

use std::collections::VecDeque;

use sinew_core::mutation::{self, Mutation};
use sinew_format::model::elastic_policy::ElasticPolicy;

use crate::state::RESERVED_STRIPES;

/// Samples that have to agree for the use to count as steady.
const SAMPLES: usize = 10;
/// Requests after which the share of hits is known well enough, where the array has many stripes.
const REQUESTS_MAX: u64 = 1000;
const REQUESTS_MIN: u64 = 32;
/// The part of the mirrored stripes that is exchanged at once.
const EXCHANGED_ONE_IN: u64 = 8;
/// Samples between two exchanges when one has gained nothing, at first and at most.
const WAIT_SAMPLES: u64 = 10;
const WAIT_NS_MAX: u64 = 3_600_000_000_000;
/// A share of hits that needs no exchange.
const HITS_ENOUGH: f64 = 0.95;
/// The least gain of an exchange that is worth another one.
const GAIN_MIN: f64 = 0.005;

/// What the governor sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) now: u64,
    /// The use of the fullest domain, in thousandths; 0 where no space is limited.
    pub(crate) used_permille: u32,
    /// The part of the physical space of a member that falls to this shard.
    pub(crate) share_of_space: u64,
    /// Bytes that each member may take for this shard until a domain reaches the lower limit, and the upper one.
    pub(crate) room_to_low: i64,
    pub(crate) room_to_high: i64,
    /// Clients wait for space.
    pub(crate) is_short: bool,
    pub(crate) mirrored: u64,
    pub(crate) parity: u64,
    /// Requests of clients so far, and those that found a mirrored stripe.
    pub(crate) requests: u64,
    pub(crate) hits: u64,
    /// Epochs of the heat that have ended.
    pub(crate) epochs: u64,
    /// Bytes that a stripe takes more of each member when it is mirrored, as estimated; at least 1.
    pub(crate) growth: u64,
    /// All members are active.
    pub(crate) is_whole: bool,
}

/// The room of each member that falls to this shard, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberRoom {
    /// The physical space.
    pub(crate) space: u64,
    /// Until a domain reaches the lower limit, and the upper one.
    pub(crate) to_low: i64,
    pub(crate) to_high: i64,
    /// Until clients' writes are refused.
    pub(crate) beside_reserve: i64,
}

/// The room until the limits of the governor, in bytes of each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoomToLimits {
    pub(crate) to_low: i64,
    pub(crate) to_high: i64,
}

/// What is to be done with how many stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Nothing.
    Rest,
    /// Used stripes become mirrored.
    Promote(u64),
    /// Stripes get parity, those that are not used first.
    Demote(u64),
    /// Cold mirrored stripes get parity, and as many hot ones become mirrored.
    Exchange(u64),
}

/// The state of the governor.
#[derive(Default)]
pub(crate) struct Governor {
    /// The last samples of the use.
    samples: VecDeque<u32>,
    /// The use was steady below the lower limit, and stripes become mirrored until that is reached.
    promoting: bool,
    /// The use that the last promotions lead to, in thousandths.
    expected: u32,
    margin: Margin,
    exchanges: Exchanges,
}

/// The room that is left for clients before their writes would be refused.
#[derive(Default)]
struct Margin {
    /// Bytes that clients may take of each member within two samples.
    bytes: u64,
    /// The space of each member, and its room beside the reserve, at the last sample; `None` if stripes became mirrored since then.
    last: Option<(u64, i64)>,
}

/// What is known of exchanges.
#[derive(Default)]
struct Exchanges {
    /// Requests, hits and epochs when the present count began.
    since: (u64, u64, u64),
    /// The share of hits before the last exchange, if its effect is not known yet.
    before: Option<f64>,
    /// Pause after an exchange that gains nothing, in samples.
    wait: u64,
    not_before: u64,
}

impl Governor {
    /// Notes the room of a sample, and gives what is left of it until the limits. Stripes get parity before the room beside the
    /// reserve lasts for fewer than two samples, and become mirrored until half of the distance of the limits is left up to there.
    pub(crate) fn limit_room(&mut self, room: MemberRoom) -> RoomToLimits {
        self.margin.note(room.space, room.beside_reserve);
        let to_high = room.to_high.min(room.beside_reserve.saturating_sub_unsigned(self.margin.bytes));
        let distance = room.to_high.saturating_sub(room.to_low);
        RoomToLimits { to_low: room.to_low.min(to_high.saturating_sub(distance / 2)), to_high }
    }

    /// Stripes became mirrored, so clients did not take all that the next sample finds taken.
    pub(crate) fn note_own_growth(&mut self) {
        self.margin.last = None;
    }

    /// What is to be done now.
    pub(crate) fn decide(&mut self, seen: &Seen, policy: &ElasticPolicy) -> Order {
        let is_expected = seen.used_permille <= self.expected + u32::from(policy.steady_permille);
        if self.promoting && !is_expected {
            self.promoting = false;
            self.samples.clear();
        }
        self.samples.push_back(seen.used_permille);
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        if seen.mirrored > 0 && (seen.room_to_high < 0 || seen.is_short) {
            self.promoting = false;
            let mut stripes = seen.room_to_high.min(0).unsigned_abs().div_ceil(seen.growth);
            if seen.is_short {
                self.samples.clear();
                stripes = stripes.max(RESERVED_STRIPES);
            }
            return Order::Demote(stripes.clamp(1, seen.mirrored));
        }
        self.promoting = seen.room_to_low > 0 && (self.promoting || self.is_steady(policy));
        if self.promoting && seen.parity > 0 && !seen.is_short {
            // Half of the room at once, since the estimate may be wrong.
            let stripes = (seen.room_to_low.unsigned_abs() / 2 / seen.growth).clamp(1, seen.parity);
            return Order::Promote(stripes);
        }
        match seen.is_whole && !seen.is_short {
            true => self.decide_exchange(seen, policy),
            false => Order::Rest,
        }
    }

    /// This number of stripes became mirrored after `seen`; the use is to grow by that. If there were none, exchanges have a turn.
    pub(crate) fn note_promoted(&mut self, stripes: u64, seen: &Seen) {
        if stripes == 0 {
            self.promoting = false;
            self.samples.clear();
        }
        let permille = stripes.saturating_mul(seen.growth).saturating_mul(1000) / seen.share_of_space.max(1);
        self.expected = seen.used_permille + permille.min(1000) as u32 + 1;
    }

    /// No stripe could be exchanged.
    pub(crate) fn note_no_exchange(&mut self, now: u64, policy: &ElasticPolicy) {
        self.exchanges.before = None;
        self.exchanges.put_off(now, policy);
    }

    /// Whether stripes become mirrored now for lack of nothing but use.
    pub(crate) fn is_promoting(&self) -> bool {
        self.promoting
    }

    /// Whether the last samples agree.
    fn is_steady(&self, policy: &ElasticPolicy) -> bool {
        let (least, most) = (self.samples.iter().min(), self.samples.iter().max());
        let span = most.zip(least).map_or(0, |(most, least)| most - least);
        self.samples.len() == SAMPLES && span <= u32::from(policy.steady_permille)
    }

    fn decide_exchange(&mut self, seen: &Seen, policy: &ElasticPolicy) -> Order {
        let stored = seen.mirrored + seen.parity;
        if seen.mirrored == 0 || seen.parity == 0 {
            return Order::Rest;
        }
        let count = (seen.mirrored.min(seen.parity) / EXCHANGED_ONE_IN).max(1);
        if mutation::on(Mutation::SwapForever) {
            return Order::Exchange(count);
        }
        let exchanges = &mut self.exchanges;
        let (requests, hits, epochs) = exchanges.since;
        let (requests, hits, epochs) = (seen.requests - requests, seen.hits - hits, seen.epochs - epochs);
        if requests < (4 * stored).clamp(REQUESTS_MIN, REQUESTS_MAX) || epochs < 2 {
            return Order::Rest;
        }
        exchanges.since = (seen.requests, seen.hits, seen.epochs);
        let share_of_hits = hits as f64 / requests as f64;
        let mut has_gained = false;
        if let Some(before) = exchanges.before.take() {
            let chance = 2.0 * (share_of_hits * (1.0 - share_of_hits) / requests as f64).sqrt();
            has_gained = share_of_hits > before + chance + GAIN_MIN;
            match has_gained {
                true => exchanges.wait = 0,
                false => exchanges.put_off(seen.now, policy),
            }
        }
        let share = seen.mirrored as f64 / stored as f64;
        let wanted = (f64::from(policy.hit_factor) / 100.0 * share).min(HITS_ENOUGH);
        let is_wanted = share_of_hits < wanted || has_gained && share_of_hits < HITS_ENOUGH;
        if !is_wanted || seen.now < exchanges.not_before {
            return Order::Rest;
        }
        exchanges.before = Some(share_of_hits);
        Order::Exchange(count)
    }
}

impl Margin {
    /// Sets the margin by what clients took since the last sample, the log included. What another tenant takes makes the space of the
    /// members smaller, and says nothing of what clients will take.
    fn note(&mut self, space: u64, room: i64) {
        let taken = self.last.replace((space, room)).map_or(0, |(space_before, before)| {
            let by_others = space_before.saturating_sub(space);
            before.saturating_sub(room).saturating_sub_unsigned(by_others).max(0)
        });
        self.bytes = taken.unsigned_abs().saturating_mul(2).max(self.bytes - self.bytes / 8);
    }
}

impl Exchanges {
    fn put_off(&mut self, now: u64, policy: &ElasticPolicy) {
        self.wait = (self.wait * 2).max(WAIT_SAMPLES);
        let pause = self.wait.saturating_mul(u64::from(policy.interval_ms) * 1_000_000);
        self.not_before = now.saturating_add(pause.min(WAIT_NS_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: ElasticPolicy = ElasticPolicy::DEFAULT;
    const SECOND: u64 = 1_000_000_000;

    /// An array of 100 stripes, each of which takes 1 permille of the space more when it is mirrored.
    fn seen(used_permille: u32, mirrored: u64) -> Seen {
        let room_to = |percent: u8| i64::from(percent) * 10 - i64::from(used_permille);
        Seen {
            now: 0,
            used_permille,
            share_of_space: 1000,
            room_to_low: room_to(POLICY.low),
            room_to_high: room_to(POLICY.high),
            is_short: false,
            mirrored,
            parity: 100 - mirrored,
            requests: 0,
            hits: 0,
            epochs: 0,
            growth: 1,
            is_whole: true,
        }
    }

    #[test]
    fn stripes_become_mirrored_once_the_use_is_steady() {
        let mut governor = Governor::default();
        for use_so_far in [100, 300, 500] {
            assert_eq!(governor.decide(&seen(use_so_far, 0), &POLICY), Order::Rest);
        }
        let mut orders: Vec<Order> = (0..10).map(|_| governor.decide(&seen(780, 0), &POLICY)).collect();
        assert_eq!(orders.pop(), Some(Order::Promote(10)), "half of the room");
        assert!(orders.iter().all(|order| *order == Order::Rest));
        governor.note_promoted(10, &seen(780, 0));
        assert_eq!(governor.decide(&seen(790, 10), &POLICY), Order::Promote(5));
        governor.note_promoted(5, &seen(790, 10));
        assert_eq!(governor.decide(&seen(799, 15), &POLICY), Order::Promote(1));
        assert_eq!(governor.decide(&seen(800, 16), &POLICY), Order::Rest);
        assert_eq!(governor.decide(&seen(890, 16), &POLICY), Order::Rest, "between the limits");
    }

    #[test]
    fn promotions_that_find_no_stripe_leave_exchanges_a_turn() {
        let mut governor = Governor::default();
        let at = |requests| Seen { requests, epochs: requests, ..seen(790, 20) };
        (0..9).for_each(|_| assert_eq!(governor.decide(&at(0), &POLICY), Order::Rest));
        assert!(matches!(governor.decide(&at(0), &POLICY), Order::Promote(_)));
        governor.note_promoted(0, &at(0));
        assert!(matches!(governor.decide(&at(1000), &POLICY), Order::Exchange(_)));
    }

    #[test]
    fn growth_that_is_not_its_own_ends_promotions() {
        let mut governor = Governor::default();
        let orders: Vec<Order> = (0..10).map(|_| governor.decide(&seen(500, 0), &POLICY)).collect();
        assert!(matches!(orders[9], Order::Promote(_)));
        governor.note_promoted(20, &seen(500, 0));
        assert!(matches!(governor.decide(&seen(525, 20), &POLICY), Order::Promote(_)));
        governor.note_promoted(20, &seen(525, 20));
        assert_eq!(governor.decide(&seen(600, 40), &POLICY), Order::Rest, "clients have written");
    }

    #[test]
    fn pressure_takes_the_surplus_back() {
        let mut governor = Governor::default();
        assert_eq!(governor.decide(&seen(925, 60), &POLICY), Order::Demote(25));
        assert_eq!(governor.decide(&seen(925, 10), &POLICY), Order::Demote(10), "no more than there are");
        assert_eq!(governor.decide(&seen(925, 0), &POLICY), Order::Rest);
        let short = Seen { is_short: true, ..seen(850, 10) };
        assert_eq!(governor.decide(&short, &POLICY), Order::Demote(RESERVED_STRIPES), "clients wait");
    }

    /// The limits of the policy are 100 and 200 bytes away.
    fn room(space: u64, beside_reserve: i64) -> MemberRoom {
        MemberRoom { space, to_low: 100, to_high: 200, beside_reserve }
    }

    #[test]
    fn the_reserve_takes_the_limits_down() {
        let limits_beside = |reserve| Governor::default().limit_room(room(1000, reserve));
        let limits = |to_low, to_high| RoomToLimits { to_low, to_high };
        assert_eq!(limits_beside(i64::MAX), limits(100, 200), "no reserve is near");
        assert_eq!(limits_beside(120), limits(70, 120), "half of the distance of the limits is kept");
        assert_eq!(limits_beside(-30), limits(-80, -30), "clients' writes are refused");
    }

    #[test]
    fn clients_writes_have_room_for_two_samples() {
        let mut governor = Governor::default();
        let mut to_high = |space, beside_reserve| governor.limit_room(room(space, beside_reserve)).to_high;
        assert_eq!(to_high(1000, 180), 180, "nothing is known of clients yet");
        assert_eq!(to_high(1000, 140), 60, "they took 40");
        assert_eq!(to_high(1000, 140), 70, "a sample without writes lets an eighth of the margin go");
        assert_eq!(to_high(900, 40), -22, "another tenant took 100");
        assert_eq!(to_high(900, 190), 135, "room that is given back takes nothing");
        governor.note_own_growth();
        assert_eq!(governor.limit_room(room(900, 100)).to_high, 51, "its own growth is not counted");
    }

    #[test]
    fn a_margin_fades() {
        let mut governor = Governor::default();
        governor.limit_room(room(1000, 190));
        governor.limit_room(room(1000, 100));
        let limits: Vec<RoomToLimits> = (0..60).map(|_| governor.limit_room(room(1000, 100))).collect();
        assert!(limits.is_sorted_by_key(|limits| limits.to_high));
        assert!(limits[0].to_high < 0 && limits[59].to_high > 90);
    }

    /// Plays exchanges until `until`; the share of hits follows from the number of exchanges so far. Returns their number.
    fn exchanges(hits_percent: impl Fn(u32) -> u64, until: u64) -> u32 {
        let (mut governor, mut count) = (Governor::default(), 0);
        let mut at = Seen { room_to_low: 0, ..seen(850, 20) };
        while at.now < until {
            at.now += SECOND;
            at.requests += 1000;
            at.hits += 10 * hits_percent(count);
            at.epochs += 2;
            match governor.decide(&at, &POLICY) {
                Order::Exchange(stripes) => {
                    assert_eq!(stripes, 2, "one mirrored stripe in eight");
                    count += 1;
                }
                order => assert_eq!(order, Order::Rest),
            }
        }
        count
    }

    #[test]
    fn exchanges_go_on_while_they_gain_and_end_when_they_do_not() {
        assert_eq!(exchanges(|_| 35, 100 * SECOND), 0, "enough requests find a mirrored stripe");
        let hot = exchanges(|count| (20 + 10 * u64::from(count)).min(95), 100 * SECOND);
        assert!((7..=10).contains(&hot), "{hot} exchanges until nearly all requests do");
        let uniform = exchanges(|_| 20, 10_000 * SECOND);
        assert!((8..=12).contains(&uniform), "{uniform} exchanges in 10000 s under a uniform load");
    }

    #[test]
    fn a_lack_of_candidates_puts_exchanges_off() {
        let mut governor = Governor::default();
        let at = |now, requests| Seen { now, requests, epochs: requests, room_to_low: 0, ..seen(850, 20) };
        assert!(matches!(governor.decide(&at(0, 1000), &POLICY), Order::Exchange(_)));
        governor.note_no_exchange(0, &POLICY);
        assert_eq!(governor.decide(&at(9 * SECOND, 2000), &POLICY), Order::Rest);
        assert!(matches!(governor.decide(&at(10 * SECOND, 3000), &POLICY), Order::Exchange(_)));
        let out = Seen { is_whole: false, ..at(1000 * SECOND, 5000) };
        assert_eq!(governor.decide(&out, &POLICY), Order::Rest, "not while a member is out");
    }
}
