//! Whether the host has to wait, and whether it may go on.

use super::Dies;
use crate::Ns;

impl Dies {
    /// Whether the host has to wait for the drive to move again.
    #[inline]
    pub(in crate::flash) fn is_stopped(&self) -> bool {
        self.standstill.is_stopped()
    }

    /// Ends a standstill if no reason for it is left; returns whether the host may go on.
    pub(in crate::flash) fn try_resume(&mut self, now: Ns) -> bool {
        self.standstill.try_end(now)
    }

    /// Whether requests that wait may have room since the last call.
    #[inline]
    pub(in crate::flash) fn take_retry(&mut self) -> bool {
        std::mem::take(&mut self.retry)
    }
}
