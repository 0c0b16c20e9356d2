//! The answer to a request that is carried out in parts.

use std::cell::Cell;
use std::rc::Rc;

use crate::sync::{Fulfil, Promise, promise};
use crate::volume::VolumeError;

/// What a queued write answers: whether its last conditional piece held.
pub type AppendResult = Result<bool, VolumeError>;

/// Counts the blocks still to be dealt with, and answers after the last.
pub struct Completion {
    blocks_left: Cell<u32>,
    result: Cell<AppendResult>,
    fulfil: Cell<Option<Fulfil<AppendResult>>>,
}

impl Completion {
    /// A ticket for so many blocks, and where its answer will be.
    pub fn new(blocks: u32) -> (Rc<Completion>, Promise<AppendResult>) {
        let (fulfil, promise) = promise();
        let ticket = Completion {
            blocks_left: Cell::new(blocks),
            result: Cell::new(Ok(true)),
            fulfil: Cell::new(Some(fulfil)),
        };
        (Rc::new(ticket), promise)
    }

    /// So many blocks have been dealt with. The first error is the answer.
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
