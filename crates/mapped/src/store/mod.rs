//! What a shard of a mapped pool stores: its tables and their pages, the journal, and which chunks are free.

pub(crate) mod chunk_allocator;
pub(crate) mod dirty_pages;
pub(crate) mod epoch_reclaim;
pub(crate) mod flush;
pub(crate) mod free_set;
pub(crate) mod journal;
pub(crate) mod overlapped_commit;
pub(crate) mod run_map;
pub(crate) mod tables;
