//! What comes out of experiments, as JSON. Each field says what it is and its unit.
//!
//! Nothing here but [`Times`] depends on the machine, so equal files, seeds and programs give equal bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sinew_workload::{BucketReport, Distribution, KindReport};
use toml::Value;

use crate::reference::Comparison;
use crate::spec::{ModelName, ProtectionName};

/// Raised when the meaning of a field changes.
pub const SCHEMA: u32 = 1;

/// All runs of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The version of this schema.
    pub schema: u32,
    /// The experiment.
    pub experiment: String,
    /// What its file says of it.
    pub description: String,
    /// Whether it was a quick run.
    pub quick: bool,
    /// The runs, in the order of cases, then of what is swept, then of seeds.
    pub runs: Vec<RunResult>,
    /// Figures of other people, and ours.
    pub references: Vec<Comparison>,
    /// The file, as it was run from.
    pub file: String,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The case, if there are any.
    pub case: Option<String>,
    /// What the sweep set.
    pub settings: BTreeMap<String, Value>,
    /// The seed; 0 where nothing is random.
    pub seed: u64,
    /// What came out.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What one run measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Figures {
    /// Of the engine, or a member alone, under a load.
    Simulated(Box<Simulated>),
    /// Of an array that grew.
    Growth {
        /// In a table of its own, as in the file.
        growth: Box<GrowthFigures>,
    },
}

/// An array that grew. Parts are of 1, and coefficients of variation the standard deviation over the members by the mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrowthFigures {
    /// Members now.
    pub members: u32,
    /// Logical blocks, each as large as a chunk.
    pub blocks: u64,
    /// Blocks by those of a new array of as many members.
    pub space: f64,
    /// Chunks of data on each member, copies included.
    pub data: Vec<u64>,
    /// Chunks of parity on each member.
    pub parity: Vec<u64>,
    /// The coefficient of variation of data.
    pub data_cv: f64,
    /// That of parity; nothing without parity.
    pub parity_cv: Option<f64>,
    /// That of the data that there was before any addition.
    pub first_data_cv: f64,
    /// Part of the blocks that the last addition moved; nothing without one, as the next two.
    pub moved: Option<f64>,
    /// The least part that it had to if all members are to hold equally much: n / (m + n).
    pub least_moved: Option<f64>,
    /// Part of all parity that it wrote; nothing without parity.
    pub parity_written: Option<f64>,
    /// Times of this machine, where they were asked for.
    pub times: Option<Times>,
}

/// Nanoseconds to find one block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Blocks at random places, one by one.
    pub random_ns: f64,
    /// All blocks, in order.
    pub in_order_ns: f64,
    /// The block at random places; nothing where the addressing has no inverse.
    pub backwards_ns: Option<f64>,
}

/// What the engine, or a member alone, did under a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// Simulated time that was measured.
    pub duration_s: f64,
    /// Simulated time before that, for making the pool, filling it, and warming up.
    pub before_s: f64,
    /// Length of the spans of every series.
    pub interval_s: f64,
    /// By kind of request; a kind that did not occur is not there.
    pub requests: BTreeMap<String, KindResult>,
    /// By volume, where there are several: by the name of what its requests are like, if no other's are, or `volume0` and
    /// so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<String, VolumeResult>,
    /// Each member.
    pub members: Vec<MemberResult>,
    /// Bytes on their way down.
    pub writes: WriteResult,
    /// The pool; nothing for a member alone, or an array.
    pub pool: Option<PoolResult>,
    /// Of a pool or array that grew while it was measured: how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grew: Option<GrewResult>,
    /// Of an array without a journal: what its writes waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// Latency spikes of members, where they were looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spikes: Option<Spikes>,
    /// How bytes and the pool went on, in spans of [`Simulated::interval_s`] or several of them.
    pub series: Vec<Span>,
}

/// What changes of stripes waited for, on average. A write changes one stripe or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// How many there were.
    pub changes: u64,
    /// For their stripe, which others were changing.
    pub wait_ns: f64,
    /// For what was read to compute parity.
    pub read_ns: f64,
    /// For the mark of their region to be durable.
    pub mark_ns: f64,
    /// For data and parity to be written.
    pub write_ns: f64,
    /// The same of the slowest 1 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<Box<Changes>>,
}

/// Latency spikes of members in the measured time, as the engine found them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spikes {
    /// How many began, of all members.
    pub spikes: u64,
    /// Of a member, in a minute, on average.
    pub per_member_minute: f64,
    /// How long one lasted, on average, from when it was found; nothing if there were none.
    pub mean_ns: Option<f64>,
    /// Where nobody is avoided: of the writes of chunks the part that members were sent in a spike.
    pub writes_met: Option<f64>,
    /// Requests that went elsewhere because a member did not respond.
    pub redirections: u64,
    /// Reads worked out of other members for that.
    pub reconstructions: u64,
}

/// The growth of a pool or array, under load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrewResult {
    /// Time from its beginning to its end; nothing if it had not ended when measuring did.
    pub took_ns: Option<u64>,
    /// Bytes moved; of an array copies are not counted.
    pub moved_bytes: u64,
    /// That as a part of what the array could store before, or of the chunks in use of the pool.
    pub moved: f64,
    /// The highest latency of any request in the meantime.
    pub latency_max_ns: u64,
    /// The mean of all.
    pub latency_mean_ns: f64,
}

