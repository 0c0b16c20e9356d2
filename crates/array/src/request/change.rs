//! Changes of a stripe, as requests queue them in an array without a journal.

use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::completion::Completion;

/// A change of a stripe.
pub(super) enum Change {
    /// New content of consecutive slots.
    Blocks { slot: u32, data: Buf },
    /// New content of part of a block.
    Part { slot: u32, at: usize, bytes: Rc<[u8]> },
}

/// A change that waits for its stripe, since `at`.
pub(super) struct QueuedChange {
    pub(super) at: u64,
    pub(super) change: Change,
    pub(super) completion: Rc<Completion>,
}
