//! What a file says.
//!
//! Sizes are bytes or strings like "64K" and "1.5G" (powers of 1024), times are seconds. Unknown keys are errors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sinew_engine::array::growth::GrowMethod;
use sinew_engine::geometry::Protection;
use sinew_engine::policy::Policy;
use sinew_engine::preset::{Part, Preset};
use sinew_engine::spikes::{StepAround, Thresholds};
use sinew_workload::{ByteSize, Pace, Workload};
use toml::Value;

use crate::growth::LevelName;
use crate::reference::ReferenceSpec;
use crate::{Error, Result};

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

impl From<StepAroundName> for StepAround {
    fn from(name: StepAroundName) -> StepAround {
        match name {
            StepAroundName::Off => StepAround::Off,
            StepAroundName::Auto => StepAround::Auto,
            StepAroundName::Consumer => StepAround::Consumer,
            StepAroundName::Datacenter => StepAround::Datacenter,
            StepAroundName::Fusionraid => StepAround::FusionRaid,
            StepAroundName::Watch => StepAround::Watch,
            StepAroundName::Given { late_s, up, down } => {
                StepAround::Given(Thresholds { late_ns: crate::run::ns(late_s), up, down })
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

/// Virtual time ends before the 52 days that the models can count.
const TIME_MAX_S: f64 = 86_400.0 * 30.0;

/// The least non-volatile memory: a request of clients fits.
const BUFFER_LEAST: u64 = 1 << 20;

/// Spans of a run: more than anybody looks at.
const SPANS_MAX: f64 = 100_000.0;

impl Spec {
    /// Finds what can be found without running anything.
    pub(crate) fn check(&self) -> Result<()> {
        self.run.check()?;
        if self.members.iter().all(|group| group.count == 0) {
            return Err(Error::setting("members", "there are none"));
        }
        for (i, group) in self.members.iter().enumerate() {
            group.check(i)?;
        }
        if self.volumes.is_empty() {
            return Err(Error::setting("volumes", "there are none"));
        }
        self.check_preset()?;
        self.check_array()?;
        self.check_pool()?;
        for (i, volume) in self.volumes.iter().enumerate() {
            if volume.size.0 == 0 || !volume.size.0.is_multiple_of(4096) {
                let why = format!("{} bytes are not a multiple of 4096", volume.size.0);
                return Err(Error::setting(format!("volumes.{i}.size"), why));
            }
            at_least_zero(&format!("volumes.{i}.overwrite"), volume.overwrite)?;
            let unit = volume.overwrite_unit.0;
            if unit == 0 || !unit.is_multiple_of(4096) || unit > volume.size.0 {
                let why = format!("{unit} bytes are not a multiple of 4096, or more than the volume has");
                return Err(Error::setting(format!("volumes.{i}.overwrite_unit"), why));
            }
        }
        match self.pace {
            Pace::Closed { depth: 0 } | Pace::Timed { in_flight_max: Some(0) } => {
                Err(Error::setting("pace", "no request may be in flight"))
            }
            _ => Ok(()),
        }
    }

    fn check_preset(&self) -> Result<()> {
        let Some(PresetName(preset)) = self.preset else {
            let is_set = self.layer != LayerSpec::default();
            return if is_set { Err(Error::setting("layer", "only presets have one")) } else { Ok(()) };
        };
        let PoolSpec { shards, throttle, step_around, policy, .. } = self.pool.clone();
        let only_those = PoolSpec { shards, throttle, step_around, policy, ..PoolSpec::default() };
        let is_free = self.target == TargetName::default() && self.pool == only_those;
        if !is_free || self.array != ArraySpec::default() {
            let why = "it says what target, pool and array are; of pool only shards, throttle, step_around and policy go with it";
            return Err(Error::setting("preset", why));
        }
        if self.grows.is_some() {
            return Err(Error::setting("grows", "a preset does not grow"));
        }
        let members = self.members.iter().map(|group| group.count).sum();
        preset.compose(members, true).map_err(|why| Error::setting("preset", why.to_string()))?;
        if self.layer.buffer.0 < BUFFER_LEAST {
            return Err(Error::setting("layer.buffer", "a buffer has 1 MiB or more"));
        }
        if !(0.01..0.9).contains(&self.layer.spare) {
            return Err(Error::setting("layer.spare", "it is a part of the array, from 0.01 to 0.9"));
        }
        Ok(())
    }

    fn check_pool(&self) -> Result<()> {
        if let Some(StepAroundName::Given { late_s, up, down }) = self.pool.step_around
            && !(late_s > 1e-6 && late_s < TIME_MAX_S && down < up)
        {
            let why = "late_s is a time above 1 us, and more stragglers begin a spike than end it";
            return Err(Error::setting("pool.step_around", why));
        }
        let is_mapped = match self.preset {
            Some(PresetName(preset)) => matches!(preset.part, Part::Mapped(_)),
            None => self.target == TargetName::Pool,
        };
        if !is_mapped && self.pool.policy != PolicySpec::default() {
            return Err(Error::setting("pool.policy", "only mapped pools have one"));
        }
        if self.pool.policy.convert_below_free.is_some_and(|percent| percent > 100) {
            return Err(Error::setting("pool.policy.convert_below_free", "it is a percentage"));
        }
        Ok(())
    }

    fn check_array(&self) -> Result<()> {
        let is_array = self.target == TargetName::Array;
        if is_array && self.volumes.len() != 1 {
            return Err(Error::setting("volumes", "an array has one volume"));
        }
        let Some(grows) = &self.grows else { return Ok(()) };
        let members: usize = self.members.iter().map(|group| group.count).sum();
        let added: usize = grows.added.iter().sum();
        if self.target == TargetName::Member {
            return Err(Error::setting("grows", "a member alone does not"));
        }
        if is_array != grows.method.is_some() {
            return Err(Error::setting("grows.method", "an array has one, and a pool has none"));
        }
        if grows.added.is_empty() || grows.added.contains(&0) {
            return Err(Error::setting("grows.added", "each addition has members"));
        }
        if added >= members {
            return Err(Error::setting("grows.added", format!("of {members} members {added} are added")));
        }
        Ok(())
    }
}

impl RunSpec {
    fn check(&self) -> Result<()> {
        for (name, seconds) in [("run.duration_s", self.duration_s), ("run.interval_s", self.interval_s)] {
            if !(seconds > 0.0 && seconds < TIME_MAX_S) {
                return Err(Error::setting(name, format!("{seconds} is not a time above 0")));
            }
        }
        at_least_zero("run.warm_up_s", self.warm_up_s)?;
        if self.duration_s / self.interval_s > SPANS_MAX {
            let why = format!("{} s are cut into more than {SPANS_MAX} spans", self.duration_s);
            return Err(Error::setting("run.interval_s", why));
        }
        if self.seeds.is_empty() {
            return Err(Error::setting("run.seeds", "there are none"));
        }
        Ok(())
    }
}

impl MemberSpec {
    fn check(&self, index: usize) -> Result<()> {
        let setting = |name: &str| format!("members.{index}.{name}");
        if let Some(size) = self.size
            && (size.0 == 0 || !size.0.is_multiple_of(4096))
        {
            return Err(Error::setting(
                setting("size"),
                format!("{} bytes are not a multiple of 4096", size.0),
            ));
        }
        if self.stalled > self.count {
            let why = format!("{} of {} members", self.stalled, self.count);
            return Err(Error::setting(setting("stalled"), why));
        }
        at_least_zero(&setting("aging"), self.aging.unwrap_or(0.0))?;
        at_least_zero(&setting("spare"), self.spare.unwrap_or(0.0))?;
        let is_disk = matches!(self.model, ModelName::Ultrastar36z15 | ModelName::Constellation2);
        let of_flash = [
            ("aging", self.aging.is_some()),
            ("spare", self.spare.is_some()),
            ("pages", self.pages.is_some()),
            ("suspend", self.suspend),
        ];
        if self.suspend && self.model == ModelName::Consumer {
            return Err(Error::setting(
                setting("suspend"),
                "the consumer drive stops for its erases as a whole",
            ));
        }
        match of_flash.iter().find(|(_, given)| is_disk && *given) {
            Some((name, _)) => Err(Error::setting(setting(name), "a disk has no such thing")),
            None => Ok(()),
        }
    }
}

fn at_least_zero(name: &str, value: f64) -> Result<()> {
    if value.is_finite() && (0.0..TIME_MAX_S).contains(&value) {
        return Ok(());
    }
    Err(Error::setting(name, format!("{value} is not 0 or more")))
}
