//! Requests to the destager, as the journal keeps them.

use std::cell::Cell;

use sinew_core::sync::{Kick, Signal};

/// Requests to the destager.
pub(crate) struct DestageRequests {
    pub(super) wake: Kick,
    /// Notified whenever the destager has finished its work, or can do nothing.
    pub(super) done: Signal,
    /// The tail is to move past this group: groups before it may be on too few members.
    pub(super) tail_wanted: Cell<u64>,
    /// Every block is to go to its place.
    pub(super) all_wanted: Cell<bool>,
    /// Likewise those that there are now: in their places they may take less physical space.
    pub(super) space_wanted: Cell<bool>,
}

impl DestageRequests {
    /// Nothing is asked for, of a log whose next group is this.
    pub(crate) fn new(next: u64) -> DestageRequests {
        DestageRequests {
            wake: Kick::default(),
            done: Signal::default(),
            tail_wanted: Cell::new(next),
            all_wanted: Cell::new(false),
            space_wanted: Cell::new(false),
        }
    }
}
