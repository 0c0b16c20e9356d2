//! Stripe locks: exclusive for a task that changes the stripe, shared for tasks that only read it.
//!
//! A task that waits for an exclusive lock keeps later readers out, so no task waits for ever.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::task::{Poll, Waker};

#[derive(Default)]
struct Lock {
    readers: u32,
    exclusive: bool,
    /// Tasks that wait for an exclusive lock.
    waiting: u32,
    wakers: Vec<Waker>,
}

/// The locks that are held or waited for.
#[derive(Default)]
pub(crate) struct StripeLocks(RefCell<BTreeMap<u64, Lock>>);

/// A lock that is held; dropping it releases the stripe.
pub(crate) struct StripeLock<'a> {
    locks: &'a StripeLocks,
    stripe: u64,
    exclusive: bool,
}

impl StripeLocks {
    /// Stripes that are locked, or for which a task waits.
    pub(crate) fn count(&self) -> usize {
        self.0.borrow().len()
    }

    /// Locks the stripe to change it.
    pub(crate) async fn exclusive(&self, stripe: u64) -> StripeLock<'_> {
        let mut waits = false;
        std::future::poll_fn(|cx| {
            let mut locks = self.0.borrow_mut();
            let lock = locks.entry(stripe).or_default();
            if !lock.exclusive && lock.readers == 0 {
                lock.exclusive = true;
                lock.waiting -= u32::from(waits);
                return Poll::Ready(());
            }
            lock.waiting += u32::from(!waits);
            waits = true;
            lock.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
        StripeLock { locks: self, stripe, exclusive: true }
    }

    /// Whether [`StripeLocks::shared`] would not have to wait.
    pub(crate) fn may_share(&self, stripe: u64) -> bool {
        self.0.borrow().get(&stripe).is_none_or(|lock| !lock.exclusive && lock.waiting == 0)
    }

    /// Locks the stripe to read it, together with other readers.
    pub(crate) async fn shared(&self, stripe: u64) -> StripeLock<'_> {
        std::future::poll_fn(|cx| {
            let mut locks = self.0.borrow_mut();
            let lock = locks.entry(stripe).or_default();
            if !lock.exclusive && lock.waiting == 0 {
                lock.readers += 1;
                return Poll::Ready(());
            }
            lock.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
        StripeLock { locks: self, stripe, exclusive: false }
    }
}

impl Drop for StripeLock<'_> {
    fn drop(&mut self) {
        let mut locks = self.locks.0.borrow_mut();
        let lock = locks.get_mut(&self.stripe).expect("held");
        if self.exclusive {
            lock.exclusive = false;
        } else {
            lock.readers -= 1;
        }
        let wakers = std::mem::take(&mut lock.wakers);
        if !lock.exclusive && lock.readers == 0 && lock.waiting == 0 && wakers.is_empty() {
            locks.remove(&self.stripe);
        }
        drop(locks);
        wakers.into_iter().for_each(Waker::wake);
    }
}
