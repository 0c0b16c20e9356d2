//! Whether a pool's data is safe, and what its operator should do.
//!
//! A pure decision over the configuration, the status of all shards, and the members whose device nodes are gone. Reports
//! and metrics print the result and decide nothing.

use sinew_format::model::config::{Config, MemberState};
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_members::latency::{LatencyHistogram, MemberLatency};
use sinew_members::open_mode::OpenMode;
use sinew_members::status::ShardStatus;

/// A mapped pool that stores more than this part of its capacity is almost full.
const ALMOST_FULL_PERCENT: u64 = 95;

/// The state of a pool, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// The data has all the redundancy that it should have.
    Healthy,
    /// Some data has less redundancy than it should have.
    Degraded,
    /// The loss of one more member may lose data.
    AtRisk,
    /// Blocks had no good copy when they were read, and were not written or read well since.
    Damaged,
    /// Writes wait, or are refused, because members have no physical space.
    Suspended,
    /// More members are out than the pool survives: it refuses everything until it is served again, unless it was opened
    /// read-only as a last resort.
    Failed,
}

impl Health {
    /// All of them, best first.
    pub const ALL: [Health; 6] = [
        Health::Healthy,
        Health::Degraded,
        Health::AtRisk,
        Health::Damaged,
        Health::Suspended,
        Health::Failed,
    ];

    /// Its name, in reports and on the control socket.
    pub fn name(self) -> &'static str {
        match self {
            Health::Healthy => "healthy",
            Health::Degraded => "degraded",
            Health::AtRisk => "at risk",
            Health::Damaged => "damaged",
            Health::Suspended => "suspended",
            Health::Failed => "failed",
        }
    }
}

/// Whether the data is safe, best first. Unlike the health it says nothing about service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Safety {
    /// It has all its redundancy.
    Whole,
    /// Some of it has less redundancy than it should have.
    LessRedundancy,
    /// The loss of one more member may lose some of it.
    AtRisk,
    /// Not known before the pool is opened again: too many members are out to look.
    Unknown,
    /// Some of it has no good copy.
    Lost,
}

/// What an operator should do. Members are given by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Bring back members that are out, and serve the pool again: it has failed.
    ServeAgain,
    /// Copy what can be read; bring these members back and serve the pool again: it is open as a last resort.
    RescueData(Vec<usize>),
    /// Serve the pool without --read-only to change anything.
    ServeForWriting,
    /// Give these members physical space: they have none.
    MakePhysicalSpace(Vec<usize>),
    /// Mend members: a growth waits because chunks cannot be read, or cannot be written where they go.
    UnblockGrowth,
    /// Write damaged blocks again, or replace the members that cannot read: a rebuild waits for blocks that cannot be read.
    UnblockRebuild,
    /// Restore these ranges of volumes from a backup.
    RestoreDamage {
        /// How many there are.
        ranges: usize,
    },
    /// Wait for the rebuild under way.
    WaitForRebuild,
    /// Wait until redundancy is restored.
    WaitForRedundancy,
    /// Add these members again with mdadm, as the array is md's.
    AddWithMdadm(Vec<usize>),
    /// Bring these members back, or replace them; in a mapped pool the replacement can be free space of the others.
    BringBackOrReplace {
        /// The members that are out.
        members: Vec<usize>,
        /// Whether they can be rebuilt without a new device.
        into_free_space: bool,
    },
    /// Wait until this member has left, or cancel that.
    WaitForRemoval(usize),
    /// Replace this member before the pool is stopped: its device node or file is gone, so it cannot be opened again.
    ReplaceBeforeStop(usize),
    /// Scrub: this member gave wrong data or errors, all of which were repaired from the others.
    Scrub(usize),
    /// Replace this member, which has been slower than the others for long.
    ReplaceSlow(SlowMember),
    /// Delete data or add members: the pool is almost full.
    MakeRoom,
}

