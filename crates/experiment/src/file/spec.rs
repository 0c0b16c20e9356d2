//! The file about a simulation: members, pool or array, volumes and workload.
//!
//! Sizes are numbers of bytes or strings like "64K" and "1.5G" (powers of 1024); times are in seconds. Unknown keys are
//! errors. The checks of `file/check.rs` reject values that make no sense.

use serde::{Deserialize, Serialize};
use sinew_engine::pool::preset::{Part, Preset};
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::policy::{Packing, Policy, Shares};
use sinew_layout::{Level, LevelName, LevelParts, ParityWeights};
use sinew_members::ring::group_form::GroupForm;
use sinew_workload::{ByteSize, ContentSpec, Pace, Workload};

use crate::Error;
use crate::file::capacity::CapacitySpec;
use crate::file::drive::DriveSpec;
use crate::file::fails::{FailsSpec, ReplacementName};
use crate::file::head::experiment_file;
use crate::file::names::{
    LengthsName, ModelName, ParityReadsName, PresetName, RedundancyName, SpareOf, SpikeAvoidanceSpec,
    TargetName,
};

experiment_file! {
    /// A file about a simulation.
    pub struct Spec {
        /// How long and how often to run.
        pub run: RunSpec,
        /// The system that requests are issued to.
        #[serde(default)]
        pub target: TargetName,
        /// A preset, which replaces `target`, `pool` and `array`.
        #[serde(default)]
        pub preset: Option<PresetName>,
        /// Settings of the layer of a preset.
        #[serde(default)]
        pub layer: LayerSpec,
        /// Groups of equal members.
        pub members: Vec<MemberSpec>,
        /// Controllers, which members share; the first has the first members, and so on. Members beyond have none.
        #[serde(default)]
        pub controllers: Vec<ControllerSpec>,
        /// The pool of the members.
        #[serde(default)]
        pub pool: PoolSpec,
        /// The array of the members, if the target is one. Its volume spans it.
        #[serde(default)]
        pub array: ArraySpec,
        /// How the pool or array grows during the run.
        #[serde(default)]
        pub grows: Option<OnlineGrowthSpec>,
        /// A member that fails during the measurement.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub fails: Option<FailsSpec>,
        /// Search for the largest load that is served.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub capacity: Option<CapacitySpec>,
        /// Groups of equal volumes, which are numbered through. An array has one volume, whose `size` is ignored.
        pub volumes: Vec<VolumeSpec>,
        /// When requests are issued.
        #[serde(default = "open_loop")]
        pub pace: Pace,
        /// What is written: zeros where not given, which simulated members do not store.
        #[serde(default)]
        pub content: Option<ContentSpec>,
        /// The requests.
        pub workload: Workload,
        /// Other clients at the same time, which do not wait for those of `workload`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub beside: Vec<ClientsSpec>,
    }
}

/// Clients with a pace and requests of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientsSpec {
    /// When requests are issued.
    #[serde(default = "open_loop")]
    pub pace: Pace,
    /// When they begin, in seconds after the load does.
    #[serde(default)]
    pub starts_s: f64,
    /// What they write; as `content` of the file where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentSpec>,
    /// The requests.
    pub workload: Workload,
}

/// Clients of a load, as a file describes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clients<'a> {
    pub(crate) pace: Pace,
    /// Seconds after the beginning of the load.
    pub(crate) starts_s: f64,
    /// What they write; zeros where not given.
    pub(crate) content: Option<&'a ContentSpec>,
    pub(crate) workload: &'a Workload,
}

/// How long and how often to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The measured time, in simulated seconds.
    pub duration_s: f64,
    /// The time under load before measurement begins, in simulated seconds.
    #[serde(default)]
    pub warm_up_s: f64,
    /// After `warm_up_s`, warm up until the load is steady.
    #[serde(default)]
    pub steady: Option<SteadySpec>,
    /// The length of an interval of every time series.
    #[serde(default = "tenth")]
    pub interval_s: f64,
    /// The seeds; one run for each.
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
}

