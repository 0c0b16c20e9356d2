//! Members that have refused a write because their physical space is used up (thin members).
//!
//! A full member is never a failed one. Its old content stays, it is read, flushed and discarded as before, and it takes
//! writes again as soon as there is space. New data avoids it for a while; what has to be written, such as a group of the
//! journal, is tried again until there is space.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use sinew_core::ids::MemberId;
use sinew_core::sync::Signal;

/// Pause before a write that was refused is tried again. For as long the member counts as full.
pub const RETRY_NS: u64 = 20_000_000;

/// For how long a member that refused a write is shown as full: clients stop writing when they are refused.
pub const SHOWN_NS: u64 = 10_000_000_000;

/// The members of a shard that are full, and the writes that wait for space.
#[derive(Default)]
pub struct FullMembers {
    /// Of each member, until when it counts as full.
    until: RefCell<Vec<u64>>,
    /// Writes refused so far.
    refusals: Cell<u64>,
    /// Writes that wait for space, and that others depend on.
    waiting: Cell<u32>,
    /// Notified when a write begins to wait.
    began: Signal,
}

impl FullMembers {
    /// The member has just refused a write.
    pub(crate) fn note_refusal(&self, member: MemberId, now: u64) {
        self.refusals.set(self.refusals.get() + 1);
        let mut until = self.until.borrow_mut();
        let index = usize::from(member.0);
        let len = until.len().max(index + 1);
        until.resize(len, 0);
        until[index] = now + RETRY_NS;
    }

    /// Whether the member has refused a write a short time ago.
    pub(crate) fn contains(&self, member: MemberId, now: u64) -> bool {
        self.refusals.get() > 0
            && self.until.borrow().get(usize::from(member.0)).is_some_and(|&until| now < until)
    }

    /// Of each of the first `count` members, whether it has refused a write within this time.
    pub fn refused_within(&self, ns: u64, now: u64, count: usize) -> Vec<bool> {
        let until = self.until.borrow();
        let has_refused = |until: &u64| *until > 0 && now < until.saturating_sub(RETRY_NS).saturating_add(ns);
        (0..count).map(|member| until.get(member).is_some_and(has_refused)).collect()
    }

    /// Writes that members have refused for lack of space since the pool was opened.
    pub fn refusals(&self) -> u64 {
        self.refusals.get()
    }

    /// Counts a write that waits for space, until the result is dropped.
    pub fn begin_wait(&self) -> SpaceWait<'_> {
        self.waiting.set(self.waiting.get() + 1);
        self.began.notify();
        SpaceWait(&self.waiting)
    }

    /// Whether a write that others depend on waits for space.
    pub fn is_awaited(&self) -> bool {
        self.waiting.get() > 0
    }

    /// The output of a task, or the task itself once a write begins to wait for space.
    ///
    /// # Errors
    /// The task, which has not ended.
    pub async fn unless_awaited<F: Future + Unpin>(&self, mut task: F) -> Result<F::Output, F> {
        let mut began = pin!(self.began.wait(|| self.is_awaited().then_some(())));
        let output = poll_fn(|cx| match Pin::new(&mut task).poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => began.as_mut().poll(cx).map(|()| None),
        })
        .await;
        output.ok_or(task)
    }
}

/// A write that waits for space.
pub struct SpaceWait<'a>(&'a Cell<u32>);

impl Drop for SpaceWait<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