/// The evidence against a member that has been slower than the others for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowMember {
    /// Its number.
    pub member: usize,
    /// For how long it has been slower.
    pub slow_for_ns: u64,
    /// Latency of reads.
    pub reads: Medians,
    /// Latency of writes.
    pub writes: Medians,
    /// Whether the pool can move what the member holds to the others, so that it can leave.
    pub can_leave: bool,
}

/// Median latencies; none where there were no requests lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Medians {
    /// Of the member.
    pub own_ns: Option<u64>,
    /// The median of the other members' medians.
    pub others_ns: Option<u64>,
}

/// What is known about a pool.
#[derive(Clone)]
pub struct Observed<'a> {
    /// Its configuration.
    pub config: &'a Config,
    /// The status of all shards.
    pub status: &'a ShardStatus,
    /// Members that work, but whose device nodes or files are gone.
    pub unnamed: &'a [usize],
    /// How the pool was opened.
    pub mode: OpenMode,
    /// More members are out than it survives.
    pub has_failed: bool,
    /// Requests of clients were refused for lack of room a short time ago.
    pub refused_lately: bool,
    /// Members whose physical space may end before their addresses do.
    pub thin: Vec<usize>,
    /// Damaged ranges of volumes.
    pub damaged_ranges: usize,
}

/// The decision about a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// The state of the pool.
    pub health: Health,
    /// Whether the data is safe.
    pub safety: Safety,
    /// What should be done, the most urgent first.
    pub advice: Vec<Advice>,
}

/// Decides how a pool is and what should be done.
pub fn assess(observed: &Observed<'_>) -> Assessment {
    let safety = safety(observed);
    let full = members_without_space(observed);
    let health = match safety {
        _ if !is_served(observed) => Health::Failed,
        _ if !suspended_for(observed).is_empty() => Health::Suspended,
        Safety::Lost => Health::Damaged,
        Safety::AtRisk => Health::AtRisk,
        Safety::LessRedundancy => Health::Degraded,
        Safety::Whole | Safety::Unknown => Health::Healthy,
    };
    Assessment { health, safety, advice: advice(observed, full) }
}

/// Members without physical space for which writes wait or are refused; none unless the pool is suspended.
pub(super) fn suspended_for(observed: &Observed<'_>) -> Vec<usize> {
    let waits = observed.status.waits_for_space > 0 || observed.refused_lately;
    if waits && is_served(observed) { members_without_space(observed) } else { Vec::new() }
}

/// Whether it serves requests, for all of which there are enough members.
fn is_served(observed: &Observed<'_>) -> bool {
    !observed.has_failed && observed.mode != OpenMode::LastResort
}

fn members_in(config: &Config, state: MemberState) -> impl Iterator<Item = usize> {
    config.members.iter().enumerate().filter(move |(_, m)| m.state == state).map(|(member, _)| member)
}

fn out_members(config: &Config) -> Vec<usize> {
    let out = config.out().into_iter().enumerate();
    out.filter(|(_, is_out)| *is_out).map(|(member, _)| member).collect()
}

fn full_members(status: &ShardStatus) -> Vec<usize> {
    let full = status.member_full.iter().enumerate();
    full.filter(|(_, is_full)| **is_full).map(|(member, _)| member).collect()
}

/// Whether metadata has fewer copies than it should have. A member that is leaving still has those that move off it.
fn has_exposed_metadata(observed: &Observed<'_>) -> bool {
    observed.status.metadata_degraded > 0
        && members_in(observed.config, MemberState::Leaving).next().is_none()
}

/// Members that refused a write, or that clients were refused for: the shards keep space of thin members for the journal.
fn members_without_space(observed: &Observed<'_>) -> Vec<usize> {
    let Observed { config, status, .. } = observed;
    let full = full_members(status);
    let is_mapped = matches!(config.geometry, PoolGeometry::Mapped(_));
    if full.is_empty() && observed.refused_lately && !(is_mapped && is_almost_full(status)) {
        return observed.thin.clone();
    }
    full
}

