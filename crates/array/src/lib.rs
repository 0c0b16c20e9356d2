//! The array: one volume at computed places, as md's RAID levels have it.
//!
//! Rooms, in the order in which they use each other; a room uses only rooms above it in this list:
//!
//! - `state`: layout, members, counters, whether the array has failed;
//! - `bitmap`: the write-intent bitmap;
//! - `forms`: the form of each stripe of an elastic array, and its pages on the members;
//! - `journal`: the log, dirty blocks, flush, and the progress of long work; `md_dirty`: the dirty flag of md's superblocks;
//! - `stripe`: locks, barrier, reading, reconstructing and updating a stripe;
//! - `request`, `background` and `reshape`: clients' requests, the jobs of a shard, growth. None of them uses another;
//! - `recovery` and `inspect`;
//! - `shard`, the only file that knows all rooms.

mod background;
mod bitmap;
mod forms;
mod inspect;
mod journal;
mod marks;
mod md_dirty;
mod recovery;
mod request;
mod reshape;
mod shard;
mod state;
mod stripe;

pub use marks::Mark;
pub use shard::ArrayShard;
