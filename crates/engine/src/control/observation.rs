//! Events that follow from what the shards count: errors, lost blocks, room, long work, slow members, clients.
//!
//! The control compares what it sees with what it saw at the last look, so that a thousand errors between two looks are one
//! event. The daemon asks for a look once a second.

use std::collections::BTreeMap;

use sinew_members::latency::MemberLatency;
use sinew_members::member_stats::MemberStats;
use sinew_members::status::ShardStatus;

use crate::control::events::{Event, MemberChange, Work};

/// Shares of the capacity in use, in percent, at each of which there is an event.
const SPACE_STEPS: [u64; 3] = [80, 90, 95];

/// The event that a member is not slow any more comes when it has not been slower than its peers for this long.
const NOT_SLOW_AFTER_NS: u64 = 30_000_000_000;

/// The speed of a member as the last event has it.
#[derive(Clone, Copy, Default)]
struct Speed {
    is_slow: bool,
    /// When the member was last seen slower than its peers.
    slower_at: u64,
}

impl Speed {
    /// The change that needs an event. Changing load, and spikes that keep requests from the member, hide for some time that a
    /// member is slower for good.
    fn update(&mut self, latency: &MemberLatency, now: u64) -> Option<MemberChange> {
        if latency.slow_for_ns > 0 || latency.suspect {
            self.slower_at = now;
        }
        let is_slow = match self.is_slow {
            true => now - self.slower_at < NOT_SLOW_AFTER_NS,
            false => latency.suspect,
        };
        let changed = is_slow != self.is_slow;
        self.is_slow = is_slow;
        changed.then_some(if is_slow { MemberChange::Slow } else { MemberChange::NotSlow })
    }
}

/// What was seen at the last look.
#[derive(Default)]
pub(super) struct Seen {
    members: Vec<MemberStats>,
    slow: Vec<Speed>,
    /// What is under way, and how much of it has been done so far.
    work: [(bool, u64); Work::ALL.len()],
    /// How much had been done of each kind of work when the present run of it began.
    done_at_begin: [u64; Work::ALL.len()],
    /// Kinds of work that were told to have begun.
    told: [bool; Work::ALL.len()],
    /// An operator has ordered stripes of an elastic array to change their form.
    conversion_ordered: bool,
    /// The growth waits.
    growth_waits: bool,
    /// A rebuild waits.
    rebuild_waits: bool,
    /// Members without physical space for which writes wait or are refused.
    suspended: Vec<usize>,
    /// How many of the steps are used.
    space: usize,
    volumes: BTreeMap<String, (u64, usize)>,
}

impl Seen {
    /// Takes a new look at the shards; gives what has happened since the last one, without paths of members.
    pub(super) fn update(&mut self, status: &ShardStatus) -> Vec<Event> {
        let mut events = Vec::new();
        self.members.resize(status.members.len(), MemberStats::default());
        for (member, (now, before)) in status.members.iter().zip(&self.members).enumerate() {
            let since = now.since(before);
            if since.read_errors > 0 || since.checksum_errors > 0 || since.repaired_blocks > 0 {
                events.push(Event::MemberErrors {
                    member,
                    read_errors: u64::from(since.read_errors),
                    checksum_errors: since.checksum_errors,
                    repaired_blocks: since.repaired_blocks,
                });
            }
        }
        self.members.clone_from(&status.members);
        events.extend(self.update_work(status));
        let waits = status.growth_stuck > 0;
        if waits != self.growth_waits {
            events.push(if waits { Event::GrowthWaits } else { Event::GrowthGoesOn });
        }
        self.growth_waits = waits;
        let waits = status.rebuild_stuck > 0;
        if waits != self.rebuild_waits {
            events.push(if waits { Event::RebuildWaits } else { Event::RebuildGoesOn });
        }
        self.rebuild_waits = waits;
        let is_used = |percent: &&u64| {
            let used = u128::from(status.stored_bytes) * 100;
            used > u128::from(status.capacity_bytes) * u128::from(**percent)
        };
        let space = SPACE_STEPS.iter().take_while(is_used).count();
        if space > self.space {
            events.push(Event::SpaceUsed { percent: SPACE_STEPS[space - 1] });
        }
        self.space = space;
        events
    }

    /// Work that has begun or ended.
    fn update_work(&mut self, status: &ShardStatus) -> Vec<Event> {
        let mut events = Vec::new();
        let ordered = self.conversion_ordered;
        let work = Work::ALL.map(|work| match work {
            // The governor converts all the time, which is no work that begins and ends.
            Work::Conversion if !ordered => (false, progress(work, status).1),
            work => progress(work, status),
        });
        for (i, kind) in Work::ALL.into_iter().enumerate() {
            let ((now, done), (before, done_before)) = (work[i], self.work[i]);
            if now && !before {
                self.done_at_begin[i] = done_before;
            }
            // Short work begins and ends between two looks.
            let is_short = done > done_before && (kind != Work::Conversion || ordered);
            let was_under_way = self.told[i] || is_short;
            // The rebalancer looks whenever a pool is opened and members come or go, and mostly finds nothing to move.
            let is_work = now && (kind != Work::Rebalance || done > self.done_at_begin[i]);
            events.extend((!self.told[i] && (is_work || was_under_way)).then_some(Event::WorkBegan(kind)));
            events.extend((!now && was_under_way).then_some(Event::WorkEnded(kind)));
            self.told[i] = now && (is_work || was_under_way);
        }
        self.work = work;
        self.conversion_ordered = ordered && status.conversions_left > 0;
        events
    }

