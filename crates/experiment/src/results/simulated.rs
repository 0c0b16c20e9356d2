//! The figures of a simulation. Each field says what it is and its unit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sinew_format::model::mapped_geometry::Protection;
use sinew_layout::LevelName;
use sinew_workload::{BucketReport, Distribution, KindReport};

use crate::file::names::ModelName;
use crate::results::capacity::{CapacityResult, LoadShareResult};
use crate::results::reliability::PoolLossFigures;

/// The figures of the engine, or of a member alone, under a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// The measured time, in simulated seconds.
    pub duration_s: f64,
    /// The time before measurement, in simulated seconds: creating and filling the pool, and warm-up.
    pub before_s: f64,
    /// The length of an interval of every time series, in seconds.
    pub interval_s: f64,
    /// Requests by kind; a kind without requests is absent.
    pub requests: BTreeMap<String, KindResult>,
    /// How the load was served; nothing in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadResult>,
    /// The largest load served, if the file asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacityResult>,
    /// What the load is a share of, if the file gives it as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_share: Option<LoadShareResult>,
    /// How steady the run was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steadiness: Option<Steadiness>,
    /// Requests by volume, if there are several volumes. A volume has the name of its workload if no other volume has the same,
    /// otherwise `volume0` and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<String, VolumeResult>,
    /// Each member.
    pub members: Vec<MemberResult>,
    /// Bytes written at each level from clients to flash.
    pub writes: WriteResult,
    /// Bytes read by clients and from members.
    #[serde(default)]
    pub reads: ReadResult,
    /// An elastic array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic: Option<ElasticResult>,
    /// The pool; nothing for a member alone, or for an array.
    pub pool: Option<PoolResult>,
    /// The array; nothing for a pool, a preset or a member alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayResult>,
    /// Each controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<ControllerResult>,
    /// The growth during measurement, if the pool or array grew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grew: Option<OnlineGrowthResult>,
    /// The rebuild, if a member failed during measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuilt: Option<RebuiltResult>,
    /// The latency of stripe updates; only of an array without a journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<StripeUpdates>,
    /// Latency spikes of members, if they were detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spikes: Option<Spikes>,
    /// Bytes and the state of the pool over time. The length of an interval is [`Simulated::interval_s`] or a multiple of it.
    pub series: Vec<Interval>,
}

/// An array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayResult {
    /// The level.
    pub level: LevelName,
    /// The number of members before any growth.
    pub members: u32,
}

/// A controller during measurement: the part of the time for which each of its parts worked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControllerResult {
    /// The number of its members.
    pub members: usize,
    /// On commands.
    pub commands_busy: f64,
    /// On data to the members.
    pub inward_busy: f64,
    /// On data from the members.
    pub outward_busy: f64,
}

/// How a load was served. The backlog are requests that were due and not completed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// The number of requests due during measurement.
    pub due: u64,
    /// The number of requests completed during measurement.
    pub completed: u64,
    /// The mean backlog.
    pub backlog_mean: f64,
    /// The largest backlog.
    pub backlog_max: f64,
    /// The backlog when measurement ended.
    pub backlog_end: f64,
    /// The backlog grew by more than 1 % of the requests due, and over the last half with a confidence of 95 %, or a search for
    /// the capacity gave the load up: the load is more than the system can serve, and its latencies are no figures of merit.
    pub saturated: bool,
}

impl LoadResult {
    /// The part of the requests due that a saturated system completed; nothing if it was not saturated.
    pub fn saturated_part(&self) -> Option<f64> {
        self.saturated.then(|| self.completed as f64 / self.due.max(1) as f64)
    }
}

/// How steady a run was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// How long the warm-up under load took, in simulated seconds.
    pub warm_up_s: f64,
    /// Whether the warm-up ended because the load was steady; nothing if the file does not ask for that.
    pub reached: Option<bool>,
    /// The quarters of the measured time.
    pub quarters: Vec<Part>,
    /// By how much the figures of the last quarter differ from those of the first, at most, as a fraction of the first;
    /// nothing if they have no figure in common.
    pub change: Option<f64>,
}