fn is_almost_full(status: &ShardStatus) -> bool {
    status.stored_bytes * 100 > status.capacity_bytes * ALMOST_FULL_PERCENT
}

fn has_lost(observed: &Observed<'_>) -> bool {
    observed.damaged_ranges > 0
}

fn safety(observed: &Observed<'_>) -> Safety {
    let Observed { config, status, .. } = observed;
    let is_rebuilt = status.rebuild_chunks_left > 0 && status.stripes_degraded > 0
        || members_in(config, MemberState::Evacuating).next().is_some();
    if !is_served(observed) {
        // What reads found while members went out one after the other says nothing about what is on the members.
        Safety::Unknown
    } else if has_lost(observed) {
        Safety::Lost
    } else if is_rebuilt || !out_members(config).is_empty() {
        if status.stripes_at_risk > 0 { Safety::AtRisk } else { Safety::LessRedundancy }
    } else if status.stripes_degraded > 0 || has_exposed_metadata(observed) || status.growth_stuck > 0 {
        Safety::LessRedundancy
    } else {
        Safety::Whole
    }
}

/// All that should be done, the most urgent first: what brings service back, then what is lost, then redundancy, then what
/// could become a problem.
fn advice(observed: &Observed<'_>, full: Vec<usize>) -> Vec<Advice> {
    let Observed { config, status, .. } = observed;
    if observed.has_failed {
        return vec![Advice::ServeAgain];
    }
    if observed.mode == OpenMode::LastResort {
        return vec![Advice::RescueData(out_members(config))];
    }
    if observed.mode.is_read_only() {
        return read_only_advice(observed);
    }
    let is_mapped = matches!(config.geometry, PoolGeometry::Mapped(_));
    let mut advice = Vec::new();
    advice.extend((!full.is_empty()).then_some(Advice::MakePhysicalSpace(full)));
    advice.extend((status.growth_stuck > 0).then_some(Advice::UnblockGrowth));
    let ranges = observed.damaged_ranges;
    advice.extend((ranges > 0).then_some(Advice::RestoreDamage { ranges }));
    advice.extend((status.rebuild_stuck > 0).then_some(Advice::UnblockRebuild));
    advice.extend(observed.unnamed.iter().copied().map(Advice::ReplaceBeforeStop));
    advice.extend(redundancy_advice(observed));
    advice.extend(members_in(config, MemberState::Leaving).map(Advice::WaitForRemoval));
    let wrong = status.members.iter().enumerate().filter(|(_, m)| m.checksum_errors > 0 || m.read_errors > 0);
    let takes_part = |&member: &usize| config.members.get(member).is_some_and(|m| m.state.takes_part());
    advice.extend(wrong.map(|(member, _)| member).filter(takes_part).map(Advice::Scrub));
    let slow = status.member_latency.iter().enumerate().filter(|(_, m)| m.suspect);
    advice.extend(slow.map(|(member, latency)| {
        Advice::ReplaceSlow(SlowMember {
            member,
            slow_for_ns: latency.slow_for_ns,
            reads: medians(&status.member_latency, member, |m| &m.reads),
            writes: medians(&status.member_latency, member, |m| &m.writes),
            can_leave: is_mapped,
        })
    }));
    advice.extend((is_mapped && is_almost_full(status)).then_some(Advice::MakeRoom));
    advice
}

/// What can be done about a pool that is served read-only: nothing of it is changed before it is served again.
fn read_only_advice(observed: &Observed<'_>) -> Vec<Advice> {
    let ranges = observed.damaged_ranges;
    let damage = (ranges > 0).then_some(Advice::RestoreDamage { ranges });
    damage.into_iter().chain([Advice::ServeForWriting]).collect()
}

