//! The commands, one file each: arguments, whose doc comments are the help, and their execution.

pub(crate) mod array;
pub(crate) mod bench;
pub(crate) mod events;
pub(crate) mod examine;
pub(crate) mod find;
#[cfg(feature = "lab")]
pub(crate) mod lab;
#[cfg(not(feature = "lab"))]
#[path = "commands/without_lab.rs"]
pub(crate) mod lab;
pub(crate) mod latency;
pub(crate) mod layout;
pub(crate) mod member;
pub(crate) mod metrics;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod replay;
pub(crate) mod scrub;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod throttle;
pub(crate) mod topology;
pub(crate) mod up;
pub(crate) mod volume;
pub(crate) mod workload;
