//! The Sinew storage engine: mapped pools and arrays over an abstract world of devices.
//!
//! From the outside in: [`pool`] makes and finds pools, [`control`] changes them, [`shard`] is a slice of one,
//! [`client`] gives [`volume`]s to frontends. ARCHITECTURE.md has the way of a request and the invariants.

// The world.
pub mod buf;
pub mod io;

// The pool as a whole.
mod catalog;
pub mod change_waits;
pub mod client;
pub mod control;
pub mod md;
pub mod pool;
pub mod preset;
pub mod shape;
pub mod vigil;
pub mod volume;

// The other kind of pool: arrays, whole.
pub mod array;

// One shard of a mapped pool, and what it does for requests.
mod append;
mod beside;
mod flush;
mod in_hand;
mod mapped;
mod plan;
mod read;
mod read_around;
pub mod serve;
pub mod shard;
mod stripes;
mod ticket;
mod write;

// What a shard does by itself.
mod balance;
mod clean;
mod compact;
mod convert;
mod gather;
mod keeper;
mod level;
mod rebuild;
pub mod recover;
mod rest;
mod scrub;
mod step_back;
mod trim;

// What it is made of.
mod around;
mod bounds;
mod era;
mod free_set;
mod journal;
mod late;
mod member;
mod pages;
pub mod policy;
mod shares;
mod space;
pub mod spikes;
pub mod status;
pub mod sync;
mod tables;
pub mod throttle;

// Pure arithmetic and formats, and what tests want to know.
pub mod addr;
pub mod checksum;
pub mod disk;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod geometry;
pub mod parity;
pub mod paths;
pub mod placement;
pub mod run_map;
pub mod sabotage;

pub use array::ArrayShard;
pub use mapped::MappedShard;
pub use member::MemberStats;