/// What restores redundancy.
fn redundancy_advice(observed: &Observed<'_>) -> Option<Advice> {
    let Observed { config, status, .. } = observed;
    let out: Vec<usize> = out_members(config)
        .into_iter()
        .filter(|&member| config.members[member].state != MemberState::Evacuating)
        .collect();
    let is_evacuating = members_in(config, MemberState::Evacuating).next().is_some();
    match &config.geometry {
        PoolGeometry::Array(array) if array.md.is_some() && !out.is_empty() => {
            Some(Advice::AddWithMdadm(out))
        }
        geometry if !out.is_empty() => Some(Advice::BringBackOrReplace {
            members: out,
            into_free_space: matches!(geometry, PoolGeometry::Mapped(_)),
        }),
        // Chunks that move off a member that is leaving keep their redundancy meanwhile: no stripe is degraded then.
        _ if status.rebuild_chunks_left > 0 && status.stripes_degraded > 0 || is_evacuating => {
            Some(Advice::WaitForRebuild)
        }
        _ if status.stripes_degraded > 0 || has_exposed_metadata(observed) => Some(Advice::WaitForRedundancy),
        _ => None,
    }
}

impl Advice {
    /// Whether it asks for more than to wait.
    pub fn needs_action(&self) -> bool {
        !matches!(
            self,
            Advice::WaitForRebuild
                | Advice::WaitForRedundancy
                | Advice::WaitForRemoval(_)
                | Advice::ServeForWriting
        )
    }
}