/// A part of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Bytes programmed into flash, divided by those that reached it; nothing if none did.
    pub flash_amplification: Option<f64>,
    /// The 99th percentile of the latency of reads; nothing if fewer than twenty were above it.
    pub read_p99_ns: Option<u64>,
    /// The same of writes.
    pub write_p99_ns: Option<u64>,
}

/// The mean times that updates of stripes spend waiting. A write updates one stripe or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StripeUpdates {
    /// The number of updates.
    pub changes: u64,
    /// Waiting for the lock of the stripe.
    pub wait_ns: f64,
    /// Reading what parity is computed from.
    pub read_ns: f64,
    /// Waiting until the mark in the write-intent bitmap is durable.
    pub mark_ns: f64,
    /// Writing data and parity.
    pub write_ns: f64,
    /// The same for the slowest 1 % of the updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<Box<StripeUpdates>>,
}

/// Latency spikes of members during measurement, as the engine detected them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spikes {
    /// The number of spikes that began, of all members.
    pub spikes: u64,
    /// The mean number of spikes of a member in a minute.
    pub per_member_minute: f64,
    /// The mean length of a spike from its detection; nothing if there was none.
    pub mean_ns: Option<f64>,
    /// The fraction of chunk writes that went to a member in a spike; nothing if such members are avoided.
    pub writes_met: Option<f64>,
    /// The number of requests redirected because a member did not respond.
    pub redirections: u64,
    /// The number of those that were reads reconstructed from other members.
    pub reconstructions: u64,
}

/// The growth of a pool or array under load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OnlineGrowthResult {
    /// The duration of the growth; nothing if it did not end during measurement.
    pub took_ns: Option<u64>,
    /// The bytes moved; copies in an array are not counted.
    pub moved_bytes: u64,
    /// `moved_bytes` as a fraction of the former capacity of the array, or of the used chunks of the pool.
    pub moved: f64,
    /// The highest latency of a request during measurement.
    pub latency_max_ns: u64,
    /// The mean latency of the requests during measurement.
    pub latency_mean_ns: f64,
}

/// The rebuild of what a failed member held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RebuiltResult {
    /// From the failure until nothing was degraded any more; nothing if the measurement ended before, or if nothing replaced the
    /// member.
    pub took_ns: Option<u64>,
    /// Bytes of the chunks rebuilt.
    pub bytes: u64,
    /// `bytes` per second of `took_ns`.
    pub bytes_per_s: Option<f64>,
    /// How probable a loss is with this rate, if the file asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<PoolLossFigures>,
}

/// Requests of one kind that were due during measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindResult {
    /// Counts, rates and distributions of latency; exact to 0.1 %.
    #[serde(flatten)]
    pub summary: KindReport,
    /// The message of the first error.
    pub first_error: Option<String>,
    /// Pairs of a latency in nanoseconds and the number of requests with it; exact to 1 %.
    pub histogram: Vec<(u64, u64)>,
    /// The completed requests of each interval that has any.
    pub series: Vec<BucketReport>,
}

/// Requests to one volume that were due during measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeResult {
    /// The number of the volume.
    pub volume: u32,
    /// The number of completed requests, errors included.
    pub requests: u64,
    /// The number of errors; they are in no other figure.
    pub errors: u64,
    /// The latency of requests of all kinds, counted from when a request was due.
    pub latency: Distribution,
    /// The number of completed reads and of completed writes, errors included.
    #[serde(default)]
    pub reads: u64,
    /// See `reads`.
    #[serde(default)]
    pub writes: u64,
    /// The latency of reads; nothing if there were none.
    pub read: Option<Distribution>,
    /// The latency of writes; nothing if there were none.
    pub write: Option<Distribution>,
}

/// A member during measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberResult {
    /// The device model.
    pub model: ModelName,
    /// The size.
    pub bytes: u64,
    /// The number of reads.
    pub reads: u64,
    /// The number of writes.
    pub writes: u64,
    /// The number of flushes.
    pub flushes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The fraction of the time with a request in flight.
    pub busy: f64,
    /// The mean number of requests in flight.
    pub queue: f64,
    /// `busy` in each interval.
    pub busy_series: Vec<f64>,
    /// The flash of an SSD.
    pub flash: Option<FlashResult>,
}

