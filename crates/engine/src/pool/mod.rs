//! Pools on their members: made, found again, described by presets; and md's arrays, which are served as they are.

mod candidate;
mod content;
mod create;
mod discover;
mod error;
mod found;
pub mod md_arrays;
mod md_superblocks;
mod opener;
pub mod preset;
mod superblocks;

pub use candidate::Candidate;
pub use content::wipe;
pub(crate) use content::{device_bytes, refuse_used};
pub use create::{PoolKind, PoolSpec, create, create_earlier};
pub(crate) use create::{new_member, require_known_use};
pub use discover::{discover, discover_as_last_resort, discover_read_only};
pub use error::PoolError;
pub use found::Found;
pub(crate) use md_superblocks::{MdBlocks, store as store_md_superblocks};
pub use opener::Opener;
pub use superblocks::{NextSlots, read_superblock};
pub(crate) use superblocks::{SuperblockError, read_newest, too_small, write_in_time, write_superblock};
