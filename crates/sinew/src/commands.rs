//! The commands, one file each: arguments, whose doc comments are the help, and what is done with them.

pub(crate) mod array;
pub(crate) mod bench;
pub(crate) mod examine;
pub(crate) mod experiment;
pub(crate) mod import;
pub(crate) mod layout;
pub(crate) mod member;
pub(crate) mod metrics;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod replay;
pub(crate) mod scrub;
pub(crate) mod serve;
pub(crate) mod step_around;
pub(crate) mod throttle;
pub(crate) mod torture;
pub(crate) mod up;
pub(crate) mod volume;
pub(crate) mod workload;
