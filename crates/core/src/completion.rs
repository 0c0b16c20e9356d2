//! Completion counter: the answer to a request that is carried out in parts.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::volume::VolumeError;

/// The answer to a queued write: whether the condition of its last conditional piece held.
pub type AppendResult = Result<bool, VolumeError>;

/// Counts the blocks that are not yet done, and answers after the last one.
pub struct Completion {
    blocks_left: Cell<u32>,
    result: Cell<AppendResult>,
    waker: Cell<Option<Waker>>,
}

/// Resolves to the answer.
pub struct Completed(Rc<Completion>);

impl Completion {
    /// A counter for `blocks` blocks, and its answer.
    pub fn new(blocks: u32) -> (Rc<Completion>, Completed) {
        let completion = Rc::new(Completion {
            blocks_left: Cell::new(blocks),
            result: Cell::new(Ok(true)),
            waker: Cell::new(None),
        });
        (Rc::clone(&completion), Completed(completion))
    }

    /// Counts `blocks` blocks as done. The answer is the first error, if there is one.
    pub fn done(&self, blocks: u32, result: AppendResult) {
        match (self.result.get(), result) {
            (Ok(_), Ok(held)) => self.result.set(Ok(held)),
            (Ok(_), Err(error)) => self.result.set(Err(error)),
            (Err(_), _) => {}
        }
        self.blocks_left.set(self.blocks_left.get() - blocks);
        if self.blocks_left.get() == 0
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }
}

impl Future for Completed {
    type Output = AppendResult;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<AppendResult> {
        if self.0.blocks_left.get() == 0 {
            return Poll::Ready(self.0.result.get());
        }
        self.0.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}
