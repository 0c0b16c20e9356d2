//! Physical space of the members, by member and by domain, with its trend: what is known of it, and its arithmetic.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sinew_core::ids::MemberId;
use sinew_core::io::DeviceId;
use sinew_core::physical::{Domain, Physical};
use sinew_core::sync::Signal;
use sinew_members::space_credit::Allotment;

/// The time that the trend covers, and the least that it is computed from.
const TREND_NS: u64 = 60_000_000_000;
const TREND_LEAST_NS: u64 = 10_000_000_000;
/// Time between two samples that the trend keeps.
const STEP_NS: u64 = 1_000_000_000;

/// The physical space that members share, or that one has for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainSpace {
    /// Its members.
    pub members: Vec<usize>,
    /// Bytes that they take of it.
    pub used: u64,
    /// Bytes that are free; `None` if no limit is known.
    pub free: Option<u64>,
    /// Growth of the use, by whomever, in bytes per second over the last minute; `None` until ten seconds are known.
    pub growth: Option<i64>,
    /// Whether the space may end before the addresses of the members do.
    pub is_overcommitted: bool,
}

impl DomainSpace {
    /// Seconds until the space is full, if its use goes on to grow as in the last minute.
    pub fn full_in_s(&self) -> Option<u64> {
        let growth = u64::try_from(self.growth?).ok().filter(|&growth| growth > 0)?;
        Some(self.free? / growth)
    }
}

/// The physical space of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolSpace {
    /// Of each member; `None` if it has as much as addresses, or does not tell.
    pub members: Vec<Option<Physical>>,
    /// By domain.
    pub domains: Vec<DomainSpace>,
}

impl PoolSpace {
    /// What may end before the addresses of the members do, divided among the shards.
    pub(super) fn allotments(&self, shards: usize) -> Vec<Allotment> {
        let limited = self.domains.iter().filter(|domain| domain.is_overcommitted);
        let allotment = |domain: &DomainSpace| Allotment {
            members: domain.members.iter().map(|&member| MemberId(member as u8)).collect(),
            free: domain.free.unwrap_or(u64::MAX) / shards as u64,
            used: domain.used,
            free_in_all: domain.free.unwrap_or(u64::MAX),
        };
        limited.map(allotment).collect()
    }
}

/// The task of asking, and what is known.
#[derive(Default)]
pub(super) struct SpaceSamples {
    pub(super) watch: RefCell<SpaceWatch>,
    /// A device has answered.
    pub(super) answered: Signal,
    pub(super) is_running: Cell<bool>,
    /// Rounds of asking that have begun, and that have ended.
    pub(super) begun: Cell<u64>,
    pub(super) ended: Cell<u64>,
    pub(super) round_ended: Signal,
}

/// What is known of the physical space.
#[derive(Default)]
pub(super) struct SpaceWatch {
    known: BTreeMap<DeviceId, Physical>,
    /// Devices that have not answered yet.
    pub(super) asked: BTreeSet<DeviceId>,
    /// Of each domain, what was free at some times, or, without a limit, minus what was used.
    history: BTreeMap<Domain, VecDeque<(u64, i128)>>,
}

impl SpaceWatch {
    /// Takes the answer of a device.
    pub(super) fn note(&mut self, device: DeviceId, physical: Option<Physical>) {
        self.asked.remove(&device);
        match physical {
            Some(physical) => drop(self.known.insert(device, physical)),
            None => drop(self.known.remove(&device)),
        }
    }

    /// Adds the figures of now to the trend.
    pub(super) fn extend_trend(&mut self, now: u64) {
        let domains: BTreeSet<Domain> = self.known.values().map(|physical| physical.domain).collect();
        self.history.retain(|domain, _| domains.contains(domain));
        for domain in domains {
            let members = self.known.values().filter(|physical| physical.domain == domain);
            let room = room_of(members.copied());
            let seen = self.history.entry(domain).or_default();
            if seen.back().is_none_or(|&(last, _)| now - last >= STEP_NS) {
                seen.push_back((now, room));
            }
            while seen.front().is_some_and(|&(first, _)| now - first > TREND_NS) {
                seen.pop_front();
            }
        }
    }

