//! What a file says.
//!
//! Sizes are bytes or strings like "64K" and "1.5G" (powers of 1024), times are seconds. Unknown keys are errors.

mod check;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sinew_engine::pool::preset::Preset;
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::policy::Policy;
use sinew_members::latency::{SpikeAvoidance, Thresholds};
use sinew_workload::{ByteSize, Pace, Workload};
use toml::Value;

use crate::growth::LevelName;
use crate::reference::ReferenceSpec;

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What it shows, in a sentence or two.
    pub description: String,
    /// How long and how often.
    pub run: RunSpec,
    /// What the requests go to.
    #[serde(default)]
    pub target: TargetName,
    /// The name of a composition, instead of target, pool and array.
    #[serde(default)]
    pub preset: Option<PresetName>,
    /// Settings of a preset's layer.
    #[serde(default)]
    pub layer: LayerSpec,
    /// Groups of equal members.
    pub members: Vec<MemberSpec>,
    /// The pool made of them.
    #[serde(default)]
    pub pool: PoolSpec,
    /// The array made of them, where the target is one. Its volume spans it.
    #[serde(default)]
    pub array: ArraySpec,
    /// A pool or array that grows while it is measured.
    #[serde(default)]
    pub grows: Option<GrowsSpec>,
    /// The volumes, by number; of an array, what is to be done to the one that it has.
    pub volumes: Vec<VolumeSpec>,
    /// When requests are issued.
    #[serde(default = "open_loop")]
    pub pace: Pace,
    /// The requests.
    pub workload: Workload,
    /// Systems to compare: each sets something else. Every one is run with everything that is swept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<CaseSpec>,
    /// Values to try, by path. All combinations are run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep: BTreeMap<String, Vec<Value>>,
    /// What a quick run sets, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quick: BTreeMap<String, Value>,
    /// Figures of other people to hold the results beside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<ReferenceSpec>,
}

/// How long and how often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Simulated time that is measured.
    pub duration_s: f64,
    /// Simulated time under load before that.
    #[serde(default)]
    pub warm_up_s: f64,
    /// The length of the spans in which things are told over time.
    #[serde(default = "tenth")]
    pub interval_s: f64,
    /// One run for each.
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
}

/// What the requests go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetName {
    /// Volumes of a pool of all members.
    #[default]
    Pool,
    /// The volume of an array of all members.
    Array,
    /// The first member alone, without the engine; volumes lie on it one after the other.
    Member,
}

/// A group of equal members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberSpec {
    /// What they are like.
    pub model: ModelName,
    /// How many.
    #[serde(default = "one")]
    pub count: usize,
    /// The size of each; the model's where not given. Of a disk it is the part at its start that is used.
    #[serde(default)]
    pub size: Option<ByteSize>,
    /// SSDs: written whole once, and then so many times their size at random. New where not given.
    #[serde(default)]
    pub aging: Option<f64>,
    /// SSDs: flash beyond the size, as a part of it; the model's where not given.
    #[serde(default)]
    pub spare: Option<f64>,
    /// SSDs: pages of an erase block; the model's where not given. Small drives need fewer, or the least number of erase
    /// blocks gives them more spare space than asked for.
    #[serde(default)]
    pub pages: Option<u32>,
    /// SSDs: reads suspend programs and erases.
    #[serde(default)]
    pub suspend: bool,
    /// So many of them, the first ones, answer nothing from the beginning of the load on, until it ends.
    #[serde(default)]
    pub stalled: usize,
}

/// A model of docs/device-models.md.
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

/// The pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSpec {
    /// What it survives.
    #[serde(default)]
    pub protection: ProtectionName,
    /// Data columns of a stripe; by default as the engine chooses.
    #[serde(default)]
    pub width: usize,
    /// Shards; 1 by default. Processor time is not simulated, so more of them only cut the pool into more slices.
    #[serde(default)]
    pub shards: Option<usize>,
    /// Keep and check checksums. Simulated members do not corrupt anything here, so it only costs real time.
    #[serde(default)]
    pub checksums: bool,
    /// A bound on background work per second; none where not given.
    #[serde(default)]
    pub throttle: Option<ByteSize>,
    /// How members in a latency spike are found: `auto`, or as the preset says.
    #[serde(default)]
    pub step_around: Option<StepAroundName>,
    /// What is changed of the policy of a mapped pool.
    #[serde(default)]
    pub policy: PolicySpec,
}

/// What is changed of a policy; docs/policy.md describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// Whether what is read in sequence, and stored apart, is brought together.
    #[serde(default)]
    pub gather: Option<bool>,
    /// Percent of the room for chunks: while less is free, mirrored stripes are converted.
    #[serde(default)]
    pub convert_below_free: Option<u8>,
    /// Bytes per second that clients move on a member: above that conversion pauses; 0 is never.
    #[serde(default)]
    pub convert_pause_above: Option<u64>,
}

