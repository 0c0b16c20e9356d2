//! What a shard of an array must not hold once it has nothing left to do.

use sinew_core::io::Io;

use crate::ArrayShard;

impl<I: Io> ArrayShard<I> {
    /// What is held without reason, in words.
    pub(crate) fn held_at_rest(&self) -> Vec<String> {
        let regions = self.regions.borrow();
        let counts = [
            ("stripes locked", self.locks.count()),
            ("stripes with writes that wait", self.queued.borrow().len()),
            ("entries to be logged", self.log.queued()),
            ("regions in use", regions.in_use()),
            ("flushes", usize::from(self.flushing.is_running())),
        ];
        let some = counts.into_iter().filter(|(_, count)| *count > 0);
        some.map(|(what, count)| format!("shard {}: {count} {what}", self.slice().index)).collect()
    }
}