/// The flash of a member during measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlashResult {
    /// Spare flash as a fraction of the size of the member.
    pub spare: f64,
    /// The mean fraction of the time in which a die worked or waited for its channel.
    pub die_busy: f64,
    /// Blocks of 4 KiB written by the host.
    pub written_blocks: u64,
    /// Blocks of 4 KiB programmed: for the host, by cleaning, as padding and as parity.
    pub programmed_blocks: u64,
    /// `programmed_blocks` divided by `written_blocks`; nothing if the host wrote nothing.
    pub write_amplification: Option<f64>,
    /// The write amplification of long random overwrites of the whole drive according to a closed form:
    /// `greedy_write_amplification` of `sinew_devices::theory`.
    pub closed_form_amplification: f64,
    /// Blocks of parity and what was read for them; nothing for a drive without redundancy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parity: Option<ParityResult>,
    /// The mean fraction of an erase block that was live when it was chosen for cleaning; nothing if none was cleaned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim_live: Option<f64>,
    /// The P/E cycles and page writes that the balance and the mean field of docs/reliability.md predict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<WearModelResult>,
    /// The number of erase blocks cleaned.
    pub erases: u64,
    /// The same, divided by the erase blocks of the drive.
    #[serde(default)]
    pub pe_cycles: f64,
    /// Blocks of the mapping table read because they were not in memory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mapping_reads: u64,
    /// Blocks of the mapping table programmed because they left the memory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mapping_blocks: u64,
    /// Blocks that the host's writes took in the SLC cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slc_blocks: u64,
    /// Erase blocks cleaned because they were worn least.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub levelled: u64,
    /// The fewest and the most erases of an erase block over the whole life of the drive with aging.
    #[serde(default)]
    pub erases_least: u32,
    /// See `erases_least`.
    #[serde(default)]
    pub erases_most: u32,
    /// How often the drive stopped serving its host.
    pub stalls: u64,
    /// The sum of these times.
    pub stalled_ns: u64,
    /// The number of erase blocks by the live part of each, when measurement began: first the erased ones, then those with up to
    /// 10 % live, up to 20 %, and so on. On a drive that works with rows, of rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub live_before: Vec<u64>,
    /// The same when measurement ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub live_after: Vec<u64>,
    /// Pairs of a number of erases, over the whole life of the drive with aging, and the number of erase blocks with it.
    pub erase_counts: Vec<(u32, u64)>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Predictions for an SSD under the writes of a run, with its measured partial parities (eSAP) or parity writes (RAID-5).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WearModelResult {
    /// Blocks programmed, by the balance with the measured live part of victims.
    pub page_writes: f64,
    /// P/E cycles, by the same.
    pub pe_cycles: f64,
    /// The live part of victims under uniformly random writes, by the mean field; nothing where it has no solution.
    pub victim_live: Option<f64>,
    /// Blocks programmed by the mean field; nothing where it has no solution.
    pub random_page_writes: Option<f64>,
}

/// Parity of an SSD with redundancy, in blocks of 4 KiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParityResult {
    /// Parity of full elastic stripes, or all parity of RAID-5 (PW_WR).
    pub full: u64,
    /// Parity of elastic stripes to which no data came for P_wait (PPW).
    pub partial: u64,
    /// Parity of elastic stripes that ended with their row.
    pub row_end: u64,
    /// Parity over data that cleaning moved (PW_GC).
    pub cleaning: u64,
    /// Blocks read to compute parity (PR).
    pub reads: u64,
    /// The sum of all parity written, divided by the blocks that the host wrote; nothing if it wrote none.
    pub writes_per_block: Option<f64>,
    /// `reads` divided by the blocks that the host wrote; nothing if it wrote none.
    pub reads_per_block: Option<f64>,
}

/// Bytes written at each level from clients to flash during measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WriteResult {
    /// Bytes of completed writes of clients.
    pub client_bytes: u64,
    /// Bytes written to members.
    pub member_bytes: u64,
    /// Bytes programmed by members that are SSDs.
    pub programmed_bytes: u64,
    /// Bytes written to members divided by those of clients; nothing if no client wrote.
    pub array_amplification: Option<f64>,
    /// Bytes programmed divided by those written to SSDs; nothing without SSDs.
    pub flash_amplification: Option<f64>,
    /// Bytes read from members divided by those that clients wrote: what a load of writes alone has to read. Nothing if no client
    /// wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_amplification: Option<f64>,
}

