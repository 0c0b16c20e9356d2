//! The progress of long work: of a scrub, and of a growth.

use std::cell::Cell;

use sinew_core::sync::Signal;

/// How far a shard is in a scrub and in a growth.
#[derive(Default)]
pub(crate) struct Progress {
    /// Below this key everything has moved, durably; below `recorded` the members say so.
    pub(super) flushed: Cell<u64>,
    pub(super) recorded: Cell<u64>,
    /// Below this key every shard has recorded that everything has moved.
    pub(super) everywhere: Cell<u64>,
    /// A record is being written.
    pub(super) recording: Cell<bool>,
    pub(super) signal: Signal,
    /// Reads without a lock in flight, in two counters: those that began before the last wait for them, and after it.
    reads: [Cell<u32>; 2],
    phase: Cell<usize>,
    /// A task waits for them.
    awaited: Cell<bool>,
    /// The next stripe of the scrub under way.
    scrub_next: Cell<Option<u64>>,
}

/// Where recovery found long work.
#[derive(Clone, Copy, Default)]
pub(crate) struct Resumed {
    /// The next stripe of a scrub.
    pub(crate) scrub: Option<u64>,
    /// Everything below this key of a growth has moved.
    pub(crate) moved: u64,
}

/// A read without a lock in flight; dropping it ends the read.
pub(crate) struct UnlockedRead<'a> {
    progress: &'a Progress,
    phase: usize,
}

impl Drop for UnlockedRead<'_> {
    fn drop(&mut self) {
        let left = self.progress.reads[self.phase].get() - 1;
        self.progress.reads[self.phase].set(left);
        if left == 0 {
            self.progress.signal.notify();
        }
    }
}

/// The turn of a task that waits for reads; dropping it gives it to the next one.
struct Turn<'a>(&'a Progress);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.awaited.set(false);
        self.0.signal.notify();
    }
}

impl Progress {
    /// As recovery found it.
    pub(crate) fn new(resumed: Resumed) -> Progress {
        let progress = Progress::default();
        progress.resume(resumed.moved);
        progress.scrub_next.set(resumed.scrub);
        progress
    }

    /// A growth goes on, or begins, at this key.
    pub(crate) fn resume(&self, key: u64) {
        self.flushed.set(key);
        self.recorded.set(key);
        self.everywhere.set(0);
    }

    /// Has every task that waits for the growth look again: the array failed, or is about to close.
    pub(crate) fn notify(&self) {
        self.signal.notify();
    }

    /// The next stripe of the scrub under way.
    pub(crate) fn scrub_next(&self) -> Option<u64> {
        self.scrub_next.get()
    }

    /// The scrub goes on with this stripe; with `None` none is under way.
    pub(crate) fn set_scrub_next(&self, stripe: Option<u64>) {
        self.scrub_next.set(stripe);
    }

    /// Every shard has recorded that everything below this key has moved.
    pub(crate) fn everywhere(&self) -> u64 {
        self.everywhere.get()
    }

    /// Waits until every shard has moved the chunk with the key `needed`, or until the growth cannot go on.
    pub(crate) async fn wait_until_everywhere_past(&self, needed: u64, over: impl Fn() -> bool) {
        self.signal.wait(|| (self.everywhere.get() > needed || over()).then_some(())).await;
    }

    /// Below this key the members say that everything has moved.
    pub(crate) fn recorded(&self) -> u64 {
        self.recorded.get()
    }

    /// The members say that everything below this key has moved.
    pub(crate) fn set_recorded(&self, key: u64) {
        self.recorded.set(key);
    }

    /// The log is about to say that everything below this key has changed.
    pub(crate) fn note_changed(&self, key: u64) {
        self.flushed.set(key);
    }

    /// Begins a read that takes no lock.
    pub(crate) fn begin_read(&self) -> UnlockedRead<'_> {
        let phase = self.phase.get();
        self.reads[phase].set(self.reads[phase].get() + 1);
        UnlockedRead { progress: self, phase }
    }

    /// Waits until the reads without a lock that have begun are over. One task waits at a time, a growth or the discarding of
    /// unused units: the reads in the other counter are over when it begins.
    pub(crate) async fn wait_for_unlocked_reads(&self) {
        self.signal.wait(|| (!self.awaited.replace(true)).then_some(())).await;
        let _turn = Turn(self);
        let before = self.phase.get();
        self.phase.set(1 - before);
        self.signal.wait(|| (self.reads[before].get() == 0).then_some(())).await;
    }
}
