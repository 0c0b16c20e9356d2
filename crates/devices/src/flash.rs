//! A flash SSD: dies behind channels, a page mapping that is cleaned, a write buffer, a host link.
//!
//! ```text
//! ssd         Ssd: takes requests apart, passes commands down and results back; owns the parts below
//! host        the host interface: controller, link, requests under way
//! buffer      the write buffer, what a flush waits for
//! placement   which die takes the next unit; a redundancy inside the drive plugs in here
//! aging       a long history at once
//! dies        what each die and channel does, and when
//! die         one die, one channel: their work now, and what waits for it
//! standstill  why and since when the host waits
//! jobs        the work that waits for dies
//! mapping     where each block is, cleaning, wear; no time in it
//! victim      which erase block is cleaned
//! stats       counters
//! config      Config: the parameters of a drive
//! models      parameter sets with their sources
//! ```
//!
//! Commands go down this list, from `ssd` over `buffer` to `dies`; results come back as return values. No file calls one
//! above it.
//!
//! The planes of a die program and erase together, so the *unit* of programming is one page of every plane. A read
//! senses once for all blocks it wants from one unit and transfers only those.

mod aging;
mod buffer;
mod config;
mod die;
mod dies;
mod host;
mod jobs;
mod mapping;
mod models;
mod placement;
mod ssd;
mod standstill;
mod stats;
#[cfg(test)]
mod tests;
mod victim;

pub use config::{Cleaning, Compression, Config, Drain, Link, Policy, Suspend};
pub use models::{SUSPEND, consumer, datacenter, femu, mqsim, pitfalls, slc};
pub use ssd::{Space, Ssd};
pub use stats::Stats;
