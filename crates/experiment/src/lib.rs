//! Experiments: a file describes them, the engine runs them on simulated members, and the results are JSON, text and a page.
//!
//! A file describes the members, pool, volumes and workload of a simulation, its duration and seeds, and what to vary; or an
//! array that grows, or reliability, by arithmetic alone. [`plan`] makes a list of runs of it. Each run is a function of its description and seed:
//! no clock of the machine affects a result, except for times of addressing, which a file may ask for.
//! `sinew experiment show NAME` prints a file.
//!
//! The modules, from the lowest to the highest; each uses only modules above it:
//!
//! ```text
//! error     what can go wrong
//! units     seconds to nanoseconds, figures for people
//! progress  how a run reports its progress
//! file/     the file: spec, growth and reliability with the head that all have, names, published figures, ratios,
//!           checks, overrides by path, the files that ship with the program
//! plan      from a file to checked runs
//! system/   the system under test: members, pools and arrays, layers of presets, the target of requests
//! results/  the JSON: schema, simulated, reliability, spread over seeds; the comparison with published figures; paired ratios; the summary of seeds
//! run/      one run: simulation, capacity, load, backlog, steady, measure, histogram, figures, wear_model, online_growth, member_failure; growth_arithmetic, reliability_arithmetic
//! batch/    many runs on several threads, with a cache of results
//! report/   text for a terminal; html with charts, drawn by svg
//! ```

pub mod batch;
mod error;
mod file;
pub mod plan;
mod progress;
pub mod report;
pub mod results;
mod run;
mod system;
mod units;

pub use error::{Error, Result};
pub use file::{band, builtin, capacity, drive, fails, growth, names, published, ratio, reliability, spec};

/// The former name of [`builtin`].
pub use file::builtin as named;

/// The former place of [`report::text`].
pub mod terminal {
    pub use crate::report::text;
}
