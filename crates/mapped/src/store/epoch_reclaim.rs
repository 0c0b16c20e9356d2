//! Eras tell when nobody reads a released chunk any more.
//!
//! A request that looks something up enters the current era and leaves it when it ends. A release is stamped with the
//! era current at the time and starts a new one; what it released may be reused once every request of that era and
//! before has left.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use sinew_core::sync::Kick;

#[derive(Default)]
struct State {
    /// Number of the first era in `inside`.
    first: u64,
    /// Requests inside each era, from `first` to the current one.
    inside: VecDeque<u32>,
    /// To be kicked when the oldest era ends.
    waiting: Option<Rc<Kick>>,
}

/// The eras of one shard.
#[derive(Clone)]
pub(crate) struct Eras(Rc<RefCell<State>>);

/// Being inside an era; dropping it leaves.
pub struct EraGuard {
    eras: Eras,
    era: u64,
}

impl Eras {
    pub(crate) fn new() -> Eras {
        Eras(Rc::new(RefCell::new(State { first: 1, inside: VecDeque::from([0]), waiting: None })))
    }

    /// Enters the current era.
    pub(crate) fn enter(&self) -> EraGuard {
        let mut state = self.0.borrow_mut();
        let era = state.first + state.inside.len() as u64 - 1;
        *state.inside.back_mut().expect("there is a current era") += 1;
        EraGuard { eras: self.clone(), era }
    }

    /// Enters the oldest era that somebody is inside of: for what goes on after the request that began it has ended.
    pub(crate) fn enter_oldest(&self) -> EraGuard {
        let era = self.oldest();
        self.0.borrow_mut().inside[0] += 1;
        EraGuard { eras: self.clone(), era }
    }

    /// Ends the current era and gives its number.
    pub(crate) fn turn(&self) -> u64 {
        let mut state = self.0.borrow_mut();
        let era = state.first + state.inside.len() as u64 - 1;
        state.inside.push_back(0);
        era
    }

    /// Kicks when the last request leaves the oldest era, once.
    pub(crate) fn when_left(&self, kick: &Rc<Kick>) {
        self.0.borrow_mut().waiting = Some(Rc::clone(kick));
    }

    /// The oldest era that somebody is inside of, or the current one.
    pub(crate) fn oldest(&self) -> u64 {
        let mut state = self.0.borrow_mut();
        while state.inside.len() > 1 && state.inside[0] == 0 {
            state.inside.pop_front();
            state.first += 1;
        }
        state.first
    }
}

impl Drop for EraGuard {
    fn drop(&mut self) {
        let mut state = self.eras.0.borrow_mut();
        let index = (self.era - state.first) as usize;
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
    use super::Eras;

    #[test]
    fn an_era_ends_when_its_last_reader_leaves() {
        let eras = Eras::new();
        let reader = eras.enter();
        let released = eras.turn();
        let later = eras.enter();
        assert!(released >= eras.oldest());
        drop(reader);
        assert!(released < eras.oldest());
        drop(later);
    }
}
