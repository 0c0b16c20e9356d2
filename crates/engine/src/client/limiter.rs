//! The limits of one volume, for its clients on all threads: a token bucket each for requests and for bytes.
//!
//! A request takes its place in the line when it arrives, and waits until the bucket has filled up to there. Places never
//! change, so requests begin in the order in which they came, and none waits for a wake-up that another would have to send. A
//! request begins once what came before it is paid for, and is paid for itself afterwards: one larger than the bucket leaves a
//! debt instead of waiting for ever. Waiting requests look again from time to time, since an operator may change the limits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_format::model::volume_limits::VolumeLimits;
use sinew_members::status::Delayed;

/// How long a request waits at most before it looks again at the limits.
const LOOK_NS: u64 = 100_000_000;
const NS_PER_S: u128 = 1_000_000_000;

/// A token bucket. Amounts are in billionths of a request or byte, so that they are whole for every time in nanoseconds.
#[derive(Debug, Default)]
struct Bucket {
    /// Per second, which is also billionths per nanosecond; 0 for no limit.
    rate: u64,
    /// What it saves up at most.
    burst: u128,
    /// What it had let through at the time `since`, had there been enough requests.
    base: u128,
    since: u64,
    /// The place of the next request: the amounts of all before it.
    next: u128,
}

impl Bucket {
    /// Changes the rate. A bucket without a limit before is full.
    fn set(&mut self, now: u64, rate: u64, burst_ms: u32) {
        let before = if self.rate == 0 { u128::MAX } else { self.allowed(now) };
        self.burst = u128::from(rate) * u128::from(burst_ms) * 1_000_000;
        (self.base, self.since, self.rate) = (before.min(self.next + self.burst), now, rate);
    }

    fn allowed(&self, now: u64) -> u128 {
        self.base + u128::from(self.rate) * u128::from(now.saturating_sub(self.since))
    }

    /// Takes the place of a request that costs so much.
    fn take(&mut self, now: u64, cost: u64) -> u128 {
        if self.rate == 0 {
            return 0;
        }
        let place = self.next.max(self.allowed(now).saturating_sub(self.burst));
        let charged = !mutation::on(Mutation::LimitUncharged) || place <= self.allowed(now);
        self.next = if charged { place + u128::from(cost) * NS_PER_S } else { place };
        place
    }

    /// How long it takes until a request at this place may begin.
    fn wait_ns(&self, now: u64, place: u128) -> u64 {
        if self.rate == 0 {
            return 0;
        }
        let missing = place.saturating_sub(self.allowed(now));
        u64::try_from(missing.div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX)
    }
}

#[derive(Debug, Default)]
struct Buckets {
    requests: Bucket,
    bytes: Bucket,
}

/// The limits of a volume, and what they have delayed.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    is_limited: AtomicBool,
    buckets: Mutex<Buckets>,
    delayed: AtomicU64,
    delayed_ns: AtomicU64,
}

impl Limiter {
    /// A limiter whose buckets are full.
    pub(crate) fn new(limits: VolumeLimits) -> Limiter {
        let limiter = Limiter::default();
        limiter.set(0, limits);
        limiter
    }

    /// Changes the limits, also for requests that wait.
    pub(crate) fn set(&self, now: u64, limits: VolumeLimits) {
        let mut buckets = self.lock();
        buckets.requests.set(now, limits.iops, limits.burst_ms);
        buckets.bytes.set(now, limits.bytes_per_second, limits.burst_ms);
        self.is_limited.store(!limits.is_unlimited(), Ordering::Relaxed);
    }

    /// Whether requests have to be let in by [`Limiter::admit`]. That is all that a request costs without limits.
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Relaxed)
    }

    /// Requests that had to wait, and how long all of them together.
    pub(crate) fn delayed(&self) -> Delayed {
        Delayed {
            requests: self.delayed.load(Ordering::Relaxed),
            ns: self.delayed_ns.load(Ordering::Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a request that costs `bytes` may begin, or `is_over`.
    pub(crate) async fn admit(&self, io: &impl Io, bytes: u64, is_over: impl Fn() -> bool) {
        let began = io.now();
        let places = {
            let mut buckets = self.lock();
            (buckets.requests.take(began, 1), buckets.bytes.take(began, bytes))
        };
        let mut is_delayed = false;
        loop {
            let now = io.now();
            let wait = {
                let buckets = self.lock();
                buckets.requests.wait_ns(now, places.0).max(buckets.bytes.wait_ns(now, places.1))
            };
            if wait == 0 || is_over() {
                break;
            }
            is_delayed = true;
            let blind = mutation::on(Mutation::LimitUnseen);
            io.sleep(if blind { wait } else { wait.min(LOOK_NS) }).await;
        }
        if is_delayed {
            self.delayed.fetch_add(1, Ordering::Relaxed);
            self.delayed_ns.fetch_add(io.now() - began, Ordering::Relaxed);
        }
    }
}