/// When a warm-up has made the load steady: flash amplification and the p99 of reads and of writes of three consecutive windows
/// lie within a bound of their means.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteadySpec {
    /// The length of a window, in simulated seconds.
    pub window_s: f64,
    /// The bound, as a fraction of the mean.
    #[serde(default = "twentieth")]
    pub within: f64,
    /// Begin measurement after this time in any case; the results then say that the load was not steady.
    pub max_s: f64,
}

/// A group of equal members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberSpec {
    /// The device model.
    pub model: ModelName,
    /// The number of members.
    #[serde(default = "one")]
    pub count: usize,
    /// The size of each member; that of the model where not given. Of a disk, only this part at its start is used.
    #[serde(default)]
    pub size: Option<ByteSize>,
    /// SSDs: write the whole drive once, then this many times its size at random. A drive is new where not given.
    #[serde(default)]
    pub aging: Option<f64>,
    /// SSDs: after ageing, discard all of the drive once, as may be done when it is taken into use.
    #[serde(default)]
    pub trimmed: bool,
    /// SSDs: spare flash as a fraction of the size; that of the model where not given.
    #[serde(default)]
    pub spare: Option<f64>,
    /// SSDs: pages of an erase block; that of the model where not given. A small drive needs few pages: a die has a minimum
    /// number of erase blocks, which otherwise gives the drive more spare space than requested.
    #[serde(default)]
    pub pages: Option<u32>,
    /// SSDs: reads suspend programs and erases.
    #[serde(default)]
    pub suspend: bool,
    /// SSDs: parts that the model does not have by itself.
    #[serde(default)]
    pub drive: DriveSpec,
    /// SSDs: redundancy inside the drive.
    #[serde(default)]
    pub redundancy: RedundancySpec,
    /// The physical space of each member, which compresses every block. As much as addresses where not given.
    #[serde(default)]
    pub physical: Option<ByteSize>,
    /// How the lengths of these blocks are found; by LZ4 where not given.
    #[serde(default)]
    pub lengths: Option<LengthsName>,
    /// The number of members, the first ones, that complete no request from the start of the load to its end.
    #[serde(default)]
    pub stalled: usize,
}

/// A controller between the host and several members: one command at a time, one link in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerSpec {
    /// The number of its members.
    pub members: usize,
    /// Commands per second; no limit where not given.
    #[serde(default)]
    pub iops: Option<f64>,
    /// Bytes per second of each direction; no limit where not given.
    #[serde(default)]
    pub bandwidth: Option<ByteSize>,
}

/// Redundancy inside an SSD.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedundancySpec {
    /// The scheme.
    #[serde(default)]
    pub scheme: RedundancyName,
    /// Elements of a stripe, the parity included. A stripe of more elements than the drive has dies survives the loss of a
    /// page, but not of a die.
    #[serde(default = "eight")]
    pub units: u32,
    /// P_wait in milliseconds: the parity of an incomplete stripe is written after this time without data for it.
    #[serde(default = "p_wait")]
    pub wait_ms: f64,
    /// RAID-5: what is read to compute a parity.
    #[serde(default)]
    pub parity_reads: ParityReadsName,
    /// The running parity survives a power failure, so the parity of an incomplete stripe is not written.
    #[serde(default)]
    pub protected_buffer: bool,
    /// Erase blocks of all dies are opened and cleaned as one row, without redundancy too. eSAP always works so.
    #[serde(default)]
    pub rows: bool,
    /// What `spare` is a fraction of.
    #[serde(default)]
    pub spare_of: SpareOf,
}

impl Default for RedundancySpec {
    fn default() -> RedundancySpec {
        RedundancySpec {
            scheme: RedundancyName::Ecc,
            units: eight(),
            wait_ms: p_wait(),
            parity_reads: ParityReadsName::Less,
            protected_buffer: false,
            rows: false,
            spare_of: SpareOf::DataAndParity,
        }
    }
}

