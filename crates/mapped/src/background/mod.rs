//! Background jobs of a shard of a mapped pool. Each job is a struct with its own state; no job knows a client's request.

pub(crate) mod checkpoint;
pub(crate) mod compact;
pub(crate) mod convert;
pub(crate) mod defragment;
pub(crate) mod discard;
pub(crate) mod fair_share;
pub(crate) mod io_priority;
pub(crate) mod move_class;
pub(crate) mod progress;
pub(crate) mod rebalance;
pub(crate) mod rebuild;
pub(crate) mod reclaim;
pub(crate) mod relieve_full;
pub(crate) mod relocate;
pub(crate) mod scrub;