    /// An operator has ordered stripes of an elastic array to change their form.
    pub(super) fn note_conversion_order(&mut self) {
        self.conversion_ordered = true;
    }

    /// The members for which writes wait or are refused; none unless the pool is suspended.
    pub(super) fn update_suspended(&mut self, members: Vec<usize>) -> Option<Event> {
        let was_suspended = !self.suspended.is_empty();
        self.suspended = members;
        match (was_suspended, self.suspended.is_empty()) {
            (false, false) => Some(Event::Suspended { members: self.suspended.clone() }),
            (true, true) => Some(Event::Resumed),
            _ => None,
        }
    }

    /// The work under way, and how much of it has been done since it began: chunks or stripes.
    pub(super) fn work_done(&self) -> Vec<(Work, u64)> {
        let all = Work::ALL.into_iter().zip(self.work).zip(self.done_at_begin);
        all.filter(|((_, (now, _)), _)| *now)
            .map(|((kind, (_, done)), at_begin)| (kind, done.saturating_sub(at_begin)))
            .collect()
    }

    /// Members that have become slow, or no longer are.
    pub(super) fn update_slow(&mut self, status: &ShardStatus, now: u64) -> Vec<(usize, MemberChange)> {
        self.slow.resize(status.member_latency.len(), Speed::default());
        let members = self.slow.iter_mut().zip(&status.member_latency).enumerate();
        members.filter_map(|(member, (speed, latency))| Some((member, speed.update(latency, now)?))).collect()
    }

    /// Clients of a volume that came or went, and requests that were refused for lack of room.
    pub(super) fn update_volume(&mut self, volume: &str, no_space: u64, connections: usize) -> Vec<Event> {
        let before = self.volumes.insert(volume.to_owned(), (no_space, connections)).unwrap_or_default();
        let volume = || volume.to_owned();
        let refused = no_space.saturating_sub(before.0);
        let refused = (refused > 0).then(|| Event::NoSpace { volume: volume(), requests: refused });
        let clients = (connections != before.1).then(|| Event::Clients { volume: volume(), connections });
        refused.into_iter().chain(clients).collect()
    }
}

