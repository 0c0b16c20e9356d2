//! Answers to requests. The doc comments are the descriptions of the schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names;
use super::state::{ElasticPolicyState, PolicyState, PoolState, VolumeLimitsState};

/// An answer to a request.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    Status(Box<PoolState>),
    Damage(Vec<DamagedPart>),
    Metrics(String),
    Events(EventList),
    History(HistoryView),
    Commitment(Commitment),
    Added(AddedMember),
    Policy(PolicyState),
    ElasticPolicy(ElasticPolicyState),
    VolumeLimits(VolumeLimitsState),
    /// It is done; null.
    Done,
}

/// A line that a server sends.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line<T> {
    /// The request was carried out.
    Ok(T),
    /// It was not; says why, for people.
    Error(String),
}

/// A damaged part of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct DamagedPart {
    pub(crate) volume: String,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// When it was found (RFC 3339); null while that is not stored.
    pub(crate) since: Option<String>,
}

/// Events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct EventList {
    /// Those with higher numbers than were asked for.
    pub(crate) events: Vec<EventView>,
    /// Number of the latest event.
    pub(crate) last: u64,
}

/// An event. Fields that its kind does not have are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct EventView {
    /// Numbers have no gaps.
    pub(crate) number: u64,
    /// RFC 3339.
    pub(crate) time: String,
    #[schemars(schema_with = "names::severity")]
    pub(crate) severity: String,
    /// Its kind.
    pub(crate) event: String,
    /// A sentence for people.
    pub(crate) text: String,
    /// Members without which the pool was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) out: Option<Vec<usize>>,
    /// Members that have no physical space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) members: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) member: Option<usize>,
    /// Where the member is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read_errors: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checksum_errors: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) repaired_blocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) volume: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    /// Former size of a volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<u64>,
    /// Requests that were refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requests: Option<u64>,
    /// Used part of the capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) percent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) work: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<u64>,
    /// Address and names of a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<String>,
    /// Why a client was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// How often a client was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) times: Option<u64>,
    /// Name of a setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) setting: Option<String>,
    /// What it is now, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
}

/// The last ten minutes. All lists have the same length, the oldest sample first; there is one every `step_s` seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct HistoryView {
    pub(crate) step_s: u64,
    /// Members, by their numbers.
    pub(crate) members: Vec<MemberHistory>,
    /// Bytes that clients read.
    pub(crate) read_bytes_per_s: Vec<u64>,
    /// Bytes that clients wrote.
    pub(crate) written_bytes_per_s: Vec<u64>,
}

/// The last ten minutes of a member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct MemberHistory {
    pub(crate) member: usize,
    /// Of the recent reads at that time; null if there were none.
    pub(crate) read_p99_us: Vec<Option<u64>>,
    /// Of the recent writes at that time; null if there were none.
    pub(crate) write_p99_us: Vec<Option<u64>>,
    /// Latency spikes since the sample before.
    pub(crate) spikes: Vec<u64>,
}

/// The sizes of all volumes beside the capacity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Commitment {
    /// Sum of the sizes of volumes.
    pub(crate) provisioned_bytes: u64,
    /// Bytes that clients may store.
    pub(crate) capacity_bytes: u64,
}

/// A member that was added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct AddedMember {
    /// Its number.
    pub(crate) member: usize,
}