/// The pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSpec {
    /// The protection.
    #[serde(default)]
    pub protection: Protection,
    /// Data columns of a stripe; 0, the default, lets the engine choose.
    #[serde(default)]
    pub width: usize,
    /// The number of shards; 1 by default. CPU time is not simulated, so more shards only divide the pool.
    #[serde(default)]
    pub shards: Option<usize>,
    /// Keep and verify checksums. Simulated members corrupt nothing here, so checksums only cost real time.
    #[serde(default)]
    pub checksums: bool,
    /// The limit of background work, in bytes per second; no limit where not given.
    #[serde(default)]
    pub throttle: Option<ByteSize>,
    /// How latency spikes of members are detected; `auto`, or the setting of the preset, where not given.
    #[serde(default, rename = "step_around", alias = "spike_avoidance")]
    pub spike_avoidance: Option<SpikeAvoidanceSpec>,
    /// Keep the metadata of members, of a pool or an array, in battery-backed memory, where it costs the members nothing; as
    /// the preset says where not given, and not without a preset.
    #[serde(default)]
    pub battery: Option<bool>,
    /// Percent of each member's space that is used first; all of it where not given.
    #[serde(default)]
    pub member_weights: Option<Vec<u8>>,
    /// Changes to the policy of a mapped pool.
    #[serde(default)]
    pub policy: PolicySpec,
}

/// Changes to a policy; docs/policy.md describes policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// The layout of small writes.
    #[serde(default)]
    pub packing: Option<Packing>,
    /// Whether members are told what is free, and make use of it; as the preset says where not given, and not without a preset.
    #[serde(default)]
    pub discard: Option<bool>,
    /// Whether blocks that are read in sequence but stored apart are defragmented.
    #[serde(default, rename = "gather", alias = "defragment")]
    pub defragment: Option<bool>,
    /// Mirrored stripes are converted while less than this percentage of the chunk space is free.
    #[serde(default)]
    pub convert_below_free: Option<u8>,
    /// Conversion pauses while clients move more than this many bytes per second on a member; 0 is never.
    #[serde(default)]
    pub convert_pause_above: Option<u64>,
    /// What volumes get that are active at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
}

impl PolicySpec {
    /// The policy with these changes.
    pub(crate) fn applied_to(self, policy: Policy) -> Policy {
        Policy {
            packing: self.packing.unwrap_or(policy.packing),
            discard: self.discard.unwrap_or(policy.discard),
            gather: self.defragment.unwrap_or(policy.gather),
            convert_below_free: self.convert_below_free.unwrap_or(policy.convert_below_free),
            convert_pause_above: self.convert_pause_above.unwrap_or(policy.convert_pause_above),
            shares: self.shares.unwrap_or(policy.shares),
            ..policy
        }
    }
}

/// Settings of the layer that a preset puts above its array.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerSpec {
    /// Bytes of non-volatile memory.
    #[serde(default = "buffer")]
    pub buffer: ByteSize,
    /// The fraction of the array that a log keeps free for cleaning.
    #[serde(default = "tenth")]
    pub spare: f64,
    /// Add the time of md's software to every write to an array.
    #[serde(default)]
    pub software: bool,
}

impl Default for LayerSpec {
    fn default() -> LayerSpec {
        LayerSpec { buffer: buffer(), spare: tenth(), software: false }
    }
}

