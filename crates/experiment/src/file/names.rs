//! Names in files and results that stand for types of the engine, the layouts and the device models.
//!
//! Each name has one spelling, which serde reads and writes: files of users and cached results contain it, so a spelling never
//! changes.

use serde::{Deserialize, Serialize};
use sinew_engine::pool::preset::Preset;
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::mapped_geometry::Protection;
use sinew_layout::grown::Method;
use sinew_layout::{Level, Rotation};
use sinew_members::latency::{SpikeAvoidance, Thresholds};

use crate::units::nanoseconds;

/// The system that requests are issued to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetName {
    /// The volumes of a mapped pool of all members.
    #[default]
    Pool,
    /// The one volume of an array of all members.
    Array,
    /// The first member alone, without the engine. Volumes are consecutive ranges of it.
    Member,
}

/// A device model of docs/device-models.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/device-models.md describes them")]
pub enum ModelName {
    Slc,
    Mqsim,
    Femu,
    Datacenter,
    Consumer,
    Pitfalls,
    #[serde(rename = "ultrastar_36z15")]
    Ultrastar36z15,
    Constellation2,
}

/// A preset of docs/presets.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PresetName(pub Preset);

impl TryFrom<String> for PresetName {
    type Error = String;

    fn try_from(name: String) -> Result<PresetName, String> {
        Preset::named(&name).map(PresetName).ok_or_else(|| {
            let known: Vec<_> = Preset::ALL.iter().map(|preset| preset.name).collect();
            format!("there is no preset {name}; the presets are {}", known.join(", "))
        })
    }
}

impl From<PresetName> for String {
    fn from(name: PresetName) -> String {
        name.0.name.to_owned()
    }
}

/// How latency spikes of members are detected and avoided; docs/slow-members.md describes the settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "docs/slow-members.md describes them")]
pub enum SpikeAvoidanceName {
    Off,
    #[default]
    Auto,
    Consumer,
    Datacenter,
    Fusionraid,
    /// Detects spikes with FusionRAID's thresholds and counts them, but avoids no member.
    Watch,
    /// FusionRAID's method with other thresholds.
    Given {
        /// A request that is pending for longer than this many seconds is a straggler.
        late_s: f64,
        /// The number of stragglers that begins a spike.
        up: u32,
        /// The number of stragglers at or below which a spike ends.
        #[serde(default)]
        down: u32,
    },
}

impl From<SpikeAvoidanceName> for SpikeAvoidance {
    fn from(name: SpikeAvoidanceName) -> SpikeAvoidance {
        match name {
            SpikeAvoidanceName::Off => SpikeAvoidance::Off,
            SpikeAvoidanceName::Auto => SpikeAvoidance::Auto,
            SpikeAvoidanceName::Consumer => SpikeAvoidance::Consumer,
            SpikeAvoidanceName::Datacenter => SpikeAvoidance::Datacenter,
            SpikeAvoidanceName::Fusionraid => SpikeAvoidance::FusionRaid,
            SpikeAvoidanceName::Watch => SpikeAvoidance::Watch,
            SpikeAvoidanceName::Given { late_s, up, down } => {
                SpikeAvoidance::Given(Thresholds { late_ns: nanoseconds(late_s), up, down })
            }
        }
    }
}

/// A RAID level that can grow. RAID 10 has two near copies; RAID 5 and 6 are left-symmetric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the levels")]
pub enum LevelName {
    Raid0,
    Raid10,
    Raid5,
    Raid6,
}

impl From<LevelName> for Level {
    fn from(name: LevelName) -> Level {
        match name {
            LevelName::Raid0 => Level::Raid0,
            LevelName::Raid10 => Level::Raid10 { copies: 2 },
            LevelName::Raid5 => Level::Raid5(Rotation::LeftSymmetric),
            LevelName::Raid6 => Level::Raid6(Rotation::LeftSymmetric),
        }
    }
}

/// A growth method whose placement can be computed without an array; docs/layouts.md describes the methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "docs/layouts.md describes them")]
pub enum MethodName {
    #[serde(rename = "fastscale")]
    FastScale,
    RoundRobin,
    SemiRoundRobin,
    Restripe,
    Spread,
}

impl From<MethodName> for Method {
    fn from(name: MethodName) -> Method {
        match name {
            MethodName::FastScale => Method::FastScale,
            MethodName::RoundRobin => Method::RoundRobin,
            MethodName::SemiRoundRobin => Method::SemiRoundRobin,
            MethodName::Restripe => Method::Restripe,
            MethodName::Spread => Method::Spread,
        }
    }
}

/// A growth method of an array in use; docs/layouts.md describes the methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "docs/layouts.md describes them")]
pub enum GrowMethodName {
    #[serde(rename = "fastscale")]
    FastScale,
    SemiRoundRobin,
    RoundRobin,
    Slas,
    MdReshape,
    Spread,
    Restripe,
}

impl From<GrowMethodName> for GrowMethod {
    fn from(name: GrowMethodName) -> GrowMethod {
        match name {
            GrowMethodName::FastScale => GrowMethod::FastScale,
            GrowMethodName::SemiRoundRobin => GrowMethod::SemiRoundRobin,
            GrowMethodName::RoundRobin => GrowMethod::RoundRobin,
            GrowMethodName::Slas => GrowMethod::Slas,
            GrowMethodName::MdReshape => GrowMethod::MdReshape,
            GrowMethodName::Spread => GrowMethod::Spread,
            GrowMethodName::Restripe => GrowMethod::Restripe,
        }
    }
}

/// The protection of a mapped pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say which redundancy a stripe has")]
pub enum ProtectionName {
    Mirror,
    Mirror3,
    #[default]
    Parity1,
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

impl From<Protection> for ProtectionName {
    fn from(protection: Protection) -> ProtectionName {
        match protection {
            Protection::Mirror { copies: 2 } => ProtectionName::Mirror,
            Protection::Mirror { .. } => ProtectionName::Mirror3,
            Protection::Parity1 => ProtectionName::Parity1,
            Protection::Parity2 => ProtectionName::Parity2,
        }
    }
}
