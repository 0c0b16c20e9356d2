//! The names that people and programs give to levels, protections and ways of doing things, each declared once: for
//! options of the command line, for the control socket, and for reports.

use anyhow::{Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use sinew_format::model::array_geometry::{Access, ArrayGeometry};
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::policy::Packing;
use sinew_layout::grown::Method;
use sinew_layout::{Level, Rotation};
use sinew_members::latency::SpikeAvoidance;

/// The failures that a mapped pool survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtectionName {
    /// Two copies: one member may fail.
    Mirror,
    /// Three copies: two members may fail.
    Mirror3,
    /// One parity chunk per stripe: one member may fail.
    #[default]
    Parity1,
    /// Two parity chunks per stripe: two members may fail.
    Parity2,
}

impl From<ProtectionName> for Protection {
    fn from(name: ProtectionName) -> Protection {
        match name {
            ProtectionName::Mirror => Protection::Mirror { copies: 2 },
            ProtectionName::Mirror3 => Protection::Mirror { copies: 3 },
            ProtectionName::Parity1 => Protection::Parity1,
            ProtectionName::Parity2 => Protection::Parity2,
        }
    }
}

/// The level of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelName {
    /// Striping without redundancy.
    #[value(name = "0", alias = "raid0")]
    Raid0,
    /// Every member holds everything.
    #[value(name = "1", alias = "raid1")]
    Raid1,
    /// Near copies of every chunk, on consecutive members.
    #[value(name = "10", alias = "raid10")]
    Raid10,
    /// One parity chunk in each stripe.
    #[value(name = "5", alias = "raid5")]
    Raid5,
    /// Two parity chunks in each stripe.
    #[value(name = "6", alias = "raid6")]
    Raid6,
    /// RAID 0 over groups that are RAID 5.
    #[value(name = "50", alias = "raid50")]
    Raid50,
    /// RAID 0 over groups that are RAID 6.
    #[value(name = "60", alias = "raid60")]
    Raid60,
}

/// How parity rotates, by md's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RotationName {
    /// Parity moves left, data begins on the first member.
    LeftAsymmetric,
    /// Parity moves right, data begins on the first member.
    RightAsymmetric,
    /// Parity moves left, data begins behind it; md's default.
    #[default]
    LeftSymmetric,
    /// Parity moves right, data begins behind it.
    RightSymmetric,
}

/// The parameters of a level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelParts {
    /// Of levels with parity.
    pub(crate) rotation: RotationName,
    /// Copies of every chunk, of level 10.
    pub(crate) copies: u32,
    /// Groups of equally many members, of levels 50 and 60.
    pub(crate) groups: u32,
}

impl Default for LevelParts {
    fn default() -> LevelParts {
        LevelParts { rotation: RotationName::default(), copies: 2, groups: 2 }
    }
}

impl LevelName {
    /// The level with those of the parts that it has.
    pub(crate) fn level(self, parts: LevelParts) -> Level {
        let LevelParts { rotation, copies, groups } = parts;
        let rotation = match rotation {
            RotationName::LeftAsymmetric => Rotation::LeftAsymmetric,
            RotationName::RightAsymmetric => Rotation::RightAsymmetric,
            RotationName::LeftSymmetric => Rotation::LeftSymmetric,
            RotationName::RightSymmetric => Rotation::RightSymmetric,
        };
        match self {
            LevelName::Raid0 => Level::Raid0,
            LevelName::Raid1 => Level::Raid1,
            LevelName::Raid10 => Level::Raid10 { copies },
            LevelName::Raid5 => Level::Raid5(rotation),
            LevelName::Raid6 => Level::Raid6(rotation),
            LevelName::Raid50 => Level::Raid50 { groups, rotation },
            LevelName::Raid60 => Level::Raid60 { groups, rotation },
        }
    }
}

/// How an array grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MethodName {
    /// Levels 0 and 10: moves the least, in long runs, and stays even (FAST '11).
    Fastscale,
    /// Levels 0 and 10: moves the least, chunk by chunk; becomes uneven and gains no space. For comparison.
    SemiRoundRobin,
    /// Levels 0 and 10: moves nearly everything, chunk by chunk. For comparison.
    RoundRobin,
    /// Levels 0 and 10: moves nearly everything, in windows; ends as a new array would be.
    Slas,
    /// Levels 0 and 10: moves nearly everything as md does, with requests waiting. For comparison.
    MdReshape,
    /// Levels 5 and 6: takes a few stripes apart to widen the others.
    Spread,
    /// Levels 5 and 6: makes every stripe anew and computes all parity again; ends as a new array would be. Needs an
    /// array with one shard, and room in the journal.
    Restripe,
}

