//! The end of writing. Once a pool is closed, another host may open it, so its former one writes nothing to the members any more:
//! tasks that go on wait for ever where they would write or discard, as if the process had ended there.

use std::cell::{Cell, RefCell};

use sinew_core::ids::MemberId;
use sinew_core::sync::Signal;

/// The writes and discards under way, and whether any may begin.
#[derive(Default)]
pub(crate) struct Writing {
    has_ended: Cell<bool>,
    /// By member.
    under_way: RefCell<Vec<u32>>,
    changed: Signal,
}

/// A write or discard under way.
pub(crate) struct Change<'a> {
    writing: &'a Writing,
    member: MemberId,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.writing.under_way.borrow_mut()[usize::from(self.member.0)] -= 1;
        self.writing.look_again();
    }
}

impl Writing {
    /// Counts a write or discard until the guard is dropped. Never resolves once writing has ended.
    pub(crate) async fn begin(&self, member: MemberId) -> Change<'_> {
        if self.has_ended.get() {
            std::future::pending::<()>().await;
        }
        let (mut under_way, index) = (self.under_way.borrow_mut(), usize::from(member.0));
        if under_way.len() <= index {
            under_way.resize(index + 1, 0);
        }
        under_way[index] += 1;
        Change { writing: self, member }
    }

    /// Lets nothing begin any more, and waits until nothing is under way to the members that count.
    pub(crate) async fn end(&self, counts: impl Fn(MemberId) -> bool) {
        self.has_ended.set(true);
        let is_over = || {
            let under_way = self.under_way.borrow();
            let mut all = under_way.iter().enumerate();
            all.all(|(index, &changes)| changes == 0 || !counts(MemberId(index as u8))).then_some(())
        };
        self.changed.wait(is_over).await;
    }

    /// A change has ended, or a member counts or does not count any more.
    pub(crate) fn look_again(&self) {
        if self.has_ended.get() {
            self.changed.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const FIRST: MemberId = MemberId(0);
    const SECOND: MemberId = MemberId(1);

    fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn nothing_begins_after_the_end() {
        let writing = Writing::default();
        assert!(poll(writing.begin(SECOND)).is_ready());
        assert!(poll(writing.end(|_| true)).is_ready());
        assert!(poll(writing.begin(FIRST)).is_pending());
    }

    #[test]
    fn the_end_waits_for_members_that_count() {
        let writing = Writing::default();
        let Poll::Ready(first) = poll(writing.begin(FIRST)) else { panic!("nothing has ended") };
        let Poll::Ready(_second) = poll(writing.begin(SECOND)) else { panic!("nothing has ended") };
        let second_is_out = Cell::new(false);
        let mut end = pin!(writing.end(|member| member == FIRST || !second_is_out.get()));
        let mut is_over = || end.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!is_over());
        drop(first);
        assert!(!is_over());
        second_is_out.set(true);
        writing.look_again();
        assert!(is_over());
    }
}
