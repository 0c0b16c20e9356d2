//! Holds the limits of the first volume against what its clients were let do, and against what a later opening knows of them.

use std::cell::{Cell, RefCell};

use sinew_format::model::volume_limits::VolumeLimits;

use crate::torture::failure::{Kind, Wrong};

/// Requests and bytes since the limits were set.
struct Since {
    limits: VolumeLimits,
    at_ns: u64,
    requests: u64,
    bytes: u64,
}

/// The limits of the first volume, as far as they are known.
#[derive(Default)]
pub(crate) struct LimitCheck {
    /// `None` while an order is under way, or after one that failed.
    since: RefCell<Option<Since>>,
    orders: Cell<u64>,
}

/// Requests that may have been let in before the limits were set, and the bytes of the largest.
#[derive(Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) requests: u64,
    pub(crate) bytes_max: u64,
}

impl LimitCheck {
    /// Numbers the orders so far, and this one. What is answered until [`LimitCheck::set`] is not held against any limit.
    pub(crate) fn begin_order(&self) -> u64 {
        *self.since.borrow_mut() = None;
        self.orders.replace(self.orders.get() + 1)
    }

    /// The volume has these limits from now on. Does nothing if another order has begun since this one did.
    pub(crate) fn set(&self, order: Option<u64>, at_ns: u64, limits: VolumeLimits) {
        if order.is_none_or(|order| order + 1 == self.orders.get()) {
            *self.since.borrow_mut() = Some(Since { limits, at_ns, requests: 0, bytes: 0 });
        }
    }

    /// Compares the limits of a pool that was opened with those that were set.
    pub(crate) fn reopened(&self, at_ns: u64, limits: VolumeLimits) -> Result<(), Wrong> {
        let known = self.since.borrow().as_ref().map(|since| since.limits);
        self.set(None, at_ns, limits);
        match known.filter(|&known| known != limits) {
            Some(known) => Err(Kind::WrongData.of(format!("limits were {known}, and are {limits}"))),
            None => Ok(()),
        }
    }

    /// Counts a request that was answered. Tells if more were let in than the limits allow.
    pub(crate) fn answered(&self, now_ns: u64, bytes: u64, pending: Pending) -> Option<String> {
        let mut since = self.since.borrow_mut();
        let Since { limits, at_ns, requests, bytes: all } = since.as_mut()?;
        *requests += 1;
        *all += bytes;
        let ns = u128::from(now_ns - *at_ns) + u128::from(limits.burst_ms) * 1_000_000;
        let allowed =
            |rate: u64, slack: u64| (ns * u128::from(rate)).div_ceil(1_000_000_000) + u128::from(slack);
        // One request more begins before it is paid for.
        let slack = pending.requests + 1;
        let are_too_many = limits.iops > 0 && u128::from(*requests) > allowed(limits.iops, slack);
        let are_too_large = limits.bytes_per_second > 0
            && u128::from(*all) > allowed(limits.bytes_per_second, slack * pending.bytes_max);
        let ms = (now_ns - *at_ns) / 1_000_000;
        let what = format!("{requests} requests of {all} bytes in {ms} ms, with {limits}");
        (are_too_many || are_too_large).then_some(what)
    }
}
