//! Who may touch which stripe: one alone, or several that only read.
//!
//! Whoever waits to be alone keeps later readers out, so nobody waits for ever.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::task::{Poll, Waker};

#[derive(Default)]
struct Lock {
    readers: u32,
    alone: bool,
    /// Those waiting to be alone.
    waiting: u32,
    wakers: Vec<Waker>,
}

/// The locks that are held or waited for.
#[derive(Default)]
pub(crate) struct Locks(RefCell<BTreeMap<u64, Lock>>);

/// A lock held; dropping it lets go.
pub(crate) struct Held<'a> {
    locks: &'a Locks,
    stripe: u64,
    alone: bool,
}

impl Locks {
    /// Stripes that somebody holds or waits for.
    pub(crate) fn count(&self) -> usize {
        self.0.borrow().len()
    }

    /// The stripe, alone.
    pub(crate) async fn alone(&self, stripe: u64) -> Held<'_> {
        let mut waits = false;
        std::future::poll_fn(|cx| {
            let mut locks = self.0.borrow_mut();
            let lock = locks.entry(stripe).or_default();
            if !lock.alone && lock.readers == 0 {
                lock.alone = true;
                lock.waiting -= u32::from(waits);
                return Poll::Ready(());
            }
            lock.waiting += u32::from(!waits);
            waits = true;
            lock.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
        Held { locks: self, stripe, alone: true }
    }

    /// Whether [`Locks::shared`] would not have to wait.
    pub(crate) fn may_share(&self, stripe: u64) -> bool {
        self.0.borrow().get(&stripe).is_none_or(|lock| !lock.alone && lock.waiting == 0)
    }

    /// The stripe, together with others that only read.
    pub(crate) async fn shared(&self, stripe: u64) -> Held<'_> {
        std::future::poll_fn(|cx| {
            let mut locks = self.0.borrow_mut();
            let lock = locks.entry(stripe).or_default();
            if !lock.alone && lock.waiting == 0 {
                lock.readers += 1;
                return Poll::Ready(());
            }
            lock.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
        Held { locks: self, stripe, alone: false }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut locks = self.locks.0.borrow_mut();
        let lock = locks.get_mut(&self.stripe).expect("held");
        if self.alone {
            lock.alone = false;
        } else {
            lock.readers -= 1;
        }
        let wakers = std::mem::take(&mut lock.wakers);
        if !lock.alone && lock.readers == 0 && lock.waiting == 0 && wakers.is_empty() {
            locks.remove(&self.stripe);
        }
        drop(locks);
        wakers.into_iter().for_each(Waker::wake);
    }
}
