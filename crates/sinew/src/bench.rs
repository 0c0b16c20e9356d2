//! `sinew bench`: load from this process, and its results. The command makes the pool.

pub(crate) mod load;
pub(crate) mod results;