impl PolicySpec {
    pub(crate) fn applied_to(self, policy: Policy) -> Policy {
        Policy {
            gather: self.gather.unwrap_or(policy.gather),
            convert_below_free: self.convert_below_free.unwrap_or(policy.convert_below_free),
            convert_pause_above: self.convert_pause_above.unwrap_or(policy.convert_pause_above),
            ..policy
        }
    }
}

/// A preset, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PresetName(pub Preset);

impl TryFrom<String> for PresetName {
    type Error = String;

    fn try_from(name: String) -> Result<PresetName, String> {
        Preset::named(&name).map(PresetName).ok_or_else(|| {
            let known: Vec<_> = Preset::ALL.iter().map(|preset| preset.name).collect();
            format!("there is no preset {name}; there are: {}", known.join(", "))
        })
    }
}

impl From<PresetName> for String {
    fn from(name: PresetName) -> String {
        name.0.name.to_owned()
    }
}

/// What presets have above their members beside the engine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerSpec {
    /// Bytes of non-volatile memory.
    #[serde(default = "buffer")]
    pub buffer: ByteSize,
    /// Part of the array that a log keeps for cleaning.
    #[serde(default = "tenth")]
    pub spare: f64,
    /// Writes to arrays take the time of md's software, too.
    #[serde(default)]
    pub software: bool,
}

impl Default for LayerSpec {
    fn default() -> LayerSpec {
        LayerSpec { buffer: buffer(), spare: tenth(), software: false }
    }
}

/// How latency spikes are found; docs/slow-members.md describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "docs/slow-members.md describes them")]
pub enum StepAroundName {
    Off,
    #[default]
    Auto,
    Consumer,
    Datacenter,
    Fusionraid,
    /// Spikes are counted, with FusionRAID's thresholds, and nobody is avoided.
    Watch,
    /// As FusionRAID, with thresholds of one's own.
    Given {
        /// A request pending for longer is a straggler.
        late_s: f64,
        /// So many stragglers begin a spike.
        up: u32,
        /// So many or fewer end it.
        #[serde(default)]
        down: u32,
    },
}

impl From<StepAroundName> for SpikeAvoidance {
    fn from(name: StepAroundName) -> SpikeAvoidance {
        match name {
            StepAroundName::Off => SpikeAvoidance::Off,
            StepAroundName::Auto => SpikeAvoidance::Auto,
            StepAroundName::Consumer => SpikeAvoidance::Consumer,
            StepAroundName::Datacenter => SpikeAvoidance::Datacenter,
            StepAroundName::Fusionraid => SpikeAvoidance::FusionRaid,
            StepAroundName::Watch => SpikeAvoidance::Watch,
            StepAroundName::Given { late_s, up, down } => {
                SpikeAvoidance::Given(Thresholds { late_ns: crate::run::ns(late_s), up, down })
            }
        }
    }
}

/// An array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySpec {
    /// Its level.
    pub level: LevelName,
    /// Bytes of a chunk.
    #[serde(default = "chunk")]
    pub chunk: ByteSize,
    /// Levels with parity: with a journal.
    #[serde(default)]
    pub journal: bool,
    /// Shards; 1 by default.
    #[serde(default)]
    pub shards: Option<usize>,
}

impl Default for ArraySpec {
    fn default() -> ArraySpec {
        ArraySpec { level: LevelName::Raid0, chunk: chunk(), journal: false, shards: None }
    }
}

/// How a pool or array grows while it is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrowsSpec {
    /// The way, of an array.
    #[serde(default)]
    pub method: Option<GrowMethodName>,
    /// How many of the members, the last ones, are added, for each addition; one addition after the other.
    pub added: Vec<usize>,
    /// Grow before anything is measured, with no load.
    #[serde(default)]
    pub before: bool,
    /// Measure until it has grown, if that is sooner than all of `run.duration_s`.
    #[serde(default)]
    pub to_the_end: bool,
    /// Growing rests while clients ask for more than so much per second; 0 is never.
    #[serde(default)]
    pub rest_above: u64,
}

/// A way to grow in use; docs/layouts.md describes them.
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

/// What a pool survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it all")]
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

/// A volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    /// Its size.
    pub size: ByteSize,
    /// Written whole before anything else, in order.
    #[serde(default)]
    pub fill: bool,
    /// After that, so many times its size written at random.
    #[serde(default)]
    pub overwrite: f64,
    /// Bytes of each of those writes.
    #[serde(default = "chunk")]
    pub overwrite_unit: ByteSize,
}

/// A system to compare with others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseSpec {
    /// How it is called.
    pub name: String,
    /// What it sets, by path.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// Run with everything that is swept; otherwise once, without.
    #[serde(default = "yes")]
    pub swept: bool,
}

fn yes() -> bool {
    true
}

fn open_loop() -> Pace {
    Pace::Timed { in_flight_max: None }
}

fn buffer() -> ByteSize {
    ByteSize(256 << 20)
}

fn chunk() -> ByteSize {
    ByteSize(64 << 10)
}

fn tenth() -> f64 {
    0.1
}

fn one() -> usize {
    1
}

fn one_seed() -> Vec<u64> {
    vec![1]
}
