//! Members that changes under way take out: the configuration does not say so yet, and the pool cannot count on them.

use std::cell::RefCell;

/// The members that all changes take out.
#[derive(Default)]
pub(super) struct OutgoingMembers {
    /// Each once for every change.
    members: RefCell<Vec<usize>>,
}

impl OutgoingMembers {
    /// The members.
    pub(super) fn members(&self) -> Vec<usize> {
        self.members.borrow().clone()
    }

    /// Counts these members as out until the value is dropped.
    pub(super) fn begin(&self, members: &[usize]) -> Outgoing<'_> {
        let outgoing = Outgoing { all: self, own: RefCell::default() };
        members.iter().for_each(|&member| outgoing.add(member));
        outgoing
    }
}

/// The members that one change takes out, until it is dropped.
pub(super) struct Outgoing<'a> {
    all: &'a OutgoingMembers,
    own: RefCell<Vec<usize>>,
}

impl Outgoing<'_> {
    pub(super) fn add(&self, member: usize) {
        self.own.borrow_mut().push(member);
        self.all.members.borrow_mut().push(member);
    }
}

impl Drop for Outgoing<'_> {
    fn drop(&mut self) {
        let mut all = self.all.members.borrow_mut();
        for member in self.own.borrow().iter() {
            let at = all.iter().position(|other| other == member).expect("it was added");
            all.swap_remove(at);
        }
    }
}
