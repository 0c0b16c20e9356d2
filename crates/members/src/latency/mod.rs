//! Latency of the members: detection of spikes, and of members that have become slow for good.
//!
//! Everything here is arithmetic over times that the caller passes, so that it can be tested against a naive model. A
//! `StragglerDetector` decides whether a member has too many stragglers, as in FusionRAID (FAST '21, section 4.3). A
//! [`LatencyHistogram`] holds the recent latencies of a member; thresholds that are not set follow from it. A
//! `HedgeBudget` bounds the extra requests that avoiding slow members may cost. The reaction to a spike is decided
//! where the request is: by [`crate::hedged_read`] and by the write paths of each kind of pool.

mod hedge_budget;
mod histogram;
mod member;
mod report;
mod spike_avoidance;
mod straggler_detector;
mod table;

pub use histogram::LatencyHistogram;
pub(crate) use histogram::{BUCKETS, bucket};
pub(crate) use member::RequestKind;
pub use member::TrackedMember;
pub use report::{MemberLatency, Response};
pub use spike_avoidance::{SpikeAvoidance, Thresholds};
pub(crate) use straggler_detector::RequestStart;
pub use table::LatencyTable;