impl From<MethodName> for GrowMethod {
    fn from(name: MethodName) -> GrowMethod {
        match name {
            MethodName::Fastscale => GrowMethod::FastScale,
            MethodName::SemiRoundRobin => GrowMethod::SemiRoundRobin,
            MethodName::RoundRobin => GrowMethod::RoundRobin,
            MethodName::Slas => GrowMethod::Slas,
            MethodName::MdReshape => GrowMethod::MdReshape,
            MethodName::Spread => GrowMethod::Spread,
            MethodName::Restripe => GrowMethod::Restripe,
        }
    }
}

impl MethodName {
    /// The method by the layout that it ends in.
    ///
    /// # Errors
    /// For methods that differ from another one only while the array grows.
    pub(crate) fn layout(self) -> Result<Method> {
        Ok(match self {
            MethodName::Fastscale => Method::FastScale,
            MethodName::SemiRoundRobin => Method::SemiRoundRobin,
            MethodName::RoundRobin => Method::RoundRobin,
            MethodName::Spread => Method::Spread,
            MethodName::Restripe => Method::Restripe,
            MethodName::Slas | MethodName::MdReshape => {
                bail!("this method ends in the layout of round-robin; say --method round-robin")
            }
        })
    }
}

/// How members in a latency spike are detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SpikeAvoidanceName {
    /// No latency is measured, and no member avoided.
    Off,
    /// Thresholds follow from each member's latest latencies.
    #[default]
    Auto,
    /// Fixed thresholds: three requests pending for 2 ms.
    Consumer,
    /// Fixed thresholds: six requests pending for 5 ms.
    Datacenter,
    /// As datacenter, but without hedging: a request that has been sent is waited for.
    Fusionraid,
}

impl From<SpikeAvoidanceName> for SpikeAvoidance {
    fn from(name: SpikeAvoidanceName) -> SpikeAvoidance {
        match name {
            SpikeAvoidanceName::Off => SpikeAvoidance::Off,
            SpikeAvoidanceName::Auto => SpikeAvoidance::Auto,
            SpikeAvoidanceName::Consumer => SpikeAvoidance::Consumer,
            SpikeAvoidanceName::Datacenter => SpikeAvoidance::Datacenter,
            SpikeAvoidanceName::Fusionraid => SpikeAvoidance::FusionRaid,
        }
    }
}

/// How small writes lie in stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PackingName {
    /// One behind the other.
    Packed,
    /// Each in chunks of its own, as in FusionRAID.
    WholeChunks,
}

impl From<PackingName> for Packing {
    fn from(name: PackingName) -> Packing {
        match name {
            PackingName::Packed => Packing::Packed,
            PackingName::WholeChunks => Packing::WholeChunks,
        }
    }
}

/// How an array of md's is served.
pub(crate) fn access_name(access: Access) -> &'static str {
    match access {
        Access::ReadOnly => "read-only",
        Access::ReadWrite => "read-write",
    }
}

/// The protection of an array's stripes against a crash, in a few words.
pub(crate) fn journal_text(array: &ArrayGeometry) -> &'static str {
    match (array.parity_columns(), array.journal) {
        (0, _) => "no parity",
        (_, true) => "with journal",
        (_, false) => "no journal, write hole open",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that an option or a request takes are those that a report gives.
    #[test]
    fn names_are_those_of_the_engine() {
        fn name(value: &impl ValueEnum) -> String {
            value.to_possible_value().expect("a value without `skip`").get_name().to_owned()
        }
        for value in MethodName::value_variants() {
            assert_eq!(name(value), GrowMethod::from(*value).name());
        }
        for value in SpikeAvoidanceName::value_variants() {
            assert_eq!(name(value), SpikeAvoidance::from(*value).name());
        }
        for value in PackingName::value_variants() {
            assert_eq!(name(value), Packing::from(*value).name());
        }
        for value in RotationName::value_variants() {
            let parts = LevelParts { rotation: *value, ..LevelParts::default() };
            let Level::Raid5(rotation) = LevelName::Raid5.level(parts) else { panic!("a level 5") };
            assert_eq!(name(value), rotation.to_string());
        }
    }
}
