//! Deadlines for requests that may turn out to be late.
//!
//! Nearly every request is answered before its deadline, so setting one must cost next to nothing: it takes a slot of a
//! list, and one task checks the list, at most once in the shortest delay after which any request is hedged. No deadline is
//! missed by that, since a new one is never due before the next check.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

use sinew_core::io::Io;
use sinew_core::sync::Kick;

/// A task to be woken.
struct Entry {
    due: u64,
    waker: Waker,
}

/// The deadlines of one shard.
#[derive(Default)]
pub struct Deadlines {
    entries: RefCell<Vec<Option<Entry>>>,
    free: RefCell<Vec<usize>>,
    work: Kick,
    running: Cell<bool>,
}

impl Deadlines {
    /// A deadline at `due`. It takes no slot before it is polled.
    pub fn at(&self, due: u64) -> Deadline<'_> {
        Deadline { deadlines: self, due, slot: None }
    }

    /// Wakes tasks at their deadlines, for ever; checks the list once in `shortest_ns`.
    pub(crate) async fn run<I: Io>(&self, io: &I, shortest_ns: impl Fn() -> u64) {
        loop {
            self.work.kicked().await;
            self.running.set(true);
            let mut now = io.now();
            while let Some(due) = self.wake_due(now) {
                let next = due.min(now + shortest_ns());
                io.sleep(next - now).await;
                now = io.now();
            }
            self.running.set(false);
        }
    }

    fn insert(&self, entry: Entry) -> usize {
        let mut all = self.entries.borrow_mut();
        let slot = self.free.borrow_mut().pop().unwrap_or_else(|| {
            all.push(None);
            all.len() - 1
        });
        all[slot] = Some(entry);
        drop(all);
        if !self.running.get() {
            self.work.kick();
        }
        slot
    }

    /// Wakes the tasks whose deadline has come. Returns the next deadline; `None` when there is none.
    fn wake_due(&self, now: u64) -> Option<u64> {
        let (mut next, slots) = (None, self.entries.borrow().len());
        for slot in 0..slots {
            let due = self.entries.borrow()[slot].as_ref().map(|entry| entry.due);
            match due {
                Some(due) if due <= now => {
                    // The woken task frees the slot when it drops its `Deadline`.
                    let entry = self.entries.borrow_mut()[slot].take();
                    entry.into_iter().for_each(|entry| entry.waker.wake());
                }
                Some(due) => next = Some(next.map_or(due, |next: u64| next.min(due))),
                None => {}
            }
        }
        next
    }
}

/// A deadline; dropping it cancels it.
pub struct Deadline<'a> {
    deadlines: &'a Deadlines,
    due: u64,
    slot: Option<usize>,
}

impl Deadline<'_> {
    /// Whether the deadline has come; if not, the task of `cx` is woken then. Where `now` is of the coarse clock, it may be
    /// earlier than the time at which the task was woken.
    pub fn poll(&mut self, cx: &Context<'_>, now: u64) -> bool {
        if now >= self.due {
            return true;
        }
        match self.slot {
            Some(slot) => match &mut self.deadlines.entries.borrow_mut()[slot] {
                Some(entry) => entry.waker.clone_from(cx.waker()),
                None => return true,
            },
            None => {
                self.slot = Some(self.deadlines.insert(Entry { due: self.due, waker: cx.waker().clone() }))
            }
        }
        false
    }
}

impl Drop for Deadline<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            // Bound to a name so that the waker is dropped after the borrow has ended.
            let _entry = self.deadlines.entries.borrow_mut()[slot].take();
            self.deadlines.free.borrow_mut().push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that is woken by the exact clock looks at the coarse one, which may not have come to the deadline yet.
    #[test]
    fn a_deadline_has_come_for_a_task_that_was_woken_at_it() {
        let deadlines = Deadlines::default();
        let mut deadline = deadlines.at(100);
        let cx = Context::from_waker(Waker::noop());
        assert!(!deadline.poll(&cx, 50));
        assert_eq!(deadlines.wake_due(99), Some(100));
        assert!(!deadline.poll(&cx, 90));
        assert_eq!(deadlines.wake_due(100), None);
        assert!(deadline.poll(&cx, 90));
    }
}