/// Bytes read during measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadResult {
    /// Bytes of completed reads of clients.
    pub client_bytes: u64,
    /// Bytes read from members.
    pub member_bytes: u64,
    /// `member_bytes` divided by `client_bytes`; nothing if no client read.
    pub amplification: Option<f64>,
}

/// An elastic array at the end of measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElasticResult {
    /// The number of stripes that store nothing.
    pub stripes_empty: u64,
    /// The number of stripes with parity.
    pub stripes_parity: u64,
    /// The number of mirrored stripes.
    pub stripes_mirrored: u64,
    /// The fraction of the stripes that store something which are mirrored.
    pub share: f64,
    /// The same by the closed form of figures 9 and 10 of the paper, from the compressibility that the governor has found, less the
    /// space that superblocks, logs and pages of forms take; nothing without a limit of physical space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_form_share: Option<f64>,
    /// a_usr: bytes of data divided by the space that they take, as the governor has found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_ratio: Option<f64>,
    /// a_pty: the same of parity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parity_ratio: Option<f64>,
    /// Physical bytes of all members.
    pub physical_bytes: u64,
    /// Those in use.
    pub physical_used_bytes: u64,
    /// The most in use at the end of an interval.
    #[serde(default)]
    pub physical_used_most_bytes: u64,
    /// The fraction of the requests of the last minute that used a mirrored stripe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<f64>,
    /// The conversion during measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub converted: Option<ConversionResult>,
}

/// A conversion of stripes of an elastic array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConversionResult {
    /// Stripes that became mirrored.
    pub promoted: u64,
    /// Stripes that got parity.
    pub demoted: u64,
    /// The data of both, in bytes.
    pub bytes: u64,
    /// How long it took, or until the end of measurement.
    pub took_ns: u64,
    /// `bytes` by that time.
    pub bytes_per_s: f64,
    /// Whether it ended.
    pub ended: bool,
}

/// An interval of a time series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The end, in seconds after measurement began.
    pub until_s: f64,
    /// Bytes of completed writes of clients.
    pub client_bytes: u64,
    /// Bytes written to members.
    pub member_bytes: u64,
    /// Of these, the bytes that reached flash.
    pub reached_flash_bytes: u64,
    /// Bytes programmed.
    pub programmed_bytes: u64,
    /// The number of erase blocks cleaned.
    pub erases: u64,
    /// Physical bytes of members with a limit in use at the end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub physical_used_bytes: u64,
    /// The pool at the end.
    pub pool: Option<PoolState>,
    /// The engine's counters that increased, and by how much.
    pub work: BTreeMap<String, u64>,
}

/// The pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolResult {
    /// The protection.
    pub protection: Protection,
    /// Data columns of a full stripe.
    pub data_columns: usize,
    /// Bytes of all members.
    #[serde(default)]
    pub member_bytes: u64,
    /// Of these, the bytes of superblocks, journals and tables.
    #[serde(default)]
    pub metadata_bytes: u64,
    /// The pool when measurement began.
    pub before: PoolState,
    /// The pool when measurement ended.
    pub after: PoolState,
    /// By how much the engine's counters increased.
    pub work: BTreeMap<String, u64>,
}

/// A pool at one point in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolState {
    /// Bytes that clients have stored.
    pub stored_bytes: u64,
    /// Bytes that clients can store.
    pub capacity_bytes: u64,
    /// Bytes of all chunks.
    pub raw_bytes: u64,
    /// Bytes of free chunks.
    pub free_bytes: u64,
    /// Bytes of the other chunks, including copies, parity and dead blocks of stripes.
    #[serde(default)]
    pub used_bytes: u64,
    /// The number of mirrored stripes.
    pub stripes_mirrored: u64,
    /// The number of parity stripes.
    pub stripes_parity: u64,
    /// The number of stripes with a missing or misplaced chunk.
    pub stripes_degraded: u64,
    /// Memory of the tables.
    pub table_bytes: u64,
}
