//! When the SLC cache of a drive is folded because its host is silent, and how long its programs and reads take.

use super::features::SlcCache;
use crate::Ns;

/// When the host was active, and whether an event will look at that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folding {
    pub(super) parameters: SlcCache,
    active_at: Ns,
    is_watched: bool,
}

impl Folding {
    pub(super) fn new(parameters: SlcCache) -> Folding {
        Folding { parameters, active_at: 0, is_watched: false }
    }

    /// The host uses the drive. Returns when to look for silence, unless an event will do so.
    pub(super) fn used(&mut self, now: Ns) -> Option<Ns> {
        self.active_at = now;
        let is_watched = std::mem::replace(&mut self.is_watched, true);
        (!is_watched).then_some(now + self.parameters.fold_after_ns)
    }

    /// Looks for silence. Returns when to look again, or nothing if the host is silent.
    pub(super) fn look(&mut self, now: Ns) -> Option<Ns> {
        let due = self.active_at + self.parameters.fold_after_ns;
        self.is_watched = due > now;
        self.is_watched.then_some(due)
    }

    /// Nothing is folded any more.
    pub(super) fn stop(&mut self) {
        self.is_watched = false;
    }
}
