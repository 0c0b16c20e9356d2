//! A flash SSD: dies behind channels, a page mapping that is cleaned, a write buffer, a host link.
//!
//! ```text
//! ssd           Ssd: takes requests apart, passes commands down and results back; owns the parts below
//! host          the host interface: controller, link, requests under way
//! buffer        the write buffer, what a flush waits for, when parity is written
//! epochs        what a flush waits for
//! raid5         RAID-5 stripes whose parity is not up to date; raid5_layout: their addresses
//! placement     which die takes the next unit
//! aging         a long history at once
//! dies          what each die and channel does, and when; rules: how long it takes
//! row_cleaning  the cleaning of a row of all dies: what each die does next
//! die           one die, one channel: their work now, and what waits for it
//! standstill    why and since when the host waits
//! jobs          the work that waits for dies
//! mapping       where each block is; no time in it
//! moves         what cleaning has moved, until its source is erased
//! geometry      how granules, units and rows are numbered; divisor: division by their sizes
//! rows          where units go on a drive that works with rows of all dies
//! stripes       elastic stripes: which unit belongs to which, what a parity covers
//! space         free and open rows, how much of each is live; victim: which one is cleaned
//! loss          what is left after a die or a page has failed
//! features      parts that a drive may have or not
//! wear          static wear levelling
//! folding       when an SLC cache is folded
//! slc_region    the erase blocks of an SLC cache
//! mapping_cache what of the mapping table is in memory
//! defect        deliberate defects, which the tests must find
//! observe       changes of what flash holds, for an observer that keeps its content
//! stats         counters
//! redundancy    Redundancy: the schemes and their parameters
//! config        Config: the parameters of a drive
//! models        parameter sets with their sources
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
mod defect;
mod die;
mod dies;
mod divisor;
mod epochs;
mod features;
mod folding;
mod geometry;
mod host;
mod jobs;
mod loss;
mod mapping;
mod mapping_cache;
mod models;
mod moves;
mod observe;
mod placement;
mod raid5;
mod raid5_layout;
mod redundancy;
mod row_cleaning;
mod rows;
mod rules;
mod slc_region;
mod space;
mod ssd;
mod standstill;
mod stats;
mod stripes;
#[cfg(test)]
mod tests;
mod victim;
mod wear;

pub use config::{Cleaning, Compression, Config, Drain, Link, Policy, Suspend};
pub use defect::Defect;
#[cfg(feature = "mutations")]
pub use defect::set_defect;
pub use features::{MappingCache, SlcCache, WearLevelling};
pub use loss::{Content, Failure, Losses};
pub use models::{SUSPEND, consumer, datacenter, femu, mqsim, pitfalls, slc};
pub use observe::FlashEvent;
pub use redundancy::{ParityReads, Redundancy, Striping};
pub use ssd::{Space, Ssd};
pub use stats::Stats;
pub use stripes::Side;
