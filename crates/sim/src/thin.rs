//! Physical space of thin devices: a device may have less of it than addresses, and another tenant may take some.
//!
//! A block of zeros takes none. A write for which there is too little fails with `NoSpace` from the first block on that does
//! not fit; blocks keep their old content then. Discards give space back at once.

/// The physical space of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thin {
    /// All of it, in bytes.
    total: u64,
    /// What another tenant has taken, and until when it keeps that.
    taken: u64,
    taken_until: u64,
}

impl Thin {
    pub(crate) fn new(total: u64) -> Thin {
        Thin { total, taken: 0, taken_until: 0 }
    }

    /// Bytes that the device may use at this time.
    pub(crate) fn limit(&self, now: u64) -> u64 {
        self.total.saturating_sub(if now < self.taken_until { self.taken } else { 0 })
    }

    pub(crate) fn take(&mut self, bytes: u64, until: u64) {
        (self.taken, self.taken_until) = (bytes, until);
    }
}
