//! I/O timeouts: devices that have stopped answering.
//!
//! A device may hang without an error, for good or for longer than a request may take. Its requests are then abandoned, so
//! that the member is out as if it had been pulled. Timeouts are counted in watchdog ticks (ten per timeout), not in wall
//! time, so that a suspended machine does not expire every request at once. Each device has one counter per tick; a request
//! costs one increment and one decrement, whatever the number of others.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;

use crate::marks::Mark;
use sinew_core::io::{DeviceId, Io};
use sinew_core::sync::{Kick, before};

/// Timeout unless set otherwise. Drives made for RAID answer within 7 s even when they cannot read a sector (SCT error
/// recovery control).
pub(crate) const IO_TIMEOUT_NS: u64 = 10_000_000_000;
/// Watchdog ticks of one timeout.
const TICKS: usize = 10;

/// Pending requests of a device, by the tick before which they began.
#[derive(Clone, Copy, Debug, Default)]
struct Unanswered {
    by_tick: [u32; TICKS],
    /// Requests pending for [`TICKS`] ticks or more.
    older: u32,
}

impl Unanswered {
    /// Requests pending for `age` ticks, which is less than [`TICKS`].
    fn since(&self, tick: u64, age: u64) -> u32 {
        self.by_tick[(tick - age) as usize % TICKS]
    }

    /// Whether a request has been pending for half of the timeout or longer.
    fn is_doubtful(&self, tick: u64) -> bool {
        let mut ages = TICKS as u64 / 2..(TICKS as u64).min(tick + 1);
        self.older > 0 || ages.any(|age| self.since(tick, age) > 0)
    }
}

/// A pending request; given back when it ends.
#[derive(Debug)]
pub struct PendingRequest {
    device: DeviceId,
    tick: u64,
}

/// Devices with old pending requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HungDevices {
    /// Devices whose timeout has expired.
    pub hung: Vec<DeviceId>,
    /// Devices with a request pending for half of the timeout or longer: the pool must not count on them when it decides
    /// whether it can do without the hung ones.
    pub doubtful: Vec<DeviceId>,
}

/// The pending requests of one shard, by device. Not by member: another device may have taken a member's place since a
/// request began.
pub struct IoTimeouts {
    /// `None` when there is no timeout.
    timeout_ns: Cell<Option<u64>>,
    tick: Cell<u64>,
    devices: RefCell<Vec<Unanswered>>,
    pending: Cell<u32>,
    work: Kick,
    /// Whether the watchdog is ticking: it stops while no request is pending.
    ticking: Cell<bool>,
}

impl Default for IoTimeouts {
    fn default() -> IoTimeouts {
        IoTimeouts {
            timeout_ns: Cell::new(Some(IO_TIMEOUT_NS)),
            tick: Cell::new(0),
            devices: RefCell::default(),
            pending: Cell::new(0),
            work: Kick::default(),
            ticking: Cell::new(false),
        }
    }
}

impl IoTimeouts {
    /// Changes the timeout; `None` is no timeout.
    pub fn set(&self, timeout_ns: Option<u64>) {
        self.timeout_ns.set(timeout_ns);
        self.work.kick();
    }

    /// The timeout; `None` when there is none.
    pub fn timeout_ns(&self) -> Option<u64> {
        self.timeout_ns.get()
    }

    /// Nanoseconds between ticks of the watchdog.
    pub fn tick_ns(&self) -> Option<u64> {
        self.timeout_ns.get().map(|ns| (ns / TICKS as u64).max(1))
    }

    /// Counts a request that is sent.
    pub fn begin(&self, device: DeviceId) -> PendingRequest {
        let (index, tick) = (device.0 as usize, self.tick.get());
        let mut devices = self.devices.borrow_mut();
        if devices.len() <= index {
            devices.resize(index + 1, Unanswered::default());
        }
        devices[index].by_tick[tick as usize % TICKS] += 1;
        drop(devices);
        self.pending.set(self.pending.get() + 1);
        if !self.ticking.get() {
            self.work.kick();
        }
        PendingRequest { device, tick }
    }

    /// Counts a request that has ended.
    pub fn end(&self, request: PendingRequest) {
        let unanswered = &mut self.devices.borrow_mut()[request.device.0 as usize];
        if self.tick.get() - request.tick < TICKS as u64 {
            unanswered.by_tick[request.tick as usize % TICKS] -= 1;
        } else {
            unanswered.older -= 1;
        }
        self.pending.set(self.pending.get() - 1);
    }

