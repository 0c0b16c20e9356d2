//! Why and since when a drive serves no request.
//!
//! A drive stands still while it writes a batch of its buffer, and while all of its dies clean together. Both can
//! overlap; a standstill ends when neither reason is left and the drive has looked at its waiting requests again.

use crate::Ns;

/// The reasons for the present standstill, and the count of all standstills.
#[derive(Clone, Debug, Default)]
pub(super) struct Standstill {
    /// Units of started batches that are not yet programmed.
    batch_units: u32,
    /// Whether all dies clean while the host waits.
    exclusive_cleaning: bool,
    since: Option<Ns>,
    count: u64,
    total_ns: Ns,
}

impl Standstill {
    /// Whether there is a reason to keep the host waiting.
    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        self.exclusive_cleaning || self.batch_units > 0
    }

    /// Whether all dies clean while the host waits.
    #[inline]
    pub(super) fn is_exclusive(&self) -> bool {
        self.exclusive_cleaning
    }

    /// Stops the host until `units` more units are programmed.
    pub(super) fn start_batch(&mut self, now: Ns, units: u32) {
        self.begin(now);
        self.batch_units += units;
    }

    /// A unit of the host's data is programmed, as part of a batch or not.
    #[inline]
    pub(super) fn unit_programmed(&mut self) {
        self.batch_units = self.batch_units.saturating_sub(1);
    }

    /// Stops the host until [`Standstill::end_exclusive`].
    pub(super) fn start_exclusive(&mut self, now: Ns) {
        self.begin(now);
        self.exclusive_cleaning = true;
    }

    /// Exclusive cleaning is over.
    pub(super) fn end_exclusive(&mut self) {
        self.exclusive_cleaning = false;
    }

    fn begin(&mut self, now: Ns) {
        if self.since.is_none() {
            self.since = Some(now);
            self.count += 1;
        }
    }

    /// Ends the standstill if no reason for it is left; returns whether the host may go on.
    #[inline]
    pub(super) fn try_end(&mut self, now: Ns) -> bool {
        if self.is_stopped() {
            return false;
        }
        if let Some(since) = self.since.take() {
            self.total_ns += now - since;
        }
        true
    }

    /// No reason for a standstill is left, nor will there be one.
    pub(super) fn stop(&mut self, now: Ns) {
        (self.batch_units, self.exclusive_cleaning) = (0, false);
        self.try_end(now);
    }

    /// Standstills so far, the present one included.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Length of all standstills that have ended.
    pub(super) fn total_ns(&self) -> Ns {
        self.total_ns
    }

    /// Sets both counters to zero.
    pub(super) fn reset_counters(&mut self) {
        (self.count, self.total_ns) = (0, 0);
    }
}
