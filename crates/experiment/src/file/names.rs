//! Names in files and results that belong to no type of the engine, or have a form of their own here.
//!
//! Levels, protections and methods are read and written as their own types name them. Each name has one spelling, which serde reads and writes: files of users and cached results contain it, so a spelling never
//! changes.

use serde::{Deserialize, Serialize};
use sinew_engine::pool::preset::Preset;
use sinew_layout::names::UnknownName;
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

/// How the length of a block is found that a member compresses; docs/device-models.md describes the measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthsName {
    /// By LZ4; what saves less than a fifth takes a whole block.
    #[default]
    Lz4,
    /// By Deflate at level 6.
    Zlib,
    /// By Zstandard at level 3.
    Zstd,
    /// From what the content says of itself; a block that says nothing takes a whole one.
    Tagged,
}

/// A redundancy inside an SSD, of docs/device-models.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedundancyName {
    /// The error-correcting code alone.
    #[default]
    Ecc,
    /// RAID-5 over logical pages.
    Raid5,
    /// Elastic striping with anywhere parity.
    Esap,
}

/// What is read to compute the parity of an incomplete RAID-5 stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParityReadsName {
    /// Old data and old parity, or the unchanged data, whichever is less.
    #[default]
    Less,
    /// The unchanged data.
    Reconstruct,
}

/// What the spare space of an SSD with redundancy is a fraction of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpareOf {
    /// Data and the parity of full stripes: equal spare space.
    #[default]
    DataAndParity,
    /// Data: equal flash.
    Data,
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SpikeAvoidanceText", into = "SpikeAvoidanceText")]
pub enum SpikeAvoidanceSpec {
    /// A mode with its own thresholds.
    Mode(SpikeAvoidance),
    /// FusionRAID's method with other thresholds.
    Given(GivenThresholds),
}

/// Thresholds of latency spikes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenThresholds {
    /// A request that is pending for longer than this many seconds is a straggler.
    pub late_s: f64,
    /// The number of stragglers that begins a spike.
    pub up: u32,
    /// The number of stragglers at or below which a spike ends.
    #[serde(default)]
    pub down: u32,
}

/// The two forms in a file: `"auto"`, and `{ given = { late_s = 0.001, up = 3 } }`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged, expecting = "neither a name nor { given = { late_s = SECONDS, up = N, down = N } }")]
enum SpikeAvoidanceText {
    Name(String),
    Thresholds { given: GivenThresholds },
}

impl TryFrom<SpikeAvoidanceText> for SpikeAvoidanceSpec {
    type Error = UnknownName;

    fn try_from(text: SpikeAvoidanceText) -> Result<SpikeAvoidanceSpec, UnknownName> {
        Ok(match text {
            SpikeAvoidanceText::Name(name) => SpikeAvoidanceSpec::Mode(name.parse()?),
            SpikeAvoidanceText::Thresholds { given } => SpikeAvoidanceSpec::Given(given),
        })
    }
}

impl From<SpikeAvoidanceSpec> for SpikeAvoidanceText {
    fn from(spec: SpikeAvoidanceSpec) -> SpikeAvoidanceText {
        match spec {
            SpikeAvoidanceSpec::Mode(mode) => SpikeAvoidanceText::Name(mode.name().to_owned()),
            SpikeAvoidanceSpec::Given(given) => SpikeAvoidanceText::Thresholds { given },
        }
    }
}

impl From<SpikeAvoidanceSpec> for SpikeAvoidance {
    fn from(spec: SpikeAvoidanceSpec) -> SpikeAvoidance {
        match spec {
            SpikeAvoidanceSpec::Mode(mode) => mode,
            SpikeAvoidanceSpec::Given(GivenThresholds { late_s, up, down }) => {
                SpikeAvoidance::Given(Thresholds { late_ns: nanoseconds(late_s), up, down })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SpikeAvoidanceSpec, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn spike_avoidance_has_two_forms() {
        for text in ["\"auto\"", "\"watch\"", r#"{"given":{"late_s":0.001,"up":3,"down":1}}"#] {
            assert_eq!(serde_json::to_string(&read(text).unwrap()).unwrap(), text);
        }
        assert!(read("\"some\"").unwrap_err().contains("the valid names are off, auto, consumer"));
        assert!(read(r#"{"given":{"late_s":0.001,"above":3}}"#).unwrap_err().contains("neither a name nor"));
    }
}
