//! Completion counter: the answer to a request that is carried out in parts.

use std::cell::Cell;
use std::rc::Rc;

use crate::sync::{Fulfil, Promise, promise};
use crate::volume::VolumeError;

/// The answer to a queued write: whether the condition of its last conditional piece held.
pub type AppendResult = Result<bool, VolumeError>;

/// Counts the blocks that are not yet done, and answers after the last one.
pub struct Completion {
    blocks_left: Cell<u32>,
    result: Cell<AppendResult>,
    fulfil: Cell<Option<Fulfil<AppendResult>>>,
}

impl Completion {
    /// A counter for `blocks` blocks, and its answer.
    pub fn new(blocks: u32) -> (Rc<Completion>, Promise<AppendResult>) {
        let (fulfil, promise) = promise();
        let completion = Completion {
            blocks_left: Cell::new(blocks),
            result: Cell::new(Ok(true)),
            fulfil: Cell::new(Some(fulfil)),
        };
        (Rc::new(completion), promise)
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
            && let Some(fulfil) = self.fulfil.take()
        {
            fulfil.fulfil(self.result.get());
        }
    }
}
