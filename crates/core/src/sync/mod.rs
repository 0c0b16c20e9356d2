//! Waiting among the tasks of one thread.

mod join;
mod oneshot;
mod signal;

pub use join::{before, both, end_all, join_all, next_of, poll_next};
pub use oneshot::{Fulfil, Promise, promise};
pub use signal::{Batches, Kick, Signal};
