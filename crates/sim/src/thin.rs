//! Physical space of thin devices: a device may have less of it than addresses, and another tenant may take some. Devices may
//! share the space of a domain, to which each brings its own.
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
    /// The domain whose space it shares, if it has one in common with other devices.
    domain: Option<u64>,
    /// What the other devices of the domain leave of theirs; below 0 if they use more.
    beside: i64,
}

impl Thin {
    pub(crate) fn new(total: u64) -> Thin {
        Thin { total, taken: 0, taken_until: 0, domain: None, beside: 0 }
    }

    /// Bytes that the device may use at this time.
    pub(crate) fn limit(&self, now: u64) -> u64 {
        self.own(now).saturating_add_signed(self.beside)
    }

    /// Of these, the bytes that the device has brought.
    pub(crate) fn own(&self, now: u64) -> u64 {
        self.total.saturating_sub(if now < self.taken_until { self.taken } else { 0 })
    }

    pub(crate) fn domain(&self) -> Option<u64> {
        self.domain
    }

    pub(crate) fn join(&mut self, domain: u64) {
        self.domain = Some(domain);
    }

    /// Notes what the other devices of the domain leave of their space.
    pub(crate) fn set_beside(&mut self, bytes: i64) {
        self.beside = bytes;
    }

    pub(crate) fn take(&mut self, bytes: u64, until: u64) {
        (self.taken, self.taken_until) = (bytes, until);
    }
}
