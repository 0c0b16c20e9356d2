//! The members of a pool as one shard uses them: its requests to devices with their errors, latency, hedging and timeouts,
//! the throttle of background work, and the messages between a shard and the pool's control.
//!
//! Both kinds of pool are built on this crate; it knows neither.

pub mod deadlines;
mod discards;
pub mod full_members;
pub mod group_flush;
pub mod hedged_read;
pub mod io_priority;
pub mod io_timeout;
pub mod latency;
pub mod marks;
pub mod member_stats;
pub mod members;
pub mod message;
pub mod open_error;
pub mod open_mode;
mod overlay;
pub mod pool_shard;
pub mod recovery_report;
pub mod ring;
mod space_admission;
pub mod space_credit;
pub mod status;
pub mod stripe_columns;
pub mod throttle;
pub mod update_latency;
mod writing;