/// Whether work of a kind is under way, and how much has been done of it so far.
fn progress(work: Work, status: &ShardStatus) -> (bool, u64) {
    let counters = &status.counters;
    match work {
        Work::Rebuild => (status.rebuild_chunks_left > 0, counters.chunks_rebuilt),
        Work::Rebalance => (status.balance_chunks_left > 0, counters.chunks_balanced),
        Work::Scrub => (status.scrub_stripes_left.is_some(), counters.stripes_scrubbed),
        Work::Growth => (status.growth_chunks_left.is_some(), counters.chunks_moved),
        Work::Resync => (status.resync_stripes_left > 0, counters.stripes_resynced),
        Work::Conversion => {
            (status.conversions_left > 0, counters.stripes_promoted + counters.stripes_demoted)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_between_two_looks_is_one_event() {
        let mut seen = Seen::default();
        let mut status = ShardStatus { capacity_bytes: 100, ..ShardStatus::default() };
        assert_eq!(seen.update(&status), []);
        status.members = vec![MemberStats::default(); 2];
        status.members[1].checksum_errors = 7;
        status.members[1].repaired_blocks = 6;
        status.scrub_stripes_left = Some(9);
        let errors =
            Event::MemberErrors { member: 1, read_errors: 0, checksum_errors: 7, repaired_blocks: 6 };
        assert_eq!(seen.update(&status), [errors, Event::WorkBegan(Work::Scrub)]);
        assert_eq!(seen.update(&status), []);
        status.counters.stripes_scrubbed = 4;
        assert_eq!(seen.update(&status), []);
        assert_eq!(seen.work_done(), [(Work::Scrub, 4)]);
        status.scrub_stripes_left = None;
        assert_eq!(seen.update(&status), [Event::WorkEnded(Work::Scrub)]);
        // A rebuild that no look has seen under way.
        status.counters.chunks_rebuilt = 3;
        assert_eq!(seen.update(&status), [Event::WorkBegan(Work::Rebuild), Event::WorkEnded(Work::Rebuild)]);
        assert_eq!(seen.update(&status), []);
    }

    #[test]
    fn a_rebalance_that_moves_nothing_is_not_told() {
        let mut seen = Seen::default();
        let mut status = ShardStatus { balance_chunks_left: 1, ..ShardStatus::default() };
        assert_eq!(seen.update(&status), []);
        status.balance_chunks_left = 0;
        assert_eq!(seen.update(&status), []);
        status.balance_chunks_left = 9;
        assert_eq!(seen.update(&status), []);
        status.counters.chunks_balanced = 2;
        assert_eq!(seen.update(&status), [Event::WorkBegan(Work::Rebalance)]);
        assert_eq!((seen.update(&status), seen.work_done()), (vec![], vec![(Work::Rebalance, 2)]));
        (status.balance_chunks_left, status.counters.chunks_balanced) = (0, 9);
        assert_eq!(seen.update(&status), [Event::WorkEnded(Work::Rebalance)]);
        // One that no look has seen under way.
        status.counters.chunks_balanced = 10;
        let both = [Event::WorkBegan(Work::Rebalance), Event::WorkEnded(Work::Rebalance)];
        assert_eq!(seen.update(&status), both);
    }

    #[test]
    fn a_conversion_is_told_when_it_was_ordered() {
        let mut seen = Seen::default();
        let mut status = ShardStatus { conversions_left: 3, ..ShardStatus::default() };
        status.counters.stripes_promoted = 5;
        assert_eq!(seen.update(&status), []);
        seen.note_conversion_order();
        assert_eq!(seen.update(&status), [Event::WorkBegan(Work::Conversion)]);
        (status.conversions_left, status.counters.stripes_demoted) = (0, 3);
        assert_eq!(seen.update(&status), [Event::WorkEnded(Work::Conversion)]);
        (status.conversions_left, status.counters.stripes_demoted) = (2, 4);
        assert_eq!(seen.update(&status), []);
    }

    #[test]
    fn suspension_and_waiting_work_are_told_when_they_begin_and_end() {
        let mut seen = Seen::default();
        assert_eq!(seen.update_suspended(vec![]), None);
        assert_eq!(seen.update_suspended(vec![1]), Some(Event::Suspended { members: vec![1] }));
        assert_eq!(seen.update_suspended(vec![1, 2]), None);
        assert_eq!(seen.update_suspended(vec![]), Some(Event::Resumed));
        let mut status = ShardStatus { growth_stuck: 1, ..ShardStatus::default() };
        assert_eq!(seen.update(&status), [Event::GrowthWaits]);
        assert_eq!(seen.update(&status), []);
        status.growth_stuck = 0;
        status.rebuild_stuck = 2;
        assert_eq!(seen.update(&status), [Event::GrowthGoesOn, Event::RebuildWaits]);
        assert_eq!(seen.update(&status), []);
        status.rebuild_stuck = 0;
        assert_eq!(seen.update(&status), [Event::RebuildGoesOn]);
    }

    #[test]
    fn a_slow_member_is_told_once_until_it_has_been_as_fast_as_the_others_for_long() {
        let (mut seen, mut now) = (Seen::default(), 0);
        let mut told = |suspect, slow_for_ns, after: u64| {
            now += after * 1_000_000_000;
            let latency = MemberLatency { suspect, slow_for_ns, ..MemberLatency::default() };
            seen.update_slow(&ShardStatus { member_latency: vec![latency], ..ShardStatus::default() }, now)
        };
        assert_eq!(told(false, 7, 1), []);
        assert_eq!(told(true, 30, 1), [(0, MemberChange::Slow)]);
        assert_eq!(told(false, 0, 29), []);
        assert_eq!(told(false, 7, 1), []);
        assert_eq!(told(true, 30, 30), []);
        assert_eq!(told(false, 0, 29), []);
        assert_eq!(told(false, 0, 1), [(0, MemberChange::NotSlow)]);
        assert_eq!(told(false, 7, 1), []);
        assert_eq!(told(true, 30, 30), [(0, MemberChange::Slow)]);
    }

    #[test]
    fn used_space_is_told_at_its_steps() {
        let mut seen = Seen::default();
        let mut told = |stored_bytes| {
            seen.update(&ShardStatus { stored_bytes, capacity_bytes: 1000, ..ShardStatus::default() })
        };
        assert_eq!(told(800), []);
        assert_eq!(told(801), [Event::SpaceUsed { percent: 80 }]);
        assert_eq!(told(899), []);
        assert_eq!(told(951), [Event::SpaceUsed { percent: 95 }]);
        assert_eq!(told(100), []);
        assert_eq!(told(901), [Event::SpaceUsed { percent: 90 }]);
    }

    #[test]
    fn clients_and_refusals_are_told_when_they_change() {
        let mut seen = Seen::default();
        let clients = |connections| Event::Clients { volume: "v".to_owned(), connections };
        assert_eq!(seen.update_volume("v", 0, 0), []);
        assert_eq!(seen.update_volume("v", 0, 2), [clients(2)]);
        let refused = Event::NoSpace { volume: "v".to_owned(), requests: 5 };
        assert_eq!(seen.update_volume("v", 5, 2), [refused]);
        assert_eq!(seen.update_volume("v", 5, 0), [clients(0)]);
    }
}
