//! What a flush waits for: the units that were opened before it arrived.

use std::collections::VecDeque;

use super::mapping::NONE;

/// The writes between two flushes.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Units not yet programmed.
    units: u32,
    /// The flush that waits for them, or [`NONE`] until it arrives.
    flush: u32,
}

/// All epochs that are not complete; the last one is open.
#[derive(Clone, Debug)]
pub(super) struct Epochs {
    epochs: VecDeque<Epoch>,
    /// The number of the first epoch.
    first: u32,
}

impl Epochs {
    pub(super) fn new() -> Epochs {
        Epochs { epochs: VecDeque::from([Epoch { units: 0, flush: NONE }]), first: 0 }
    }

    /// A unit is opened; returns the number of its epoch.
    #[inline]
    pub(super) fn open_unit(&mut self) -> u32 {
        self.epochs.back_mut().expect("there is always an epoch").units += 1;
        self.first.wrapping_add(self.epochs.len() as u32 - 1)
    }

    /// A unit of an epoch is on flash. [`Epochs::take_flush`] follows.
    #[inline]
    pub(super) fn programmed(&mut self, epoch: u32) {
        self.epochs[epoch.wrapping_sub(self.first) as usize].units -= 1;
    }

    /// A flush has arrived. [`Epochs::take_flush`] follows.
    pub(super) fn flush(&mut self, id: u32) {
        self.epochs.back_mut().expect("there is always an epoch").flush = id;
        self.epochs.push_back(Epoch { units: 0, flush: NONE });
    }

    /// The next flush that has nothing left to wait for.
    #[inline]
    pub(super) fn take_flush(&mut self) -> Option<u32> {
        let &Epoch { units: 0, flush } = self.epochs.front()? else { return None };
        if flush == NONE {
            return None;
        }
        self.epochs.pop_front();
        self.first = self.first.wrapping_add(1);
        Some(flush)
    }
}