fn medians(all: &[MemberLatency], member: usize, of: fn(&MemberLatency) -> &LatencyHistogram) -> Medians {
    let others = all.iter().enumerate().filter(|(other, _)| *other != member);
    let mut others: Vec<u64> = others.filter_map(|(_, m)| of(m).quantile_ns(0.5)).collect();
    others.sort_unstable();
    Medians {
        own_ns: of(&all[member]).quantile_ns(0.5),
        others_ns: others.get(others.len().saturating_sub(1) / 2).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew_format::model::config::{MemberConfig, WEIGHT_FULL};
    use sinew_format::model::elastic_policy::ElasticPolicy;
    use sinew_format::model::mapped_geometry::{MappedGeometry, MemberLayout, Protection};
    use sinew_members::member_stats::MemberStats;

    fn config(states: &[MemberState]) -> Config {
        let geometry = MappedGeometry {
            protection: Protection::Parity1,
            data_columns: 2,
            shards: 1,
            checksums: true,
            journal_blocks: 64,
        };
        let member = |(i, state): (usize, &MemberState)| MemberConfig {
            uuid: [i as u8; 16],
            bytes: 64 << 20,
            layout: MemberLayout::default(),
            state: *state,
            out_epoch: 0,
            path: format!("/dev/m{i}"),
            physical: 0,
            weight: WEIGHT_FULL,
        };
        Config {
            pool: [9; 16],
            name: "tank".to_owned(),
            generation: 1,
            epoch: 1,
            geometry: PoolGeometry::Mapped(geometry),
            members: states.iter().enumerate().map(member).collect(),
            volumes: Vec::new(),
            volume_next: 0,
            openings: Vec::new(),
            damage: Vec::new(),
            elastic_policy: ElasticPolicy::DEFAULT,
            open_on: None,
            states_reach: true,
        }
    }

    fn status() -> ShardStatus {
        ShardStatus {
            capacity_bytes: 1000,
            members: vec![MemberStats::default(); 4],
            member_latency: vec![MemberLatency::default(); 4],
            ..ShardStatus::default()
        }
    }

    const ACTIVE: [MemberState; 4] = [MemberState::Active; 4];

    fn with(member: usize, state: MemberState) -> Config {
        let mut states = ACTIVE;
        states[member] = state;
        config(&states)
    }

    fn observed<'a>(config: &'a Config, status: &'a ShardStatus) -> Observed<'a> {
        Observed {
            config,
            status,
            unnamed: &[],
            mode: OpenMode::ReadWrite,
            has_failed: false,
            refused_lately: false,
            thin: Vec::new(),
            damaged_ranges: 0,
        }
    }

    fn assess_with(config: &Config, status: &ShardStatus, unnamed: &[usize]) -> Assessment {
        assess(&Observed { unnamed, ..observed(config, status) })
    }

    #[track_caller]
    fn check(config: &Config, status: &ShardStatus, health: Health, advice: &[Advice]) {
        let found = assess_with(config, status, &[]);
        assert_eq!((found.health, found.advice.as_slice()), (health, advice));
    }

    fn bring_back(member: usize) -> Advice {
        Advice::BringBackOrReplace { members: vec![member], into_free_space: true }
    }

    #[test]
    fn a_whole_pool_is_healthy_and_needs_nothing() {
        check(&config(&ACTIVE), &status(), Health::Healthy, &[]);
        for state in [MemberState::Removed, MemberState::Spare] {
            check(&with(1, state), &status(), Health::Healthy, &[]);
        }
    }

    #[test]
    fn a_member_that_is_out_is_to_be_brought_back_or_replaced() {
        for state in [MemberState::Failed, MemberState::Offline, MemberState::Missing] {
            check(&with(2, state), &status(), Health::Degraded, &[bring_back(2)]);
            let at_risk = ShardStatus { stripes_at_risk: 1, ..status() };
            check(&with(2, state), &at_risk, Health::AtRisk, &[bring_back(2)]);
        }
    }

    #[test]
    fn what_restores_redundancy_by_itself_is_waited_for() {
        let rebuild = ShardStatus { rebuild_chunks_left: 5, stripes_degraded: 3, ..status() };
        check(&config(&ACTIVE), &rebuild, Health::Degraded, &[Advice::WaitForRebuild]);
        let at_risk = ShardStatus { stripes_at_risk: 1, ..rebuild };
        check(&config(&ACTIVE), &at_risk, Health::AtRisk, &[Advice::WaitForRebuild]);
        check(&with(1, MemberState::Evacuating), &status(), Health::Degraded, &[Advice::WaitForRebuild]);
        let degraded = ShardStatus { stripes_degraded: 1, ..status() };
        check(&config(&ACTIVE), &degraded, Health::Degraded, &[Advice::WaitForRedundancy]);
        let metadata = ShardStatus { metadata_degraded: 1, ..status() };
        check(&config(&ACTIVE), &metadata, Health::Degraded, &[Advice::WaitForRedundancy]);
        assert!(!Advice::WaitForRebuild.needs_action() && bring_back(1).needs_action());
    }

    #[test]
    fn a_member_that_is_leaving_takes_no_redundancy_along() {
        let moving = ShardStatus { rebuild_chunks_left: 5, metadata_degraded: 1, ..status() };
        check(&with(3, MemberState::Leaving), &moving, Health::Healthy, &[Advice::WaitForRemoval(3)]);
    }

    #[test]
    fn damage_hides_no_member_that_is_out() {
        let (config, status) = (with(2, MemberState::Failed), status());
        let mut observed = observed(&config, &status);
        observed.damaged_ranges = 3;
        let found = assess(&observed);
        let advice = vec![Advice::RestoreDamage { ranges: 3 }, bring_back(2)];
        assert_eq!(found, Assessment { health: Health::Damaged, safety: Safety::Lost, advice });
        observed.damaged_ranges = 0;
        assert_eq!(assess(&observed).health, Health::Degraded);
    }

    #[test]
    fn a_growth_that_waits_is_told_first() {
        let stuck = ShardStatus { growth_stuck: 1, ..status() };
        let advice = [Advice::UnblockGrowth, bring_back(2)];
        check(&with(2, MemberState::Failed), &stuck, Health::Degraded, &advice);
    }

    #[test]
    fn a_rebuild_that_waits_has_its_advice() {
        let stuck = ShardStatus { rebuild_stuck: 2, stripes_degraded: 3, rebuild_chunks_left: 3, ..status() };
        let advice = [Advice::UnblockRebuild, Advice::WaitForRebuild];
        check(&config(&ACTIVE), &stuck, Health::Degraded, &advice);
    }

    #[test]
    fn a_pool_without_physical_space_is_suspended_as_long_as_writes_wait_for_it() {
        let mut full = status();
        full.member_full = vec![false, true, true, false];
        let advice = [Advice::MakePhysicalSpace(vec![1, 2])];
        check(&config(&ACTIVE), &full, Health::Healthy, &advice);
        let waiting = ShardStatus { waits_for_space: 1, ..full.clone() };
        check(&config(&ACTIVE), &waiting, Health::Suspended, &advice);
        let config = config(&ACTIVE);
        let mut observed = Observed { refused_lately: true, ..observed(&config, &full) };
        let found = assess(&observed);
        assert_eq!((found.health, found.safety), (Health::Suspended, Safety::Whole));
        // The shards refuse clients before a thin member is full.
        let with_space = status();
        observed.status = &with_space;
        observed.thin = vec![0, 3];
        let found = assess(&observed);
        assert_eq!(
            (found.health, found.advice),
            (Health::Suspended, vec![Advice::MakePhysicalSpace(vec![0, 3])])
        );
        observed.thin.clear();
        // A pool whose capacity is used up refuses requests too, and its members are not full.
        let status = status();
        observed.status = &status;
        assert_eq!(assess(&observed).health, Health::Healthy);
    }

    #[test]
    fn a_failed_pool_is_to_be_served_again_and_nothing_else() {
        let status = status();
        let config = config(&[MemberState::Failed; 4]);
        let observed =
            Observed { has_failed: true, unnamed: &[1], damaged_ranges: 9, ..observed(&config, &status) };
        let advice = vec![Advice::ServeAgain];
        assert_eq!(assess(&observed), Assessment { health: Health::Failed, safety: Safety::Unknown, advice });
    }

    #[test]
    fn a_pool_that_is_served_read_only_says_so_and_what_can_be_done() {
        let (config, status) = (with(2, MemberState::Missing), status());
        let mut observed = Observed { mode: OpenMode::ReadOnly, ..observed(&config, &status) };
        let found = assess(&observed);
        assert_eq!((found.health, found.advice), (Health::Degraded, vec![Advice::ServeForWriting]));
        observed.mode = OpenMode::LastResort;
        observed.damaged_ranges = 3;
        let advice = vec![Advice::RescueData(vec![2])];
        assert_eq!(assess(&observed), Assessment { health: Health::Failed, safety: Safety::Unknown, advice });
    }

    #[test]
    fn a_healthy_pool_can_need_attention() {
        let unnamed = assess_with(&config(&ACTIVE), &status(), &[1]);
        assert_eq!((unnamed.health, unnamed.advice), (Health::Healthy, vec![Advice::ReplaceBeforeStop(1)]));
        let mut errors = status();
        errors.members[3].checksum_errors = 1;
        check(&config(&ACTIVE), &errors, Health::Healthy, &[Advice::Scrub(3)]);
        errors.stored_bytes = 951;
        check(&config(&ACTIVE), &errors, Health::Healthy, &[Advice::Scrub(3), Advice::MakeRoom]);
        let not_full = ShardStatus { stored_bytes: 950, ..status() };
        check(&config(&ACTIVE), &not_full, Health::Healthy, &[]);
    }

    #[test]
    fn a_slow_member_is_named_with_the_evidence() {
        let mut slow = status();
        slow.member_latency[1].suspect = true;
        slow.member_latency[1].slow_for_ns = 7;
        let none = Medians { own_ns: None, others_ns: None };
        let evidence = SlowMember { member: 1, slow_for_ns: 7, reads: none, writes: none, can_leave: true };
        check(&config(&ACTIVE), &slow, Health::Healthy, &[Advice::ReplaceSlow(evidence)]);
    }
}
