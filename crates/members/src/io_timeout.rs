//! Members that answer nothing any more.
//!
//! A device may fall silent without an error, for good or for longer than anybody should wait. Requests to it are then given
//! up, so that it is out like one that was pulled. Time is counted in looks and not by the clock: where the whole machine
//! stood still nobody looked, and no member is blamed for it. A request costs the same whatever the number of others: it is
//! counted up when it begins and down when it ends, under the look before which it began.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;

use sinew_core::coverage::Mark;
use sinew_core::io::{DeviceId, Io};
use sinew_core::sync::Kick;

/// After so long a member is given up, unless somebody says otherwise. Drives made for RAID answer within 7 s even if they
/// have to give up on a sector themselves (SCT error recovery control).
pub const IO_TIMEOUT_NS: u64 = 10_000_000_000;
/// Looks in that time.
const LOOKS: usize = 10;

/// Requests that a device has not answered, by the look before which they began.
#[derive(Clone, Copy, Debug, Default)]
struct Unanswered {
    by_look: [u32; LOOKS],
    /// Those that are pending for [`LOOKS`] looks and more.
    older: u32,
}

impl Unanswered {
    /// Those that are pending for so many looks, fewer than [`LOOKS`].
    fn since(&self, look: u64, age: u64) -> u32 {
        self.by_look[(look - age) as usize % LOOKS]
    }

    fn doubtful(&self, look: u64) -> bool {
        let mut ages = LOOKS as u64 / 2..(LOOKS as u64).min(look + 1);
        self.older > 0 || ages.any(|age| self.since(look, age) > 0)
    }
}

/// A request as it was counted.
#[derive(Debug)]
pub struct PendingRequest {
    device: DeviceId,
    look: u64,
}

/// Devices that owe answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HungDevices {
    /// For so long that they are to be given up.
    pub silent: Vec<DeviceId>,
    /// For half of that at least, so that they are no help to the others.
    pub doubtful: Vec<DeviceId>,
}

/// Who waits for which device. Not for which member: another device may have taken its place meanwhile.
pub struct IoTimeouts {
    /// After so long devices are silent; none when they never are.
    give_up_ns: Cell<Option<u64>>,
    look: Cell<u64>,
    devices: RefCell<Vec<Unanswered>>,
    pending: Cell<u32>,
    work: Kick,
    watching: Cell<bool>,
}

impl Default for IoTimeouts {
    fn default() -> IoTimeouts {
        IoTimeouts {
            give_up_ns: Cell::new(Some(IO_TIMEOUT_NS)),
            look: Cell::new(0),
            devices: RefCell::default(),
            pending: Cell::new(0),
            work: Kick::default(),
            watching: Cell::new(false),
        }
    }
}

impl IoTimeouts {
    /// Members are given up after so long from now on, or never.
    pub fn set(&self, give_up_ns: Option<u64>) {
        self.give_up_ns.set(give_up_ns);
        self.work.kick();
    }

    /// After how long they are given up.
    pub fn gives_up_after(&self) -> Option<u64> {
        self.give_up_ns.get()
    }

    /// Time from look to look.
    fn look_ns(&self) -> Option<u64> {
        self.give_up_ns.get().map(|ns| (ns / LOOKS as u64).max(1))
    }

    /// A request is sent.
    pub fn begin(&self, device: DeviceId) -> PendingRequest {
        let (index, look) = (device.0 as usize, self.look.get());
        let mut devices = self.devices.borrow_mut();
        if devices.len() <= index {
            devices.resize(index + 1, Unanswered::default());
        }
        devices[index].by_look[look as usize % LOOKS] += 1;
        drop(devices);
        self.pending.set(self.pending.get() + 1);
        if !self.watching.get() {
            self.work.kick();
        }
        PendingRequest { device, look }
    }

    /// It has ended.
    pub fn end(&self, mark: PendingRequest) {
        let unanswered = &mut self.devices.borrow_mut()[mark.device.0 as usize];
        if self.look.get() - mark.look < LOOKS as u64 {
            unanswered.by_look[mark.look as usize % LOOKS] -= 1;
        } else {
            unanswered.older -= 1;
        }
        self.pending.set(self.pending.get() - 1);
    }

