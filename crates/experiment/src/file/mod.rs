//! The file that describes an experiment: its tables, the names in it, its checks, and the files that ship with the program.
//!
//! Nothing here runs anything or performs I/O. A file is read, changed by the paths that a case, a sweep or a quick run sets,
//! and checked; [`crate::plan`] makes the list of runs of it.

pub mod band;
pub mod builtin;
pub mod capacity;
pub(crate) mod check;
pub mod drive;
pub mod fails;
pub mod growth;
pub(crate) mod head;
pub mod names;
pub(crate) mod overrides;
pub mod published;
pub mod ratio;
pub mod reliability;
pub mod spec;
