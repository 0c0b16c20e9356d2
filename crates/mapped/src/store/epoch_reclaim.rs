//! Epoch-based reclamation: when no request reads a released chunk any more.
//!
//! A request that looks something up enters the current epoch and leaves it when it ends. A release is stamped with the
//! epoch current at the time and starts a new one; what it released may be reused once every request of that epoch and
//! before has left.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use sinew_core::sync::Kick;

struct State {
    /// Number of the first epoch in `inside`.
    first: u64,
    /// Requests inside each epoch, from `first` to the current one.
    inside: VecDeque<u32>,
    /// To be kicked when the oldest epoch ends.
    waiting: Option<Rc<Kick>>,
}

/// The epochs of one shard.
#[derive(Clone)]
pub(crate) struct Epochs(Rc<RefCell<State>>);

/// Being inside an epoch; dropping it leaves.
pub(crate) struct EpochGuard {
    epochs: Epochs,
    epoch: u64,
}

impl Default for Epochs {
    fn default() -> Epochs {
        Epochs(Rc::new(RefCell::new(State { first: 1, inside: VecDeque::from([0]), waiting: None })))
    }
}

impl Epochs {
    /// Enters the current epoch.
    pub(crate) fn enter(&self) -> EpochGuard {
        let mut state = self.0.borrow_mut();
        let epoch = state.first + state.inside.len() as u64 - 1;
        *state.inside.back_mut().expect("there is a current epoch") += 1;
        EpochGuard { epochs: self.clone(), epoch }
    }

    /// Enters the oldest epoch that a request is inside of: for reads that go on after the request that began them has
    /// ended.
    pub(crate) fn pin_oldest(&self) -> EpochGuard {
        let epoch = self.oldest();
        self.0.borrow_mut().inside[0] += 1;
        EpochGuard { epochs: self.clone(), epoch }
    }

    /// Ends the current epoch and gives its number.
    pub(super) fn advance(&self) -> u64 {
        let mut state = self.0.borrow_mut();
        let epoch = state.first + state.inside.len() as u64 - 1;
        state.inside.push_back(0);
        epoch
    }

    /// Kicks when the last request leaves the oldest epoch, once.
    pub(super) fn kick_when_unpinned(&self, kick: &Rc<Kick>) {
        self.0.borrow_mut().waiting = Some(Rc::clone(kick));
    }

    /// The oldest epoch that a request is inside of, or the current one.
    pub(crate) fn oldest(&self) -> u64 {
        let mut state = self.0.borrow_mut();
        while state.inside.len() > 1 && state.inside[0] == 0 {
            state.inside.pop_front();
            state.first += 1;
        }
        state.first
    }
}

impl Drop for EpochGuard {
    fn drop(&mut self) {
        let mut state = self.epochs.0.borrow_mut();
        let index = (self.epoch - state.first) as usize;
        state.inside[index] -= 1;
        if index == 0 && state.inside[0] == 0 && state.inside.len() > 1 {
            let waiting = state.waiting.take();
            drop(state);
            waiting.into_iter().for_each(|kick| kick.kick());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Epochs;

    #[test]
    fn an_epoch_ends_when_its_last_reader_leaves() {
        let epochs = Epochs::default();
        let reader = epochs.enter();
        let released = epochs.advance();
        let later = epochs.enter();
        assert!(released >= epochs.oldest());
        drop(reader);
        assert!(released < epochs.oldest());
        drop(later);
    }
}
