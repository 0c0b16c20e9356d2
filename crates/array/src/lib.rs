//! The array: one volume at computed places, as md's RAID levels have it.
//!
//! Rooms, each importing only those before it: `journal` and `bitmap` (what is durable beside the data), `stripe` (the one
//! way to change and to read a stripe), `request`, `background` and `reshape`, `recovery` and `inspect`, and `shard`, which
//! holds a shard together.

mod background;
mod bitmap;
mod inspect;
mod journal;
mod md_dirty;
mod pool_shard;
mod recovery;
mod request;
mod reshape;
mod shard;
mod stripe;

pub use shard::ArrayShard;
pub(crate) use shard::RETRY_NS;
