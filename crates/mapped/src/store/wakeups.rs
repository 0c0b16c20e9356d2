//! Wake-ups of background jobs. Lower rooms give them without knowing the jobs.

use std::rc::Rc;

use sinew_core::sync::{Kick, Signal};

/// One wake-up for each background job that waits for work.
#[derive(Default)]
pub(crate) struct Wakeups {
    pub(crate) checkpoint: Kick,
    /// The checkpoint has come to an end of its work.
    pub(crate) checkpointed: Signal,
    /// A round of it has ended, or there is none to be made.
    pub(crate) checkpoint_round: Signal,
    /// Also given when the last reader of released chunks ends.
    pub(crate) reclaim: Rc<Kick>,
    pub(crate) discard: Kick,
    pub(crate) defragment: Kick,
    pub(crate) rebuild: Kick,
    pub(crate) scrub: Kick,
}