/// An array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySpec {
    /// The level; raid1 cannot grow. RAID 10 has two near copies; RAID 5 and 6 without weights are left-symmetric.
    pub level: LevelName,
    /// Bytes of a chunk.
    #[serde(default = "chunk")]
    pub chunk: ByteSize,
    /// RAID 5 and 6: members hold parity in proportion to these numbers, one for each member; equal shares where not given.
    #[serde(default)]
    pub parity_weights: Option<Vec<u8>>,
    /// Levels with parity: use a journal.
    #[serde(default)]
    pub journal: bool,
    /// The form of large groups of the log; copies where not given.
    #[serde(default)]
    pub group_form: GroupForm,
    /// The number of shards; 1 by default.
    #[serde(default)]
    pub shards: Option<usize>,
    /// The number of members, the last ones, that are taken out before the load.
    #[serde(default)]
    pub out: usize,
    /// Stripes change between parity and mirrors.
    #[serde(default)]
    pub elastic: Option<ElasticSpec>,
}

impl ArraySpec {
    /// The level with its parameters.
    ///
    /// # Errors
    /// Weights that no array has, or of a level that has none.
    pub fn full_level(&self) -> Result<Level, Error> {
        let Some(weights) = &self.parity_weights else { return Ok(self.level.level(LevelParts::default())) };
        let wrong = |why: String| Error::setting("array.parity_weights", why);
        let weights = ParityWeights::new(weights).map_err(|why| wrong(why.to_string()))?;
        let rotation = self.level.weighted(weights).map_err(|why| wrong(why.to_string()))?;
        Ok(self.level.level(LevelParts { rotation, ..LevelParts::default() }))
    }
}

impl Default for ArraySpec {
    fn default() -> ArraySpec {
        ArraySpec {
            level: LevelName::Raid0,
            chunk: chunk(),
            parity_weights: None,
            journal: false,
            group_form: GroupForm::default(),
            shards: None,
            out: 0,
            elastic: None,
        }
    }
}

/// An elastic array. Volumes are filled with all stripes having parity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ElasticSpec {
    /// The ratio of compression expected of data and parity together (a_exp). With `physical` of the members it gives the size of
    /// the volume.
    pub expect: f64,
    /// The percentage of the stripes that are mirrored when the load begins, and from then on.
    pub mirrored_share: Option<u8>,
    /// At the beginning of measurement, stripes are converted to this percentage. Measurement ends when they are.
    pub convert_to: Option<u8>,
    /// Bytes of data per second at which `convert_to` and the governor convert; as fast as clients leave room for where not given.
    pub convert_rate: Option<ByteSize>,
    /// The governor changes forms, from the beginning of the load.
    pub govern: bool,
    /// Its limits of physical use, in percent; 80 and 90 where not given.
    pub low: Option<u8>,
    /// The upper one.
    pub high: Option<u8>,
    /// Time from one sample of the governor to the next, in milliseconds; 1000 where not given.
    pub interval_ms: Option<u32>,
    /// Whether the governor reads candidates to weigh them by compressibility; it does where not given.
    pub weigh: Option<bool>,
}

impl Default for ElasticSpec {
    fn default() -> ElasticSpec {
        ElasticSpec {
            expect: 1.0,
            mirrored_share: None,
            convert_to: None,
            convert_rate: None,
            govern: false,
            low: None,
            high: None,
            interval_ms: None,
            weigh: None,
        }
    }
}

/// How a pool or array grows during a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnlineGrowthSpec {
    /// The growth method of an array.
    #[serde(default)]
    pub method: Option<GrowMethod>,
    /// The number of members of each addition. The last members of the file are added, one addition after the other.
    pub added: Vec<usize>,
    /// Grow before measurement begins, without load.
    #[serde(default)]
    pub before: bool,
    /// End measurement when growth ends, if that is before `run.duration_s`.
    #[serde(default, rename = "to_the_end")]
    pub measure_until_grown: bool,
    /// Growth pauses while clients issue more than this many requests per second; 0 is never.
    #[serde(default, rename = "rest_above")]
    pub pause_above_iops: u64,
}