/// Requests of one kind that were due in the measured time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindResult {
    /// Counts, rates and distributions of latency; exact to 0.1 %.
    #[serde(flatten)]
    pub summary: KindReport,
    /// What the first of the errors was.
    pub first_error: Option<String>,
    /// Latency in nanoseconds and how many requests had it; exact to 1 %.
    pub histogram: Vec<(u64, u64)>,
    /// What completed in each span of time in which something did.
    pub series: Vec<BucketReport>,
}

/// Requests to one volume that were due in the measured time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeResult {
    /// Its number.
    pub volume: u32,
    /// Completed, with or without success.
    pub requests: u64,
    /// Of those, without success; they are in no other figure.
    pub errors: u64,
    /// From when a request was due; all kinds together.
    pub latency: Distribution,
    /// Of reads alone; nothing if there were none.
    pub read: Option<Distribution>,
    /// Of writes alone.
    pub write: Option<Distribution>,
}

/// A member in the measured time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberResult {
    /// Its model.
    pub model: ModelName,
    /// Its size.
    pub bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Part of the time with a request under way.
    pub busy: f64,
    /// Mean number of requests under way.
    pub queue: f64,
    /// `busy` in each span of time.
    pub busy_series: Vec<f64>,
    /// Of an SSD: its flash.
    pub flash: Option<FlashResult>,
}

/// The flash of a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlashResult {
    /// Flash beyond the member's size, as a part of it.
    pub spare: f64,
    /// Mean part of the time that a die was at work or waited for its channel.
    pub die_busy: f64,
    /// Blocks of 4 KiB that the host wrote.
    pub written_blocks: u64,
    /// Blocks of 4 KiB programmed, for the host, for cleaning, and as padding.
    pub programmed_blocks: u64,
    /// The second by the first; nothing when the host wrote nothing.
    pub write_amplification: Option<f64>,
    /// What a closed form says if all of the drive is overwritten at random for long: `greedy_write_amplification` of
    /// `sinew_devices::theory`.
    pub closed_form_amplification: f64,
    /// Erase blocks cleaned.
    pub erases: u64,
    /// Times the drive stopped for its host.
    pub stalls: u64,
    /// How long.
    pub stalled_ns: u64,
    /// Number of erases over the drive's whole life, aging included, and how many erase blocks have it.
    pub erase_counts: Vec<(u32, u64)>,
}

/// Bytes on their way from clients to flash, in the measured time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WriteResult {
    /// Of clients' writes that completed.
    pub client_bytes: u64,
    /// Written to members.
    pub member_bytes: u64,
    /// Programmed by members that are SSDs.
    pub programmed_bytes: u64,
    /// Member by client bytes; nothing when no client wrote.
    pub array_amplification: Option<f64>,
    /// Programmed by member bytes; nothing without SSDs.
    pub flash_amplification: Option<f64>,
}

/// What went on in a span of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Its end, in seconds after measuring began.
    pub until_s: f64,
    /// Bytes of clients' writes that completed in it.
    pub client_bytes: u64,
    /// Bytes written to members.
    pub member_bytes: u64,
    /// Of those, bytes that reached flash.
    pub reached_flash_bytes: u64,
    /// Bytes programmed.
    pub programmed_bytes: u64,
    /// Erase blocks cleaned.
    pub erases: u64,
    /// The pool at its end.
    pub pool: Option<PoolState>,
    /// What the engine counted, as far as it did anything.
    pub work: BTreeMap<String, u64>,
}

/// The pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolResult {
    /// What it survives.
    pub protection: ProtectionName,
    /// Data columns of a full stripe.
    pub data_columns: usize,
    /// Bytes of all members.
    #[serde(default)]
    pub member_bytes: u64,
    /// Of those, for superblocks, journals and tables.
    #[serde(default)]
    pub metadata_bytes: u64,
    /// When measuring began.
    pub before: PoolState,
    /// When it ended.
    pub after: PoolState,
    /// What the engine counted in between.
    pub work: BTreeMap<String, u64>,
}

/// A pool at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolState {
    /// Bytes that clients have stored.
    pub stored_bytes: u64,
    /// Bytes that clients may store.
    pub capacity_bytes: u64,
    /// Bytes of chunks.
    pub raw_bytes: u64,
    /// Of those, free.
    pub free_bytes: u64,
    /// The others, copies, parity and what is dead in stripes included.
    #[serde(default)]
    pub used_bytes: u64,
    /// Mirrored stripes.
    pub stripes_mirrored: u64,
    /// Parity stripes.
    pub stripes_parity: u64,
    /// Stripes with a chunk that is not where it should be.
    pub stripes_degraded: u64,
    /// Memory of the tables.
    pub table_bytes: u64,
}

impl Results {
    /// As JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and names only")
    }
}

impl RunResult {
    /// The case and what was swept, for people: runs that differ in their seed alone have the same.
    pub fn label(&self) -> String {
        crate::summary::label(self.case.as_deref(), &self.settings)
    }
}

impl Figures {
    /// Those of a simulation.
    pub fn simulated(&self) -> Option<&Simulated> {
        match self {
            Figures::Simulated(figures) => Some(figures),
            Figures::Growth { .. } => None,
        }
    }

    /// Those of an array that grew.
    pub fn growth(&self) -> Option<&GrowthFigures> {
        match self {
            Figures::Growth { growth } => Some(growth),
            Figures::Simulated(_) => None,
        }
    }
}
