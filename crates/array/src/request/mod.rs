//! Clients' requests to a shard of an array.
//!
//! A request passes the barrier, then goes to the journal and the stripes. Nothing here knows background work.

mod change;
mod read;
mod serve;
mod write;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_members::space_credit::SpaceClaim;

use crate::journal::Journal;
use crate::request::change::QueuedChange;
use crate::state::ShardState;
use crate::stripe::Stripes;

/// The requests of a shard.
pub(crate) struct Requests<I> {
    state: Rc<ShardState<I>>,
    journal: Rc<Journal<I>>,
    stripes: Rc<Stripes<I>>,
    /// Changes that wait for their stripe, in an array without a journal. A stripe is in here while a task works on it.
    queued: RefCell<BTreeMap<u64, Vec<QueuedChange>>>,
}

impl<I: Io> Requests<I> {
    /// No request is under way.
    pub(crate) fn new(
        state: &Rc<ShardState<I>>,
        journal: &Rc<Journal<I>>,
        stripes: &Rc<Stripes<I>>,
    ) -> Requests<I> {
        let (state, journal, stripes) = (Rc::clone(state), Rc::clone(journal), Rc::clone(stripes));
        Requests { state, journal, stripes, queued: RefCell::default() }
    }

    /// Admits a client's write of some blocks, once there is physical space for it on thin members.
    ///
    /// # Errors
    /// [`VolumeError::NoSpace`] when no space is freed for a while.
    async fn admit(&self, blocks: u64) -> Result<SpaceClaim<'_>, VolumeError> {
        let need = || self.state.space_need(self.journal.dirty().len());
        let lacks = || {
            self.journal.destage_for_space();
            self.stripes.note_waiting(blocks);
        };
        self.state.members().admit(blocks, need, lacks).await
    }

    /// Stripes with changes that wait.
    pub(crate) fn queued_stripes(&self) -> usize {
        self.queued.borrow().len()
    }
}
