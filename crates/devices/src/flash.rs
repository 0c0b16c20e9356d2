//! A flash SSD: dies behind channels, a page mapping that is cleaned, a write buffer, a host link.
//!
//! ```text
//! config      Config: what a drive is made of
//! models      parameter sets with their sources
//! mapping     where each block is, cleaning, wear; no time in it
//! victim      which erase block is cleaned
//! ssd         Ssd: requests, stalls
//! buffer      the write buffer and flushes
//! aging       a long history at once
//! dies        what each die and channel does, and when
//! stats       counts
//! ```
//!
//! The planes of a die program and erase together, so the *unit* of programming is one page of every plane. A read
//! senses once for all blocks it wants from one unit and transfers only those.

mod aging;
mod buffer;
mod config;
mod dies;
mod mapping;
mod models;
mod ssd;
mod stats;
#[cfg(test)]
mod tests;
mod victim;

pub use config::{Cleaning, Compression, Config, Drain, Link, Policy, Suspend};
pub use models::{SUSPEND, consumer, datacenter, femu, mqsim, pitfalls, slc};
pub use ssd::{Space, Ssd};
pub use stats::Stats;