    /// For how long at least the oldest request to the device has been pending, as far as it has been waited for.
    pub fn unanswered_ns(&self, device: DeviceId) -> u64 {
        let devices = self.devices.borrow();
        let Some(unanswered) = devices.get(device.0 as usize) else { return 0 };
        let look = self.look.get();
        let looks = match unanswered.older {
            0 => (0..(LOOKS as u64).min(look + 1)).rev().find(|&age| unanswered.since(look, age) > 0),
            _ => Some(LOOKS as u64),
        };
        looks.unwrap_or(0) * self.look_ns().unwrap_or(0)
    }

    /// Who owes answers at the next look.
    fn look(&self) -> Option<HungDevices> {
        let look = self.look.get() + 1;
        self.look.set(look);
        let mut devices = self.devices.borrow_mut();
        for unanswered in devices.iter_mut() {
            unanswered.older += std::mem::take(&mut unanswered.by_look[look as usize % LOOKS]);
        }
        let which = |is: &dyn Fn(&Unanswered) -> bool| {
            (0..devices.len()).filter(|&i| is(&devices[i])).map(|i| DeviceId(i as u32)).collect::<Vec<_>>()
        };
        let silence = HungDevices { silent: which(&|d| d.older > 0), doubtful: which(&|d| d.doubtful(look)) };
        (!silence.silent.is_empty()).then_some(silence)
    }

    /// Looks for as long as anything is pending, for ever, and tells of devices that are silent.
    pub async fn keep<I: Io>(&self, io: I, mut tell: impl AsyncFnMut(HungDevices)) {
        loop {
            self.work.kicked().await;
            self.watching.set(true);
            while self.pending.get() > 0
                && let Some(ns) = self.look_ns()
            {
                io.sleep(ns).await;
                if let Some(silence) = self.look() {
                    tell(silence).await;
                }
            }
            self.watching.set(false);
        }
    }
}

/// Waits for requests to a device that is no member, or not yet: if it does not answer in time, they are given up.
pub async fn answered<I: Io, T>(io: &I, device: DeviceId, requests: impl Future<Output = T>) -> T {
    let (mut requests, mut alarm) = (pin!(requests), pin!(io.sleep(IO_TIMEOUT_NS)));
    let mut is_late = false;
    poll_fn(|cx| {
        let polled = requests.as_mut().poll(cx);
        if polled.is_pending() && !is_late && alarm.as_mut().poll(cx).is_ready() {
            is_late = true;
            io.mark(Mark::CandidateGivenUp);
            // Wakes this task, for its requests end by that.
            io.abandon(device);
        }
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: DeviceId = DeviceId(0);
    const B: DeviceId = DeviceId(3);

    fn looks(vigil: &IoTimeouts, count: usize) -> Option<HungDevices> {
        (0..count).map(|_| vigil.look()).last().flatten()
    }

    #[test]
    fn silent_after_all_looks_and_doubtful_after_half() {
        let vigil = IoTimeouts::default();
        looks(&vigil, 1234);
        let first = vigil.begin(A);
        assert_eq!(looks(&vigil, 4), None);
        assert_eq!(vigil.unanswered_ns(A), IO_TIMEOUT_NS / 10 * 4);
        let second = vigil.begin(B);
        assert_eq!(looks(&vigil, LOOKS - 5), None);
        // The other has been waited for for six looks.
        assert_eq!(vigil.look(), Some(HungDevices { silent: vec![A], doubtful: vec![A, B] }));
        assert_eq!(vigil.unanswered_ns(A), IO_TIMEOUT_NS);
        vigil.end(second);
        assert_eq!(vigil.unanswered_ns(B), 0);
        assert_eq!(vigil.look(), Some(HungDevices { silent: vec![A], doubtful: vec![A] }));
        vigil.end(first);
        assert_eq!(looks(&vigil, 30), None);
        assert_eq!(vigil.pending.get(), 0);
    }

    #[test]
    fn whoever_answers_each_time_is_not_silent() {
        let vigil = IoTimeouts::default();
        for _ in 0..100 {
            let marks = [vigil.begin(A), vigil.begin(A), vigil.begin(B)];
            assert_eq!(looks(&vigil, LOOKS - 1), None);
            marks.into_iter().for_each(|mark| vigil.end(mark));
        }
        let doubtful = |look, began: u64| {
            let mut unanswered = Unanswered::default();
            unanswered.by_look[began as usize % LOOKS] = 1;
            unanswered.doubtful(look)
        };
        assert_eq!((doubtful(4, 0), doubtful(5, 0), doubtful(9, 0)), (false, true, true));
        assert_eq!((doubtful(14, 10), doubtful(15, 10), doubtful(19, 10)), (false, true, true));
    }
}