    fn growth(&self, domain: Domain) -> Option<i64> {
        let seen = self.history.get(&domain)?;
        let (&(then, before), &(now, after)) = (seen.front()?, seen.back()?);
        let growth = (before - after) * 1_000_000_000 / i128::from((now - then).max(1));
        (now - then >= TREND_LEAST_NS).then(|| i64::try_from(growth).unwrap_or(i64::MAX))
    }

    /// The space of members on these devices, each with its number of bytes.
    pub(super) fn report(&self, members: &[(Option<DeviceId>, u64)]) -> PoolSpace {
        let of = |(device, _): &(Option<DeviceId>, u64)| self.known.get(&(*device)?).copied();
        let figures: Vec<Option<Physical>> = members.iter().map(of).collect();
        let mut domains: BTreeMap<Domain, Vec<usize>> = BTreeMap::new();
        for (member, physical) in figures.iter().enumerate() {
            if let Some(physical) = physical {
                domains.entry(physical.domain).or_default().push(member);
            }
        }
        let space = |(domain, its): (Domain, Vec<usize>)| {
            let its_figures = || its.iter().filter_map(|&member| figures[member]);
            let used: u64 = its_figures().map(|physical| physical.used).sum();
            let free = its_figures().filter_map(|physical| physical.free).min();
            let addresses: u64 = its.iter().map(|&member| members[member].1).sum();
            DomainSpace {
                used,
                free,
                growth: self.growth(domain),
                is_overcommitted: free.is_some_and(|free| addresses.saturating_sub(used) > free),
                members: its,
            }
        };
        let domains = domains.into_iter().map(space).collect();
        PoolSpace { members: figures, domains }
    }
}

/// What is free in a domain, or, without a limit, minus what is used.
fn room_of(members: impl Iterator<Item = Physical> + Clone) -> i128 {
    match members.clone().filter_map(|physical| physical.free).min() {
        Some(free) => i128::from(free),
        None => -members.map(|physical| i128::from(physical.used)).sum::<i128>(),
    }
}

#[cfg(test)]
mod tests {
    use sinew_core::physical::PhysicalSource;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn physical(domain: u64, used: u64, free: u64) -> Option<Physical> {
        let (domain, source) = (Domain(domain), PhysicalSource::FileSystem);
        Some(Physical { used, free: Some(free), domain, source })
    }

    #[test]
    fn members_of_one_file_system_share_what_is_free() {
        let mut watch = SpaceWatch::default();
        let figures =
            [(0, physical(1, 30, 50)), (1, physical(1, 20, 50)), (2, physical(2, 90, 10)), (3, None)];
        figures.into_iter().for_each(|(device, figures)| watch.note(DeviceId(device), figures));
        let members: Vec<_> = (0..4).map(|device| (Some(DeviceId(device)), 100)).collect();
        let space = watch.report(&members);
        assert_eq!(space.members, figures.map(|(_, figures)| figures));
        let shared = DomainSpace {
            members: vec![0, 1],
            used: 50,
            free: Some(50),
            growth: None,
            is_overcommitted: true,
        };
        let own =
            DomainSpace { members: vec![2], used: 90, free: Some(10), growth: None, is_overcommitted: false };
        assert_eq!(
            space.domains,
            [shared, own],
            "100 bytes of holes share 50, and 10 bytes of holes have 10"
        );
        let without = [(None, 100), (Some(DeviceId(2)), 100)];
        assert_eq!(watch.report(&without).domains.len(), 1, "a member that is out takes no part");
    }

    #[test]
    fn the_trend_is_that_of_the_last_minute() {
        let mut watch = SpaceWatch::default();
        let members = [(Some(DeviceId(0)), 1 << 40)];
        let mut at = |second: u64, free: u64| {
            watch.note(DeviceId(0), physical(0, 0, free));
            watch.extend_trend(second * SECOND);
            let space = watch.report(&members);
            (space.domains[0].growth, space.domains[0].full_in_s())
        };
        for second in 0..100 {
            at(second, 1_000_000);
        }
        assert_eq!(at(100, 1_000_000), (Some(0), None), "what does not grow is never full");
        // 600 bytes a second from now on: after a minute, nothing else is in the window.
        for second in 101..=160 {
            at(second, 1_000_000 - (second - 100) * 600);
        }
        assert_eq!(at(161, 1_000_000 - 61 * 600), (Some(600), Some(963_400 / 600)));
        assert_eq!(at(162, 1_000_000).1, None, "space came back");
    }
}
