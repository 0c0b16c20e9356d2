//! Stripes of a mapped pool: how one is allocated, appended to, written whole, read, and reconstructed.

pub(crate) mod allocate;
pub(crate) mod append;
pub(crate) mod full_stripe_write;
pub(crate) mod hedged;
pub(crate) mod read;
pub(crate) mod read_cache;
