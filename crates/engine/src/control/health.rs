//! Whether a pool's data is safe, and what its operator should do.
//!
//! A pure decision over the configuration, the status of all shards, and the members whose device nodes are gone. Reports
//! and metrics print the result and decide nothing.

use sinew_format::model::config::{Config, MemberState};
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_members::latency::{LatencyHistogram, MemberLatency, Response};
use sinew_members::status::ShardStatus;

/// A mapped pool that stores more than this part of its capacity is almost full.
const ALMOST_FULL_PERCENT: u64 = 95;

/// How safe the data of a pool is, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// The data has all the redundancy that it should have.
    Healthy,
    /// Some data has less redundancy than it should have.
    Degraded,
    /// The loss of one more member may lose data.
    AtRisk,
    /// Blocks without a good copy were found since the pool was opened.
    Damaged,
}

impl Health {
    /// All of them, best first.
    pub const ALL: [Health; 4] = [Health::Healthy, Health::Degraded, Health::AtRisk, Health::Damaged];

    /// Its name, in reports and on the control socket.
    pub fn name(self) -> &'static str {
        match self {
            Health::Healthy => "healthy",
            Health::Degraded => "degraded",
            Health::AtRisk => "at risk",
            Health::Damaged => "damaged",
        }
    }
}

/// What an operator should do. Members are given by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing.
    Nothing,
    /// Mend members: a growth waits because chunks cannot be read, or cannot be written where they go.
    UnblockGrowth,
    /// Restore the blocks without a good copy from a backup.
    RestoreFromBackup,
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

/// The decision about a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// How safe the data is.
    pub health: Health,
    /// What should be done first.
    pub advice: Advice,
}

/// Decides how safe the data of a pool is and what should be done first. `unnamed` are members that work, but whose device
/// nodes or files are gone.
pub fn assess(config: &Config, status: &ShardStatus, unnamed: &[usize]) -> Assessment {
    let out: Vec<usize> = config
        .out()
        .into_iter()
        .enumerate()
        .filter(|(_, is_out)| *is_out)
        .map(|(member, _)| member)
        .collect();
    let evacuating = config.members.iter().any(|m| m.state == MemberState::Evacuating);
    let is_mapped = matches!(config.geometry, PoolGeometry::Mapped(_));
    let is_md = matches!(config.geometry, PoolGeometry::Array(array) if array.md.is_some());
    let with_less_redundancy = if status.stripes_at_risk > 0 { Health::AtRisk } else { Health::Degraded };
    let (health, advice) = if status.growth_stuck > 0 {
        (Health::Degraded, Advice::UnblockGrowth)
    } else if status.counters.scrub_unrepaired > 0 || status.counters.failed_reads > 0 {
        (Health::Damaged, Advice::RestoreFromBackup)
    } else if status.rebuild_chunks_left > 0 && status.stripes_degraded > 0 || evacuating {
        // Chunks that move off a member that is leaving keep their redundancy meanwhile: no stripe is degraded then.
        (with_less_redundancy, Advice::WaitForRebuild)
    } else if !out.is_empty() && is_md {
        (with_less_redundancy, Advice::AddWithMdadm(out))
    } else if !out.is_empty() {
        (with_less_redundancy, Advice::BringBackOrReplace { members: out, into_free_space: is_mapped })
    } else if let Some(member) = config.members.iter().position(|m| m.state == MemberState::Leaving) {
        (Health::Healthy, Advice::WaitForRemoval(member))
    } else if status.stripes_degraded > 0 || status.metadata_degraded > 0 {
        (Health::Degraded, Advice::WaitForRedundancy)
    } else {
        (Health::Healthy, advice_while_healthy(config, status, unnamed))
    };
    Assessment { health, advice }
}