/// A group of equal volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    /// The number of volumes.
    #[serde(default = "one")]
    pub count: usize,
    /// The size.
    pub size: ByteSize,
    /// Write the whole volume in order before the load begins.
    #[serde(default)]
    pub fill: bool,
    /// The part of the volume that `fill` writes, from its start.
    #[serde(default = "whole")]
    pub fill_part: f64,
    /// After that, write this many times its size at random.
    #[serde(default)]
    pub overwrite: f64,
    /// Bytes of each of these random writes.
    #[serde(default = "chunk")]
    pub overwrite_unit: ByteSize,
}

impl ElasticSpec {
    /// The policy of the array while this share is kept mirrored, if one is.
    pub(crate) fn policy(&self, mirrored_share: Option<u8>) -> ElasticPolicy {
        let default = ElasticPolicy::DEFAULT;
        ElasticPolicy {
            mirrored_share,
            governed: self.govern,
            low: self.low.unwrap_or(default.low),
            high: self.high.unwrap_or(default.high),
            interval_ms: self.interval_ms.unwrap_or(default.interval_ms),
            weighed: self.weigh.unwrap_or(default.weighed),
            convert_rate: self
                .convert_rate
                .filter(|_| self.govern)
                .map_or(default.convert_rate, |rate| rate.0),
            ..default
        }
    }
}

impl Spec {
    /// The file with each group of volumes taken apart.
    pub(crate) fn with_single_volumes(mut self) -> Spec {
        let single =
            |group: VolumeSpec| std::iter::repeat_n(VolumeSpec { count: 1, ..group.clone() }, group.count);
        self.volumes = self.volumes.into_iter().flat_map(single).collect();
        self
    }

    /// All clients: those of `workload`, and those beside them.
    pub(crate) fn clients(&self) -> impl Iterator<Item = Clients<'_>> {
        let content = self.content.as_ref();
        let first = Clients { pace: self.pace, starts_s: 0.0, content, workload: &self.workload };
        let beside = self.beside.iter().map(move |clients| Clients {
            pace: clients.pace,
            starts_s: clients.starts_s,
            content: clients.content.as_ref().or(content),
            workload: &clients.workload,
        });
        std::iter::once(first).chain(beside)
    }

    /// The elastic array, if the system is one. A preset says whether the governor or a share sets the forms.
    pub(crate) fn elastic(&self) -> Option<ElasticSpec> {
        match self.preset {
            None => self.array.elastic,
            Some(PresetName(Preset { part: Part::Elastic(policy), .. })) => Some(ElasticSpec {
                mirrored_share: policy.mirrored_share,
                govern: policy.mirrored_share.is_none(),
                ..self.array.elastic.unwrap_or_default()
            }),
            Some(_) => None,
        }
    }

    /// The least physical space of a member that has a limit; 0 if none has.
    pub(crate) fn physical(&self) -> u64 {
        self.members.iter().filter_map(|group| group.physical).map(|bytes| bytes.0).min().unwrap_or(0)
    }

    /// The number of members.
    pub(crate) fn member_count(&self) -> usize {
        self.members.iter().map(|group| group.count).sum()
    }

    /// Of `members` members, the number that the pool or array is created with, spares included: without those that are added,
    /// or that replace one that fails.
    pub(crate) fn members_at_creation(&self, members: usize) -> usize {
        let new = self.fails.iter().filter(|fails| fails.replace == ReplacementName::New).count();
        members - self.grows.iter().flat_map(|grows| &grows.added).sum::<usize>() - new
    }

    /// Of the members at creation, the number of spares of an array.
    pub(crate) fn spares(&self) -> usize {
        self.fails.iter().filter(|fails| fails.replace == ReplacementName::Spare).count()
    }
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

fn whole() -> f64 {
    1.0
}

fn twentieth() -> f64 {
    0.05
}

fn tenth() -> f64 {
    0.1
}

fn eight() -> u32 {
    8
}

fn p_wait() -> f64 {
    50.0
}

fn one() -> usize {
    1
}

fn one_seed() -> Vec<u64> {
    vec![1]
}
