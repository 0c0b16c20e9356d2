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
    /// `None` while an order is under way, after one that failed, and after several at one time: they end in any order.
    since: RefCell<Option<Since>>,
    /// Orders under way.
    under_way: Cell<u32>,
    /// Several were under way at one time since the last time that none was.
    overlap: Cell<bool>,
}

/// Requests that may have been let in before the limits were set, and the bytes of the largest.
#[derive(Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) requests: u64,
    pub(crate) bytes_max: u64,
}

impl LimitCheck {
    /// An order begins. What is answered until its end is not held against any limit.
    pub(crate) fn begin_order(&self) {
        *self.since.borrow_mut() = None;
        self.overlap.set(self.overlap.get() || self.under_way.get() > 0);
        self.under_way.set(self.under_way.get() + 1);
    }

    /// An order ends; if it succeeded and no other was under way meanwhile, the volume has its limits from now on.
    pub(crate) fn end_order(&self, at_ns: u64, limits: Option<VolumeLimits>) {
        self.under_way.set(self.under_way.get() - 1);
        if let Some(limits) = limits.filter(|_| !self.overlap.get()) {
            self.set(at_ns, limits);
        }
        self.overlap.set(self.overlap.get() && self.under_way.get() > 0);
    }

    fn set(&self, at_ns: u64, limits: VolumeLimits) {
        *self.since.borrow_mut() = Some(Since { limits, at_ns, requests: 0, bytes: 0 });
    }

    /// Compares the limits of a pool that was opened with those that were set.
    pub(crate) fn reopened(&self, at_ns: u64, limits: VolumeLimits) -> Result<(), Wrong> {
        let known = self.since.borrow().as_ref().map(|since| since.limits);
        self.under_way.set(0);
        self.overlap.set(false);
        self.set(at_ns, limits);
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