/// What should be done about a pool that has all its redundancy.
fn advice_while_healthy(config: &Config, status: &ShardStatus, unnamed: &[usize]) -> Advice {
    let is_mapped = matches!(config.geometry, PoolGeometry::Mapped(_));
    if let Some(&member) = unnamed.first() {
        return Advice::ReplaceBeforeStop(member);
    }
    if let Some(member) = status.members.iter().position(|m| m.checksum_errors > 0 || m.read_errors > 0) {
        return Advice::Scrub(member);
    }
    if let Some(member) = status.member_latency.iter().position(|m| m.response == Response::Suspect) {
        return Advice::ReplaceSlow(SlowMember {
            member,
            slow_for_ns: status.member_latency[member].slow_for_ns,
            reads: medians(&status.member_latency, member, |m| &m.reads),
            writes: medians(&status.member_latency, member, |m| &m.writes),
            can_leave: is_mapped,
        });
    }
    if is_mapped && status.stored_bytes * 100 > status.capacity_bytes * ALMOST_FULL_PERCENT {
        return Advice::MakeRoom;
    }
    Advice::Nothing
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
    use sinew_format::model::config::MemberConfig;
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

    #[track_caller]
    fn check(config: &Config, status: &ShardStatus, health: Health, advice: Advice) {
        assert_eq!(assess(config, status, &[]), Assessment { health, advice });
    }

    #[test]
    fn a_whole_pool_is_healthy_and_needs_nothing() {
        check(&config(&ACTIVE), &status(), Health::Healthy, Advice::Nothing);
        for state in [MemberState::Removed, MemberState::Spare] {
            check(&with(1, state), &status(), Health::Healthy, Advice::Nothing);
        }
    }

    #[test]
    fn a_member_that_is_out_is_to_be_brought_back_or_replaced() {
        let advice = Advice::BringBackOrReplace { members: vec![2], into_free_space: true };
        for state in [MemberState::Failed, MemberState::Offline, MemberState::Missing] {
            check(&with(2, state), &status(), Health::Degraded, advice.clone());
            let at_risk = ShardStatus { stripes_at_risk: 1, ..status() };
            check(&with(2, state), &at_risk, Health::AtRisk, advice.clone());
        }
    }

    #[test]
    fn what_restores_redundancy_by_itself_is_waited_for() {
        let rebuild = ShardStatus { rebuild_chunks_left: 5, stripes_degraded: 3, ..status() };
        check(&config(&ACTIVE), &rebuild, Health::Degraded, Advice::WaitForRebuild);
        let at_risk = ShardStatus { stripes_at_risk: 1, ..rebuild };
        check(&config(&ACTIVE), &at_risk, Health::AtRisk, Advice::WaitForRebuild);
        check(&with(1, MemberState::Evacuating), &status(), Health::Degraded, Advice::WaitForRebuild);
        let degraded = ShardStatus { stripes_degraded: 1, ..status() };
        check(&config(&ACTIVE), &degraded, Health::Degraded, Advice::WaitForRedundancy);
        let metadata = ShardStatus { metadata_degraded: 1, ..status() };
        check(&config(&ACTIVE), &metadata, Health::Degraded, Advice::WaitForRedundancy);
    }

    #[test]
    fn a_member_that_is_leaving_takes_no_redundancy_along() {
        let moving = ShardStatus { rebuild_chunks_left: 5, ..status() };
        check(&with(3, MemberState::Leaving), &moving, Health::Healthy, Advice::WaitForRemoval(3));
    }

    #[test]
    fn damage_outweighs_members_that_are_out() {
        let mut damaged = status();
        damaged.counters.failed_reads = 1;
        check(&with(2, MemberState::Failed), &damaged, Health::Damaged, Advice::RestoreFromBackup);
        damaged.counters.failed_reads = 0;
        damaged.counters.scrub_unrepaired = 1;
        check(&config(&ACTIVE), &damaged, Health::Damaged, Advice::RestoreFromBackup);
    }

    #[test]
    fn a_growth_that_waits_is_told_first() {
        let stuck = ShardStatus { growth_stuck: 1, ..status() };
        check(&with(2, MemberState::Failed), &stuck, Health::Degraded, Advice::UnblockGrowth);
    }

    #[test]
    fn a_healthy_pool_can_need_attention() {
        let unnamed = assess(&config(&ACTIVE), &status(), &[1]);
        assert_eq!(unnamed, Assessment { health: Health::Healthy, advice: Advice::ReplaceBeforeStop(1) });
        let mut errors = status();
        errors.members[3].checksum_errors = 1;
        check(&config(&ACTIVE), &errors, Health::Healthy, Advice::Scrub(3));
        let full = ShardStatus { stored_bytes: 951, ..status() };
        check(&config(&ACTIVE), &full, Health::Healthy, Advice::MakeRoom);
        let not_full = ShardStatus { stored_bytes: 950, ..status() };
        check(&config(&ACTIVE), &not_full, Health::Healthy, Advice::Nothing);
    }

    #[test]
    fn a_slow_member_is_named_with_the_evidence() {
        let mut slow = status();
        slow.member_latency[1].response = Response::Suspect;
        slow.member_latency[1].slow_for_ns = 7;
        let none = Medians { own_ns: None, others_ns: None };
        let evidence = SlowMember { member: 1, slow_for_ns: 7, reads: none, writes: none, can_leave: true };
        check(&config(&ACTIVE), &slow, Health::Healthy, Advice::ReplaceSlow(evidence));
    }
}