    /// Age of the oldest pending request to the device, rounded down to ticks, and at most the timeout.
    pub(crate) fn unanswered_ns(&self, device: DeviceId) -> u64 {
        let devices = self.devices.borrow();
        let Some(unanswered) = devices.get(device.0 as usize) else { return 0 };
        let tick = self.tick.get();
        let ticks = match unanswered.older {
            0 => (0..(TICKS as u64).min(tick + 1)).rev().find(|&age| unanswered.since(tick, age) > 0),
            _ => Some(TICKS as u64),
        };
        ticks.unwrap_or(0) * self.tick_ns().unwrap_or(0)
    }

    /// Advances by one tick. Returns the devices whose timeout has expired, if there are any.
    fn advance(&self) -> Option<HungDevices> {
        let tick = self.tick.get() + 1;
        self.tick.set(tick);
        let mut devices = self.devices.borrow_mut();
        for unanswered in devices.iter_mut() {
            unanswered.older += std::mem::take(&mut unanswered.by_tick[tick as usize % TICKS]);
        }
        let devices_that = |is: &dyn Fn(&Unanswered) -> bool| {
            (0..devices.len()).filter(|&i| is(&devices[i])).map(|i| DeviceId(i as u32)).collect::<Vec<_>>()
        };
        let hung = HungDevices {
            hung: devices_that(&|d| d.older > 0),
            doubtful: devices_that(&|d| d.is_doubtful(tick)),
        };
        (!hung.hung.is_empty()).then_some(hung)
    }

    /// Runs the watchdog, for ever: ticks while requests are pending, and reports hung devices.
    pub async fn run<I: Io>(&self, io: I, mut report: impl AsyncFnMut(HungDevices)) {
        loop {
            self.work.kicked().await;
            self.ticking.set(true);
            while self.pending.get() > 0
                && let Some(ns) = self.tick_ns()
            {
                io.sleep(ns).await;
                if let Some(hung) = self.advance() {
                    report(hung).await;
                }
            }
            self.ticking.set(false);
        }
    }
}

/// Waits for requests to a device that is not a member yet. When the timeout expires, the device is abandoned.
pub async fn answered<I: Io, T>(io: &I, device: DeviceId, requests: impl Future<Output = T>) -> T {
    let mut requests = pin!(requests);
    match before(requests.as_mut(), io.sleep(IO_TIMEOUT_NS)).await {
        Some(answers) => answers,
        None => {
            io.mark(Mark::CandidateGivenUp);
            // Ends the requests.
            io.abandon(device);
            requests.await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: DeviceId = DeviceId(0);
    const B: DeviceId = DeviceId(3);

    fn advance(timeouts: &IoTimeouts, count: usize) -> Option<HungDevices> {
        (0..count).map(|_| timeouts.advance()).last().flatten()
    }

    #[test]
    fn hung_after_all_ticks_and_doubtful_after_half() {
        let timeouts = IoTimeouts::default();
        advance(&timeouts, 1234);
        let first = timeouts.begin(A);
        assert_eq!(advance(&timeouts, 4), None);
        assert_eq!(timeouts.unanswered_ns(A), IO_TIMEOUT_NS / 10 * 4);
        let second = timeouts.begin(B);
        assert_eq!(advance(&timeouts, TICKS - 5), None);
        // The other request has been pending for six ticks.
        assert_eq!(timeouts.advance(), Some(HungDevices { hung: vec![A], doubtful: vec![A, B] }));
        assert_eq!(timeouts.unanswered_ns(A), IO_TIMEOUT_NS);
        timeouts.end(second);
        assert_eq!(timeouts.unanswered_ns(B), 0);
        assert_eq!(timeouts.advance(), Some(HungDevices { hung: vec![A], doubtful: vec![A] }));
        timeouts.end(first);
        assert_eq!(advance(&timeouts, 30), None);
        assert_eq!(timeouts.pending.get(), 0);
    }

    #[test]
    fn a_device_that_answers_is_not_hung() {
        let timeouts = IoTimeouts::default();
        for _ in 0..100 {
            let requests = [timeouts.begin(A), timeouts.begin(A), timeouts.begin(B)];
            assert_eq!(advance(&timeouts, TICKS - 1), None);
            requests.into_iter().for_each(|request| timeouts.end(request));
        }
        let doubtful = |tick, began: u64| {
            let mut unanswered = Unanswered::default();
            unanswered.by_tick[began as usize % TICKS] = 1;
            unanswered.is_doubtful(tick)
        };
        assert_eq!((doubtful(4, 0), doubtful(5, 0), doubtful(9, 0)), (false, true, true));
        assert_eq!((doubtful(14, 10), doubtful(15, 10), doubtful(19, 10)), (false, true, true));
    }
}
