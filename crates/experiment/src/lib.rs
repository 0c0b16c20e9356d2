//! Experiments: declared in a file, run by the engine on simulated members, told as JSON and as a page.
//!
//! A file ([`spec::Spec`]) says which members, pool, volumes and workload there are, for how long, with which seeds, and
//! what is varied; or ([`growth::GrowthFile`]) which array grows. [`plan`] makes of it a list of runs, each a function of
//! its description and seed alone: no clock of the machine gets into a result, unless times of addressing are asked for.
//! `sinew experiment show NAME` prints a file.
//!
//! ```text
//! named       the experiments that ship with the program
//! spec        what a file says
//! settings    changing what it says by path: sweeps, cases, quick runs
//! plan        from a file to runs, checked
//! batch       many runs on several threads, with a cache
//! cache       results of earlier runs
//! reference   published figures beside ours
//! run         one run: set-up, filling, load, measurement
//! measure     what members and pool did in the measured time
//! members     simulated members
//! system      the pools or arrays that are measured
//! layer       what presets put above their arrays
//! target      where requests go: volumes, ranges of arrays, or one member alone
//! load        issuing the requests of a workload
//! meter       latencies of one kind of request
//! growth      a run without requests: an array that grows
//! results     what comes out, as JSON
//! terminal    the same for people on a terminal
//! report      the same as one page of HTML
//! drawings    what is drawn in it
//! plot        how
//! summary     seeds taken together, figures as people read them
//! error       what can go wrong
//! ```

pub mod batch;
mod cache;

mod drawings;
mod error;
mod grow;
pub mod growth;
mod layer;
mod load;
mod measure;
mod members;
mod meter;
pub mod named;
pub mod plan;
mod plot;
pub mod reference;
pub mod report;
pub mod results;
mod run;
mod settings;
pub mod spec;
mod summary;
mod system;
mod target;
pub mod terminal;

pub use error::{Error, Result};
